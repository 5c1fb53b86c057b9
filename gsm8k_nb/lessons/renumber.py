"""Lesson 6: the same word problem with other numbers, its gold answer worked out again, and models that memorise.

A problem of the classroom set, and what `renumber` makes of it (its solution is then the bare calculations):

    The album has 46 pages with 15 pockets on each page ... 38 pockets are empty.   46*15=690, 690-38=652   #### 652
    The album has 37 pages with 26 pockets on each page ... 51 pockets are empty.   37*26=962, 962-51=911   #### 911

The annotations say how the answer follows from the numbers. That is trusted only where each number of an annotation
has exactly one origin: the question, an earlier step, a word of the question ("half") or a unit (60 minutes). All other
problems are refused by `refusal`, which says why: a wrong gold answer would look like a model's failure.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from gsm8k_nb import stats
from gsm8k_nb.answers import judge
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons.prompting import complete
from gsm8k_nb.lessons.show import DATA, share
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting.html import escape
from gsm8k_nb.texts import p_number

NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
SMALLEST = 3  # 1 and 2 are rarely free: one of them, a pair, there and back
FEW = 13  # a number below this that is used twice may be two quantities of one size: 5 changes of 5 minutes
FEWEST_CHANGED = 2
TRIES = 1500

_WORDS: dict[str, list[str]] = DATA["words"]  # what a word of the question can put into a calculation


@dataclass(frozen=True)
class _Place:
    """A number in a question: where it stands, its value, and whether the text around it leaves it free."""

    start: int
    end: int
    value: Fraction
    free: bool


def refusal(problem: Problem) -> str | None:
    """Why a problem cannot be renumbered safely, or None where it can."""
    return _examine(problem)[1]


def renumber(problem: Problem, seed: int = 0) -> Problem:
    """The problem with at least two numbers changed and its answer recomputed; its id ends in ``-r`` and the seed.

    New numbers have as many digits and final zeros as the old ones, lie between half and twice of them, and keep the
    question's numbers in order of size. What was whole stays whole and what was positive stays positive, at every step.
    ValueError where ``refusal`` has a reason, or where no such numbers were found.
    """
    values, reason = _examine(problem)
    if reason:
        raise ValueError(f"{problem.id} cannot be renumbered: {reason}; see refusal()")
    rng = np.random.default_rng([seed, int.from_bytes(problem.id.encode()) % 2**32])
    for _ in range(TRIES):
        chosen = [value for value in values if rng.random() < 0.75]
        if len(chosen) < FEWEST_CHANGED:
            continue
        new = {value: Fraction(int(rng.choice(_candidates(int(value))))) for value in chosen}
        steps = _recomputed(problem, new)
        if steps and _keeps_order(problem.question, new) and steps[-1][1] != _fraction(str(problem.answer)):
            return _written(problem, new, steps, seed)
    raise ValueError(f"{problem.id} cannot be renumbered: no other numbers were found that give whole answers")


def replace_numbers(text: str, new: Mapping[Any, int | Fraction]) -> str:
    """The text with each number that is a key of ``new`` replaced, all at once; other numbers stay as written."""

    def other(match: re.Match) -> str:
        value = new.get(_fraction(match[0]))
        return match[0] if value is None else _text(Fraction(value))

    return NUMBER.sub(other, text)


def renumber_all(problems: Sequence[Problem], seed: int = 0) -> tuple[list[Problem], list[Problem], pd.DataFrame]:
    """(originals, their renumbered versions, why the others were refused): the lists are aligned."""
    originals, versions, refused = [], [], []
    for problem in problems:
        try:
            versions.append(renumber(problem, seed))
            originals.append(problem)
        except ValueError as error:
            refused.append(str(error).partition("cannot be renumbered: ")[2].partition("; see")[0])
    counts = pd.Series(refused, dtype=str).value_counts().rename_axis("reason").to_frame("problems")
    return originals, versions, counts


def marked(original: Problem, version: Problem) -> HTML:
    """Both questions, one above the other, with the numbers that changed in bold, and both answers."""
    old, new = NUMBER.findall(original.question), NUMBER.findall(version.question)
    changed = [a != b for a, b in zip(old, new, strict=True)]
    blocks = []
    for name, one in (("original", original), ("renumbered", version)):
        pieces, start = [], 0
        for place, differs in zip(NUMBER.finditer(one.question), changed, strict=True):
            number = escape(place[0])
            pieces += [escape(one.question[start : place.start()]), f"<b>{number}</b>" if differs else number]
            start = place.end()
        text = "".join(pieces) + escape(one.question[start:])
        blocks.append(f"<p><i>{name}</i>, gold answer {one.answer}</p><pre style='white-space: pre-wrap'>{text}</pre>")
    return HTML("".join(blocks))


def simulate(n_problems: int, skill: float, memorised: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of an imagined model on originals and on their renumbered versions: two arrays (problems,) of 0 and 1.

    It knows the share ``memorised`` of the originals by heart, and solves any other problem with chance ``skill`` on
    average: some problems are hard for it and some easy, a twin as much as its original (Beta(2 skill, 2 (1 - skill))).
    The numbers do not matter to its skill; to a real model's they may.
    """
    rng = np.random.default_rng(seed)
    inside = np.clip(share("skill", skill), 0.001, 0.999)
    chances = rng.beta(2 * inside, 2 * (1 - inside), size=n_problems)
    known = rng.random(n_problems) < share("memorised", memorised)
    original = known | (rng.random(n_problems) < chances)
    return original.astype(int), (rng.random(n_problems) < chances).astype(int)


