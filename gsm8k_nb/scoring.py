"""Verdicts: each rule on each sample, and the one tidy table that every result is made from.

No answer found is wrong; a failed request is neither right nor wrong. A rule that fails on a text has read no answer.
"""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from importlib import metadata, resources
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import pandas as pd

from gsm8k_nb import __version__
from gsm8k_nb.answers import RULES, verdict
from gsm8k_nb.config import RunConfig
from gsm8k_nb.protocol import headline_rule
from gsm8k_nb.records import Problem, Sample, Score
from gsm8k_nb.runs import Run, RunError, sha256_of

DEFAULT_RULES = ("strict", "flexible")
MANY = 20_000  # completions, above which only the default rules are scored unless all are asked for
NOT_ASKED = "not asked for: a dry run, or the budget was spent"
STALE = {  # fact that scores are made from -> what is said of stored ones where it is another
    "package": "made before these samples, or by version 0.1.0",
    "rules_version": "made by other versions of the rules",
    "rules": "made by other rules",
    "problems_sha256": "made from other problems",
    "samples_sha256": "made from other samples",
    "scores_sha256": "changed after it was written",
}
_OF_SAMPLE = (
    "text", "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds", "reasoning", "reasoning_tokens"
)  # fmt: skip


def rules_to_score(which: str, headline: str, n_samples: int) -> tuple[str, ...]:
    """Names of the rules to score by, strict and flexible first; ``math_verify`` where its package is installed."""
    if which == "both" or (which == "auto" and n_samples > MANY):
        return DEFAULT_RULES if headline in DEFAULT_RULES else (*DEFAULT_RULES, headline)
    return tuple(name for name in RULES if name != "math_verify" or find_spec("math_verify"))


def score(problem: Problem, sample: Sample, rules: Sequence[str] = DEFAULT_RULES) -> list[Score]:
    """One score a rule. Pure: the same problem, text and rules give the same scores for ever."""
    if sample.error is not None:
        return [Score(problem.id, sample.sample_index, rule, None, None) for rule in rules]
    read = {rule: verdict(sample.text, problem.answer, rule, sample.finish_reason) for rule in rules}
    return [Score(problem.id, sample.sample_index, rule, *made) for rule, made in read.items()]


def score_all(
    problems: Sequence[Problem], samples: Iterable[Sample], rules: Sequence[str] = DEFAULT_RULES
) -> list[Score]:
    """Scores of all samples whose problem is among ``problems``, in the order of the problems."""
    places = {problem.id: place for place, problem in enumerate(problems)}
    known = [sample for sample in samples if sample.problem_id in places]
    ordered = sorted(known, key=lambda sample: (places[sample.problem_id], sample.sample_index))
    return [read for sample in ordered for read in score(problems[places[sample.problem_id]], sample, rules)]


class StaleScores(RunError):
    """The stored scores are not of the run's samples by today's rules: 03_score makes them anew."""


def score_run(run: Run, config: RunConfig, problems: Sequence[Problem]) -> list[Score]:
    """Score every sample that the parameters ask for and write ``scores.jsonl``. The texts are never touched.

    The manifest keeps what the scores were made from: hashes of problems and samples, the rules and their version.
    """
    samples = wanted_samples(run, config, problems)
    basis = basis_of(run, config, problems, samples)
    scores = score_all(problems, samples, basis["rules"])
    file = run.write_records("scores.jsonl", scores)
    run.update_manifest(scored=basis | {"scores_sha256": sha256_of(file)})
    return scores


def stored_scores(run: Run, basis: dict[str, Any]) -> list[Score]:
    """The scores on disk. StaleScores, which says why, where they were not made from ``basis``."""
    file = run.folder / "scores.jsonl"
    recorded = run.read_json("manifest.json").get("scored") or {}
    now = basis | {"scores_sha256": sha256_of(file)}
    for name, reason in STALE.items():
        same = name in recorded if name == "package" else recorded.get(name) == now[name]
        if file.exists() and not same:
            raise StaleScores(f"{run.folder.name}/scores.jsonl was {reason}: run 03_score again")
    return run.read_records(file.name, Score)


def basis_of(run: Run, config: RunConfig, problems: Sequence[Problem], samples: Sequence[Sample]) -> dict[str, Any]:
    """What scores are made from, and by: all that the scores of these samples depend on."""
    digest, values = hashlib.sha256(), attrgetter(*(field.name for field in fields(Sample)))
    for sample in samples:
        digest.update(repr(values(sample)).encode())
    return {
        "package": __version__,
        "rules": list(rules_to_score(config.rules, headline_rule(config, run.inputs()), len(samples))),
        "rules_version": rules_version(),
        "problems_sha256": sha256_of(problems),
        "samples_sha256": digest.hexdigest(),
    }


