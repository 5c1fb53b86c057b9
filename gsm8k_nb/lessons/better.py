"""Lesson 5: four published systems and two stored runs to compare, the power of a comparison, the luck of the best.

a, b = pair("GPT-3 6B + verifier", "GPT-3 175B fine-tuned")     # two arrays (1319,) of 0 and 1
a.sum(), b.sum(), (a > b).sum(), (b > a).sum()                  # 515, 458, 209, 152
"""

from dataclasses import asdict

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gsm8k_nb import stats
from gsm8k_nb.lessons.show import DATA, canvas
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.reporting.figures import GREY, RIGHT, WRONG
from gsm8k_nb.texts import p_number

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
    outcomes = [(1, 1)] * both + [(1, 0)] * only_first + [(0, 1)] * only_second
    outcomes += [(0, 0)] * (N_GSM8K - len(outcomes))
    a, b = np.array(outcomes).T
    return a, b


def as_table(result: stats.Interval | stats.PairedComparison) -> pd.DataFrame:
    """A result of ``gsm8k_nb.stats``, a row for each of its fields."""
    values = {
        name: p_number(value) if name[:1] == "p" and value is not None
        else f"{value:.4g}" if isinstance(value, float) else str(value)
        for name, value in asdict(result).items()
        if name != "permutation"
    }  # fmt: skip
    return pd.DataFrame({"value": values}).rename_axis("field")


def pairs_table() -> pd.DataFrame:
    """All pairs of the published systems: the difference in points, and p-values unpaired, paired, and after Holm."""
    rows = []
    for first, second in DISCORDANT:
        a, b = pair(first, second)
        paired = stats.compare(a, b)
        rows.append(
            {
                "first": first,
                "second": second,
                "points": f"{100 * paired.difference:+.1f}",
                "95% interval, paired": f"{100 * paired.low:.1f} to {100 * paired.high:.1f}",
                "only first / only second": f"{paired.only_a} / {paired.only_b}",
                "p, unpaired": stats.Paired.of(a, b).unpaired_p(),
                "p, McNemar": paired.p_mcnemar,
            }
        )
    table = pd.DataFrame(rows)
    table["p, McNemar, Holm"] = stats.holm(table["p, McNemar"])
    names = ["p, unpaired", "p, McNemar", "p, McNemar, Holm"]
    table[names] = table[names].map(p_number)
    return table


