"""Results in, Figure out: one small style, readable at one column, safe for colour-blind readers, no decoration."""

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, by_steps

WIDTH_IN = 5.0  # inches: one column of a page, one screen of a notebook
RIGHT, WRONG = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito's palette
GREY = "#555555"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "figure.dpi": 120,
    "pdf.fonttype": 42,  # text stays text in the PDF
}


def accuracy_by_steps(results: Results) -> Figure:
    """Accuracy against the number of gold steps, with intervals and the number of problems at each."""
    table = by_steps(results)
    share, low, high = (100 * table[name] for name in ("accuracy", "low", "high"))
    with rc_context(STYLE):
        figure, axes = _figure()
        reach = [(share - low).clip(lower=0), (high - share).clip(lower=0)]
        axes.errorbar(table["steps"], share, yerr=reach, fmt="o", color=RIGHT, capsize=3)
        for row in table.itertuples():
            axes.annotate(
                str(row.problems),
                (row.steps, 0),
                (0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=GREY,
            )
        axes.set_xlabel("steps of the gold solution (problems below each point)")
        axes.set_ylabel("accuracy, %")
        axes.set_xticks(table["steps"])
        axes.set_ylim(0, max(5.0, min(102.0, 1.1 * max(high, default=0))))
        axes.set_title(f"Accuracy by steps, {results.headline_rule}", loc="left")
    return figure


def length_by_verdict(results: Results) -> Figure:
    """How long right and wrong completions are, in tokens (characters where the tokens are not known)."""
    rows = results.of_rule().dropna(subset=["correct"])
    tokens = pd.to_numeric(rows["completion_tokens"], errors="coerce")
    known = bool(tokens.notna().all()) and len(tokens) > 0
    lengths = tokens if known else rows["text"].fillna("").str.len()
    with rc_context(STYLE):
        figure, axes = _figure()
        bins = np.linspace(0, max(float(lengths.max()), 1.0), 31) if len(lengths) else np.linspace(0, 1, 31)
        for verdict, color, name in ((False, WRONG, "wrong"), (True, RIGHT, "right")):
            part = lengths[rows["correct"] == verdict]
            axes.hist(part, bins=bins, histtype="step", linewidth=1.6, color=color, label=f"{name} ({len(part)})")
        axes.set_xlabel("length of the completion, " + ("tokens" if known else "characters"))
        axes.set_ylabel("completions")
        axes.set_title("Length by verdict", loc="left")
        axes.legend()
    return figure


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
                middle, place, xerr=[[max(middle - low, 0)], [max(high - middle, 0)]], fmt="o", color=color, capsize=3
            )
        axes.set_yticks(range(len(scored)), scored)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("accuracy, %")
        axes.set_title("The same completions under each rule", loc="left")
    return figure


def curves_over_k(results: Results) -> Figure:
    """pass@k, maj@k and pass^k against k, from the one pool of N samples a problem, with intervals at powers of two."""
    lines = (
        ("pass_at_k", RIGHT, "o-", "pass@k"),
        ("maj_at_k", WRONG, "s-", "maj@k"),
        ("pass_hat_k", GREY, "^-", "pass^k"),
    )
    with rc_context(STYLE):
        figure, axes = _figure()
        for name, color, mark, label in lines:
            ends = results.metrics["intervals_at_k"].get(name, {})
            middle = [100 * results.metrics[name][k] for k in ends]
            reach = [[max(100 * (results.metrics[name][k] - low), 0) for k, (low, _) in ends.items()],
                     [max(100 * (high - results.metrics[name][k]), 0) for k, (_, high) in ends.items()]]  # fmt: skip
            axes.errorbar(
                [int(k) for k in ends], middle, yerr=reach, fmt=mark, color=color, markersize=4, capsize=2, label=label
            )
        axes.set_xscale("log", base=2)
        axes.set_xlabel("k samples")
        axes.set_ylabel("problems, %")
        axes.set_ylim(bottom=0)
        axes.set_title(f"From one pool of {results.config.n_samples} samples a problem", loc="left")
        axes.legend()
    return figure


def _figure() -> tuple[Figure, object]:
    figure = Figure(figsize=(WIDTH_IN, 0.62 * WIDTH_IN), layout="constrained")
    return figure, figure.subplots()
