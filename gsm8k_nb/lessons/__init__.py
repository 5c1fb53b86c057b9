"""What the notebooks in ``notebooks/lessons/`` need beyond the package itself: one small module a subject."""
