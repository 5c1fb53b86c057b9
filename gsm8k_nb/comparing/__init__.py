"""Two or more finished runs, problem by problem: are they alike, which problems do they share, which pairs differ.

    >>> found = load(CompareConfig(runs="params/cobbe-*.yaml", allow_unlike=True))
    >>> found.systems[1].name, found.systems[1].interval.estimate
    ('GPT-3 6B + verifier', 0.3904...)
    >>> conclusion(found, found.pairs[3])
    'GPT-3 6B + verifier is better than GPT-3 175B fine-tuned: +4.32 points (95% interval 1.43 to 7.21; exact McNemar
    test p = 0.0032, after Holm's correction for 6 pairs p = 0.0032; 209 problems that only the first solves, 152 ...'

Runs of unlike protocols, data or rules are refused with the names of the fields that differ, or, where
``allow_unlike`` says so, compared under a banner. Everything here is computed from the run folders alone.
"""

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from gsm8k_nb import stats
from gsm8k_nb.config import CompareConfig, ConfigError, RunConfig, read_parameters, short_name
from gsm8k_nb.places import repository_root
from gsm8k_nb.records import Problem, Score
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import interval, p_value, points

DATA_FIELDS = ("name", "config", "split", "sha256")
DERIVED = {"label"}  # of the protocol: made from its other fields, so a difference there is named already
CORRECTIONS = {
    "holm": ("Holm's correction", stats.holm),
    "bh": ("Benjamini and Hochberg's correction", stats.benjamini_hochberg),
}
TESTS = {"exact": "exact McNemar test", "score": "score test of the same mean accuracy over problems"}
POWER = 0.8  # the power that detectable differences are stated for


class ComparisonError(ValueError):
    """These runs cannot be compared as asked. The message names the fields or files and what to do."""


@dataclass(frozen=True)
class System:
    """One run as it enters a comparison: arrays are ``(problems, samples)``, aligned by problem with the other runs."""

    name: str
    run: Run
    config: dict[str, Any]
    metrics: dict[str, Any]
    rule: str
    verdicts: np.ndarray
    predicted: np.ndarray  # what the rule read, as Decimal or None
    interval: stats.Interval

    @property
    def solved(self) -> np.ndarray:
        """Which problems ``(problems,)`` it solves: more than half of its samples right."""
        return self.verdicts.mean(axis=1) > 0.5


@dataclass(frozen=True)
class Pair:
    """Two systems by their places in the comparison, the test of their difference, and what it could have found."""

    first: int
    second: int
    result: stats.PairedComparison
    test: str
    p: float
    p_adjusted: float
    different: bool  # at 1 - confidence, after correction for all pairs
    unpaired_p: float  # of the z-test that ignores the pairing, for comparison with tools that print it
    power: stats.Power
    power_corrected: stats.Power  # at the strictest level that the correction may ask of a pair
    bound: float  # the pair's own interval rules out a larger difference
    unlike: tuple[str, ...]  # fields in which these two runs differ


@dataclass(frozen=True)
class LeftOut:
    """Problems that are not compared, and why."""

    reason: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """All that tables and figures need. Systems are ordered by accuracy, best first; pairs follow their order."""

    config: CompareConfig
    systems: list[System]
    problems: list[Problem]
    left_out: list[LeftOut]
    passed_over: list[str]  # folders that matched a glob but hold no finished run
    unlike: dict[str, list[str]]  # field -> the value of each system
    pairs: list[Pair]
    letters: tuple[str, ...]

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

    def names(self, pair: Pair) -> tuple[str, str]:
        return self.systems[pair.first].name, self.systems[pair.second].name

    def pair(self, i: int, j: int) -> Pair:
        """The pair of two places, in either order."""
        return next(pair for pair in self.pairs if {pair.first, pair.second} == {i, j})


@dataclass(frozen=True)
class Stored:
    """One run as read, before it is aligned: verdicts and readings of the samples of each problem, by its id."""

    name: str
    run: Run
    config: dict[str, Any]
    metrics: dict[str, Any]
    rule: str
    problems: dict[str, Problem]
    verdicts: dict[str, list[bool | None]]
    predicted: dict[str, list[Any]]


