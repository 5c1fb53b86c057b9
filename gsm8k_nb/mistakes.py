"""Why a wrong answer is wrong: what can be told from the text, the gold solution and the question alone.

For the problem whose gold solution runs 5 * 12 = 60, 60 / 4 = 15 (answer 15):

    "5 * 12 = 50, and 50 / 4 = 12.5. A: 12.5"     wrong_calculation   5 * 12 = 50, but it is 60
    "He needs 5 * 12 = 60 in all. A: 60"          one_step_short      60 is an intermediate value of the gold solution

**Kinds and precedence.** ``KINDS`` lists them in order. A report keeps every kind that holds; the primary one is the
first that is not likely to be chance. A relation between numbers counts as chance, and is kept as a flag only, where
the text gets to the number by a calculation that the gold solution does not have (``sign``, ``one_step_short``,
``one_step_long``), where it calculates a number that also stands in the question (``copied``), or where the gold
answer has one significant digit and the question names no 10, 100, 1000, percentage or such unit (``factor``).

**What it can detect.** Equations in prose (``3 * 4 = 13``, ``3 x $4 = $13``, ``a = b = c``, simple LaTeX) and
``<<3*4=13>>`` annotations, checked by the calculator's parser: never evaluated as code. Rounding and cutting off at
the digits shown are no fault, nor is percent at face value. What cannot be read for sure is left alone: variables,
powers, "dozen" and the like, two units of one kind (hours and minutes, dollars and cents), an equation in the middle
of a longer sum. Of OpenAI's released wrong solutions it reads 83% of the equal signs in prose and 99% of the
annotations. Of 53,049 calculations in the gold solutions of both splits it calls 33 false, of which it misread five;
the others are slips of the authors. It cannot see a wrong reading of the problem, a wrong operation or a step left
out: most wrong answers are ``other``.

**How precise it is.** The primary label of 60 wrong solutions that OpenAI released was checked by reading them: a
seeded draw in strata, made after the faults found in three earlier draws had been mended (22 of the 60 had come up in
those too, most of them of small kinds). Right were: truncated 2 of 2, no_answer 3 of 3, wrong_calculation 15 of 15,
sign 4 of 4, one_step_short 9 of 12, one_step_long 8 of 8, factor 5 of 7, copied 3 of 3, other 6 of 6. A wrong
calculation is right where the equation is false as printed; in five of them it is a slip of writing, beside an
annotation that is true. These solutions record no finish reason, so ``truncated`` was checked only on texts that end
in mid-expression. The small kinds are small there: ``sign`` has 5 in all, ``copied`` 3.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pandas as pd

from gsm8k_nb.answers.calculator import ANNOTATION, evaluate, without_annotations
from gsm8k_nb.records import Problem, Sample

TOLERANCE = Fraction(1, 10**6)
KINDS = {  # in order of precedence
    "truncated": "the token limit cut the text before it stated an answer",
    "no_answer": "no answer was read from the text",
    "spelling": "the gold answer, in a spelling that the rule does not take for it (18.00 for 18)",
    "wrong_calculation": "an equation or annotation in the text is false",
    "sign": "the gold answer with the other sign",
    "one_step_short": "an intermediate value of the gold solution, at which the text stops",
    "one_step_long": "the text calculates the gold answer as the gold solution does, and goes on to another",
    "factor": "the gold answer times or divided by 10, 100 or 1000",
    "copied": "a number of the question that the text does not calculate",
    "other": "none of these: in most cases the wrong operation, or a condition that was overlooked",
}
FACTORS = (10, 100, 1000)
_FACTOR_WORDS = {
    10: re.compile(r"\bten\b|\btenth", re.IGNORECASE),
    100: re.compile(r"%|\bpercent|\bcents?\b|\bhundred|\bcentimet|\bcm\b", re.IGNORECASE),
    1000: re.compile(r"\bthousand|\bkilo|\bmilli(?!on)|\bk[gm]\b|\bm[lm]\b", re.IGNORECASE),
}
HAND_CHECK_SEED = 4
PRECISION = {  # primary labels that were right, of those checked by hand: see the module's docstring
    "truncated": (2, 2),
    "no_answer": (3, 3),
    "wrong_calculation": (15, 15),
    "sign": (4, 4),
    "one_step_short": (9, 12),
    "one_step_long": (8, 8),
    "factor": (5, 7),
    "copied": (3, 3),
    "other": (6, 6),
}


@dataclass(frozen=True, slots=True)
class Calculation:
    """One ``left = right`` of a text: what left comes to, what right says, and whether they differ."""

    left: str
    right: str
    value: Fraction
    stated: Fraction
    wrong: bool


# ---- reading calculations

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_SPELLINGS = [
    (re.compile(r"\\[dt]?frac\{([^{}\n]{1,40})\}\{([^{}\n]{1,40})\}"), r"((\1)/(\2))"),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])"), " * "),
    (re.compile(r"\\div(?![A-Za-z])"), " / "),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|boxed)\{([^{}\n]{0,60})\}"), r" \1 "),
    (re.compile(r"\\(?:left|right|[][(),;! ])"), " "),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"&\s?=|\bequals\b"), "="),
    (re.compile(r"\\\\(?=\s|$)"), " "),  # a new line in LaTeX
    (re.compile(r"\*\*"), " "),  # bold; a power is then two numbers side by side, which is no expression
    (re.compile(r"(?<=\d)\s?(?:percent|per cent)\b"), "%"),
    (re.compile(r"\bmultiplied by\b"), "times"),
    (re.compile(r"\bdivided by\b"), "over"),
    (re.compile(r"(?<=[A-Za-z\d])\s?/\s?(?=[A-Za-z])"), " per "),  # minutes/hour
    (re.compile(r"(?<=\d)-(?=[A-Za-z])"), " "),  # a 6-ounce steak
    (re.compile(r"(?<=\d)(?:\.{2,5}|…)"), ""),  # 8.33...
    (re.compile(r"^\s*[-*•]\s+"), ""),  # the mark of a list
]
_TOKEN = re.compile(
    rf"(?P<n>(?:{_NUMBER})%?)|(?P<w>[^\W\d_]+(?:['’-][^\W\d_]+)*)|(?P<e>=)|(?P<m>[-+−–])|(?P<o>[*/×÷·])|(?P<p>[()])"
    r"|(?P<c>[$€£¥¢₹])|(?P<b>[,.;:!?\"“”\[\]—])|(?P<s>\s+)|(?P<u>.)"
)
_RAISED = re.compile(rf"({_NUMBER})\s?([+-])\s?((?:{_NUMBER})%)")
_FRACTION = re.compile(rf"(?:{_NUMBER})/(?:{_NUMBER})")  # written without spaces
_TERM = r"(?:\({0,3}m)?\({0,3}nw{0,4}\){0,3}"  # each token has one place, so a failing match gives up at once
_EXPRESSION = rf"{_TERM}(?:[mo]{_TERM}){{0,16}}"
_CHAIN = re.compile(rf"{_EXPRESSION}(?:e{_EXPRESSION}){{1,8}}")
_WORDED = {"times": ("o", "*"), "over": ("o", "/"), "of": ("o", "*"), "plus": ("m", "+"), "minus": ("m", "-")}
_SYMBOLS = {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"}
# an expression after one of these is only part of what the sentence calculates
_PARTIAL = {
    "of", "times", "by", "twice", "half", "double", "triple", "thrice", "than", "over", "less", "more", "fewer", "plus",
    "minus", "mod", "choose",
}  # fmt: skip
# after one of these, a number that follows another amount belongs to it: 24 eggs in 1 tray x 2
_LINKS = {"and", "in", "per", "for", "on", "each", "every"}
_CLAUSE = {"is", "are", "was", "were", "be", "so", "because", "then", "therefore", "thus", "since"}  # never a unit
_SCALES = re.compile(
    r"(?:dozen|hundred|thousand|[mbtr]+illion|half|halve|third|quarter|fourth|fifth|tenth|pair|couple|ratio)s?"
    r"|squared?|cubed?|doubled|tripled|halved|factorial",
    re.IGNORECASE,
)
_FAMILIES = [
    "second minute hour day week weekend month year decade century sec min hr hrs",
    "inch foot yard mile meter metre centimeter cm km kilometer mm in ft",
    "dollar cent penny nickel dime quarter buck",
    "ounce pound gram kilogram kg ton lb oz",
    "milliliter liter litre cup quart gallon pint ml tablespoon teaspoon",
]
_IRREGULAR = {"feet": "foot", "inches": "inch", "pennies": "penny", "centuries": "century"}
_FAMILY = {unit: (family, unit) for family, units in enumerate(_FAMILIES) for unit in units.split()}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    spaced: bool  # whether a space stands before it
    money: str = ""  # the unit of a currency sign before it


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an equation: its arithmetic without units, numbers and operators; the words of units, and money."""

    text: str
    numbers: tuple[str, ...]
    operators: str
    words: tuple[str, ...]
    money: tuple[str, ...]
    worded: bool

    @property
    def is_quantity(self) -> bool:
        """Whether it may name an amount rather than calculate: ``5 people``, ``1/2 a cup``."""
        return not self.operators or (bool(self.words) and bool(_FRACTION.fullmatch(self.text)))


