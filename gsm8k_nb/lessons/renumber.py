"""Lesson 6: the same word problem with other numbers, and its gold answer worked out again.

A problem of the classroom set, and what `renumber` makes of it (its solution is then the bare calculations):

    The album has 46 pages with 15 pockets on each page ... 38 pockets are empty.   46*15=690, 690-38=652   #### 652
    The album has 37 pages with 26 pockets on each page ... 51 pockets are empty.   37*26=962, 962-51=911   #### 911

The annotations say how the answer follows from the numbers. That is trusted only where each number of an annotation
has exactly one origin: the question, an earlier step, or what words and units bring along (a pair, 60 minutes). All
other problems are refused, and the reason is said: a wrong gold answer would look like a model's failure.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.records import Problem

NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
CONSTANTS = {Fraction(number) for number in ("0.5", 1, 2, 3, 4, 7, 12, 24, 60, 100, 1000)}  # never changed
FEW = 13  # a number below this that is used twice may be two quantities of one size: 5 changes of 5 minutes
FEWEST_CHANGED = 2
TRIES = 1500
# What around a number of the question says that it is part of a name, time, fraction, order or choice.
_BOUND_BEFORE = re.compile(r"([\w/:.-]|\b[Aa]n?\s)\$?$")
_BOUND_AFTER = re.compile(r"[/:%]|\.\d|\s?(percent|[ap]\.?m\b)|(st|nd|rd|th)\b|,? (and )?\d|,? or ")


class Refused(ValueError):
    """A problem that cannot be renumbered safely, and the reason."""


def renumber(problem: Problem, seed: int = 0) -> Problem:
    """The problem with at least two numbers changed and its answer recomputed; its id ends in ``-r`` and the seed.

    New numbers have as many digits and final zeros as the old ones, lie between half and twice of them, and keep the
    question's numbers in order of size. What was whole stays whole and what was positive stays positive, at every step.
    Refused where an answer would not be certain, or where no such numbers were found.
    """
    free, asked = _free_numbers(problem), sorted(set(_numbers(problem.question)))
    rng = np.random.default_rng([seed, int.from_bytes(problem.id.encode()) % 2**32])
    for _ in range(TRIES):
        chosen = [value for value in free if rng.random() < 0.75]
        new = {value: Fraction(int(rng.choice(_alike(int(value))))) for value in chosen}
        order = [new.get(value, value) for value in asked]  # a larger box stays larger
        steps = _recomputed(problem.solution, new)
        if len(new) < FEWEST_CHANGED or order != sorted(set(order)) or not steps or steps[-1][1] == problem.answer:
            continue
        lines = [f"{text} = <<{text}={_text(value)}>>{_text(value)}" for text, value in steps]
        answer = _text(steps[-1][1])
        question, solution = replace_numbers(problem.question, new), "\n".join([*lines, f"#### {answer}"])
        return replace(
            problem, id=f"{problem.id}-r{seed}", question=question, solution=solution, answer=Decimal(answer)
        )
    raise Refused("no other numbers were found that give whole answers")


def twins(problems: Sequence[Problem], seed: int = 0) -> pd.DataFrame:
    """A row a problem: ``original``, and its ``twin`` or why it was ``refused``."""
    rows: list[tuple[Problem, Problem | None, str | None]] = []
    for problem in problems:
        try:
            rows.append((problem, renumber(problem, seed), None))
        except Refused as error:
            rows.append((problem, None, str(error)))
    return pd.DataFrame(rows, columns=["original", "twin", "refused"])


def replace_numbers(text: str, new: Mapping[Any, int | Fraction]) -> str:
    """The text with each number that is a key of ``new`` replaced, all at once; it keeps commas and other numbers."""
    numbers = {Fraction(old): Fraction(value) for old, value in new.items()}

    def other(match: re.Match[str]) -> str:
        value = numbers.get(_numbers(match[0])[0])
        return match[0] if value is None else _text(value, "," if "," in match[0] else "")

    return NUMBER.sub(other, text)


def _free_numbers(problem: Problem) -> list[Fraction]:
    """The values in the question that may be changed. Refused where the way from them to the answer is not certain."""
    steps, asked = annotations(problem.solution), Counter(_numbers(problem.question))
    results = [evaluate(value) or Fraction(0) for _, value in steps]
    if not steps or any(evaluate(left) != right or right <= 0 for (left, _), right in zip(steps, results, strict=True)):
        raise Refused("an annotation is missing, does not compute or is not positive")
    parts = [_numbers(expression) for expression, _ in steps]
    used = Counter(number for part in parts for number in part)
    origins = [
        results[:place].count(number) + (number in asked or number in CONSTANTS)
        for place, part in enumerate(parts)
        for number in part
    ]
    if max(origins) > 1 or any(used[n] > asked[n] for n in asked if n < FEW and n not in CONSTANTS):
        raise Refused("a number of the solution could come from two places")
    if not min(origins):
        raise Refused("a number of the solution is not in the question")
    if results[-1] != problem.answer or not {*asked, *results[:-1]} <= {*used, *CONSTANTS}:
        # A number may repeat others: after 10 weeks and 12 more, "those 22 weeks".
        raise Refused("a number of the question or a step has no part in the answer")
    fixed = CONSTANTS | {*results, *_bound_numbers(problem.question)}
    free = [value for value, count in asked.items() if count == used[value] == 1 and value not in fixed]
    if len(free) < FEWEST_CHANGED:
        raise Refused("fewer than two of its numbers can be changed")
    return free


def _numbers(text: str) -> list[Fraction]:
    return [Fraction(number.replace(",", "")) for number in NUMBER.findall(text)]


def _bound_numbers(question: str) -> list[Fraction]:
    """The numbers that have decimals, or stand where the text around them leaves no choice."""
    return [
        value
        for match, value in zip(NUMBER.finditer(question), _numbers(question), strict=True)
        if "." in match[0]
        or _BOUND_BEFORE.search(question[: match.start()])
        or _BOUND_AFTER.match(question[match.end() :])
    ]


def _alike(value: int) -> list[int]:
    """Whole numbers like ``value``: as many digits, at least as many final zeros, between half and twice of it."""
    digits = str(value)
    step, smallest = 10 ** (len(digits) - len(digits.rstrip("0"))), max(3, 10 ** (len(digits) - 1) + 1)
    numbers = range(step, min(2 * value, 10 ** len(digits) - 1) + 1, step)
    return [n for n in numbers if n >= max(smallest, value / 2) and n != value]


def _recomputed(solution: str, new: Mapping[Fraction, Fraction]) -> list[tuple[str, Fraction]] | None:
    """The steps with the new numbers, or None where one is no longer whole or positive as it was, or has 3 decimals."""
    known, steps = dict(new), []
    for expression, stated in annotations(solution):
        text, old = replace_numbers(expression, known), evaluate(stated) or Fraction(0)
        value = evaluate(text)
        if value is None or value <= 0 or (old.denominator == 1) != (value.denominator == 1) or 100 % value.denominator:
            return None
        known[old] = value
        steps.append((text, value))
    return steps


def _text(value: Fraction, comma: str = "") -> str:
    """A number of at most a few decimals, without an exponent."""
    return f"{Decimal(value.numerator) / value.denominator:{comma}f}"
