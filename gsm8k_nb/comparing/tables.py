"""A comparison in, tables out: each is one DataFrame, by name in ``TABLES``.

What a notebook or a paper prints of accuracies and pairs are the numbers of `accuracy_numbers` and `pair_numbers`.
"""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import pandas as pd

from gsm8k_nb import stats
from gsm8k_nb.comparing.pairs import Comparison, Pair, cells
from gsm8k_nb.comparing.read import System, fields, stated
from gsm8k_nb.reporting import published
from gsm8k_nb.reporting import tables as of_run
from gsm8k_nb.texts import p_value, percent, points

N_IDS = 10  # ids named in a table of what was left out
POWER = 0.8  # the power that detectable differences are stated for


def _of_pairs(row: Callable[[Comparison, Pair], dict[str, Any]]) -> Callable[[Comparison], pd.DataFrame]:
    """A table from what it says of one pair: a row a pair, by the names of its two systems."""

    @wraps(row)
    def table(comparison: Comparison) -> pd.DataFrame:
        names = pd.DataFrame([comparison.names(pair) for pair in comparison.pairs], columns=["first", "second"])
        rows = [row(comparison, pair) for pair in comparison.pairs]
        return pd.DataFrame(rows, index=pd.MultiIndex.from_frame(names)).fillna("")

    return table


def _by_system(comparison: Comparison, rows: Any) -> pd.DataFrame:
    return pd.DataFrame(rows, index=pd.Index([system.name for system in comparison.systems], name="system"))


def systems(comparison: Comparison) -> pd.DataFrame:
    """The runs: folder, protocol, rule, and how many problems each one scored."""
    return _by_system(comparison, [cells("system_row", comparison, system) for system in comparison.systems])


def left_out(comparison: Comparison) -> pd.DataFrame:
    """What is not compared and why: problems by reason, and folders that hold no finished run."""
    parts = comparison.left_out | ({"run not finished": comparison.passed_over} if comparison.passed_over else {})
    rows = [
        (reason, len(names), ", ".join(names[:N_IDS]) + (", ..." if len(names) > N_IDS else ""))
        for reason, names in (parts or {"nothing is left out": []}).items()
    ]
    return pd.DataFrame(rows, columns=["reason", "number", "which"]).set_index("reason")


