"""The figures of a comparison, in the style of a run's: no larger than a page, however many and long the names are."""

from collections.abc import Sequence
from textwrap import fill, shorten
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from gsm8k_nb.comparing.pairs import Comparison
from gsm8k_nb.reporting.figures import GREY, RIGHT, WIDTH_IN, frame, shares
from gsm8k_nb.reporting.files import save_figure
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import p_number, points, visible

PAGE_IN = 9.0  # inches: the most that a figure is high or wide
MOST_WRITTEN = 14  # systems in a matrix with a number in each cell
_TWO_SIDED = LinearSegmentedColormap.from_list("two_sided", ["#F2A579", "#FFFFFF", "#7FB8DD"])  # WRONG, RIGHT, lighter


def accuracy_of_systems(comparison: Comparison) -> Figure:
    """Accuracy of each system with its interval, best first; two that share a letter cannot be told apart."""
    rows = [
        (system.name, (ends.estimate, ends.low, ends.high), True, shorten(letters, 8, placeholder="..."))
        for system, ends, letters in zip(comparison.systems, comparison.intervals, comparison.letters, strict=True)
    ]
    title = f"{len(comparison.problems)} problems, {comparison.level} intervals"
    return _intervals(comparison, rows, "accuracy, %", title, "systems; all are in tables/accuracy.csv")


def pairwise_differences(comparison: Comparison) -> Figure:
    """The difference of each pair with its own interval; filled where the corrected test finds it, open where not."""
    ends = [(pair.result.difference, pair.result.low, pair.result.high) for pair in comparison.pairs]
    names = [" \N{MINUS SIGN} ".join(comparison.names(pair)) for pair in comparison.pairs]
    rows = list(zip(names, ends, [pair.different for pair in comparison.pairs], [""] * len(names), strict=True))
    label = f"difference, points ({comparison.level} interval)"
    title = f"Filled: differ at {comparison.alpha_level} after {comparison.correction}"
    figure = _intervals(comparison, rows, label, title, "pairs; all are in tables/pairs.csv")
    figure.axes[0].axvline(0, color=GREY, linewidth=0.8, zorder=1)
    return figure


def pairwise_matrix(comparison: Comparison) -> Figure:
    """Row minus column in points with the corrected p-value; coloured where the corrected test finds a difference.

    Of many systems the colours alone: the numbers are in the table of pairs.
    """
    n = len(comparison.systems)
    values, written = np.zeros((n, n)), n <= MOST_WRITTEN
    side = min(max(WIDTH_IN, 1.3 + 0.5 * n), PAGE_IN)
    with frame(side, 0.55 + 0.72 * (side - 1.3) + 0.02 * min(n, 50), **{"axes.grid": False}) as (figure, axes):
        for pair in comparison.pairs:
            color, p = "black" if pair.different else GREY, p_number(pair.p_adjusted, comparison.config.alpha)
            for i, j, sign in ((pair.first, pair.second, 1), (pair.second, pair.first, -1)):
                difference = sign * pair.result.difference
                values[i, j] = 100 * difference * pair.different
                if written:
                    axes.text(j, i, f"{points(difference)}\n{p}", ha="center", va="center", fontsize=7, color=color)
        reach = max(1.0, float(np.abs(values).max()))
        axes.imshow(values, cmap=_TWO_SIDED, vmin=-reach, vmax=reach, aspect="auto")
        marks, font = [f"[{place}]" for place in range(1, n + 1)], min(7.0, 7.0 * 30 / n)
        names = [_wrapped(system.name, *((18, 3) if written else (24, 1))) for system in comparison.systems]
        axes.set_xticks(range(n), marks, fontsize=font, rotation=0 if written else 90)
        axes.set_yticks(range(n), [" ".join(row) for row in zip(names, marks, strict=True)], fontsize=font)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        below = "below, corrected p" if written else "coloured where they differ"
        _title(axes, f"Row minus column; {below}", comparison)
    return figure


def _intervals(
    comparison: Comparison, rows: Sequence[tuple[str, tuple[float, ...], bool, str]], label: str, title: str, what: str
) -> Figure:
    """A row for each name, the first on top, with its share and interval in percent, filled or open, and a mark.

    The name stands over its row, so that long ones leave room for the data. As many rows as fit on a page are drawn.
    """
    lines = [_wrapped(name, 56, 3) for name, *_ in rows]
    height = 0.17 + 0.12 * max(line.count("\n") + 1 for line in lines)  # inches a row
    n = min(len(rows), int((PAGE_IN - 1) / height))
    over: dict[str, Any] = {"textcoords": "offset points", "va": "bottom", "fontsize": 7, "color": GREY, "zorder": 1.5}
    over["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    with frame(height=0.75 + height * n) as (figure, axes):
        for place, (line, (_, (middle, low, high), filled, mark)) in enumerate(zip(lines[:n], rows, strict=False)):
            color, inside = (RIGHT, RIGHT) if filled else (GREY, "white")
            shares(axes, place, middle, low, high, lying=True, color=color, markerfacecolor=inside)
            axes.annotate(line, (0.01, place), (0, 4), xycoords=("axes fraction", "data"), **over)
            axes.annotate(mark, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontweight="bold")
        axes.set_yticks(range(n), [])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(n - 0.5, -0.9)
        axes.set_xlabel(label)
        _title(axes, title, comparison, f"The first {n} of {len(rows)} {what}" if n < len(rows) else "")
    return figure


def _wrapped(name: str, width: int, most: int) -> str:
    """A name in at most so many lines, broken at blanks, and at hyphens only where it has no blanks."""
    return fill(visible(name), width, break_on_hyphens=" " not in name, max_lines=most, placeholder=" ...")


def _title(axes: Axes, text: str, comparison: Comparison, only: str = "") -> None:
    """A title, with a warning where the runs are unlike, and a word where ``only`` some rows are drawn."""
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
