"""Why a wrong answer is wrong: what can be told from the text, the gold solution and the question alone.

    "5 * 12 = 50, and 50 / 4 = 12.5. A: 12.5"     wrong_calculation   5 * 12 = 50, but it is 60
    "He needs 5 * 12 = 60 in all. A: 60"          one_step_short      60 is an intermediate value of the gold solution

Judged are equations of bare numbers in prose (``3 * 4 = 13``, ``$3 x 4 = $13``, ``a = b = c``, simple LaTeX) and
``<<3*4=13>>`` annotations, by the calculator's parser: nothing is evaluated as code. Rounding and cutting off at the
digits shown are no fault. A wrong reading of the problem cannot be seen: most wrong answers are ``other``.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import pandas as pd

from gsm8k_nb.answers import TOLERANCE
from gsm8k_nb.answers.calculator import ANNOTATION, evaluate, without_annotations
from gsm8k_nb.places import own_table
from gsm8k_nb.records import Problem, Sample

LONGEST = 50_000  # characters of a text, at its end, in which calculations are looked for
_DATA = own_table("mistakes.toml")
KINDS = {kind: facts["meaning"] for kind, facts in _DATA["kinds"].items()}  # in order of precedence
PRECISION = {kind: (facts["right"], facts["checked"]) for kind, facts in _DATA["kinds"].items() if "checked" in facts}
_FACTORS = {int(factor): re.compile(words, re.IGNORECASE) for factor, words in _DATA["factors"].items()}
_PARTS: dict[str, str] = {}
for _name, _pattern in _DATA["patterns"].items():
    _PARTS[_name] = re.sub(r"%\{(\w+)\}", lambda part: f"(?:{_PARTS[part[1]]})", "".join(_pattern))
_PATTERN = SimpleNamespace(**{name: re.compile(pattern) for name, pattern in _PARTS.items()})
_SPELLINGS = [(re.compile(pattern), plain) for pattern, plain in _DATA["spellings"].items()]


@dataclass(frozen=True, slots=True)
class Calculation:
    """One ``left = right`` of a text: what left comes to, what right says, and whether they differ."""

    left: str
    right: str
    value: Fraction
    stated: Fraction
    wrong: bool


def calculations(text: str) -> Iterator[Calculation]:
    """Every calculation that can be read in a text, line by line: those in prose, then the annotations of that line."""
    return itertools.chain.from_iterable(map(_of_line, text[-LONGEST:].splitlines()[len(text) > LONGEST :]))


@functools.lru_cache(maxsize=2**12)  # every sample of a problem is compared with the same solution
def _of_line(line: str) -> tuple[Calculation, ...]:
    made: list[Calculation] = []
    prose = re.sub(r"<<[^<>]*>>", " ", line)
    if "=" in prose:
        for pattern, replacement in _SPELLINGS:
            prose = pattern.sub(replacement, prose)
        for chain in _PATTERN.chain.finditer(prose):
            made += _of_chain(prose, chain)
    for expression, stated in ANNOTATION.findall(line):
        made += _compare(expression.strip(), stated.strip())
    return tuple(made)


def _of_chain(line: str, chain: re.Match[str]) -> Iterator[Calculation]:
    """The equations of ``a = b = c``: the first where a sentence may begin with it, the last where nothing goes on."""
    sides = [side.strip() for side in chain[0].split("=")]
    before = line[max(0, chain.start() - 200) : chain.start()]
    names_an_amount = not _PATTERN.operator.search(sides[0]) or re.fullmatch(r"\d/\d\d?", sides[0])  # 1/4 = 15
    if names_an_amount or not _PATTERN.before.search(before) or _PATTERN.partial.search(before):
        sides = sides[1:]
    if not _PATTERN.after.match(line, chain.end()):
        sides = sides[:-1]
    for left, right in itertools.pairwise(sides):
        yield from _compare(_balanced(left), _balanced(right))


def _balanced(side: str) -> str:
    """A side without the brackets that open before the equation or close behind it: ``(3 + 4`` of ``(3 + 4 = 7)``."""
    surplus = side.count("(") - side.count(")")
    if surplus > 0 and side.startswith("(" * surplus):
        return side[surplus:]
    return side[:surplus] if surplus < 0 and side.endswith(")" * -surplus) else side


def _compare(left: str, right: str) -> Iterator[Calculation]:
    """The calculation ``left = right``; nothing where there is nothing to calculate or a side cannot be read."""
    value, stated = evaluate(left), evaluate(right)
    if value is None or stated is None or not (_PATTERN.operator.search(left) or _PATTERN.operator.search(right)):
        return
    wrong = not any(_agree(*reading, right) for reading in _readings(left, right, value, stated))
    yield Calculation(left, right, value, stated, wrong)


def _readings(
    left: str, right: str, value: Fraction, stated: Fraction
) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
    """Both sides and the size of one in the last digit shown: as written, 1/4 as one number, percent at face value."""
    shown = _PATTERN.number.search(right)
    unit = Fraction(1, 10 ** len(shown[0].partition(".")[2])) if shown else Fraction(1)
    fine = unit / 100 if right.endswith("%") else unit
    yield value, stated, fine
    if raised := _PATTERN.raised.fullmatch(left):  # 80 + 50%, for 50% more than 80
        base, percent = evaluate(raised[1]) or Fraction(0), evaluate(raised[3]) or Fraction(0)
        yield base * (1 + (percent if raised[2] == "+" else -percent)), stated, unit
    whole_left, whole_right = (evaluate(_PATTERN.fraction.sub(r"(\g<0>)", side)) for side in (left, right))
    if whole_left is not None and whole_right is not None:
        yield whole_left, whole_right, fine
    left_face, right_face = evaluate(left.replace("%", "")), evaluate(right.replace("%", ""))
    if "%" in left + right and left_face is not None and right_face is not None:
        yield from ((left_face, right_face, unit), (value, right_face, unit), (value * 100, right_face, unit))


def _agree(value: Fraction, stated: Fraction, unit: Fraction, right: str) -> bool:
    """Whether the sides are equal, up to floating point and to rounding or cutting off at the digits shown."""
    if abs(value - stated) <= (abs(value) + 1) / 10**14:
        return True
    if _PATTERN.operator.search(
        right
    ):  # a rewritten right side may hold rounded numbers, or run on: 3 + 4 = 7 * 2 = 14
        first = _PATTERN.number.search(right)
        return abs(value - stated) <= abs(value) / 100 or (first is not None and value == evaluate(first[0]))
    if stated == 0 and unit == 1:
        return False  # a quarter is not 0
    beyond = abs(value) - abs(stated) if value * stated >= 0 else Fraction(-1)
    cut = (unit < 1 or abs(value) >= 1) and 0 < beyond < unit  # further digits, or the fraction of 24.8 people
    return cut or abs(value - stated) <= unit / 2


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Why one wrong answer is wrong: the primary kind, every kind that holds (in order of precedence), a sentence."""

    problem_id: str
    sample_index: int
    kind: str
    kinds: tuple[str, ...]
    detail: str


def classify(problem: Problem, sample: Sample, predicted: Decimal | None) -> ErrorReport:
    """The kinds of error of one wrong answer; ``predicted`` is the number a rule read from it, None where it read none.

    The primary kind is the first of ``KINDS`` that holds and is not likely to be chance. ValueError where the sample
    failed (it is unscored) or belongs to another problem.
    """
    if sample.problem_id != problem.id:
        raise ValueError(f"the sample answers {sample.problem_id}, not {problem.id}")
    if sample.error is not None or sample.text is None:
        raise ValueError(f"sample {sample.sample_index} of {problem.id} failed: it is unscored, not wrong")
    if predicted is not None and not predicted.is_finite():
        raise ValueError(f"predicted must be a finite number or None, got {predicted}")
    # A number whose digits alone would cost time is none that a problem can have.
    value = None if predicted is None or abs(predicted.adjusted()) > 100 else Fraction(predicted)
    if value is not None and abs(value - Fraction(problem.answer)) < Fraction(TOLERANCE):
        evidence = {"spelling": (True, f"{predicted} is {problem.answer}")}  # wrong under a rule that compares texts
    else:
        made = list(calculations(sample.text))
        evidence = _of_the_text(sample, predicted, made)
        if value is not None:
            evidence |= _of_the_number(problem, sample.text, value, made)
    kinds = [kind for kind in KINDS if kind in evidence]
    primary = next((kind for kind in kinds if evidence[kind][0]), "other")
    if primary == "other":
        kinds.append("other")
    _, detail = evidence.get(primary, (True, KINDS["other"]))
    return ErrorReport(problem.id, sample.sample_index, primary, tuple(kinds), detail)


_Evidence = dict[str, tuple[bool, str]]  # kind -> (whether it is not likely to be chance, what was found)


def _of_the_text(sample: Sample, predicted: Decimal | None, made: list[Calculation]) -> _Evidence:
    evidence: _Evidence = {}
    text = sample.text or ""
    if sample.finish_reason == "length":
        truncated = not _PATTERN.stated.search(text)
    else:  # where no finish reason was recorded, a text that ends in mid-expression
        truncated = sample.finish_reason is predicted is None and bool(_PATTERN.unfinished.search(text.rstrip()))
    if truncated:
        evidence["truncated"] = (True, f"the text ends after {len(text)} characters without an answer")
    if predicted is None:
        evidence["no_answer"] = (True, KINDS["no_answer"])
    if wrong := next((calculation for calculation in made if calculation.wrong), None):
        evidence["wrong_calculation"] = (True, f"{wrong.left} = {wrong.right}, but it is {_shown(wrong.value)}")
    return evidence


def _of_the_number(problem: Problem, text: str, value: Fraction, made: list[Calculation]) -> _Evidence:
    """A relation is likely to be chance where the text gets to the number by a calculation that gold does not have."""
    gold, shown, steps = Fraction(problem.answer), _shown(value), list(calculations(problem.solution))
    evidence: _Evidence = {}
    results = {result for calculation in made for result in _results(calculation)}
    way = {result for step in steps for result in _results(step)} - {gold}
    last = set(_results(made[-1])) if made else set()

    def as_gold_does(number: Fraction) -> bool:
        """Whether the text does not calculate the value, or last from numbers that gold gets ``number`` from."""
        return value not in results or bool(_operands_of(value, made[-2:]) & _operands_of(number, steps))

    if gold and value == -gold:
        evidence["sign"] = (as_gold_does(gold), f"{shown} is the gold answer with the other sign")
    if value in way:
        evidence["one_step_short"] = (as_gold_does(value), f"{shown} is an intermediate value of the gold solution")
    if gold in results:
        goes_on = gold not in last and (not way or bool(way & results))
        likely = goes_on and bool(_operands_of(gold, made) & _operands_of(gold, steps[-2:]))
        evidence["one_step_long"] = (likely, f"the text calculates {_shown(gold)}, the gold answer, and goes on")
    asked = {evaluate(number) for number in _PATTERN.number.findall(problem.question)}
    if factor := next((f for f in _FACTORS if gold and (value == gold * f or value * f == gold)), None):
        named = factor in asked or Fraction(1, factor) in asked or bool(_FACTORS[factor].search(problem.question))
        one_digit = len(str(abs(gold.numerator)).rstrip("0")) == 1
        relation = "times" if abs(value) > abs(gold) else "divided by"
        likely = named or not one_digit or gold in last
        evidence["factor"] = (likely, f"{shown} is the gold answer {relation} {factor}")
    if value in asked:
        evidence["copied"] = (not _is_worked_out(value, text, results), f"{shown} is a number of the question")
    return evidence


def _results(calculation: Calculation) -> tuple[Fraction, ...]:
    """What a calculation says it comes to; 40% is 0.4 and, as an answer, 40."""
    return (calculation.stated, calculation.stated * 100) if "%" in calculation.right else (calculation.stated,)


def _operands_of(value: Fraction, made: list[Calculation]) -> set[tuple[Fraction, ...]]:
    """The numbers of each calculation that comes to a value; where two texts share none, both may do so by chance."""
    to_it = (calculation.left for calculation in made if value in _results(calculation))
    return {tuple(sorted(evaluate(number) or Fraction(0) for number in _PATTERN.value.findall(left))) for left in to_it}


def _is_worked_out(value: Fraction, text: str, results: set[Fraction]) -> bool:
    """Whether the text gets to a number by a calculation, by solving for x, or by cutting 16.4 or 22,500 short."""
    cut = {abs(result) for result in results} | {Fraction(abs(result) // 1) for result in results}
    leading = {str(abs(result) // 1)[: len(_shown(value))] for result in results}
    solved = {evaluate(number) for number in _PATTERN.solved.findall(without_annotations(text))}
    return value in cut or _shown(value) in leading or value in solved


def _shown(number: Fraction) -> str:
    return f"{float(number):.10g}" if abs(number) < 10**15 else "a number of more than 15 digits"


def error_table(reports: Iterable[ErrorReport], *, examples: int = 3) -> pd.DataFrame:
    """One row a kind, in order of precedence, kinds that never occur included; empty where there is no report.

    Columns: ``kind``; ``count`` and ``share`` of the reports whose primary kind it is; ``flagged``, the reports in
    which it holds at all; ``examples``, the first ids as problem/sample; ``precision`` in the hand check; ``meaning``.
    """
    reports = list(reports)
    flagged = Counter(kind for report in reports for kind in report.kinds)
    rows = []
    for kind, meaning in KINDS.items() if reports else ():
        ids = [f"{report.problem_id}/{report.sample_index}" for report in reports if report.kind == kind]
        precision = "{} of {}".format(*PRECISION[kind]) if kind in PRECISION else "not measured"
        share, shown = len(ids) / len(reports), ", ".join(ids[:examples])
        rows.append((kind, len(ids), share, flagged[kind], shown, precision, meaning))
    return pd.DataFrame(rows, columns=["kind", "count", "share", "flagged", "examples", "precision", "meaning"])