def calculations(text: str) -> Iterator[Calculation]:
    """Every calculation that can be read in a text, line by line: those in prose, then the annotations of that line."""
    for line in text.splitlines():
        yield from _prose(ANNOTATION.sub(" ", line))
        for expression, stated in ANNOTATION.findall(line):
            found = _compare(_plain(expression), _plain(stated))
            if found:
                yield found


def first_wrong_calculation(text: str) -> Calculation | None:
    """The first calculation of a text whose sides differ by more than rounding to the digits shown, or None."""
    return next((found for found in calculations(text) if found.wrong), None)


def _plain(expression: str) -> _Side:
    numbers = tuple(re.findall(rf"(?:{_NUMBER})%?", expression))
    operators = "".join(re.findall(r"(?<=[\d.)%])\s*([-+*/x×÷])", expression))
    return _Side(expression.strip(), numbers, operators, (), (), False)


def _prose(line: str) -> Iterator[Calculation]:
    tokens = _tokens(line)
    kinds = "".join(token.kind for token in tokens)
    for match in _CHAIN.finditer(kinds):
        sides = _sides(tokens, match)
        for left, right in zip(sides, sides[1:], strict=False):
            if left and right and not (left is sides[0] and left.is_quantity) and _comparable(left, right):
                found = _compare(left, right)
                if found:
                    yield found