def protocols(comparison: Comparison) -> pd.DataFrame:
    """Every field of data and protocol by system; a star marks those that differ."""
    rows = {
        name: ["" if values == values[:1] * len(values) else "*", *(stated(value).strip("'") for value in values)]
        for name, values in fields(comparison.systems).items()
    }
    columns = ["differs", *(system.name for system in comparison.systems)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("field")


def accuracy_numbers(comparison: Comparison) -> pd.DataFrame:
    """Each system's accuracy on the common problems, unrounded, as shares: a row a system, best first."""
    of_systems = zip(comparison.systems, comparison.intervals, comparison.letters, comparison.best, strict=True)
    rows = [
        {
            "right": int(system.verdicts.sum()), "of": system.verdicts.size, "accuracy": ends.estimate,
            "low": ends.low, "high": ends.high, "standard_error": ends.standard_error, "interval": ends.method,
            "group": letters, "best": best, "protocol": system.metrics.protocol.label, "rule": system.rule,
        }
        for system, ends, letters, best in of_systems
    ]  # fmt: skip
    return _by_system(comparison, rows)


def accuracy(comparison: Comparison) -> pd.DataFrame:
    """Each system on the common problems: accuracy in percent, interval, and the letters of its groups."""
    numbers = accuracy_numbers(comparison)
    return of_run.accuracy_table(numbers, f"{comparison.level} interval").assign(group=numbers["group"])


@_of_pairs
def pair_numbers(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    """Each pair's difference and tests, unrounded, as shares: a row a pair, by the names of its two systems."""
    result = pair.result
    return {
        "difference": result.difference, "low": result.low, "high": result.high,
        "standard_error": result.standard_error, "interval": result.method, "only_first": result.only_a,
        "only_second": result.only_b, "test": pair.test, "p": result.p, "p_corrected": pair.p_adjusted,
        "correction": comparison.config.correction, "different": pair.different, "decides": result.decides,
        "p_unpaired_z": pair.paired.unpaired_p(), "unlike": " ".join(pair.unlike),
    }  # fmt: skip


@_of_pairs
def pairs(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    """Each pair: difference in points with its own interval, the test, and p-values before and after correction."""
    return cells("pair_row", comparison, pair)


def matrix(comparison: Comparison) -> pd.DataFrame:
    """Row minus column in points, with the corrected p-value; a star where the pair differs."""
    names = [system.name for system in comparison.systems]
    table = pd.DataFrame("", index=names, columns=names, dtype=object)
    for pair in comparison.pairs:
        end = f"{'*' if pair.different else ''} ({p_value(pair.p_adjusted, comparison.config.alpha)})"
        table.iloc[pair.first, pair.second] = points(pair.result.difference) + end
        table.iloc[pair.second, pair.first] = points(-pair.result.difference) + end
    return table.rename_axis("row minus column")


@_of_pairs
def discordance(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    """The two by two table of each pair, a row each: problems by who is right (or has the higher mean)."""
    a, b, result = pair.paired.a.mean(axis=1), pair.paired.b.mean(axis=1), pair.result
    both, neither = int(((a == 1) & (b == 1)).sum()), int(((a == 0) & (b == 0)).sum())
    tied = len(a) - both - neither - result.only_a - result.only_b
    crossed = {"both right": both, "first ahead": result.only_a, "second ahead": result.only_b, "both wrong": neither}
    return crossed if pair.paired.grid == 1 else crossed | {"tied between": tied}


@_of_pairs
def agreement(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    """How alike two systems are, problem by problem.

    ``same verdict``: the chance that a sample of each is judged alike. ``kappa``: how far that is above what their
    accuracies alone would give (Cohen 1960). ``same wrong answer``: of two wrong samples of a problem, the share that
    gave the same number. Shares in percent.
    """
    a, b = pair.paired.a.mean(axis=1), pair.paired.b.mean(axis=1)  # each problem's share of right samples
    same = float((a * b + (1 - a) * (1 - b)).mean())
    chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    alike, wrong = same_wrong_answers(comparison.systems[pair.first], comparison.systems[pair.second])
    return {
        "same verdict %": percent(same, 1),
        "kappa": f"{(same - chance) / (1 - chance):.2f}" if chance < 1 else "",
        "pairs of wrong samples": wrong,
        "same wrong answer %": percent(alike / wrong, 1) if wrong else "",
    }


def same_wrong_answers(first: System, second: System) -> tuple[int, int]:
    """Of all pairs of wrong samples, one of each system on the same problem: how many read the same number, and all."""
    alike = total = 0
    for a, b, x, y in zip(first.predicted, second.predicted, first.verdicts, second.verdicts, strict=True):
        wrong_a, wrong_b = Counter(a[x == 0]), Counter(b[y == 0])
        total += wrong_a.total() * wrong_b.total()
        alike += sum(count * wrong_b[value] for value, count in wrong_a.items() if value is not None)
    return alike, total


@_of_pairs
def power(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    """The smallest true difference, in points, that a pair of runs like these finds with 80% probability."""
    alone, corrected = (
        stats.power_of_run(pair.paired, power=POWER, alpha=comparison.config.alpha / n)
        for n in (1, len(comparison.pairs))
    )
    return cells("power_row", comparison, POWER, alone, corrected, pair.result.bound)


def only_one(comparison: Comparison) -> pd.DataFrame:
    """How many problems each system alone solves, and how many it alone fails."""
    solved = comparison.solved
    others = solved.sum(axis=0) - solved  # of each system: how many of the others solve a problem
    counts = {
        "solves": solved.sum(axis=1),
        "alone solves": (solved & (others == 0)).sum(axis=1),
        "alone fails": (~solved & (others == len(solved) - 1)).sum(axis=1),
    }
    return _by_system(comparison, counts)


def solved_by_one(comparison: Comparison) -> pd.DataFrame:
    """Every problem that one system alone solves: who, the gold answer, what each read, and the question."""
    systems = comparison.systems
    rows = [
        (problem.id, system.name, str(problem.answer), *(_read_as(each, row) for each in systems), problem.question)
        for place, system in enumerate(systems)
        for problem, row in comparison.alone(place)
    ]
    columns = ["problem", "solved by", "gold", *(f"{system.name} read" for system in systems), "question"]
    return pd.DataFrame(rows, columns=columns).set_index("problem")


def _read_as(system: System, row: int) -> str:
    """What was read from a system's samples of a problem: the number, or each number with its count."""
    counts = Counter("none" if value is None else str(value) for value in system.predicted[row])
    if counts.total() == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count}x)" for value, count in counts.most_common())


def beside_published(comparison: Comparison) -> pd.DataFrame:
    """Each run beside published results of its own protocol: inside or outside its interval over all its problems."""
    tables = [published.beside(system.metrics, system.model).assign(run=system.name) for system in comparison.systems]
    table = pd.concat(tables, ignore_index=True)
    if table.empty:
        note = "no published result of the same protocol, or no complete run of the official test split"
        table = pd.DataFrame([{"run": note}], columns=["run", *published.COLUMNS]).fillna("")
    return table.set_index("run")


_ALL: tuple[Callable[[Comparison], pd.DataFrame], ...] = (
    systems, left_out, protocols, accuracy, pairs, matrix, discordance, agreement, power, only_one, solved_by_one,
    beside_published,
)  # fmt: skip
TABLES = {make.__name__: make for make in _ALL}
