"""What the lessons' helpers share: their data, texts below each other, small figures, sliders, and a model asked once.

    explore(power_figure, "Power against sample size", [{"difference": 5}, {"difference": 2}], difference=(1, 10))

draws the two still figures, which stay in any export, and below them a slider for ``difference``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any

import yaml
from IPython.display import HTML, display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gsm8k_nb.reporting.figures import STYLE
from gsm8k_nb.reporting.html import escape, preformatted, show_figure
from gsm8k_nb.samplers import open_sampler

NO_SLIDERS = "For sliders here, install ipywidgets: <code>pip install 'ipywidgets>=8'</code>"
DATA = yaml.safe_load(resources.files("gsm8k_nb").joinpath("assets", "lessons.yaml").read_text(encoding="utf-8"))

sampler = cache(open_sampler)  # one model for all cells of a lesson


def texts(titled: Iterable[tuple[str, str | None]], otherwise: str = "") -> HTML:
    """Texts below each other, each under its title, shown as they are; ``otherwise`` where there are none."""
    blocks = [
        f"<p style='margin-top: 1em'><b>{escape(title)}</b></p>{preformatted(text or '')}" for title, text in titled
    ]
    return HTML("".join(blocks) or f"<p>{escape(otherwise)}</p>")


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure of so many inches in the house's style, and its axes."""
    with rc_context(STYLE | {"figure.dpi": 150}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def share(name: str, value: float) -> float:
    """A share as it is; ValueError, which names it, where it is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a share and must be in 0..1, got {value}")
    return value


def explore(draw: Callable[..., Figure], alt: str, still: Sequence[dict[str, Any]], **sliders: Any) -> None:
    """Show ``draw(**values)`` for each dict of ``still``, then sliders for the same arguments.

    ``sliders`` are ipywidgets' abbreviations: ``(low, high, step)`` for a slider, a list for a menu. Without ipywidgets
    only the still figures are shown, and a line that says how to get sliders.
    """
    for values in still:
        given = ", ".join(f"{name} {value}" for name, value in values.items())
        display(show_figure(draw(**values), f"{alt}: {given}"))
    try:
        import ipywidgets
    except ImportError:
        display(HTML(f"<p><i>{NO_SLIDERS}</i></p>"))
        return
    # "manual": nothing is drawn before a slider moves. The still figures show the start, and a widget that draws while
    # its own cell runs can hang a run without a browser (nbclient answers it from inside that cell).
    shown = ipywidgets.interactive(
        lambda **values: display(show_figure(draw(**values), alt)), {"manual": True}, **sliders
    )
    shown.manual_button.layout.display = "none"
    for slider in shown.kwargs_widgets:
        slider.observe(shown.update, names="value")
    display(shown)
