"""Lesson 5: four published systems to compare, the power of a comparison, the luck of the best.

a, b = pair("GPT-3 6B + verifier", "GPT-3 175B fine-tuned")     # two arrays (1319,) of 0 and 1
a.sum(), b.sum(), (a > b).sum(), (b > a).sum()                  # 515, 458, 209, 152
"""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gsm8k_nb import stats
from gsm8k_nb.lessons.show import DATA, chances
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.reporting.figures import GREY, RIGHT, WRONG, frame
from gsm8k_nb.texts import interval, p_number, percent, points

N_GSM8K = 1319
RIGHT_OF: dict[str, int] = DATA["right"]
DISCORDANT = {(row["first"], row["second"]): (row["only_first"], row["only_second"]) for row in DATA["discordant"]}


def pair(first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of two of the four published systems, row i of both the same problem: two arrays (1319,) of 0 and 1.

    Problems are sorted by outcome, which no comparison of two systems depends on. ValueError for an unknown pair.
    """
    if (first, second) not in DISCORDANT:
        known = "; ".join(" and ".join(names) for names in DISCORDANT)
        raise ValueError(f"no counts for the pair {first!r}, {second!r}; known: {known}")
    only_first, only_second = DISCORDANT[first, second]
    both = RIGHT_OF[first] - only_first
    neither = N_GSM8K - both - only_first - only_second
    outcomes = np.repeat([(1, 1), (1, 0), (0, 1), (0, 0)], [both, only_first, only_second, neither], axis=0)
    return outcomes[:, 0], outcomes[:, 1]


def versus(a: np.ndarray, b: np.ndarray, names: tuple[str, str] = ("first", "second"), **how: Any) -> dict[str, Any]:
    """``stats.compare`` of two runs on the same problems as one row of a table, in percent and points."""
    result = stats.compare(a, b, **how)
    return {
        "problems": result.n_problems,
        f"{names[0]}, %": percent(np.mean(a)),
        f"{names[1]}, %": percent(np.mean(b)),
        "difference, points": points(result.difference),
        "95% interval": interval(result.low, result.high),
        "width": percent(result.high - result.low),
        f"only {names[0]} right": result.only_a,
        f"only {names[1]} right": result.only_b,
        "p, paired": p_number(result.p),
    }


def counted_three_ways(a: Pool, b: Pool, seed: int = 0) -> pd.DataFrame:
    """The difference of two runs with N samples, and its bootstrap interval, by what is taken as independent."""
    both = min(len(a.problems), len(b.problems))
    first, second, n = a.first(both).correct, b.first(both).correct, a.correct.shape[1]
    ways = {
        "one sample a problem": (first[:, 0], second[:, 0]),
        f"{n} samples, problems resampled": (first, second),
        f"{n} samples, every verdict on its own (wrong)": (first.ravel(), second.ravel()),
    }
    rows = {name: versus(*verdicts, seed=seed, method="percentile") for name, verdicts in ways.items()}
    shown = ["first, %", "second, %", "difference, points", "95% interval", "width"]
    return pd.DataFrame.from_dict(rows, orient="index")[shown].rename_axis(f"{a.name} against {b.name}")


def power_figure(difference: int, discordance: int) -> Figure:
    """Power against the number of problems for a true difference (points) and a share of discordant problems (%)."""
    sizes = np.unique(np.geomspace(20, 20_000, 60).astype(int))
    discordant = max(discordance, difference) / 100
    power = [stats.paired_power(difference / 100, int(n), discordance=discordant) for n in sizes]
    needed = stats.problems_needed(difference / 100, discordance=discordant)
    with frame(5, 2.6) as (figure, axes):
        axes.semilogx(sizes, power, color=RIGHT)
        axes.axhline(0.8, color=GREY, linestyle=":")
        for n, name in ((112, "classroom set"), (N_GSM8K, "GSM8K test")):
            axes.axvline(n, color=WRONG, linewidth=0.8)
            axes.annotate(f" {name}", (n, 0.02), fontsize=7, color=WRONG)
        axes.set(ylim=(0, 1.02), xlabel="problems", ylabel="power")
        axes.set_title(
            f"true difference {difference} points, {100 * discordant:.0f}% discordant:\n"
            f"power 0.8 needs {needed:,} problems"
        )
    return figure


def luck_figure(n_models: int, n_problems: int, accuracy: float = 0.5, draws: int = 4000, seed: int = 0) -> Figure:
    """Scores of one model and of the best of ``n_models`` equal ones, over many repetitions of the whole contest."""
    rng = np.random.default_rng(seed)
    scores = 100 * rng.binomial(n_problems, accuracy, size=(draws, n_models)) / n_problems
    step = 100 / n_problems * max(1, round(n_problems * np.ptp(scores) / 100 / 40))  # whole problems: no empty bins
    bins = list(np.arange(scores.min() - 50 / n_problems, scores.max() + step, step))
    with frame(5, 2.4) as (figure, axes):
        for name, values, color in (("any one", scores[:, 0], GREY), ("the best", scores.max(axis=1), WRONG)):
            label = f"{name} of them, mean {values.mean():.1f}%"
            axes.hist(values, bins=bins, density=True, alpha=0.6, color=color, label=label)
        axes.set(xlabel="score, %", yticks=[])
        axes.set_title(f"{n_models} models that are all {accuracy:.0%} right, {n_problems:,} problems")
        axes.legend()
    return figure


def contest(n_models: int, n_problems: int, accuracy: float = 0.5, seed: int = 0) -> pd.DataFrame:
    """All pairs of ``n_models`` equal models on one set: scores, exact McNemar p, and p after Holm's correction.

    The models share each problem's difficulty, as real ones do, and nothing else: every difference between them is
    luck. The pair with the smallest p comes first.
    """
    rng = np.random.default_rng(seed)
    right = rng.random((n_models, n_problems)) < chances(accuracy, n_problems, rng)
    names = [f"model {number}: {score:.1%}" for number, score in enumerate(right.mean(axis=1), start=1)]
    rows = [
        (names[i], names[j], stats.mcnemar_p(int((right[i] & ~right[j]).sum()), int((right[j] & ~right[i]).sum())))
        for i, j in combinations(range(n_models), 2)
    ]
    table = pd.DataFrame(rows, columns=["first", "second", "p"])
    return table.assign(**{"p, Holm": stats.holm(table["p"])}).sort_values("p", ignore_index=True)
