"""What the lessons share: their data, figures with sliders, and completions as a learner's function reads them.

    explore(lambda axes, wrong: scores.plot(ax=axes, yerr=wrong), "possible scores", [{"wrong": 2}], wrong=(0, 8))

draws the still figure, which stays in any export, and below it a slider for ``wrong``.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pandas as pd
import yaml
from IPython.display import HTML, display

from gsm8k_nb.answers import is_correct, judge
from gsm8k_nb.places import own_asset
from gsm8k_nb.reporting.figures import frame
from gsm8k_nb.reporting.html import show_figure

NO_SLIDERS = "For sliders here, install ipywidgets: <code>pip install 'ipywidgets>=8'</code>"
Extractor = Callable[[str], Decimal | None]
DATA = yaml.safe_load(own_asset("lessons.yaml"))


def explore(draw: Callable[..., object], alt: str, still: Sequence[dict[str, Any]], **sliders: Any) -> None:
    """Show what ``draw(axes, **values)`` draws for each dict of ``still``, then sliders for the same arguments.

    ``sliders`` are ipywidgets' abbreviations: ``(low, high, step)`` for a slider, a list for a menu. Without ipywidgets
    only the still figures are shown, and a line that says how to get sliders.
    """

    def shown(**values: Any) -> None:
        with frame(5, 2.6) as (figure, axes):
            draw(axes, **values)
            display(show_figure(figure, ", ".join([alt, *(f"{name} {value}" for name, value in values.items())])))

    for values in still:
        shown(**values)
    if not sliders:
        return
    if not find_spec("ipywidgets"):
        display(HTML(f"<p><i>{NO_SLIDERS}</i></p>"))
        return
    import ipywidgets

    # "manual": nothing is drawn before a slider moves. The still figures show the start, and a widget that draws while
    # its own cell runs can hang a run without a browser (nbclient answers it from inside that cell).
    widget = ipywidgets.interactive(shown, {"manual": True}, **sliders)
    widget.manual_button.layout.display = "none"
    for slider in widget.kwargs_widgets:
        slider.observe(widget.update, names="value")
    display(widget)


def report_card(extractor: Extractor, cases: Sequence[dict[str, Any]] = DATA["cases"]) -> pd.DataFrame:
    """Lesson 3: what an extractor reads from each case, what a person ``wanted``, and whether it is the ``same``.

    An exception is shown as what was read: a learner's function may raise anything.
    """
    rows = {}
    for case in cases:
        read: object
        try:
            read = extractor(case["text"])
        except Exception as error:
            read = f"{type(error).__name__}: {error}"
        wanted = case["wanted"]
        same = isinstance(read, Decimal | int | float) and wanted is not None and is_correct(read, wanted)
        rows[case["name"]] = {"read": read, "wanted": wanted, "same": same or (read is None and wanted is None)}
    card = pd.DataFrame.from_dict(rows, orient="index", dtype=object)
    return card.fillna("no answer").astype({"read": str, "wanted": str, "same": bool})


def readings(rows: pd.DataFrame, rule: str | Extractor) -> pd.DataFrame:
    """Lesson 3: the completions with what a rule, named or a function, ``read`` from the text, and ``right`` or not."""
    pairs = list(zip(rows["text"], rows["gold"], strict=True))
    if isinstance(rule, str):
        judged = [judge(text, gold, rule) for text, gold in pairs]
    else:
        judged = [(read := rule(text), is_correct(read, gold)) for text, gold in pairs]
    return rows.assign(read=[read for read, _ in judged], right=[right for _, right in judged])
