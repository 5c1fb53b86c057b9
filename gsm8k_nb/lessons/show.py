"""What the lessons share: their data, an imagined model, and figures with sliders.

    explore(power_figure, "Power against sample size", [{"difference": 5}, {"difference": 2}], difference=(1, 10))

draws the two still figures, which stay in any export, and below them a slider for ``difference``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import yaml
from IPython.display import HTML, display
from matplotlib.figure import Figure
from scipy import stats

from gsm8k_nb.places import own_asset
from gsm8k_nb.reporting.html import show_figure

NO_SLIDERS = "For sliders here, install ipywidgets: <code>pip install 'ipywidgets>=8'</code>"
DATA = yaml.safe_load(own_asset("lessons.yaml"))


def share(name: str, value: float) -> float:
    """A share as it is; ValueError, which names it, where it is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a share and must be in 0..1, got {value}")
    return value


def chances(skill: float, n_problems: int, rng: np.random.Generator) -> np.ndarray:
    """An imagined model's chance to be right on each problem, ``skill`` on average: some are hard for it, some easy.

    They are spread as Beta(2 skill, 2 (1 - skill)): its quantiles, shuffled, so that no luck is in them.
    """
    mean, ranks = np.clip(share("skill", skill), 0.001, 0.999), (np.arange(n_problems) + 0.5) / n_problems
    return rng.permutation(stats.beta.ppf(ranks, 2 * mean, 2 * (1 - mean)))


def explore(draw: Callable[..., Figure], alt: str, still: Sequence[dict[str, Any]], **sliders: Any) -> None:
    """Show ``draw(**values)`` for each dict of ``still``, then sliders for the same arguments.

    ``sliders`` are ipywidgets' abbreviations: ``(low, high, step)`` for a slider, a list for a menu. Without ipywidgets
    only the still figures are shown, and a line that says how to get sliders.
    """

    def shown(alt: str, values: dict[str, Any]) -> None:
        figure = draw(**values)
        figure.set_dpi(150)  # a slider draws at each move
        display(show_figure(figure, alt))

    for values in still:
        shown(f"{alt}: {', '.join(f'{name} {value}' for name, value in values.items())}", values)
    try:
        import ipywidgets
    except ImportError:
        display(HTML(f"<p><i>{NO_SLIDERS}</i></p>"))
        return
    # "manual": nothing is drawn before a slider moves. The still figures show the start, and a widget that draws while
    # its own cell runs can hang a run without a browser (nbclient answers it from inside that cell).
    widget = ipywidgets.interactive(lambda **values: shown(alt, values), {"manual": True}, **sliders)
    widget.manual_button.layout.display = "none"
    for slider in widget.kwargs_widgets:
        slider.observe(widget.update, names="value")
    display(widget)
