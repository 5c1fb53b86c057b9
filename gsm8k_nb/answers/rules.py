"""Text to number: reading the answer of a completion by a named rule, and judging it against the gold answer.

    extract("She makes 9 * 2 = $18 a day.\\n#### 18")            ->  Decimal("18")
    extract("**Answer:** $1,250.00", "flexible")                 ->  Decimal("1250.00")
    judge("The answer is 18", Decimal(18), "lm_eval_cot_strict") ->  (Decimal("1"), False)

A number is never rounded: 8.5 is wrong where 9 is asked for.
"""

import difflib
import re
from collections.abc import Mapping
from decimal import Context, Decimal
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from gsm8k_nb.answers.flexible import flexible
from gsm8k_nb.answers.numerals import MAX_DIGITS, plain_decimal
from gsm8k_nb.answers.passages import parted
from gsm8k_nb.answers.peers import PEER_RULES, Rule

TOLERANCE = Decimal("1e-6")  # for answers computed in binary floating point: 17.999999999999996 is 18

_EXACT = Context(prec=3 * MAX_DIGITS)
_STRICT = re.compile(r"####\s*(-?[\d,]+(?:\.\d+)?)")
_GOLD = re.compile(r"-?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?")


def strict(text: str) -> Decimal | None:
    """The number behind the first ``####``, commas removed, outside closed reasoning; None where there is none.

    Digits of any script, nothing but blanks before them (``#### $18`` gives none), at most ``MAX_DIGITS`` characters.
    """
    match = _STRICT.search(parted(text).text)
    return plain_decimal(match[1].replace(",", "")) if match else None


_OURS = (
    Rule("strict", "the number behind the first '####', commas removed, outside closed reasoning",
         "Cobbe et al. 2021 (arXiv:2110.14168), with blanks optional and numbers compared", strict, version="2"),
    Rule("flexible", "the last statement (marker, box, answer phrase), else the number that the last sentence is about",
         "gsm8k_nb.answers.flexible", flexible, when_cut=partial(flexible, cut=True), version="4"),
)  # fmt: skip
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _OURS} | PEER_RULES)


class Verdict(NamedTuple):
    """What one rule makes of one completion; ``failure`` says why the rule could not be applied, where it could not."""

    predicted: Decimal | None
    correct: bool
    failure: str | None = None


def extract(text: str | None, rule: str = "strict") -> Decimal | None:
    """The number that ``rule`` reads from a completion; None where it reads none, fails, or there is no text.

    ValueError for a name that is not in ``RULES``.
    """
    return _apply(_rule(rule), text, None, None).predicted


def verdict(
    text: str | None, gold: Decimal | int | str, rule: str = "strict", finish_reason: str | None = None
) -> Verdict:
    """What ``rule`` reads from a completion, and whether it holds it correct, by its own comparison where it has one.

    The two may part: OpenAI's rule reads 18.00 and calls it wrong for 18. Where the token limit ended the completion
    (``finish_reason`` ``length``), only a stated answer counts for ``flexible``. A rule that fails on a text, as other
    tools' can, has read no answer from it, and ``failure`` names the error.
    """
    return _apply(_rule(rule), text, parse_gold(gold), finish_reason)


def judge(
    text: str | None, gold: Decimal | int | str, rule: str = "strict", finish_reason: str | None = None
) -> tuple[Decimal | None, bool]:
    """The number read and whether it is right, as in ``verdict``."""
    return verdict(text, gold, rule, finish_reason)[:2]


def _apply(rule: Rule, text: str | None, gold: Decimal | None, finish_reason: str | None) -> Verdict:
    """The one place where a rule meets a text. A package that is missing is no failure on a text, but an error."""
    if text is None:
        return Verdict(None, False)
    read = rule.when_cut if rule.when_cut and finish_reason == "length" else rule.function
    try:
        predicted = read(text)
        if gold is None:
            return Verdict(predicted, False)
        right = rule.matches(text, _plain_text(gold)) if rule.matches else is_correct(predicted, gold)
    except ImportError:
        raise
    except Exception as error:
        return Verdict(None, False, f"{type(error).__name__}: {str(error)[:200]}")
    return Verdict(predicted, right)


def is_correct(predicted: Decimal | int | float | None, gold: Decimal | int | str) -> bool:
    """Whether |predicted - gold| < 1e-6; False where ``predicted`` is None or not finite.

    ``gold`` may be whatever ``parse_gold`` takes; ValueError where it is no number, so that None never equals None.
    """
    wanted = parse_gold(gold)
    if predicted is None:
        return False
    number = predicted if isinstance(predicted, Decimal) else plain_decimal(str(predicted))
    if number is None or not number.is_finite() or number.adjusted() > MAX_DIGITS:
        return False
    return abs(_EXACT.subtract(number, wanted)) < TOLERANCE


def parse_gold(gold: Decimal | int | str) -> Decimal:
    """A gold answer as a Decimal: ``"1,450,000"``, ``" 540"``, ``-10``, or a whole solution (see ``gold_of``).

    ValueError where it is no such number: a gold answer is never guessed.
    """
    if isinstance(gold, Decimal) and gold.is_finite():
        return gold
    text = str(gold).strip()
    if "####" in text:
        return gold_of(text)
    if not _GOLD.fullmatch(text):
        raise ValueError(f"gold answer must be a number such as '18', '-10' or '1,450,000', got {gold!r}")
    return Decimal(text.replace(",", ""))


def gold_of(solution: str) -> Decimal:
    """The gold answer of a GSM8K solution: the number after its last ``####``. ValueError where there is none."""
    _, marker, answer = solution.rpartition("####")
    if not marker:
        raise ValueError(f"a solution must end in '#### <number>', got {solution[-60:]!r}")
    return parse_gold(answer)


def _rule(name: str) -> Rule:
    try:
        return RULES[name]
    except KeyError:
        nearest = difflib.get_close_matches(str(name), RULES, n=1, cutoff=0)
        raise ValueError(f"unknown rule {name!r}; did you mean {nearest[0]!r}? Rules: {', '.join(RULES)}") from None


def _plain_text(number: Decimal) -> str:
    """A number in plain digits, without the zeros that only its spelling carries: 18.00 as '18'."""
    text = format(number if number else number.copy_abs(), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