def load(config: CompareConfig, fewest: int = 2) -> Comparison:
    """Read, check, align and test the runs of ``config``. ComparisonError: too few, unlike, or no common problem."""
    folders, passed_over = find_runs(config.runs)
    if len(folders) < fewest:
        found = ", ".join(folder.name for folder in folders) or "none"
        raise ComparisonError(f"runs: {config.runs!r} names {found}; at least {fewest} finished runs are needed")
    stored = [read(Run(folder), name, config.rule) for folder, name in zip(folders, run_names(folders), strict=True)]
    unlike = unlike_fields(stored, by_rule=config.rule == "auto")
    if unlike and not config.allow_unlike:
        raise ComparisonError(
            f"runs: these differ in {said_unlike(unlike, [one.name for one in stored])}. Unlike numbers must not be "
            "compared as if they were alike: choose alike runs, or set allow_unlike: true to compare under a banner"
        )
    ids, left_out = align(stored)
    if not ids:
        reasons = "; ".join(f"{one.reason}: {len(one.ids)}" for one in left_out)
        raise ComparisonError(f"runs: they have no problem in common ({reasons})")
    systems = sorted((_system(one, ids, config) for one in stored), key=lambda one: -one.interval.estimate)
    order = {one.name: place for place, one in enumerate(stored)}
    unlike = {name: [values[order[one.name]] for one in systems] for name, values in unlike.items()}
    pairs = compare_pairs(systems, unlike, config)
    letters = stats.compact_letters(_different(pairs, len(systems)), [one.interval.estimate for one in systems])
    problems = [stored[0].problems[one] for one in ids]
    return Comparison(config, systems, problems, left_out, passed_over, unlike, pairs, letters)


def find_runs(text: str) -> tuple[list[Path], list[str]]:
    """The run folders that ``text`` names, in its order, each once; and the unfinished runs that a glob met.

    Names are apart by commas or blanks, and looked for from the working folder, then from the repository. A parameter
    file (``.yaml``) stands for its run, a folder of runs for all in it. What is named outright must be finished:
    ComparisonError if not.
    """
    folders, passed_over = [], []
    for name in _listed(text):
        matches, outright = _matches(name)
        for path in matches:
            by_parameters = path.suffix in (".yaml", ".yml")
            folder = _run_folder(path) if by_parameters else path
            state = _state(folder)
            if state == "finished":
                folders.append(folder.resolve())
            elif outright or by_parameters:
                raise ComparisonError(f"runs: {name!r}: no finished run in {folder} (scores.jsonl and metrics.json)")
            elif state == "unfinished":
                passed_over.append(folder.name)
    return list(dict.fromkeys(folders)), passed_over


def _listed(text: str) -> list[str]:
    """Names apart by commas or blanks; in a text of several lines, or that is a path as a whole, names have blanks."""
    if "\n" in text:
        return [name for name in text.split("\n") if name.strip()]
    if any((base / text).exists() for base in (Path.cwd(), repository_root())):
        return [text]
    return [name for name in re.split(r"[,\s]+", text) if name]


def _matches(name: str) -> tuple[list[Path], bool]:
    """The paths that a name or glob matches, and whether it names one run outright."""
    for base in (Path.cwd(), repository_root()):
        found = [Path(one) for one in sorted(glob.glob(str(base / Path(name).expanduser())))]
        if len(found) == 1 and found[0].is_dir() and _state(found[0]) == "no run":
            return sorted(found[0].iterdir()), False
        if found:
            return found, not glob.has_magic(name)
    raise ComparisonError(f"runs: no such file or folder: {name!r}")


def _run_folder(parameters: Path) -> Path:
    try:
        return RunConfig.checked(read_parameters(parameters)).run_folder
    except ConfigError as error:
        raise ComparisonError(f"runs: {parameters}: {error}") from None


def _state(folder: Path) -> str:
    if all((folder / name).exists() for name in ("config.json", "problems.jsonl", "scores.jsonl", "metrics.json")):
        return "finished"
    return "unfinished" if (folder / "config.json").exists() else "no run"