def ask(config: RunConfig, problems: Sequence[Problem]) -> np.ndarray:
    """Verdicts (problems,) of one greedy completion each, read by ``flexible``; from disk where it was asked before."""
    form = prompt_for(config, list(problems))
    samples = complete(config, form, problems, chat=True)
    verdicts = [judge(one.text, problem.answer, "flexible")[1] for one, problem in zip(samples, problems, strict=True)]
    return np.array(verdicts, dtype=int)


def drop_table(original: np.ndarray, renumbered: np.ndarray) -> pd.DataFrame:
    """Accuracy on originals and on renumbered versions of the same problems, and the paired drop, in points."""
    if not len(original):
        return pd.DataFrame({"problems": [0], "drop, points": ["nothing was asked"]}).set_index("problems")
    found = stats.compare(original, renumbered)
    row = {
        "problems": found.n_problems,
        "originals, %": f"{100 * np.mean(original):.1f}",
        "renumbered, %": f"{100 * np.mean(renumbered):.1f}",
        "drop, points": f"{100 * found.difference:+.1f}",
        "95% interval": f"{100 * found.low:.1f} to {100 * found.high:.1f}",
        "only the original right": found.only_a,
        "only the renumbered right": found.only_b,
        "p, McNemar": p_number(found.p),
    }
    return pd.DataFrame([row]).set_index("problems")


# ---- what may change


def _examine(problem: Problem) -> tuple[list[Fraction], str | None]:
    """The values of the question that may be changed, and the reason where the problem is refused."""
    steps = [(expression, evaluate(value)) for expression, value in annotations(problem.solution)]
    if not steps or any(evaluate(expression) != value for expression, value in steps):
        return [], "an annotation is missing or does not compute"
    if steps[-1][1] != _fraction(str(problem.answer)) or any(value is None or value <= 0 for _, value in steps):
        return [], "a step or the answer is not a positive number of its own annotation"
    places = _places(problem.question)
    asked = Counter(place.value for place in places)
    used = Counter(number for expression, _ in steps for number in _numbers(expression))
    known = _known(problem.question)
    reason = _origin_problem(steps, asked, used, known)
    if reason:
        return [], reason
    results = {value for _, value in steps}
    values = [
        place.value
        for place in places
        if place.free and asked[place.value] == used[place.value] == 1 and place.value not in results | known
    ]
    return values, None if len(values) >= FEWEST_CHANGED else "fewer than two of its numbers can be changed"


def _origin_problem(steps, asked: Counter, used: Counter, known: set[Fraction]) -> str | None:
    """Why some number of the annotations has no single origin, or None where each has one."""
    results: list[Fraction] = []
    for expression, value in steps:
        for number in _numbers(expression):
            if number in results and (number in asked or number in known or results.count(number) > 1):
                return "a number of the solution could come from two places"
            if number not in results and number not in asked and number not in known:
                return "a number of the solution is not in the question"
        results.append(value)
    if any(used[value] > count and value < FEW and value not in known for value, count in asked.items()):
        return "a small number is used more than once"
    if not all(value in used or value in known or value == 1 for value in asked):
        return "a number of the question has no part in the solution"  # it may repeat others: 10 and 12 weeks, those 22
    if not all(value in used or value == results[-1] for value in results):
        return "a step is not used by a later one"
    return None