def _tokens(line: str) -> list[_Token]:
    for pattern, replacement in _SPELLINGS:
        line = pattern.sub(replacement, line)
    tokens: list[_Token] = []
    spaced, money = True, ""
    for match in _TOKEN.finditer(line):
        kind, text = match.lastgroup, match.group()
        if kind == "s":
            spaced = True
        elif kind == "c":
            money = "cent" if text == "¢" else "dollar"
        else:
            kind = text if kind == "p" else kind
            glued = bool(tokens) and not spaced
            if text in ",:" and glued and tokens[-1].kind == "n" and line[match.end() : match.end() + 1].isdigit():
                kind = "u"  # 7:50, 13,2000
            elif kind == "n" and re.match(r"0\d", text):
                kind = "u"  # 0930
            elif text == "/" and glued and tokens[-1].kind == "w":
                kind = "u"  # 2 degrees/10 minutes: a rate, and it is open what it multiplies
            tokens.append(_Token(kind, text, spaced, money if kind == "n" else ""))
            spaced, money = False, ""
    return [_resolved(tokens, index) for index in range(len(tokens))]


def _resolved(tokens: list[_Token], index: int) -> _Token:
    """A word as what it stands for: an operator between numbers, a variable, or a plain word."""
    token = tokens[index]
    before = tokens[index - 1] if index else None
    after = tokens[index + 1].kind if index + 1 < len(tokens) else ""
    word = token.text.lower()
    if token.kind == "n" and before and before.kind == "w" and not token.spaced and before.text not in "xX":
        return _Token("u", token.text, token.spaced)  # the 2 of H2
    if token.kind != "w":
        return token
    if word in _CLAUSE:
        return _Token("b", token.text, token.spaced)
    if after in ("n", "(") and before:
        if word == "x" and before.kind in ("n", "w", ")"):
            return _Token("o", "*", token.spaced)
        if word in _WORDED and (word != "of" or _is_share(tokens, index - 1)):
            return _Token(_WORDED[word][0], word, token.spaced)
    glued = before is not None and before.kind == "n" and not token.spaced
    if len(word) == 1 and (word != "a" or glued) or glued and word in ("st", "nd", "rd", "th"):
        return _Token("v", token.text, token.spaced)
    return token


