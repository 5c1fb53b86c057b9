"""Systems on the same problems: the accuracy of each, and a test of every pair, in words that say no more than it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gsm8k_nb import stats
from gsm8k_nb.comparing.read import (
    ComparisonError,
    LeftOut,
    System,
    align,
    describe_unlike,
    find_runs,
    read,
    run_names,
    unlike_fields,
)
from gsm8k_nb.config import CompareConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import interval, p_value, points

CORRECTIONS = {
    "holm": ("Holm's correction", stats.holm),
    "bh": ("Benjamini and Hochberg's correction", stats.benjamini_hochberg),
}
TESTS = {"exact": "exact McNemar test", "score": "score test of the same mean accuracy over problems"}
POWER = 0.8  # the power that detectable differences are stated for


@dataclass(frozen=True)
class Pair:
    """Two systems by their places in the comparison, the test of their difference, and what it could have found."""

    first: int
    second: int
    result: stats.PairedComparison
    p_adjusted: float
    different: bool  # at 1 - confidence, after correction for all pairs
    unpaired_p: float  # of the z-test that ignores the pairing, for comparison with tools that print it
    power: stats.Power
    power_corrected: stats.Power  # at the strictest level that the correction may ask of a pair
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
    left_out: list[LeftOut]
    passed_over: list[str]  # folders that matched a glob but hold no finished run
    unlike: dict[str, list[str]]  # field -> the value of each system
    pairs: list[Pair]
    letters: tuple[str, ...]  # of each system: two that share one cannot be told apart

    @property
    def alpha(self) -> float:
        return round(1 - self.config.confidence, 10)

    @property
    def level(self) -> str:
        """The confidence of the intervals, as ``95%``."""
        return f"{100 * self.config.confidence:g}%"

    @property
    def alpha_level(self) -> str:
        """The level of the tests, as ``5%``."""
        return f"{100 * self.alpha:g}%"

    @property
    def correction(self) -> str:
        return CORRECTIONS[self.config.correction][0]

    @property
    def best(self) -> list[bool]:
        """For each system, whether the corrected tests cannot tell it from the one with the highest accuracy."""
        return [not different for different in _different(self.pairs, len(self.systems))[0]]

    def names(self, pair: Pair) -> tuple[str, str]:
        return self.systems[pair.first].name, self.systems[pair.second].name

    def means(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Each problem's share of right samples ``(problems,)``, of the first system and of the second."""
        first, second = self.systems[pair.first], self.systems[pair.second]
        return first.verdicts.mean(axis=1), second.verdicts.mean(axis=1)

    def banner(self, whole: bool = True) -> str:
        """What must stand by every number where the runs are unlike; not ``whole``, without values. Empty if alike."""
        if not self.unlike:
            return ""
        fields = describe_unlike(self.unlike, [system.name for system in self.systems])
        if not whole:
            fields = ", ".join(self.unlike)
        return f"UNLIKE RUNS. These differ in {fields}. A difference may come from that, and not from the models."


def load(config: CompareConfig, fewest: int = 2) -> Comparison:
    """Read, check, align and test the runs of ``config``. ComparisonError: too few, unlike, or no common problem."""
    folders, passed_over = find_runs(config.runs)
    if len(folders) < fewest:
        named = ", ".join(folder.name for folder in folders) or "none"
        raise ComparisonError(f"runs: {config.runs!r} names {named}; at least {fewest} finished runs are needed")
    runs = [Run(folder) for folder in folders]
    systems = [read(run, name, config.rule) for run, name in zip(runs, run_names(runs), strict=True)]
    _check_alike(systems, config)
    ids, left_out = align(systems)
    if not ids:
        reasons = "; ".join(f"{part.reason}: {len(part.ids)}" for part in left_out)
        raise ComparisonError(f"runs: they have no problem in common ({reasons})")
    systems = sorted((system.on(ids) for system in systems), key=lambda system: -system.verdicts.mean())
    unlike = unlike_fields(systems, config.rule == "auto")
    intervals = [
        stats.accuracy_interval(
            system.verdicts, confidence=config.confidence, n_resamples=config.n_resamples, seed=config.seed
        )
        for system in systems
    ]
    pairs = compare_pairs(systems, unlike, config)
    letters = stats.compact_letters(_different(pairs, len(systems)), [each.estimate for each in intervals])
    problems = list(systems[0].problems)
    return Comparison(config, systems, intervals, problems, left_out, passed_over, unlike, pairs, letters)


