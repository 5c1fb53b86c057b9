"""Results in, Figure out: one small style, readable at one column, safe for colour-blind readers, no decoration."""

from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from gsm8k_nb.comparing import Comparison
from gsm8k_nb.reporting import or_failure
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, by_steps
from gsm8k_nb.texts import p_number, points

WIDTH_IN = 3.4  # inches: a column of a two-column page, where the text below then has its true size
RIGHT, WRONG = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito's palette
GREY = "#555555"
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "lines.markersize": 4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.dpi": 300,
    "pdf.fonttype": 42,  # text stays text in the PDF
    "text.parse_math": False,  # a dollar in a model's name is a dollar
}


@or_failure
def accuracy_by_steps(results: Results) -> Figure:
    """Accuracy against the number of gold steps, with intervals and the number of problems at each."""
    table = by_steps(results)
    share, low, high = (100 * table[name] for name in ("accuracy", "low", "high"))
    with rc_context(STYLE):
        figure, axes = _figure()
        reach = [(share - low).clip(lower=0), (high - share).clip(lower=0)]
        axes.errorbar(table["steps"], share, yerr=reach, fmt="o", color=RIGHT, capsize=3, clip_on=False)
        for row in table.itertuples():
            above = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(str(row.problems), (row.steps, 1), (0, 2), ha="center", fontsize=7, color=GREY, **above)
        axes.set_xlabel("steps of the gold solution (on top: problems)")
        axes.set_ylabel("accuracy, %")
        axes.set_xticks(table["steps"])
        axes.set_ylim(0, max(5.0, min(102.0, 1.1 * max(high, default=0))))
        axes.set_title(f"Accuracy by steps, {results.headline_rule}", loc="left", pad=14)
    return figure


@or_failure
def length_by_verdict(results: Results) -> Figure:
    """How long right and wrong completions are, in tokens (characters where the tokens are not known)."""
    rows = results.of_rule().dropna(subset=["correct"])
    tokens = pd.to_numeric(rows["completion_tokens"], errors="coerce")
    known = bool(tokens.notna().all()) and len(tokens) > 0
    lengths = tokens if known else rows["text"].fillna("").str.len()
    with rc_context(STYLE):
        figure, axes = _figure()
        # Where a few very long texts would squeeze all others into one bar, they count in the last one.
        end = min(lengths.max(), 2 * lengths.quantile(0.99)) if len(lengths) else 0.0
        longer = "\n(longer ones in the last bar)" if len(lengths) and end < lengths.max() else ""
        bins, lengths = np.linspace(0, max(float(end), 1.0), 31), lengths.clip(upper=end)
        for verdict, color, name in ((False, WRONG, "wrong"), (True, RIGHT, "right")):
            part = lengths[rows["correct"] == verdict]
            axes.hist(part, bins=bins, histtype="step", linewidth=1.6, color=color, label=f"{name} ({len(part)})")
        axes.set_xlabel("length of the completion, " + ("tokens" if known else "characters") + longer)
        axes.set_ylabel("completions")
        axes.set_title("Length by verdict", loc="left")
        axes.legend()
    return figure


@or_failure
def accuracy_by_rule(results: Results) -> Figure:
    """Accuracy under every rule over the same completions, the two rules of this package first, with intervals."""
    scored = {name: values for name, values in results.metrics["rules"].items() if values["accuracy"] is not None}
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.24 * len(scored)), layout="constrained")
        axes = figure.subplots()
        for place, (name, values) in enumerate(scored.items()):
            low, middle, high = (100 * values[key] for key in ("ci_low", "accuracy", "ci_high"))
            color = RIGHT if name in DEFAULT_RULES else GREY
            axes.errorbar(
                middle, place, xerr=[[max(middle - low, 0)], [max(high - middle, 0)]], fmt="o", color=color, capsize=3,
                clip_on=False,  # a rule that reads nothing is a whole point at 0
            )  # fmt: skip
        axes.set_yticks(range(len(scored)), scored)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("accuracy, %")
        axes.set_title("Same completions, each rule", loc="left")
    return figure


@or_failure
def curves_over_k(results: Results) -> Figure:
    """pass@k, maj@k and pass^k against k, from the one pool of N samples a problem, with intervals at powers of two."""
    lines = (  # a little apart, so that no interval hides another
        ("pass_at_k", RIGHT, "o-", "pass@k", 0.96),
        ("maj_at_k", WRONG, "s-", "maj@k", 1.0),
        ("pass_hat_k", GREY, "^-", "pass^k", 1.04),
    )
    with rc_context(STYLE):
        figure, axes = _figure()
        for name, color, mark, label, shift in lines:
            ends = results.metrics["intervals_at_k"].get(name, {})
            means = [100 * results.metrics[name][k] for k in ends]
            reach = [
                [max(mean - 100 * low, 0) for mean, (low, _) in zip(means, ends.values(), strict=True)],
                [max(100 * high - mean, 0) for mean, (_, high) in zip(means, ends.values(), strict=True)],
            ]
            places = [shift * int(k) for k in ends]
            axes.errorbar(places, means, yerr=reach, fmt=mark, color=color, markersize=4, capsize=2, label=label)
        axes.set_xscale("log", base=2)
        shown = [int(k) for k in results.metrics["intervals_at_k"].get("pass_at_k", {})]
        axes.set_xticks(shown, shown)
        axes.set_xlabel("k samples")
        axes.set_ylabel("problems, %")
        axes.set_ylim(bottom=0)
        axes.set_title(f"From one pool of {results.config.n_samples} samples a problem", loc="left")
        axes.legend()
    return figure


