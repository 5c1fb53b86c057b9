"""One run shown: tables, figures, their files, and ``report.html``.

A table or figure that cannot be made is one counted failure with a name: in its place stands why, and the others go on.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import pandas as pd
from matplotlib.figure import Figure

from gsm8k_nb.summary import Results
from gsm8k_nb.texts import one_line, visible

Shown = TypeVar("Shown", pd.DataFrame, Figure)


def or_failure(make: Callable[[Results], Shown]) -> Callable[[Results], Shown]:
    """``make``, a function that makes a table or figure of a run; where it fails, a table or figure that says so."""

    @wraps(make)
    def make_or_say(results: Results) -> Shown:
        try:
            shown = make(results)
            if isinstance(shown, Figure):
                shown.draw_without_rendering()  # some faults show only then
                shown.set_layout_engine("none")  # laid out once, for all of its files
            return shown
        except Exception as error:  # whatever it is, it is this one's alone
            reason = f"{make.__name__} could not be made: {type(error).__name__}: {visible(one_line(error))}"
        if make.__annotations__.get("return") is not Figure:
            table = pd.DataFrame({"failure": [reason]})
            table.attrs["failure"] = reason
            return table
        figure = Figure(figsize=(3.4, 1.0))
        figure.text(0.5, 0.5, reason, ha="center", va="center", wrap=True, parse_math=False, fontsize=8)
        figure.set_label(reason)
        return figure

    return make_or_say


def failure(shown: pd.DataFrame | Figure) -> str | None:
    """Why a table or figure could not be made; None where it was."""
    return shown.attrs.get("failure") if isinstance(shown, pd.DataFrame) else str(shown.get_label()) or None