@functools.cache
def rules_version() -> str:
    """Eight hex digits that change when the code or the data of the answer rules does, or Math-Verify's version."""
    digest = hashlib.sha256()
    files = resources.files("gsm8k_nb").joinpath("answers").iterdir()
    for file in sorted((file for file in files if file.name.endswith((".py", ".toml"))), key=lambda file: file.name):
        digest.update(file.read_bytes())
    if find_spec("math_verify"):
        digest.update(metadata.version("math-verify").encode())
    return digest.hexdigest()[:8]


def wanted_samples(run: Run, config: RunConfig, problems: Sequence[Problem]) -> list[Sample]:
    """The run's samples for these parameters, in order. RunError where some were never asked for, or were lost since.

    A dry run, or one that a budget ended, has samples that were not asked for on purpose: they count as failed.
    """
    check_problems(run, config, problems)
    journal, recorded = run.journal(), run.read_json("manifest.json")
    if journal.samples and not recorded:
        raise RunError(f"{run.folder.name} has no manifest.json, which says how it was sampled: run 02_sample again")
    if lost := max(0, (recorded.get("samples") or {}).get("completed", 0) - journal.completed):
        raise RunError(
            f"{run.folder.name}/samples.jsonl has lost {lost} completions since they were sampled (deleted or "
            "changed): run 02_sample again"
        )
    wanted = [(problem.id, index) for problem in problems for index in range(config.n_samples)]
    missing = [key for key in wanted if key not in journal.samples]
    if missing and not config.dry_run and config.budget is None:
        raise RunError(f"{run.folder.name} lacks {len(missing)} of {len(wanted)} samples: run 02_sample first")
    samples = [journal.samples.get(key) or Sample(*key, text=None, error=NOT_ASKED) for key in wanted]
    return samples if config.answer_from == "text" else [_from_reasoning(sample) for sample in samples]


def _from_reasoning(sample: Sample) -> Sample:
    """A sample whose answer is read from its reasoning, where it has no text beside it."""
    return replace(sample, text=sample.reasoning) if sample.reasoning and not (sample.text or "").strip() else sample


def check_problems(run: Run, config: RunConfig, problems: Sequence[Problem]) -> None:
    """RunError where these are not the problems stored, or were chosen otherwise than these parameters say."""
    run.check_problems(problems)
    stored, total = run.read_json("config.json"), run.inputs().data_problems or len(problems)
    if (stored.get("limit"), stored.get("shuffle")) == (config.limit, config.shuffle):
        return
    wanted = total if config.limit is None else min(config.limit, total)
    if len(problems) != wanted or (wanted < total and stored.get("shuffle") != config.shuffle):
        raise RunError(
            f"{run.folder.name}/problems.jsonl has {len(problems)} problems, these parameters ask for {wanted}"
            f"{' drawn at random' if config.shuffle else ''}: run 01_load and the steps after it again"
        )


def frame(
    problems: Sequence[Problem], samples: Iterable[Sample], scores: Iterable[Score], run: str = ""
) -> pd.DataFrame:
    """The tidy table: a row for each (problem, sample, rule), with all that tables and figures need.

    Columns: run, problem_id, sample_index, rule, predicted (text or None), correct (True, False or None where the
    request failed), failure (why the rule could not be applied, or None), steps, gold, text, finish_reason, error,
    prompt_tokens, completion_tokens, seconds, reasoning, reasoning_tokens.
    """
    of_sample = attrgetter(*_OF_SAMPLE)
    by_problem = {problem.id: (steps(problem), str(problem.answer)) for problem in problems}
    by_sample = {(sample.problem_id, sample.sample_index): of_sample(sample) for sample in samples}
    rows = []
    for score in scores:
        key = (score.problem_id, score.sample_index)
        predicted = None if score.predicted is None else str(score.predicted)
        read = (run, *key, score.rule, predicted, score.correct, score.failure)
        rows.append((*read, *by_problem[score.problem_id], *by_sample[key]))
    columns = ["run", "problem_id", "sample_index", "rule", "predicted", "correct", "failure", "steps", "gold"]
    # As objects: pandas would turn a None among texts into NaN.
    table = pd.DataFrame(rows, columns=[*columns, *_OF_SAMPLE], dtype=object)
    return table.astype({"sample_index": int, "steps": int})


def steps(problem: Problem) -> int:
    """Length of the gold solution in lines before ``####``, a step each (2 to 11 in GSM8K's test split)."""
    return sum(bool(line.strip()) and not line.startswith("####") for line in problem.solution.split("\n"))
