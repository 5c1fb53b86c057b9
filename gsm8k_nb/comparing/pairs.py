"""Systems on the same problems: the accuracy of each, and a test of every pair, in words that say no more than it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jinja2 import Environment

from gsm8k_nb import stats, texts
from gsm8k_nb.comparing import read
from gsm8k_nb.comparing.read import ComparisonError, System
from gsm8k_nb.config.comparison import CompareConfig
from gsm8k_nb.places import own_asset
from gsm8k_nb.records import Problem
from gsm8k_nb.runs import Run
from gsm8k_nb.summary import by_each_rule

CORRECTIONS = {
    "holm": ("Holm's correction", stats.holm),
    "bh": ("Benjamini and Hochberg's correction", stats.benjamini_hochberg),
}
TESTS = {"exact": "exact McNemar test", "score": "score test of the same mean accuracy over problems"}


@dataclass(frozen=True)
class Pair:
    """Two systems by their places in the comparison, their verdicts, and the test of their difference."""

    first: int
    second: int
    paired: stats.Paired
    result: stats.PairedComparison
    p_adjusted: float
    different: bool  # at 1 - confidence, after correction for all pairs
    unlike: tuple[str, ...]  # fields in which these two runs differ

    @property
    def test(self) -> str:
        return TESTS[self.result.method]


@dataclass(frozen=True)
class Comparison:
    """All that tables and figures need. Systems are ordered by accuracy, best first; pairs follow their order."""

    config: CompareConfig
    systems: list[System]
    intervals: list[stats.Interval]  # each system's accuracy on the common problems
    problems: list[Problem]
    left_out: dict[str, list[str]]  # reason -> the problems that are not compared
    passed_over: list[str]  # folders that matched a glob but hold no finished run
    unlike: dict[str, list[str]]  # field -> the value of each system
    pairs: list[Pair]
    letters: tuple[str, ...]  # of each system: two that share one cannot be told apart

    @property
    def level(self) -> str:
        """The confidence of the intervals, as ``95%``."""
        return f"{100 * self.config.confidence:g}%"

    @property
    def alpha_level(self) -> str:
        """The level of the tests, as ``5%``."""
        return f"{100 * self.config.alpha:g}%"

    @property
    def correction(self) -> str:
        return CORRECTIONS[self.config.correction][0]

    @property
    def best(self) -> list[bool]:
        """For each system, whether the corrected tests cannot tell it from the one with the highest accuracy."""
        return [not different for different in _different(self.pairs, len(self.systems))[0]]

    @cached_property
    def solved(self) -> np.ndarray:
        """Which system solves which problem, ``(systems, problems)``: more than half of its samples right."""
        return np.array([system.verdicts.mean(axis=1) > 0.5 for system in self.systems])

    def alone(self, place: int) -> Iterator[tuple[Problem, int]]:
        """The problems that the system at ``place`` alone solves, each with its row."""
        rows = np.nonzero(self.solved[place] & (self.solved.sum(axis=0) == 1))[0]
        return ((self.problems[row], int(row)) for row in rows)

    def names(self, pair: Pair) -> tuple[str, str]:
        return self.systems[pair.first].name, self.systems[pair.second].name

    def banner(self, whole: bool = True) -> str:
        """What must stand by every number where the runs are unlike; not ``whole``, without values. Empty if alike."""
        return say("banner", self, whole)


def load(config: CompareConfig, fewest: int = 2) -> Comparison:
    """Read, check, align and test the runs of ``config``. ComparisonError: too few, unlike, or no common problem."""
    folders, passed_over = read.find_runs(config.runs)
    if len(folders) < fewest:
        raise ComparisonError(say("too_few", config.runs, folders, fewest))
    runs = [Run(folder) for folder in folders]
    names = read.run_names(runs)
    systems = [read.read(run, name, config.rule) for run, name in zip(runs, names, strict=True)]
    unlike = read.unlike_fields(systems, config.rule == "auto")
    if unlike and not config.allow_unlike:
        raise ComparisonError(say("refused", unlike, names))
    ids, left_out = read.align(systems)
    if not ids:
        raise ComparisonError(say("nothing_in_common", left_out))
    systems = sorted((system.on(ids) for system in systems), key=lambda system: -system.verdicts.mean())
    unlike = read.unlike_fields(systems, config.rule == "auto")
    how: dict[str, Any] = {name: getattr(config, name) for name in ("confidence", "n_resamples", "seed")}
    intervals = [stats.accuracy_interval(system.verdicts, **how) for system in systems]
    pairs = compare_pairs(systems, unlike, config)
    letters = stats.compact_letters(_different(pairs, len(systems)), [each.estimate for each in intervals])
    problems = list(systems[0].problems)
    return Comparison(config, systems, intervals, problems, left_out, passed_over, unlike, pairs, letters)


def compare_pairs(systems: Sequence[System], unlike: dict[str, list[str]], config: CompareConfig) -> list[Pair]:
    """Every pair of systems, tested on the same problems, p-values corrected for all pairs together.

    The test is McNemar's exact one where both have one verdict a problem, else the score test of equal means.
    """
    places = list(combinations(range(len(systems)), 2))
    paired = [stats.Paired.of(systems[i].verdicts, systems[j].verdicts) for i, j in places]
    results = [pair.compare(config.confidence, config.n_resamples, config.seed) for pair in paired]
    adjusted = CORRECTIONS[config.correction][1](np.array([result.p for result in results]))
    unlike_of = [tuple(name for name, values in unlike.items() if values[i] != values[j]) for i, j in places]
    return [
        Pair(*place, pair, result, float(corrected), bool(corrected <= config.alpha), fields)
        for place, pair, result, corrected, fields in zip(places, paired, results, adjusted, unlike_of, strict=True)
    ]


def _different(pairs: Sequence[Pair], n: int) -> np.ndarray:
    table = np.zeros((n, n), dtype=bool)
    for pair in pairs:
        table[pair.first, pair.second] = table[pair.second, pair.first] = pair.different
    return table


def conclusion(comparison: Comparison, pair: Pair) -> str:
    """A sentence or two that say no more than the corrected test does, and why where the pair's interval says more."""
    return say("conclusion", comparison, pair)


@cache
def _sentences() -> Any:
    known = {
        name: getattr(texts, name) for name in ("points", "interval", "percent", "p_value", "p_number", "one_line")
    }
    known |= {"holders": read.holders, "by_each_rule": by_each_rule}
    return Environment().from_string(own_asset("comparison.jinja")).make_module(known)


def say(name: str, *about: Any) -> str:
    """The sentences of this name in ``assets/comparison.jinja``, on one line."""
    return " ".join(getattr(_sentences(), name)(*about).split())


def cells(name: str, *about: Any) -> dict[str, str]:
    """The row of a table of this name there, by column."""
    return texts.facts(getattr(_sentences(), name)(*about))