def accuracy_of_systems(found: Comparison) -> Figure:
    """Accuracy of each system with its interval, best first; two that share a letter cannot be told apart."""
    with rc_context(STYLE):
        figure, axes = _rows([one.name for one in found.systems])
        for place, one in enumerate(found.systems):
            _point(axes, place, one.interval.estimate, one.interval.low, one.interval.high, RIGHT)
            right = {"xycoords": ("axes fraction", "data"), "va": "center", "fontweight": "bold"}
            axes.annotate(found.letters[place], (1.02, place), **right)
        axes.set_xlabel("accuracy, %")
        _title(axes, f"{len(found.problems)} problems, {found.level} intervals", found)
    return figure


def pairwise_differences(found: Comparison) -> Figure:
    """The difference of each pair with its own interval; filled where the corrected test finds it, open where not."""
    with rc_context(STYLE):
        figure, axes = _rows([" \N{MINUS SIGN} ".join(found.names(pair)) for pair in found.pairs])
        axes.axvline(0, color=GREY, linewidth=0.8)
        for place, pair in enumerate(found.pairs):
            color, inside = (RIGHT, RIGHT) if pair.different else (GREY, "white")
            one = pair.result
            _point(axes, place, one.difference, one.low, one.high, color, markerfacecolor=inside)
        axes.set_xlabel(f"difference, points ({found.level} interval)")
        _title(axes, f"Filled: differ at {found.alpha_level} after {found.correction}", found)
    return figure


def pairwise_matrix(found: Comparison) -> Figure:
    """Row minus column in points with the corrected p-value; coloured where the corrected test finds a difference."""
    n = len(found.systems)
    values = np.full((n, n), np.nan)
    with rc_context(STYLE | {"axes.grid": False}):
        side = max(WIDTH_IN, 1.3 + 0.5 * n)
        figure = Figure(figsize=(side, 0.55 + 0.72 * (side - 1.3) + 0.02 * n), layout="constrained")
        axes = figure.subplots()
        for pair in found.pairs:
            for i, j, sign in ((pair.first, pair.second, 1), (pair.second, pair.first, -1)):
                difference = sign * pair.result.difference
                values[i, j] = 100 * difference if pair.different else 0.0
                text = f"{points(difference)}\n{p_number(pair.p_adjusted, found.alpha)}"
                axes.text(j, i, text, ha="center", va="center", fontsize=7, color="black" if pair.different else GREY)
        reach = max(1.0, float(np.nanmax(np.abs(values), initial=0)))
        axes.imshow(values, cmap=_TWO_SIDED, vmin=-reach, vmax=reach, aspect="auto")
        names = [f"{_wrapped(one.name, 18)} [{place}]" for place, one in enumerate(found.systems, 1)]
        axes.set_xticks(range(n), [f"[{place}]" for place in range(1, n + 1)])
        axes.set_yticks(range(n), names, fontsize=7)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        _title(axes, "Row minus column; below, corrected p", found)
    return figure


def _point(axes: Axes, place: int, middle: float, low: float, high: float, color: str, **more: str) -> None:
    """A share and its interval as a point with whiskers, in percent."""
    reach = [[100 * max(middle - low, 0)], [100 * max(high - middle, 0)]]
    axes.errorbar(100 * middle, place, xerr=reach, fmt="o", color=color, capsize=3, **more)


def _rows(names: list[str]) -> tuple[Figure, Axes]:
    """Axes with a row for each name, the first on top, its name over it, so that long names leave room for the data."""
    lines = [_wrapped(name, 56) for name in names]
    most = max(line.count("\n") + 1 for line in lines)
    height = 0.17 + 0.12 * most  # inches a row
    figure = Figure(figsize=(WIDTH_IN, 0.75 + height * len(names)), layout="constrained")
    axes = figure.subplots()
    for place, line in enumerate(lines):
        at = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 7, "color": GREY}
        on_white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.annotate(line, (0.01, place), (0, 4), va="bottom", bbox=on_white, zorder=1.5, **at)
    axes.set_yticks(range(len(names)), [])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.5, -0.9)
    return figure, axes


def _wrapped(name: str, width: int) -> str:
    """A name in lines, broken at blanks, and at hyphens only where it has no blanks."""
    return fill(name, width, break_on_hyphens=" " not in name)


def _title(axes: Axes, text: str, found: Comparison) -> None:
    """A title, with a warning where the runs are unlike."""
    warning = [f"Unlike runs: {', '.join(found.unlike)}"] if found.unlike else []
    axes.set_title("\n".join(fill(line, 56) for line in [*warning, text]), loc="left")


_TWO_SIDED = LinearSegmentedColormap.from_list("two_sided", ["#F2A579", "#FFFFFF", "#7FB8DD"])  # WRONG, RIGHT, lighter


def _figure() -> tuple[Figure, object]:
    figure = Figure(figsize=(WIDTH_IN, 0.62 * WIDTH_IN), layout="constrained")
    return figure, figure.subplots()
