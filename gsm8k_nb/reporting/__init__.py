"""One run, shown: tables, figures, the report page and its sample browser, and published results beside it."""