def run_names(folders: Sequence[Path]) -> list[str]:
    """A name for each run: its label or its model's, with the protocol and then its hash where that is not enough."""
    configs = [Run(folder).read_json("config.json") for folder in folders]
    labels = [Run(folder).read_json("metrics.json")["protocol"]["label"] for folder in folders]
    names = [config.get("label") or short_name(config["model"]) for config in configs]
    for extra in (labels, [folder.name[-8:] for folder in folders], [str(place) for place in range(len(folders))]):
        twice = {name for name in names if names.count(name) > 1}
        names = [f"{name} ({more})" if name in twice else name for name, more in zip(names, extra, strict=True)]
    return names


def read(run: Run, name: str, rule: str) -> Stored:
    """A finished run's problems, and each problem's verdicts and readings under ``rule`` (``auto``: its headline's)."""
    metrics, config = run.read_json("metrics.json"), run.read_json("config.json")
    used = metrics["protocol"]["headline_rule"] if rule == "auto" else rule
    if used not in metrics["rules"]:
        known = ", ".join(metrics["rules"])
        raise ComparisonError(f"rule: {used!r} was not scored in {run.folder.name}; scored there: {known}")
    problems = {one.id: one for one in run.read_records("problems.jsonl", Problem)}
    n = metrics["protocol"]["n_samples"]
    verdicts: dict[str, list[bool | None]] = {one: [None] * n for one in problems}
    predicted: dict[str, list[Any]] = {one: [None] * n for one in problems}
    for score in run.read_records("scores.jsonl", Score):
        if score.rule == used and score.problem_id in problems and score.sample_index < n:
            verdicts[score.problem_id][score.sample_index] = score.correct
            predicted[score.problem_id][score.sample_index] = score.predicted
    return Stored(name, run, config, metrics, used, problems, verdicts, predicted)


def unlike_fields(stored: Sequence[Stored], by_rule: bool = True) -> dict[str, list[str]]:
    """Fields of data and protocol that are not the same in all runs, each with its value in every run, in their order.

    ``by_rule`` False leaves out the headline's rule, where one rule was named for all.
    """
    fields: dict[str, list[Any]] = {
        f"dataset {name}": [one.metrics["dataset"].get(name) for one in stored] for name in DATA_FIELDS
    }
    names = dict.fromkeys(name for one in stored for name in one.metrics["protocol"])
    skipped = DERIVED if by_rule else DERIVED | {"headline_rule"}
    fields |= {name: [one.metrics["protocol"].get(name) for one in stored] for name in names if name not in skipped}
    return {
        name: [stated(value) for value in values]
        for name, values in fields.items()
        if any(value != values[0] for value in values)
    }


def stated(value: Any) -> str:
    """A field's value as a message or table shows it; a sha256 by its first digits."""
    text = "not stated" if value is None else str(value) if isinstance(value, int | float | bool) else repr(value)
    return f"{text[:13]}...'" if re.fullmatch(r"'[0-9a-f]{64}'", text) else text


def said_unlike(unlike: dict[str, list[str]], names: Sequence[str]) -> str:
    """Each field with its values and who has them, in one line."""
    parts = []
    for field, values in unlike.items():
        holders = {value: [n for n, v in zip(names, values, strict=True) if v == value] for value in values}
        parts.append(f"{field}: " + ", ".join(f"{value} ({' and '.join(who)})" for value, who in holders.items()))
    return "; ".join(parts)


def align(stored: Sequence[Stored]) -> tuple[list[str], list[LeftOut]]:
    """Ids of the problems that all runs scored in full, in the first run's order, and what is left out, by reason."""
    ids = list(dict.fromkeys(name for one in stored for name in one.problems))
    reasons = {name: reason for name in ids if (reason := _why_left_out(name, stored))}
    grouped = {reason: tuple(name for name in reasons if reasons[name] == reason) for reason in reasons.values()}
    return [name for name in ids if name not in reasons], [LeftOut(*one) for one in grouped.items()]


def _why_left_out(name: str, stored: Sequence[Stored]) -> str | None:
    lacking = [one.name for one in stored if name not in one.problems]
    if lacking:
        return f"not in {' and '.join(lacking)}"
    if len({(one.problems[name].question, one.problems[name].answer) for one in stored}) > 1:
        return "another question or gold answer under the same id"
    unscored = [one.name for one in stored if any(verdict is None for verdict in one.verdicts[name])]
    return f"a failed request in {' and '.join(unscored)}" if unscored else None