def _check_alike(systems: Sequence[System], config: CompareConfig) -> None:
    unlike = unlike_fields(systems, config.rule == "auto")
    if unlike and not config.allow_unlike:
        raise ComparisonError(
            f"runs: these differ in {describe_unlike(unlike, [system.name for system in systems])}. Unlike numbers "
            "must not be compared as if they were alike: name alike runs in the parameter runs, or compare these under "
            "a banner (in the parameters cell allow_unlike = True, in a parameter file allow_unlike: true)"
        )


def compare_pairs(systems: Sequence[System], unlike: dict[str, list[str]], config: CompareConfig) -> list[Pair]:
    """Every pair of systems, tested on the same problems, p-values corrected for all pairs together.

    The test is McNemar's exact one where both have one verdict a problem, else the score test of equal means.
    """
    places = list(combinations(range(len(systems)), 2))
    paired = [stats.Paired.of(systems[i].verdicts, systems[j].verdicts) for i, j in places]
    results = [pair.compare(config.confidence, config.n_resamples, config.seed) for pair in paired]
    adjusted = CORRECTIONS[config.correction][1](np.array([result.p for result in results]))
    alpha = round(1 - config.confidence, 10)
    return [
        Pair(
            first=i,
            second=j,
            result=result,
            p_adjusted=float(corrected),
            different=bool(corrected <= alpha),
            unpaired_p=pair.unpaired_p(),
            power=stats.power_of_run(pair, power=POWER, alpha=alpha),
            power_corrected=stats.power_of_run(pair, power=POWER, alpha=alpha / len(places)),
            unlike=tuple(name for name, values in unlike.items() if values[i] != values[j]),
        )
        for (i, j), pair, result, corrected in zip(places, paired, results, adjusted, strict=True)
    ]


def _different(pairs: Sequence[Pair], n: int) -> np.ndarray:
    table = np.zeros((n, n), dtype=bool)
    for pair in pairs:
        table[pair.first, pair.second] = table[pair.second, pair.first] = pair.different
    return table


def conclusion(comparison: Comparison, pair: Pair) -> str:
    """A sentence or two that say no more than the corrected test does, and why where the pair's interval says more."""
    first, second = comparison.names(pair)
    result, alpha, n = pair.result, comparison.alpha, len(comparison.pairs)
    corrected = f", after {comparison.correction} for {n} pairs {p_value(pair.p_adjusted, alpha)}" if n > 1 else ""
    ahead = f"{result.only_a} problems only the first solves, {result.only_b} only the second"
    if result.p_mcnemar is None:
        ahead = f"the first has the higher mean on {result.only_a} problems, the second on {result.only_b}"
    numbers = (
        f"{points(result.difference)} points ({comparison.level} interval {interval(result.low, result.high)}; "
        f"{pair.test} {p_value(result.p, alpha)}{corrected}; {ahead})"
    )
    unlike = f" They are unlike in {', '.join(pair.unlike)}." if pair.unlike else ""
    if pair.different:
        better, worse = (first, second) if result.difference > 0 else (second, first)
        return f"{better} is better than {worse}: {numbers}.{unlike}"
    if not result.decides:
        return f"Too few problems to decide between {first} and {second}: {numbers}.{unlike}"
    alone = ""
    if result.p <= alpha:
        alone = f" The interval, which leaves out 0, is of this pair alone; the correction is for all {n}."
    return (
        f"No difference between {first} and {second} is shown: {numbers}.{alone} By itself, this pair rules out a true "
        f"difference of more than {points(result.bound, sign=False)} points either way, at {comparison.alpha_level}."
        f"{unlike}"
    )
