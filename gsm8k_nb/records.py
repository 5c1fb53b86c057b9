"""The three records that flow through a run, and their JSON rows, as they stand in a run folder:

Problem  {"id": "test-0000", "question": "Janet's ...", "solution": "Janet sells ...", "answer": "18"}
Sample   {"problem_id": "test-0000", "sample_index": 0, "text": "She sells 9 ... #### 18", "finish_reason": "stop"}
Score    {"problem_id": "test-0000", "sample_index": 0, "rule": "strict", "predicted": "18", "correct": true, ...}
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, InstanceOf, Strict, StrictBool, StrictInt, TypeAdapter, ValidationError

Record = TypeVar("Record", "Problem", "Sample", "Score")
Text = InstanceOf[str]  # with halves of surrogate pairs too, which a model can write
_FORM = ConfigDict(extra="forbid", allow_inf_nan=False)
_CHECK = ', "check": "'


@dataclass(frozen=True, slots=True)
class Problem:
    """One word problem. ``id`` is its row in the official file (``test-0000``); ``answer`` its gold number."""

    __pydantic_config__ = _FORM

    id: Text
    question: Text
    solution: Text
    answer: Decimal


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion of one problem.

    ``finish_reason`` is ``stop`` (the model or a stop string ended it), ``length`` (the token limit did) or what a
    server says. ``error`` is set where the request failed: such a sample has no text, is never scored, and is asked for
    again. ``seconds`` is its share of its batch's time. ``reasoning`` is kept apart from the answer, and is not
    scored unless the run says so; ``reasoning_tokens`` of the completion's are its.
    Tokens are as billed: where one request brings several samples, its prompt is counted with the first.
    """

    __pydantic_config__ = _FORM

    problem_id: Text
    sample_index: StrictInt
    text: Text | None
    finish_reason: Text | None = None
    error: Text | None = None
    prompt_tokens: StrictInt | None = None
    completion_tokens: StrictInt | None = None
    seconds: Annotated[float, Strict()] | None = None
    reasoning: Text | None = None
    reasoning_tokens: StrictInt | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict of one rule on one sample.

    ``predicted`` is None where no answer was found, which is wrong; ``failure`` says why, where the rule could not be
    applied to the text. ``correct`` is None where the request failed: the sample is unscored and counted apart.
    """

    __pydantic_config__ = _FORM

    problem_id: Text
    sample_index: StrictInt
    rule: Text
    predicted: Decimal | None
    correct: StrictBool | None
    failure: Text | None = None


def to_row(record: Problem | Sample | Score) -> dict[str, Any]:
    """A record as a dict of JSON values: numbers that were read from text are written as text, digit for digit."""
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in values}


def from_row(kind: type[Record], row: Any) -> Record:
    """The record of ``kind`` that a JSON row describes. ValueError names an unknown, missing or malformed field."""
    if not isinstance(row, dict):
        raise ValueError(f"a {kind.__name__} row must be a JSON object, got {type(row).__name__}")
    try:
        return _ADAPTERS[kind].validate_python(row)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    known = [field.name for field in fields(kind)]
    if unknown := sorted(row.keys() - set(known)):
        raise ValueError(f"unknown field {unknown[0]!r} in a {kind.__name__} row; known: {', '.join(known)}")
    name, wrong = fault["loc"][0], fault["msg"].replace("Input", "it")
    if fault["type"] == "missing":
        raise ValueError(f"a {kind.__name__} row lacks a field: {name}")
    raise ValueError(f"field {name!r} of a {kind.__name__} row: {wrong}, got {repr(row[name])[:60]}")


_ADAPTERS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Problem, Sample, Score)}


def parse_json(text: str | bytes) -> Any:
    """A JSON value. ValueError where the text is none; also where it is nested too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_lines(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Of JSON Lines, each line's number and value, blank ones apart. ValueError names the first line that is none."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except ValueError as error:
                raise ValueError(f"line {number}: not valid JSON ({error})") from None


def parse_records(kind: type[Record], lines: Iterable[str]) -> Iterator[Record]:
    """The records of JSON Lines. ValueError names the first line that is none."""
    for number, row in parse_lines(lines):
        try:
            yield from_row(kind, row)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def as_lines(records: Iterable[Problem | Score]) -> str:
    """Records as JSON Lines."""
    return "".join(json.dumps(to_row(record)) + "\n" for record in records)


def journal_row(sample: Sample, run_id: str) -> str:
    """A sample as a line of a run's journal: its row with a check at the end. One that no row can hold has failed."""
    try:
        row = json.dumps(to_row(from_row(Sample, to_row(sample))))
    except ValueError as error:
        reason = f"what came cannot be stored: {error}"
        row = json.dumps(to_row(Sample(str(sample.problem_id), int(sample.sample_index), None, error=reason)))
    return f'{row[:-1]}{_CHECK}{_check(row, run_id)}"}}\n'


def without_check(line: str, run_id: str) -> str:
    """A journal's row without its check. ValueError where the two do not agree: it was changed, or is another run's.

    Rows of version 0.1.0 and of other tools have no check, and without a ``run_id`` none is compared.
    """
    head, mark, check = line.rstrip().rpartition(_CHECK)
    row = head + "}" if mark else line
    if mark and run_id and check != _check(row, run_id) + '"}':
        raise ValueError("the row was changed after it was written, or is another run's")
    return row


def _check(row: str, run_id: str) -> str:
    return hashlib.blake2b(row.encode(), key=run_id.encode()[-64:], digest_size=4).hexdigest()
