"""Verdicts: each rule on each sample, and the one tidy table that every result is made from.

    Score(problem_id="test-0000", sample_index=0, rule="strict", predicted=Decimal("18"), correct=True)

No answer found is wrong; a failed request is neither right nor wrong. A rule that fails on a text has read no answer
from it, and the score says why.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

import pandas as pd

from gsm8k_nb.answers import RULES, verdict
from gsm8k_nb.records import Problem, Sample, Score

DEFAULT_RULES = ("strict", "flexible")
MANY = 20_000  # completions, above which only the default rules are scored unless all are asked for


def rules_to_score(which: str, headline: str, n_samples: int) -> tuple[str, ...]:
    """Names of the rules to score by, strict and flexible first: ``both``, ``all``, or ``auto`` by the samples' number.

    ``math_verify`` is among them where its package is installed.
    """
    if which == "both" or (which == "auto" and n_samples > MANY):
        return DEFAULT_RULES if headline in DEFAULT_RULES else (*DEFAULT_RULES, headline)
    return tuple(name for name in RULES if name != "math_verify" or find_spec("math_verify"))


def score(problem: Problem, sample: Sample, rules: Sequence[str] = DEFAULT_RULES) -> list[Score]:
    """One score a rule. Pure: the same problem, text and rules give the same scores for ever."""
    if sample.error is not None:
        return [Score(problem.id, sample.sample_index, rule, None, None) for rule in rules]
    scores = []
    for rule in rules:
        read = verdict(sample.text, problem.answer, rule, sample.finish_reason)
        scores.append(Score(problem.id, sample.sample_index, rule, read.predicted, read.correct, read.failure))
    return scores


def score_all(
    problems: Sequence[Problem], samples: Iterable[Sample], rules: Sequence[str] = DEFAULT_RULES
) -> list[Score]:
    """Scores of all samples whose problem is among ``problems``, in the order of the problems."""
    by_problem: dict[str, list[Sample]] = {problem.id: [] for problem in problems}
    for sample in samples:
        if sample.problem_id in by_problem:
            by_problem[sample.problem_id].append(sample)
    scores = []
    for problem in problems:
        for sample in sorted(by_problem[problem.id], key=lambda one: one.sample_index):
            scores += score(problem, sample, rules)
    return scores


def frame(
    problems: Sequence[Problem], samples: Iterable[Sample], scores: Iterable[Score], run: str = ""
) -> pd.DataFrame:
    """The tidy table: a row for each (problem, sample, rule), with all that tables and figures need.

    Columns: run, problem_id, sample_index, rule, predicted (text or None), correct (True, False or None where the
    request failed), failure (why the rule could not be applied, or None), steps, gold, text, finish_reason, error,
    prompt_tokens, completion_tokens, seconds.
    """
    by_id = {problem.id: problem for problem in problems}
    found = {(sample.problem_id, sample.sample_index): sample for sample in samples}
    rows = []
    for one in scores:
        problem, sample = by_id[one.problem_id], found[one.problem_id, one.sample_index]
        rows.append(
            {
                "run": run,
                "problem_id": one.problem_id,
                "sample_index": one.sample_index,
                "rule": one.rule,
                "predicted": None if one.predicted is None else str(one.predicted),
                "correct": one.correct,
                "failure": one.failure,
                "steps": steps(problem),
                "gold": str(problem.answer),
                "text": sample.text,
                "finish_reason": sample.finish_reason,
                "error": sample.error,
                "prompt_tokens": sample.prompt_tokens,
                "completion_tokens": sample.completion_tokens,
                "seconds": sample.seconds,
            }
        )
    # As objects: pandas would turn a None among texts into NaN.
    return pd.DataFrame(rows, columns=_COLUMNS, dtype=object).astype({"sample_index": int, "steps": int})


def steps(problem: Problem) -> int:
    """Length of the gold solution in lines before ``####``, a step each (2 to 11 in GSM8K's test split)."""
    return sum(bool(line.strip()) and not line.startswith("####") for line in problem.solution.split("\n"))


_COLUMNS = [
    "run", "problem_id", "sample_index", "rule", "predicted", "correct", "failure", "steps", "gold", "text",
    "finish_reason", "error", "prompt_tokens", "completion_tokens", "seconds",
]  # fmt: skip