def _places(question: str) -> list[_Place]:
    places = []
    for match in NUMBER.finditer(question):
        before, after = question[: match.start()], question[match.end() :]
        fixed = re.search(r"([\w/:.-]|\b[Aa]n?\s)\$?$", before) or re.match(
            r"[/:%]|\.\d|\s?(percent|[ap]\.?m\b)|(st|nd|rd|th)\b|,? (and )?\d|,? or ", after
        )
        value = _fraction(match[0])
        free = not fixed and value >= SMALLEST and "." not in match[0]
        places.append(_Place(match.start(), match.end(), value, free))
    return places


def _known(question: str) -> set[Fraction]:
    """Numbers that words, units, percentages and fractions of the question can put into a calculation."""
    text = question.lower()
    known = {Fraction(n) for words, numbers in _WORDS.items() if re.search(rf"\b({words})\b", text) for n in numbers}
    for percent in re.findall(r"(\d+)(?:%| percent)", text):
        known |= {Fraction(100), 100 - Fraction(percent), 100 + Fraction(percent), Fraction(percent)}
    for top, bottom in re.findall(r"(\d+)/(\d+)", text):
        known |= {Fraction(top), Fraction(bottom), Fraction(bottom) - Fraction(top)}
    return known


# ---- new numbers


def _candidates(value: int) -> list[int]:
    """Whole numbers like ``value``: as many digits, at least as many final zeros, between half and twice of it."""
    step = 10 ** (len(str(value)) - len(str(value).rstrip("0")))
    low, high = max(SMALLEST, (value + 1) // 2), min(2 * value, 10 ** len(str(value)) - 1)
    if value < 10:
        low, high = SMALLEST, 9
    return [n for n in range(-(-low // step) * step, high + 1, step) if n != value and n >= 10 ** (len(str(value)) - 1)]


def _recomputed(problem: Problem, new: dict[Fraction, Fraction]) -> list[tuple[str, Fraction]] | None:
    """The steps with the new numbers, or None where one of them is no longer whole or positive as it was."""
    mapping, steps = dict(new), []
    for expression, stated in annotations(problem.solution):
        old = _fraction(stated)
        text = replace_numbers(expression, mapping)
        value = evaluate(text)
        if value is None or value <= 0 or (old.denominator == 1) != (value.denominator == 1) or not _short(value):
            return None
        mapping[old] = value
        steps.append((text, value))
    return steps


def _keeps_order(question: str, new: dict[Fraction, Fraction]) -> bool:
    """Whether the question's numbers stay different and in the same order of size: a larger box stays larger."""
    old = sorted({place.value for place in _places(question)})
    values = [new.get(value, value) for value in old]
    return all(a < b for a, b in zip(values, values[1:], strict=False))


def _written(problem: Problem, new: dict[Fraction, Fraction], steps: list[tuple[str, Fraction]], seed: int) -> Problem:
    question = problem.question
    for place in reversed(_places(question)):
        if place.value in new:
            old = question[place.start : place.end]
            number = f"{int(new[place.value]):,}" if "," in old else str(int(new[place.value]))
            question = question[: place.start] + number + question[place.end :]
    lines = [f"{text} = <<{text}={_text(value)}>>{_text(value)}" for text, value in steps]
    answer = _text(steps[-1][1])
    solution = "\n".join([*lines, f"#### {answer}"])
    return replace(problem, id=f"{problem.id}-r{seed}", question=question, solution=solution, answer=Decimal(answer))


def _numbers(expression: str) -> list[Fraction]:
    return [_fraction(number) for number in NUMBER.findall(expression)]


def _fraction(text: str) -> Fraction:
    """A number as it is written. ValueError where it is none."""
    value = evaluate(text)
    if value is None:
        raise ValueError(f"{text!r} is no number")
    return value


def _short(value: Fraction) -> bool:
    """Whether a value has at most two decimals."""
    return (value * 100).denominator == 1


def _text(value: Fraction) -> str:
    """A number of at most a few decimals, without an exponent."""
    return str(int(value)) if value.denominator == 1 else str(Decimal(value.numerator) / Decimal(value.denominator))
