"""Lesson 6: the same word problem with other numbers, its gold answer worked out again, and models that memorise.

A problem of the classroom set, and what `renumber` makes of it (its solution is then the bare calculations):

    The album has 46 pages with 15 pockets on each page ... 38 pockets are empty.   46*15=690, 690-38=652   #### 652
    The album has 37 pages with 26 pockets on each page ... 51 pockets are empty.   37*26=962, 962-51=911   #### 911

The annotations say how the answer follows from the numbers. That is trusted only where each number of an annotation
has exactly one origin: the question, an earlier step, a word of the question ("half") or a unit (60 minutes). All other
problems are refused, and the reason is said: a wrong gold answer would look like a model's failure.
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
from IPython.display import HTML

from gsm8k_nb.answers import judge
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons.prompting import complete
from gsm8k_nb.lessons.show import DATA, chances, share
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting.html import escape

NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
SMALLEST = 3  # 1 and 2 are rarely free: one of them, a pair, there and back
FEW = 13  # a number below this that is used twice may be two quantities of one size: 5 changes of 5 minutes
FEWEST_CHANGED = 2
TRIES = 1500
# What around a number of the question says that it is part of a name, time, fraction, order or choice.
_FIXED_BEFORE = re.compile(r"([\w/:.-]|\b[Aa]n?\s)\$?$")
_FIXED_AFTER = re.compile(r"[/:%]|\.\d|\s?(percent|[ap]\.?m\b)|(st|nd|rd|th)\b|,? (and )?\d|,? or ")


class Refused(ValueError):
    """A problem that cannot be renumbered safely, and the reason."""

    def __init__(self, problem: Problem, reason: str) -> None:
        super().__init__(f"{problem.id} cannot be renumbered: {reason}")
        self.reason = reason


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
        if len(chosen) < FEWEST_CHANGED:
            continue
        new = {value: Fraction(int(rng.choice(_candidates(int(value))))) for value in chosen}
        steps = _recomputed(problem, new)
        order = [new.get(value, value) for value in asked]  # a larger box stays larger
        if steps and order == sorted(set(order)) and steps[-1][1] != problem.answer:
            answer = _text(steps[-1][1])
            lines = [f"{text} = <<{text}={_text(value)}>>{_text(value)}" for text, value in steps]
            return replace(
                problem,
                id=f"{problem.id}-r{seed}",
                question=replace_numbers(problem.question, new),
                solution="\n".join([*lines, f"#### {answer}"]),
                answer=Decimal(answer),
            )
    raise Refused(problem, "no other numbers were found that give whole answers")


def replace_numbers(text: str, new: Mapping[Any, int | Fraction]) -> str:
    """The text with each number that is a key of ``new`` replaced, all at once; it keeps commas and other numbers."""

    def other(match: re.Match) -> str:
        value = new.get(evaluate(match[0]))
        return match[0] if value is None else _text(Fraction(value), "," if "," in match[0] else "")

    return NUMBER.sub(other, text)


def renumber_all(problems: Sequence[Problem], seed: int = 0) -> tuple[list[Problem], list[Problem], pd.DataFrame]:
    """(originals, their renumbered versions, why the others were refused): the lists are aligned."""
    originals, versions, refused = [], [], []
    for problem in problems:
        try:
            versions.append(renumber(problem, seed))
            originals.append(problem)
        except Refused as error:
            refused.append(error.reason)
    counts = pd.Series(refused, dtype=str).value_counts().rename_axis("reason").to_frame("problems")
    return originals, versions, counts


def marked(original: Problem, version: Problem) -> HTML:
    """Both questions, one above the other, with the numbers that changed in bold, and both answers."""
    old, new = (re.split(f"({NUMBER.pattern})", problem.question) for problem in (original, version))
    blocks = []
    for name, problem, pieces in (("original", original, old), ("renumbered", version, new)):
        text = [
            f"<b>{escape(piece)}</b>" if a != b else escape(piece) for piece, a, b in zip(pieces, old, new, strict=True)
        ]
        blocks.append(f"<p><i>{name}</i>, gold answer {problem.answer}</p><p>{''.join(text)}</p>")
    return HTML("".join(blocks))


def simulate(n_problems: int, skill: float, memorised: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of an imagined model on originals and on their renumbered versions: two arrays (problems,) of 0 and 1.

    It knows the share ``memorised`` of the originals by heart, and solves any other problem with chance ``skill`` on
    average, a twin as often as its original. The numbers do not matter to its skill; to a real model's they may.
    """
    rng = np.random.default_rng(seed)
    solves, known = chances(skill, n_problems, rng), rng.random(n_problems) < share("memorised", memorised)
    original = known | (rng.random(n_problems) < solves)
    return original.astype(int), (rng.random(n_problems) < solves).astype(int)


