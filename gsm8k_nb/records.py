"""The three records that flow through a run, and their JSON rows.

One of each, as it stands in a run folder:

    Problem  {"id": "test-0000", "question": "Janet's ...", "solution": "Janet sells ...", "answer": "18"}
    Sample   {"problem_id": "test-0000", "sample_index": 0, "text": "She sells 9 ... #### 18", "finish_reason": "stop",
              "error": null, "prompt_tokens": 812, "completion_tokens": 64, "seconds": 0.61, "reasoning": null}
    Score    {"problem_id": "test-0000", "sample_index": 0, "rule": "strict", "predicted": "18", "correct": true}
"""

import math
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One word problem. ``id`` is its row in the official file (``test-0000``); ``answer`` its gold number."""

    id: str
    question: str
    solution: str
    answer: Decimal


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion of one problem.

    ``finish_reason`` is ``stop`` (the model or a stop string ended it), ``length`` (the token limit did) or what a
    server says. ``error`` is set where the request failed: such a sample has no text, is never scored, and is
    asked for again. ``seconds`` is the time of its batch divided by the batch's size. ``reasoning`` is what a server
    hands over apart from the answer; it is kept and never scored. Tokens are as billed: where one request brings
    several samples, its prompt is counted with the first.
    """

    problem_id: str
    sample_index: int
    text: str | None
    finish_reason: str | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict of one rule on one sample.

    ``predicted`` is None where no answer was found, which is wrong. ``correct`` is None where the request failed: the
    sample is unscored and counted apart. ``failure`` names the error where the rule itself failed on the text: it read
    no answer.
    """

    problem_id: str
    sample_index: int
    rule: str
    predicted: Decimal | None
    correct: bool | None
    failure: str | None = None


_DECIMAL_FIELDS = {"answer", "predicted"}
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "question", "solution", "problem_id", "rule"), (str,)),
    **dict.fromkeys(("text", "finish_reason", "error", "reasoning", "failure"), (str, NoneType)),
    **dict.fromkeys(("prompt_tokens", "completion_tokens"), (int, NoneType)),
    "sample_index": (int,),
    "seconds": (int, float, NoneType),
    "correct": (bool, NoneType),
}


def to_row(record: Problem | Sample | Score) -> dict[str, Any]:
    """A record as a dict of JSON values: numbers that were read from text are written as text, digit for digit."""
    row = asdict(record)
    return {key: str(value) if isinstance(value, Decimal) else value for key, value in row.items()}


def from_row(kind: type, row: dict[str, Any]):
    """The record of ``kind`` that a JSON row describes. ValueError names an unknown, missing or malformed field."""
    if not isinstance(row, dict):
        raise ValueError(f"a {kind.__name__} row must be a JSON object, got {type(row).__name__}")
    names = [field.name for field in fields(kind)]
    unknown = sorted(set(row) - set(names))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r} in a {kind.__name__} row; known: {', '.join(names)}")
    for name in set(row) & set(_TYPES):
        _check_type(kind, name, row[name])
    values = dict(row)
    for name in _DECIMAL_FIELDS & set(row):
        values[name] = None if row[name] is None else _decimal(name, row[name])
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"a {kind.__name__} row lacks a field: {error}") from error


def _check_type(kind: type, name: str, value: Any) -> None:
    allowed = _TYPES[name]
    odd = isinstance(value, bool) and bool not in allowed or isinstance(value, float) and not math.isfinite(value)
    if odd or not isinstance(value, allowed):
        wanted = " or ".join("null" if one is NoneType else one.__name__ for one in allowed)
        raise ValueError(f"field {name!r} of a {kind.__name__} row must be {wanted}, got {str(value)[:60]!r}")


def _decimal(name: str, text: Any) -> Decimal:
    try:
        return Decimal(str(text))
    except InvalidOperation as error:
        raise ValueError(f"field {name!r} must be a number, got {text!r}") from error
