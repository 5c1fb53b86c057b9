"""Results in, Figure out: one small style, readable at one column, safe for colour-blind readers, no decoration."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gsm8k_nb.reporting import or_failure
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, by_steps

WIDTH_IN = 3.4  # inches: a column of a two-column page, where the text below then has its true size
RIGHT, WRONG = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito's palette
GREY = "#555555"
STYLE: dict[Any, Any] = {
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
            above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
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
        bins, lengths = list(np.linspace(0, max(float(end), 1.0), 31)), lengths.clip(upper=end)
        for verdict, color, name in ((False, WRONG, "wrong"), (True, RIGHT, "right")):
            part = lengths[rows["correct"] == verdict]
            axes.hist(part, bins=list(bins), histtype="step", linewidth=1.6, color=color, label=f"{name} ({len(part)})")
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
        axes.set_xticks(shown, map(str, shown))
        axes.set_xlabel("k samples")
        axes.set_ylabel("problems, %")
        axes.set_ylim(bottom=0)
        axes.set_title(f"From one pool of {results.config.n_samples} samples a problem", loc="left")
        axes.legend()
    return figure


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, 0.62 * WIDTH_IN), layout="constrained")
    return figure, figure.subplots()