def _is_share(tokens: list[_Token], index: int) -> bool:
    """Whether the token is a percentage or the end of a fraction, so that ``of`` multiplies."""
    if tokens[index].kind != "n":
        return False
    return tokens[index].text.endswith("%") or (index > 1 and tokens[index - 1].text == "/")


def _sides(tokens: list[_Token], match: re.Match) -> list[_Side | None]:
    start, end = match.span()
    spans, begin = [], start
    for index in range(start, end + 1):
        if index == end or tokens[index].kind == "e":
            spans.append((begin, index))
            begin = index + 1
    sides = [_side(tokens[a:b], first=a == start, last=b == end) for a, b in spans]
    if not _clean_before(tokens, start):
        sides[0] = None
    if end < len(tokens) and not _clean_after(tokens, end):
        sides[-1] = None
    return sides


def _clean_before(tokens: list[_Token], start: int) -> bool:
    """Whether an expression begins where the chain does, rather than in the middle of what the sentence calculates."""
    if not start:
        return True
    last = tokens[start - 1]
    if last.kind != "w":
        thousands = last.text == "," and start > 1 and tokens[start - 2].kind == "n" and len(tokens[start].text) == 3
        return last.kind in ("b", "(", "e") and not thousands
    if last.text.lower() in _PARTIAL or tokens[start].kind == "m":
        return False
    index = start - 1
    while index >= 0 and tokens[index].kind == "w":
        index -= 1
    if index < 0 or tokens[index].kind != "n":
        return index < 0 or tokens[index].kind not in "mo"
    if last.text.lower() == "and" and _is_fraction(tokens, start):  # 1 and 1/4
        return False
    before = tokens[index - 1].kind if index else ""
    return before == "e" or (before not in ("m", "o") and last.text.lower() not in _LINKS)  # 3 + 4 apples and 5 * 2


def _is_fraction(tokens: list[_Token], start: int) -> bool:
    """Whether a fraction below one stands there, in brackets or written without spaces."""
    if tokens[start].kind == "(":
        return True
    numerator, stroke, denominator = (tokens[start : start + 3] + [_Token("", "", True)] * 3)[:3]
    if stroke.text != "/" or stroke.spaced or denominator.spaced or denominator.kind != "n":
        return False
    return Fraction(evaluate(numerator.text) or 0) < Fraction(evaluate(denominator.text) or 0)


def _clean_after(tokens: list[_Token], end: int) -> bool:
    last, token = tokens[end - 1], tokens[end]
    if token.kind in ("n", "("):
        if last.kind == "w":
            return last.text.lower() != "and" or not _is_fraction(tokens, end)  # 5 and 2/3
        return token.kind == "(" and token.spaced
    return token.kind in ("b", ")", "e", "w")


def _side(tokens: list[_Token], first: bool, last: bool) -> _Side | None:
    kinds = [token.kind for token in tokens]
    surplus = kinds.count("(") - kinds.count(")")
    if first and surplus > 0 and kinds[:surplus] == ["("] * surplus:
        tokens = tokens[surplus:]
    elif last and surplus < 0:
        while surplus < 0 and tokens[-1].kind in (")", "w"):
            surplus += tokens[-1].kind == ")"
            tokens = tokens[:-1]
    elif surplus:
        return None
    arithmetic = [token for token in tokens if token.kind != "w"]
    signs = {"times": "*", "of": "*", "over": "/", "plus": "+", "minus": "-", **_SYMBOLS}
    text = "".join(" " * token.spaced + signs.get(token.text, token.text) for token in arithmetic).strip()
    operators = "".join(
        signs.get(token.text, token.text)
        for before, token in zip(arithmetic, arithmetic[1:], strict=False)
        if token.kind in "mo" and before.kind in "n)"
    )
    numbers = tuple(token.text for token in tokens if token.kind == "n")
    words = tuple(token.text.lower() for token in tokens if token.kind == "w")
    money = tuple(token.money for token in tokens if token.money)
    return _Side(text, numbers, operators, words, money, any(token.text in _WORDED for token in arithmetic))


