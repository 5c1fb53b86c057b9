"""The three records that flow through a run, and their JSON rows.

One of each, as it stands in a run folder:

    Problem  {"id": "test-0000", "question": "Janet's ...", "solution": "Janet sells ...", "answer": "18"}
    Sample   {"problem_id": "test-0000", "sample_index": 0, "text": "She sells 9 ... #### 18", "finish_reason": "stop",
              "error": null, "prompt_tokens": 812, "completion_tokens": 64, "seconds": 0.61, "reasoning": null}
    Score    {"problem_id": "test-0000", "sample_index": 0, "rule": "strict", "predicted": "18", "correct": true,
              "failure": null}
"""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar, get_args, get_type_hints

Record = TypeVar("Record", "Problem", "Sample", "Score")


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

    ``predicted`` is None where no answer was found, which is wrong; ``failure`` says why, where the rule could not be
    applied to the text. ``correct`` is None where the request failed: the sample is unscored and counted apart.
    """

    problem_id: str
    sample_index: int
    rule: str
    predicted: Decimal | None
    correct: bool | None
    failure: str | None = None


def to_row(record: Problem | Sample | Score) -> dict[str, Any]:
    """A record as a dict of JSON values: numbers that were read from text are written as text, digit for digit."""
    values = ((name, getattr(record, name)) for name in _types(type(record))[0])
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in values}


def from_row(kind: type[Record], row: Any) -> Record:
    """The record of ``kind`` that a JSON row describes. ValueError names an unknown, missing or malformed field."""
    if not isinstance(row, dict):
        raise ValueError(f"a {kind.__name__} row must be a JSON object, got {type(row).__name__}")
    types, needed = _types(kind)
    if unknown := sorted(row.keys() - types.keys()):
        raise ValueError(f"unknown field {unknown[0]!r} in a {kind.__name__} row; known: {', '.join(types)}")
    values = {name: _checked(kind, name, value, types[name]) for name, value in row.items()}
    if not needed <= row.keys():
        raise ValueError(f"a {kind.__name__} row lacks a field: {', '.join(sorted(needed - row.keys()))}")
    return kind(**values)


def _checked(kind: type, name: str, value: Any, allowed: tuple[type, ...]) -> Any:
    if type(value) in allowed and not (type(value) is float and not math.isfinite(value)):
        return value
    if Decimal in allowed and type(value) in (str, int, float):
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            raise ValueError(f"field {name!r} must be a number, got {value!r}") from None
        if number.is_finite():
            return number
    if float in allowed and type(value) is int:
        return value
    wanted = " or ".join("null" if one is type(None) else one.__name__ for one in allowed)
    raise ValueError(f"field {name!r} of a {kind.__name__} row must be {wanted}, got {str(value)[:60]!r}")


def _types_of(kind: type) -> tuple[dict[str, tuple[type, ...]], set[str]]:
    """The types that each field of a record may have, and the fields that a row must have."""
    types = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}
    return types, {field.name for field in fields(kind) if field.default is MISSING}


def parse_json(text: str | bytes) -> Any:
    """A JSON value. ValueError where the text is none; also where it is nested too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_lines(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Of JSON Lines, each line's number and its value, or the ValueError that says why it has none; no blank ones."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except ValueError as error:
                yield number, ValueError(f"not valid JSON ({error})")


def parse_records(kind: type[Record], lines: Iterable[str]) -> Iterator[Record]:
    """The records of JSON Lines. ValueError names the first line that is none."""
    for number, row in parse_lines(lines):
        try:
            if isinstance(row, ValueError):
                raise row
            yield from_row(kind, row)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def journal_row(sample: Sample, run_id: str) -> str:
    """A sample as a line of a run's journal: its row with a check at the end. One that no row can hold has failed."""
    try:
        row = json.dumps(to_row(from_row(Sample, to_row(sample))))
    except ValueError as error:
        failed = Sample(
            str(sample.problem_id), int(sample.sample_index), None, error=f"what came cannot be stored: {error}"
        )
        row = json.dumps(to_row(failed))
    return f'{row[:-1]}{_CHECK}{_check(row, run_id)}"}}\n'


def journal_sample(line: str, run_id: str) -> Sample:
    """The sample of a line of a run's journal. ValueError where the line was cut or changed, or is another run's."""
    return from_row(Sample, parse_json(without_check(line, run_id)))


def without_check(line: str, run_id: str) -> str:
    """A journal's row without its check. ValueError where the two do not agree: it was changed, or is another run's.

    Rows of version 0.1.0 and of other tools have no check and are taken as they are; where ``run_id`` is empty, the
    rows are no run's and nothing is compared.
    """
    head, mark, check = line.rstrip().rpartition(_CHECK)
    row = head + "}" if mark else line
    if mark and run_id and check != _check(row, run_id) + '"}':
        raise ValueError("the row was changed after it was written, or is another run's")
    return row


_CHECK = ', "check": "'


def _check(row: str, run_id: str) -> str:
    return hashlib.blake2b(row.encode(), key=run_id.encode()[-64:], digest_size=4).hexdigest()


_types: Callable[[type], tuple[dict[str, tuple[type, ...]], set[str]]] = functools.cache(_types_of)
