"""Figures with sliders where a notebook is alive, and as still pictures everywhere else.

    explore(power_figure, "Power against sample size", [{"difference": 5}, {"difference": 2}], difference=(1, 10))

draws the two still figures, which stay in any export, and below them a slider for ``difference``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import HTML, display
from matplotlib.figure import Figure

from gsm8k_nb.reporting.html import show_figure

NO_SLIDERS = "For sliders here, install ipywidgets: <code>pip install 'ipywidgets>=8'</code>"


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
