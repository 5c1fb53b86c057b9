"""The figures of a comparison, in the style of a run's: no larger than a page, however many and long the names are."""

from textwrap import fill, shorten
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from gsm8k_nb.comparing.pairs import Comparison
from gsm8k_nb.reporting.figures import GREY, RIGHT, STYLE, WIDTH_IN
from gsm8k_nb.reporting.files import save_figure
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import p_number, points, visible

PAGE_IN = 9.0  # inches: the most that a figure is high or wide
MOST_WRITTEN = 14  # systems in a matrix with a number in each cell
MOST_DRAWN = 50  # systems in a matrix
_TWO_SIDED = LinearSegmentedColormap.from_list("two_sided", ["#F2A579", "#FFFFFF", "#7FB8DD"])  # WRONG, RIGHT, lighter


def accuracy_of_systems(comparison: Comparison) -> Figure:
    """Accuracy of each system with its interval, best first; two that share a letter cannot be told apart."""
    with rc_context(STYLE):
        figure, axes, n = _rows([system.name for system in comparison.systems])
        for place, (ends, letters) in enumerate(zip(comparison.intervals[:n], comparison.letters, strict=False)):
            _point(axes, place, ends.estimate, ends.low, ends.high, RIGHT)
            right: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontweight": "bold"}
            axes.annotate(shorten(letters, 8, placeholder="..."), (1.02, place), **right)
        axes.set_xlabel("accuracy, %")
        title = f"{len(comparison.problems)} problems, {comparison.level} intervals"
        _title(axes, title, comparison, n, "systems")
    return figure


def pairwise_differences(comparison: Comparison) -> Figure:
    """The difference of each pair with its own interval; filled where the corrected test finds it, open where not."""
    with rc_context(STYLE):
        names = [" \N{MINUS SIGN} ".join(comparison.names(pair)) for pair in comparison.pairs]
        figure, axes, n = _rows(names)
        axes.axvline(0, color=GREY, linewidth=0.8)
        for place, pair in enumerate(comparison.pairs[:n]):
            color, inside = (RIGHT, RIGHT) if pair.different else (GREY, "white")
            result = pair.result
            _point(axes, place, result.difference, result.low, result.high, color, markerfacecolor=inside)
        axes.set_xlabel(f"difference, points ({comparison.level} interval)")
        title = f"Filled: differ at {comparison.alpha_level} after {comparison.correction}"
        _title(axes, title, comparison, n, "pairs")
    return figure


def pairwise_matrix(comparison: Comparison) -> Figure:
    """Row minus column in points with the corrected p-value; coloured where the corrected test finds a difference.

    Of many systems the colours alone: the numbers are in the table of pairs.
    """
    n = min(len(comparison.systems), MOST_DRAWN)
    values, written = np.full((n, n), np.nan), n <= MOST_WRITTEN
    with rc_context(STYLE | {"axes.grid": False}):
        side = min(max(WIDTH_IN, 1.3 + 0.5 * n), PAGE_IN)
        figure = Figure(figsize=(side, 0.55 + 0.72 * (side - 1.3) + 0.02 * n), layout="constrained")
        axes = figure.subplots()
        for pair in comparison.pairs:
            for i, j, sign in ((pair.first, pair.second, 1), (pair.second, pair.first, -1)):
                if max(i, j) >= n:
                    continue
                difference = sign * pair.result.difference
                values[i, j] = 100 * difference if pair.different else 0.0
                text = f"{points(difference)}\n{p_number(pair.p_adjusted, comparison.alpha)}" if written else ""
                axes.text(j, i, text, ha="center", va="center", fontsize=7, color="black" if pair.different else GREY)
        reach = max(1.0, float(np.nanmax(np.abs(values), initial=0)))
        axes.imshow(values, cmap=_TWO_SIDED, vmin=-reach, vmax=reach, aspect="auto")
        names = [_wrapped(system.name, *((18, 3) if written else (24, 1))) for system in comparison.systems[:n]]
        size = min(7.0, 7.0 * 30 / n)
        axes.set_xticks(
            range(n), [f"[{place}]" for place in range(1, n + 1)], fontsize=size, rotation=0 if written else 90
        )
        axes.set_yticks(range(n), [f"{name} [{place}]" for place, name in enumerate(names, 1)], fontsize=size)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        title = f"Row minus column; {'below, corrected p' if written else 'coloured where they differ'}"
        _title(axes, title, comparison, n, "systems")
    return figure


def _point(axes: Axes, place: int, middle: float, low: float, high: float, color: str, **more: Any) -> None:
    """A share and its interval as a point with whiskers, in percent."""
    reach = [[100 * max(middle - low, 0)], [100 * max(high - middle, 0)]]
    axes.errorbar(100 * middle, place, xerr=reach, fmt="o", color=color, capsize=3, **more)


def _rows(names: list[str]) -> tuple[Figure, Axes, int]:
    """Axes with a row for each name, the first on top, its name over it, so that long names leave room for the data.

    Also how many of the names have a row: as many as fit on a page.
    """
    lines = [_wrapped(name, 56, 3) for name in names]
    height = 0.17 + 0.12 * max(line.count("\n") + 1 for line in lines)  # inches a row
    lines = lines[: int((PAGE_IN - 1) / height)]
    figure = Figure(figsize=(WIDTH_IN, 0.75 + height * len(lines)), layout="constrained")
    axes = figure.subplots()
    for place, line in enumerate(lines):
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        at |= {"fontsize": 7, "color": GREY}
        on_white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.annotate(line, (0.01, place), (0, 4), va="bottom", bbox=on_white, zorder=1.5, **at)
    axes.set_yticks(range(len(lines)), [])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(lines) - 0.5, -0.9)
    return figure, axes, len(lines)


def _wrapped(name: str, width: int, most: int) -> str:
    """A name in at most so many lines, broken at blanks, and at hyphens only where it has no blanks."""
    return fill(visible(name), width, break_on_hyphens=" " not in name, max_lines=most, placeholder=" ...")


def _title(axes: Axes, text: str, comparison: Comparison, n: int, what: str) -> None:
    """A title, with a warning where the runs are unlike, and a word where only the first ``n`` rows are drawn."""
    of, file = (len(comparison.pairs), "pairs") if what == "pairs" else (len(comparison.systems), "accuracy")
    only = f"The first {n} of {of} {what}; all are in tables/{file}.csv" if n < of else ""
    warning = f"Unlike runs: {', '.join(comparison.unlike)}" if comparison.unlike else ""
    lines = [fill(line, 56, max_lines=3, placeholder=" ...") for line in (warning, text, only) if line]
    axes.set_title("\n".join(lines), loc="left")


FIGURES = {  # name -> how it is drawn, its alternative text, whether it takes a pair
    "accuracy_of_systems": (accuracy_of_systems, "Accuracy of each system with interval and group letters", False),
    "pairwise_matrix": (pairwise_matrix, "Difference of each pair of systems with its corrected p-value", True),
    "pairwise_differences": (pairwise_differences, "Difference of each pair of systems with its interval", True),
}


def save_figures(comparison: Comparison, out: Run) -> list[str]:
    """Every figure (PNG, PDF), of a single run those of no pair. Returns their names."""
    names = [name for name, (_, _, of_pairs) in FIGURES.items() if comparison.pairs or not of_pairs]
    for name in names:
        save_figure(out, name, FIGURES[name][0](comparison))
    return names