def _system(one: Stored, ids: Sequence[str], config: CompareConfig) -> System:
    verdicts = np.array([one.verdicts[name] for name in ids], dtype=float)
    predicted = np.array([one.predicted[name] for name in ids], dtype=object)
    interval = stats.accuracy_interval(
        verdicts, confidence=config.confidence, n_resamples=config.n_resamples, seed=config.seed
    )
    return System(one.name, one.run, one.config, one.metrics, one.rule, verdicts, predicted, interval)


def compare_pairs(systems: Sequence[System], unlike: dict[str, list[str]], config: CompareConfig) -> list[Pair]:
    """Every pair of systems, tested on the same problems, p-values corrected for all pairs together.

    The test is McNemar's exact one where both have one verdict a problem, else the score test of equal means.
    """
    places = list(combinations(range(len(systems)), 2))
    paired = [stats.Paired.of(systems[i].verdicts, systems[j].verdicts) for i, j in places]
    results = [pair.compare(config.confidence, config.n_resamples, config.seed) for pair in paired]
    adjusted = CORRECTIONS[config.correction][1](np.array([one.p for one in results])) if results else []
    alpha = round(1 - config.confidence, 10)
    return [
        Pair(
            i, j, result, TESTS[result.method], result.p, float(corrected), bool(corrected <= alpha),
            pair.unpaired_p(),
            stats.power_of_run(pair, power=POWER, alpha=alpha),
            stats.power_of_run(pair, power=POWER, alpha=alpha / len(places)),
            result.bound,
            tuple(name for name, values in unlike.items() if values[i] != values[j]),
        )
        for (i, j), pair, result, corrected in zip(places, paired, results, adjusted, strict=True)
    ]  # fmt: skip


def _different(pairs: Iterable[Pair], n: int) -> np.ndarray:
    table = np.zeros((n, n), dtype=bool)
    for pair in pairs:
        table[pair.first, pair.second] = table[pair.second, pair.first] = pair.different
    return table


def best_group(found: Comparison) -> list[bool]:
    """For each system, whether the corrected tests cannot tell it from the one with the highest accuracy."""
    different = _different(found.pairs, len(found.systems))
    return [not different[0, place] for place in range(len(found.systems))]


def conclusion(found: Comparison, pair: Pair) -> str:
    """A sentence or two that say no more than the corrected test does, and why where the pair's interval says more."""
    first, second = found.names(pair)
    result = pair.result
    corrected = f", after {found.correction} for {len(found.pairs)} pairs {p_value(pair.p_adjusted, found.alpha)}"
    numbers = (
        f"{points(result.difference)} points ({found.level} interval {interval(result.low, result.high)}; {pair.test} "
        f"{p_value(pair.p, found.alpha)}{corrected if len(found.pairs) > 1 else ''}; {counts(pair)})"
    )
    unlike = f" They are unlike in {', '.join(pair.unlike)}." if pair.unlike else ""
    if pair.different:
        better, worse = (first, second) if result.difference > 0 else (second, first)
        return f"{better} is better than {worse}: {numbers}.{unlike}"
    if not result.decides:
        return f"Too few problems to decide between {first} and {second}: {numbers}.{unlike}"
    alone = (
        f" The interval, which leaves out 0, is of this pair alone; the correction is for all {len(found.pairs)}."
        if pair.p <= found.alpha
        else ""
    )
    return (
        f"No difference between {first} and {second} is shown: {numbers}.{alone} By itself, this pair rules out a true "
        f"difference of more than {points(pair.bound, sign=False)} points either way, at {found.alpha_level}.{unlike}"
    )


def counts(pair: Pair) -> str:
    """On how many problems each of the two is ahead, in words."""
    a, b = pair.result.only_a, pair.result.only_b
    if pair.result.p_mcnemar is not None:
        return f"{a} problems only the first solves, {b} only the second"
    return f"the first has the higher mean on {a} problems, the second on {b}"
