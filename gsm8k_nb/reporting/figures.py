"""Results in, Figure out: one small style, readable at one column, safe for colour-blind readers, no decoration."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gsm8k_nb.reporting import or_failure
from gsm8k_nb.scoring import DEFAULT_RULES
from gsm8k_nb.summary import Results, by_steps, by_tokens

WIDTH_IN = 3.4  # inches: a column of a two-column page, where the text below then has its true size
RIGHT, WRONG = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito's palette
GREY = "#555555"
with resources.as_file(resources.files("gsm8k_nb") / "assets" / "report.mplstyle") as _file:
    STYLE: dict[Any, Any] = dict(rc_params_from_file(_file, use_default_template=False))


@contextmanager
def frame(width: float = WIDTH_IN, height: float = 0.62 * WIDTH_IN, **style: Any) -> Iterator[tuple[Figure, Axes]]:
    """A figure of so many inches in the house's style, and its axes."""
    with rc_context(STYLE | style):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def shares(axes: Axes, places: Any, values: Any, low: Any, high: Any, lying: bool = False, **style: Any) -> None:
    """Shares as points in percent with their intervals, upright over places on the x axis or ``lying``."""
    middle, low, high = (100 * np.atleast_1d(np.asarray(ends, dtype=float)) for ends in (values, low, high))
    reach = np.clip([middle - low, high - middle], 0, None)
    how: dict[str, Any] = {"fmt": "o", "capsize": 3, "clip_on": False} | style  # a share of 0 is a whole point
    if lying:
        axes.errorbar(middle, places, xerr=reach, **how)
    else:
        axes.errorbar(places, middle, yerr=reach, **how)


@or_failure
def accuracy_by_steps(results: Results) -> Figure:
    """Accuracy against the number of gold steps, with intervals and the number of problems at each."""
    table = by_steps(results)
    with frame() as (figure, axes):
        shares(axes, table["steps"], table["accuracy"], table["low"], table["high"], color=RIGHT)
        above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        for row in table.itertuples():
            axes.annotate(str(row.problems), (row.steps, 1), (0, 2), ha="center", fontsize=7, color=GREY, **above)
        top = max(5.0, min(102.0, 110 * max(table["high"], default=0)))
        axes.set(xlabel="steps of the gold solution (on top: problems)", ylabel="accuracy, %")
        axes.set(xticks=table["steps"], ylim=(0, top))
        axes.set_title(f"Accuracy by steps, {results.headline_rule}", pad=14)
    return figure


@or_failure
def length_by_verdict(results: Results) -> Figure:
    """How long right and wrong completions are, in tokens (characters where the tokens are not known)."""
    rows = results.of_rule().dropna(subset=["correct"])
    lengths, unit = pd.to_numeric(rows["completion_tokens"], errors="coerce"), "tokens"
    if lengths.isna().any() or rows.empty:
        lengths, unit = rows["text"].fillna("").str.len(), "characters"
    # Where a few very long texts would squeeze all others into one bar, they count in the last one.
    longest = lengths.max() if len(lengths) else 0
    end = min(longest, 2 * lengths.quantile(0.99)) if len(lengths) else 0
    with frame() as (figure, axes):
        for verdict, color, name in ((False, WRONG, "wrong"), (True, RIGHT, "right")):
            part, bins = lengths[rows["correct"] == verdict].clip(upper=end), list(np.linspace(0, max(end, 1), 31))
            axes.hist(part, bins=bins, histtype="step", linewidth=1.6, color=color, label=f"{name} ({len(part)})")
        more = "\n(longer ones in the last bar)" if end < longest else ""
        axes.set(xlabel=f"length of the completion, {unit}{more}", ylabel="completions", title="Length by verdict")
        axes.legend()
    return figure


@or_failure
def accuracy_by_tokens(results: Results) -> Figure:
    """Accuracy against a limit on tokens: if none or all of what it cuts were right, and of the finished alone."""
    table = by_tokens(results)
    with frame() as (figure, axes):
        tokens, low, high, accuracy = (table[name] for name in ("tokens", "low", "high", "accuracy"))
        axes.fill_between(tokens, 100 * low, 100 * high, color=RIGHT, alpha=0.2, label="the others wrong or right")
        axes.plot(tokens, 100 * low, "o-", color=RIGHT, label="right within the limit")
        axes.plot(tokens, 100 * accuracy, "s--", color=GREY, label="of the finished")
        axes.set_xscale("log", base=2)
        axes.set_xticks(tokens, tokens, rotation=45)
        axes.set(xlabel="limit on the completion, tokens", ylabel="accuracy, %", ylim=(0, 102))
        axes.set_title("Accuracy by tokens spent")
        axes.legend()
    return figure


@or_failure
def accuracy_by_rule(results: Results) -> Figure:
    """Accuracy under every rule over the same completions, the two rules of this package in colour, with intervals."""
    scored = {name: score for name, score in results.metrics["rules"].items() if score["accuracy"] is not None}
    with frame(height=0.8 + 0.24 * len(scored)) as (figure, axes):
        for place, (name, score) in enumerate(scored.items()):
            color = RIGHT if name in DEFAULT_RULES else GREY
            shares(axes, place, score["accuracy"], score["ci_low"], score["ci_high"], lying=True, color=color)
        axes.set_yticks(range(len(scored)), scored)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set(xlabel="accuracy, %", title="Same completions, each rule")
    return figure


@or_failure
def curves_over_k(results: Results) -> Figure:
    """pass@k, maj@k and pass^k against k, from the one pool of N samples a problem, with intervals at powers of two."""
    lines = (  # a little apart, so that no interval hides another
        ("pass_at_k", RIGHT, "o-", "pass@k", 0.96),
        ("maj_at_k", WRONG, "s-", "maj@k", 1.0),
        ("pass_hat_k", GREY, "^-", "pass^k", 1.04),
    )
    ends = results.metrics["intervals_at_k"]
    with frame() as (figure, axes):
        for name, color, mark, label, shift in lines:
            known = ends.get(name, {})
            low, high = np.reshape(list(known.values()), (-1, 2)).T
            means, places = [results.metrics[name][k] for k in known], [shift * int(k) for k in known]
            shares(axes, places, means, low, high, fmt=mark, color=color, capsize=2, label=label, clip_on=True)
        axes.set_xscale("log", base=2)
        axes.set_xticks([int(k) for k in ends.get("pass_at_k", {})], list(ends.get("pass_at_k", {})))
        axes.set_ylim(bottom=0)
        axes.set(xlabel="k samples", ylabel="problems, %")
        axes.set_title(f"From one pool of {results.config.n_samples} samples a problem")
        axes.legend()
    return figure