def _comparable(left: _Side, right: _Side) -> bool:
    """Whether both sides count the same thing in the same unit, as far as the words tell."""
    words = left.words + right.words + left.money + right.money
    if any(_SCALES.fullmatch(part) for word in words for part in word.split("-")):
        return False
    if any(side.worded and len(side.operators) > 1 and re.search("[+-]", side.operators) for side in (left, right)):
        return False
    units: dict[int, set[str]] = {}
    for word in words:
        unit = _IRREGULAR.get(word, word[:-1] if word.endswith("s") and word[:-1] in _FAMILY else word)
        if unit in _FAMILY:
            family, name = _FAMILY[unit]
            units.setdefault(family, set()).add(name)
    return all(len(names) == 1 for names in units.values())


# ---- comparing the two sides


def _compare(left: _Side, right: _Side) -> Calculation | None:
    """The calculation ``left = right``, or None where there is nothing to calculate or a side cannot be read."""
    if not left.operators and not right.operators:
        return None
    value, stated = evaluate(left.text), evaluate(right.text)
    if value is None or stated is None or re.search(r"\d\s+\d", left.text + "=" + right.text):
        return None
    wrong = not any(_agree(*reading, right) for reading in _readings(left, right, value, stated))
    return Calculation(left.text, right.text, value, stated, wrong)


def _readings(left: _Side, right: _Side, value: Fraction, stated: Fraction) -> Iterator[tuple[Fraction, ...]]:
    """Both sides and the size of one in the last digit shown: as written, 1/4 as one number, percent at face value."""
    digits = len(right.numbers[0].rstrip("%").partition(".")[2]) if right.numbers else 0
    unit = Fraction(1, 10**digits)
    yield value, stated, unit / 100 if right.text.endswith("%") else unit
    raised = _RAISED.fullmatch(left.text)
    if raised:  # 80 + 50%, for 50% more than 80
        base, sign, percent = (evaluate(raised[1]), 1 if raised[2] == "+" else -1, evaluate(raised[3]))
        yield base * (1 + sign * percent), stated, unit
    fractions = [evaluate(_FRACTION.sub(r"(\g<0>)", side.text)) for side in (left, right)]
    if None not in fractions:
        yield fractions[0], fractions[1], unit / 100 if right.text.endswith("%") else unit
    if "%" in left.text + right.text:
        left_face, right_face = evaluate(left.text.replace("%", "")), evaluate(right.text.replace("%", ""))
        if left_face is not None and right_face is not None:
            yield left_face, right_face, unit
            yield value, right_face, unit
            yield value * 100, right_face, unit


def _agree(value: Fraction, stated: Fraction, unit: Fraction, right: _Side) -> bool:
    """Whether the sides are equal, up to floating point and to rounding or cutting off at the digits shown."""
    if abs(value - stated) <= (abs(value) + 1) / 10**14:
        return True
    if right.operators:  # a rewritten right side may hold rounded numbers, or run on: 3 + 4 = 7 * 2 = 14
        first = (evaluate(right.numbers[0]), evaluate(right.numbers[0].rstrip("%")))
        return abs(value - stated) <= abs(value) / 100 or value in first
    if stated == 0 and unit == 1:
        return False  # a quarter is not 0
    beyond = abs(value) - abs(stated) if value * stated >= 0 else -1
    cut = (unit < 1 or abs(value) >= 1) and 0 < beyond < unit  # further digits, or the fraction of 24.8 people
    return cut or abs(value - stated) <= unit / 2