def counted_three_ways(a: Pool, b: Pool, seed: int = 0) -> pd.DataFrame:
    """The difference of two runs with N samples, and its bootstrap interval, by what is taken as independent.

    Both runs begin with the same problems; where one has fewer, only these are compared.
    """
    both = min(len(a.problems), len(b.problems))
    first, second, n = a.correct[:both], b.correct[:both], a.correct.shape[1]
    ways = {
        "one sample a problem": (first[:, 0], second[:, 0]),
        f"{n} samples, problems resampled": (first, second),
        f"{n} samples, every verdict on its own (wrong)": (first.ravel(), second.ravel()),
    }
    rows = {}
    for name, (x, y) in ways.items():
        found = stats.compare(x, y, seed=seed, method="percentile")
        rows[name] = {
            "first, %": f"{100 * np.mean(x):.2f}",
            "second, %": f"{100 * np.mean(y):.2f}",
            "difference, points": f"{100 * found.difference:+.2f}",
            "95% interval": f"{100 * found.low:.2f} to {100 * found.high:.2f}",
            "width": f"{100 * (found.high - found.low):.2f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(f"{a.name} against {b.name}")


def power_figure(difference: int, discordance: int) -> Figure:
    """Power against the number of problems for a true difference (points) and a share of discordant problems (%)."""
    sizes = np.unique(np.geomspace(20, 20_000, 60).astype(int))
    discordant = max(discordance, difference) / 100
    power = [stats.paired_power(difference / 100, int(n), discordance=discordant) for n in sizes]
    needed = stats.problems_needed(difference / 100, discordance=discordant)
    with canvas(5, 2.6) as (figure, axes):
        axes.semilogx(sizes, power, color=RIGHT)
        axes.axhline(0.8, color=GREY, linestyle=":")
        for n, name in ((112, "classroom set"), (1319, "GSM8K test")):
            axes.axvline(n, color=WRONG, linewidth=0.8)
            axes.annotate(f" {name}", (n, 0.02), fontsize=7, color=WRONG)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("problems")
        axes.set_ylabel("power")
        axes.set_title(
            f"true difference {difference} points, {100 * discordant:.0f}% discordant:\n"
            f"power 0.8 needs {needed:,} problems",
            loc="left",
        )
    return figure


def luck_figure(n_models: int, n_problems: int, accuracy: float = 0.5, draws: int = 4000, seed: int = 0) -> Figure:
    """Scores of one model and of the best of ``n_models`` equal ones, over many repetitions of the whole contest."""
    rng = np.random.default_rng(seed)
    scores = 100 * rng.binomial(n_problems, accuracy, size=(draws, n_models)) / n_problems
    best = scores.max(axis=1)
    with canvas(5, 2.4) as (figure, axes):
        step = 100 / n_problems * max(1, round(n_problems * np.ptp(scores) / 100 / 40))  # whole problems: no empty bins
        bins = np.arange(scores.min() - 50 / n_problems, scores.max() + step, step)
        for name, values, color in (("any one of them", scores[:, 0], GREY), ("the best of them", best, WRONG)):
            label = f"{name}, mean {values.mean():.1f}%"
            axes.hist(values, bins=list(bins), density=True, alpha=0.6, color=color, label=label)
        axes.set_xlabel("score, %")
        axes.set_yticks([])
        axes.set_title(f"{n_models} models that are all {accuracy:.0%} right, {n_problems:,} problems", loc="left")
        axes.legend()
    return figure


def contest(n_models: int, n_problems: int, accuracy: float = 0.5, seed: int = 0) -> pd.DataFrame:
    """All pairs of ``n_models`` equal models on one set: scores, exact McNemar p, and p after Holm's correction.

    The models share each problem's difficulty (a beta distribution around ``accuracy``), as real ones do, and nothing
    else: every difference between them is luck. The pair with the smallest p comes first.
    """
    rng = np.random.default_rng(seed)
    difficulty = rng.beta(2 * accuracy, 2 * (1 - accuracy), size=n_problems)
    right = rng.random((n_models, n_problems)) < difficulty
    first, second = np.triu_indices(n_models, 1)
    only_first = (right[first] & ~right[second]).sum(axis=1)
    only_second = (right[second] & ~right[first]).sum(axis=1)
    p = [stats.mcnemar_p(int(a), int(b)) for a, b in zip(only_first, only_second, strict=True)]
    scores = [f"{100 * score:.1f}" for score in right.mean(axis=1)]
    table = pd.DataFrame(
        {
            "first": [f"model {i + 1}: {scores[i]}%" for i in first],
            "second": [f"model {j + 1}: {scores[j]}%" for j in second],
            "p": p,
            "p, Holm": stats.holm(p),
        }
    )
    return table.sort_values("p", ignore_index=True)


def false_alarms(
    n_models: int, n_problems: int, contests: int = 200, alpha: float = 0.05, seed: int = 0
) -> pd.DataFrame:
    """How many contests of equal models end with a pair that differs at ``alpha``, before and after Holm's correction.

    ValueError for an ``alpha`` that is no level.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, both excluded, got {alpha}")
    tables = [contest(n_models, n_problems, seed=seed + i) for i in range(contests)]
    alarms = {
        f"each p against {alpha:g}": np.array([(table["p"] <= alpha).sum() for table in tables]),
        "after Holm": np.array([(table["p, Holm"] <= alpha).sum() for table in tables]),
    }
    rows = {
        name: {
            "significant pairs in a contest, mean": round(float(pairs.mean()), 2),
            "contests with at least one": f"{(pairs > 0).mean():.0%}",
        }
        for name, pairs in alarms.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")