def ask(config: RunConfig, problems: Sequence[Problem]) -> np.ndarray:
    """Verdicts (problems,) of one greedy completion each, read by ``flexible``; from disk where it was asked before."""
    samples = complete(config, prompt_for(config, list(problems)), problems, chat=True)
    pairs = zip(samples, problems, strict=True)
    return np.array([judge(sample.text, problem.answer, "flexible")[1] for sample, problem in pairs], dtype=int)


# ---- what may change, and to what


def _free_numbers(problem: Problem) -> list[Fraction]:
    """The values in the question that may be changed. Refused where the way from them to the answer is not certain."""
    steps = [(expression, evaluate(value)) for expression, value in annotations(problem.solution)]
    if not steps or any(value is None or evaluate(expression) != value for expression, value in steps):
        raise Refused(problem, "an annotation is missing or does not compute")
    results = [Fraction(value) for _, value in steps if value is not None]
    if results[-1] != problem.answer or min(results) <= 0:
        raise Refused(problem, "a step or the answer is not a positive number of its own annotation")
    asked, known = Counter(_numbers(problem.question)), _known(problem.question)
    used = Counter(number for expression, _ in steps for number in _numbers(expression))
    for place, (expression, _) in enumerate(steps):
        for number in _numbers(expression):
            origins = results[:place].count(number) + (number in asked or number in known)
            if origins > 1:
                raise Refused(problem, "a number of the solution could come from two places")
            if not origins:
                raise Refused(problem, "a number of the solution is not in the question")
    if any(used[value] > count and value < FEW and value not in known for value, count in asked.items()):
        raise Refused(problem, "a small number is used more than once")
    if not all(value in used or value in known or value == 1 for value in asked):
        # It may repeat others: after 10 weeks and 12 more, "those 22 weeks".
        raise Refused(problem, "a number of the question has no part in the solution")
    if not all(value in used or value == results[-1] for value in results):
        raise Refused(problem, "a step is not used by a later one")
    fixed = {*results, *known, *_fixed_numbers(problem.question)}
    free = [value for value, count in asked.items() if count == used[value] == 1 and value not in fixed]
    if len(free) < FEWEST_CHANGED:
        raise Refused(problem, "fewer than two of its numbers can be changed")
    return free


def _numbers(text: str) -> list[Fraction]:
    return [Fraction(number.replace(",", "")) for number in NUMBER.findall(text)]


def _fixed_numbers(question: str) -> list[Fraction]:
    """The numbers that are small, have decimals, or stand where the text around them leaves no choice."""
    return [
        value
        for match, value in zip(NUMBER.finditer(question), _numbers(question), strict=True)
        if value < SMALLEST
        or "." in match[0]
        or _FIXED_BEFORE.search(question[: match.start()])
        or _FIXED_AFTER.match(question[match.end() :])
    ]


def _known(question: str) -> set[Fraction]:
    """Numbers that words, units, percentages and fractions of the question can put into a calculation."""
    text = question.lower()
    words = (numbers for words, numbers in DATA["words"].items() if re.search(rf"\b({words})\b", text))
    known = {Fraction(number) for numbers in words for number in numbers}
    for percent in map(Fraction, re.findall(r"(\d+)(?:%| percent)", text)):
        known |= {Fraction(100), 100 - percent, 100 + percent, percent}
    for top, bottom in re.findall(r"(\d+)/(\d+)", text):
        known |= {Fraction(top), Fraction(bottom), Fraction(bottom) - Fraction(top)}
    return known


def _candidates(value: int) -> list[int]:
    """Whole numbers like ``value``: as many digits, at least as many final zeros, between half and twice of it."""
    digits = str(value)
    step, largest = 10 ** (len(digits) - len(digits.rstrip("0"))), 10 ** len(digits) - 1
    low, high = max(largest // 10 + 1, (value + 1) // 2), min(2 * value, largest)
    if value < 10:
        low, high = SMALLEST, 9
    return [n for n in range(-(-low // step) * step, high + 1, step) if n != value]


def _recomputed(problem: Problem, new: dict[Fraction, Fraction]) -> list[tuple[str, Fraction]] | None:
    """The steps with the new numbers, or None where one is no longer whole or positive as it was, or has 3 decimals."""
    mapping, steps = dict(new), []
    for expression, stated in annotations(problem.solution):
        text, old = replace_numbers(expression, mapping), Fraction(evaluate(stated) or 0)
        value = evaluate(text)
        if value is None or value <= 0 or (old.denominator == 1) != (value.denominator == 1):
            return None
        if 100 % value.denominator:
            return None
        mapping[old] = value
        steps.append((text, value))
    return steps


def _text(value: Fraction, comma: str = "") -> str:
    """A number of at most a few decimals, without an exponent."""
    return f"{Decimal(value.numerator) / value.denominator:{comma}f}"