# ---- classifying one answer


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

    The primary kind is the first of ``KINDS`` that holds and is not likely to be chance (see the module's docstring).
    ValueError where the sample failed (it is unscored) or belongs to another problem. Linear
    time in the length of the text; nothing of it is ever evaluated but numbers, ``+ - * /`` and brackets.
    """
    if sample.problem_id != problem.id:
        raise ValueError(f"the sample answers {sample.problem_id}, not {problem.id}")
    if sample.error is not None or sample.text is None:
        raise ValueError(f"sample {sample.sample_index} of {problem.id} failed: it is unscored, not wrong")
    if predicted is not None and not predicted.is_finite():
        raise ValueError(f"predicted must be a finite number or None, got {predicted}")
    gold, value = Fraction(problem.answer), _fraction(predicted)
    if value is not None and abs(value - gold) < TOLERANCE:  # wrong under a rule that compares texts
        return ErrorReport(
            problem.id, sample.sample_index, "spelling", ("spelling",), f"{predicted} is {problem.answer}"
        )
    made = list(calculations(sample.text))
    found = _of_the_text(sample, predicted, made)
    if value is not None:
        found |= _of_the_number(problem, sample.text, value, made)
    kinds = [kind for kind in KINDS if kind in found]
    primary = next((kind for kind in kinds if found[kind][0]), "other")
    if primary == "other":
        kinds.append("other")
    detail = found.get(primary, (True, KINDS["other"]))[1]
    return ErrorReport(problem.id, sample.sample_index, primary, tuple(kinds), detail)


_Found = dict[str, tuple[bool, str]]  # kind -> (may it be the primary one, what was found)
_STATED = re.compile(r"####|\\boxed|^\s{0,9}A:|\banswer(?: is|:)", re.IGNORECASE | re.MULTILINE)
_UNFINISHED = re.compile(r"(?:<<[^<>\n]*|[-+*/×÷=(])\Z")
_SOLVED = re.compile(rf"\b[A-Za-z]\s?=\s?[$€£]?({_NUMBER})")


def _fraction(number: Decimal | None) -> Fraction | None:
    """A number that a GSM8K problem can have; None for one whose digits alone would cost time."""
    return None if number is None or abs(number.adjusted()) > 100 else Fraction(number)


def _of_the_text(sample: Sample, predicted: Decimal | None, made: list[Calculation]) -> _Found:
    found: _Found = {}
    if _is_truncated(sample, predicted):
        found["truncated"] = (True, f"the text ends after {len(sample.text)} characters without an answer")
    if predicted is None:
        found["no_answer"] = (True, KINDS["no_answer"])
    wrong = next((calculation for calculation in made if calculation.wrong), None)
    if wrong:
        found["wrong_calculation"] = (True, f"{wrong.left} = {wrong.right}, but it is {_shown(wrong.value)}")
    return found


def _is_truncated(sample: Sample, predicted: Decimal | None) -> bool:
    """Cut before an answer was stated. Where no finish reason was recorded, a text that ends in mid-expression."""
    if sample.finish_reason == "length":
        return not _STATED.search(sample.text)
    return sample.finish_reason is None and predicted is None and bool(_UNFINISHED.search(sample.text.rstrip()))


def _of_the_number(problem: Problem, text: str, value: Fraction, made: list[Calculation]) -> _Found:
    gold, found = Fraction(problem.answer), {}
    results = {result for calculation in made for result in _results(calculation)}
    steps = list(calculations(problem.solution))
    way = {result for step in steps for result in _results(step)} - {gold}
    last = [calculation for calculation in made[-2:] if value in _results(calculation)]
    if gold and value == -gold:
        likely = value not in results or bool(_operands_of(value, last) & _operands_of(gold, steps))
        found["sign"] = (likely, f"{_shown(value)} is the gold answer with the other sign")
    if value in way:
        likely = value not in results or bool(_operands_of(value, last) & _operands_of(value, steps))
        found["one_step_short"] = (likely, f"{_shown(value)} is an intermediate value of the gold solution")
    if gold in results:
        goes_on = gold not in _results(made[-1]) and (not way or bool(way & results))
        likely = goes_on and bool(_operands_of(gold, made) & _operands_of(gold, steps[-2:]))
        found["one_step_long"] = (likely, f"the text calculates {_shown(gold)}, the gold answer, and goes on")
    factor = next((f for f in FACTORS if gold and (value == gold * f or value * f == gold)), None)
    if factor:
        relation = "times" if abs(value) > abs(gold) else "divided by"
        likely = _names_factor(factor, problem.question) or _digits(gold) > 1 or (made and gold in _results(made[-1]))
        found["factor"] = (bool(likely), f"{_shown(value)} is the gold answer {relation} {factor}")
    if value in {evaluate(number) for number in re.findall(_NUMBER, problem.question)}:
        found["copied"] = (not _is_worked_out(value, text, results), f"{_shown(value)} is a number of the question")
    return found


def _results(calculation: Calculation) -> tuple[Fraction, ...]:
    """What a calculation says it comes to; 40% is 0.4 and, as an answer, 40."""
    return (calculation.stated, calculation.stated * 100) if "%" in calculation.right else (calculation.stated,)


def _operands_of(value: Fraction, made: list[Calculation]) -> set[tuple[Fraction, ...]]:
    """The numbers of each calculation that comes to a value. Where text and gold solution share none, that both come
    to it may be chance."""
    return {_operands(calculation) for calculation in made if value in _results(calculation)}


def _operands(calculation: Calculation) -> tuple[Fraction, ...]:
    numbers = re.findall(rf"(?:{_NUMBER})%?", calculation.left)
    return tuple(sorted(evaluate(number) or Fraction(0) for number in numbers))


def _is_worked_out(value: Fraction, text: str, results: set[Fraction]) -> bool:
    """Whether the text gets to a number by a calculation, by solving for x, or by cutting 16.4 or 22,500 short."""
    cut = {abs(result) for result in results} | {Fraction(abs(result) // 1) for result in results}
    leading = {str(abs(result) // 1)[: len(_shown(value))] for result in results}
    solved = {evaluate(number) for number in _SOLVED.findall(without_annotations(text))}
    return value in cut or _shown(value) in leading or value in solved


def _names_factor(factor: int, question: str) -> bool:
    """Whether the question holds that factor, as a number, a percentage or a unit."""
    numbers = {evaluate(number) for number in re.findall(_NUMBER, question)}
    return factor in numbers or Fraction(1, factor) in numbers or bool(_FACTOR_WORDS[factor].search(question))


def _digits(number: Fraction) -> int:
    """Significant digits of a whole number: 7200 has two."""
    return len(str(abs(number.numerator)).rstrip("0"))


def _shown(number: Fraction) -> str:
    return f"{float(number):.10g}" if abs(number) < 10**15 else "a number of more than 15 digits"


# ---- the table


def error_table(reports: Iterable[ErrorReport], *, examples: int = 3) -> pd.DataFrame:
    """One row a kind, in order of precedence, kinds that never occur included: a frame to read and to print.

    Columns: ``kind``; ``count`` and ``share`` of the reports whose primary kind it is (shares add up to 1);
    ``flagged``, the reports in which it holds at all; ``examples``, the first ids as problem/sample; ``precision``, how
    often the label was right in the hand check; ``meaning``. Without reports the frame is empty: shares are undefined.
    """
    reports = list(reports)
    columns = ["kind", "count", "share", "flagged", "examples", "precision", "meaning"]
    if not reports:
        return pd.DataFrame(columns=columns)
    flagged = Counter(kind for report in reports for kind in report.kinds)
    rows = []
    for kind, meaning in KINDS.items():
        ids = [f"{report.problem_id}/{report.sample_index}" for report in reports if report.kind == kind]
        right, checked = PRECISION.get(kind, (0, 0))
        precision = f"{right} of {checked}" if checked else "not measured"
        share = len(ids) / len(reports)
        rows.append((kind, len(ids), share, flagged[kind], ", ".join(ids[:examples]), precision, meaning))
    return pd.DataFrame(rows, columns=columns)
