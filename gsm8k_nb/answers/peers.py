"""How other evaluation tools read and judge a GSM8K answer, by name, so that their verdicts can be laid beside ours.

    PEER_RULES["lm_eval_cot_strict"].matches("The answer is 18", "18")  ->  False   (it reads "1": see its description)

Each is written anew from the tool's published source, quirks included: that is their point. ``peers.toml`` has what is
said of each, and the pattern where one is all there is to it. They get the completion as it stands, reasoning included;
where a tool also cuts it by stop strings, that is the sampler's task.
"""

import math
import operator
import re
import string
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gsm8k_nb.answers import math_verify_process
from gsm8k_nb.answers.grammar import table
from gsm8k_nb.answers.numerals import plain_decimal


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to read an answer.

    ``function`` gives the number read from a completion, or None; ``when_cut``, where it is given, does so for one
    that the token limit ended. ``matches`` is the rule's own verdict on a completion and a gold answer in
    plain digits (``"1450000"``, no commas); where it is None, ``is_correct`` compares numbers. ``version`` changes
    whenever the rule reads some text in another way than before.
    """

    name: str
    description: str
    source: str
    function: Callable[[str], Decimal | None]
    matches: Callable[[str, str], bool] | None = None
    when_cut: Callable[[str], Decimal | None] | None = None
    version: str = "1"


def _reader(pattern: str, which: int = -1, removed: str = "", before: str = "", last: int = 0) -> Callable[[str], str]:
    """What a rule of ``peers.toml`` with a pattern reads."""
    compiled = re.compile(pattern)

    def read(text: str) -> str:
        text = text.split(before)[0] if before else text
        matches = list(compiled.finditer(text[-last:]))
        if not matches:
            return "[invalid]"
        return re.sub(removed, "", next(group for group in matches[which].groups() if group)).strip()

    return read


def _simple_evals(text: str) -> str:
    if "Answer" not in text:
        return ""
    numbers = re.findall(r"\d+\.?\d*", text.rpartition("Answer")[2].replace(",", ""))
    answer = numbers[-1].rstrip(".") if numbers else ""
    return answer.rstrip("0").rstrip(".") if "." in answer else answer


def _opencompass_same(answer: str, gold: str) -> bool:
    try:
        return answer == gold or abs(float(answer) - int(gold)) < 1e-6
    except (ValueError, OverflowError):
        return False


_INSPECT_TRIM = "!?:;()[]{}'\"`"
_INSPECT_SIGNS = {"-": -1, "−": -1, "﹣": -1, "－": -1, "+": 1, "＋": 1, "﹢": 1}
_INSPECT_GROUPS = str.maketrans("٫．", "..", "'’ʼ＇，﹐、٬")
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def _inspect(text: str) -> str:
    """The last word that is a number, at five significant digits."""
    text = re.sub(r"\\([$,£€*_])", r"\1", text.strip().casefold())
    text = re.sub(r"\.(?=\D|$)", "", re.sub(r"[$,£€*_]", "", text))
    for word in reversed(text.split()):
        number = _inspect_number(word.strip(_INSPECT_TRIM))
        if number is not None and math.isfinite(number):
            return format(number, ".5g")
    return ""


def _inspect_number(word: str) -> float | None:
    """A word as a float, with Unicode signs, fractions, digits and exponents; of Chinese numerals only single signs."""
    if len(word) > 400 or not any(character.isnumeric() for character in word):
        return None
    number = _float(word)
    if number is not None:
        return number
    sign = 1
    while word[:1] in _INSPECT_SIGNS:
        sign, word = sign * _INSPECT_SIGNS[word[0]], word[1:]
    if len(word) == 1 and word.isnumeric():  # ½, and also ², which here is 2
        return sign * unicodedata.numeric(word)
    base = word.rstrip(_SUPERSCRIPTS)
    fraction = unicodedata.numeric(base[-1:] or " ", 0.0)  # 2½ is 2.5
    digits = base[:-1] if 0 < fraction < 1 else base
    amount = 0.0 if base and not digits else _float(digits.translate(_INSPECT_GROUPS))
    if amount is None or digits[:1] in ("+", "-"):
        return None
    amount = sign * (amount if digits == base else amount + fraction)
    exponent = "".join(str(_SUPERSCRIPTS.index(digit)) for digit in word[len(base) :])
    try:
        return amount ** int(exponent) if exponent else amount
    except (ArithmeticError, ValueError):  # int() takes 4,300 digits at most
        return None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _inspect_before(text: str) -> str:
    """The last word of digits and dots, at five significant digits, else the last word as it stands."""
    text = re.sub(r"\.(?=\D|$)", "", re.sub(r"[$,£€*_]", "", text.strip().casefold()))
    words = re.split(r"\s+", text)
    word = next((word for word in reversed(words) if word.replace(".", "").isnumeric()), words[-1])
    if not word.replace(".", "").isnumeric():
        return word
    begins = re.match(r"\d+(?:\.\d+)?", word)
    number = _float(begins[0]) if begins and word.isascii() else _inspect_number(word)
    return word if number is None else format(number, ".5g")


def _inspect_before_matches(text: str, gold: str) -> bool:
    """Whether what is read ends with the gold answer; of a gold that is no row of digits, whether the text does."""
    if gold.isnumeric():
        return _inspect_before(text).endswith(format(float(gold), ".5g"))
    edges = string.whitespace + string.punctuation
    return text.casefold().strip(edges).endswith(gold.strip(edges))


_READERS: dict[str, Callable[[str], str]] = {
    "simple_evals": _simple_evals,
    "inspect": _inspect,
    "inspect_endswith": _inspect_before,
    "math_verify": lambda text: math_verify_process.ask(text)[0],
}
_SAME: dict[str, Callable[[str, str], bool]] = {  # of what was read and the gold answer, where not text equality
    "opencompass": _opencompass_same,
    "inspect": lambda answer, gold: answer == format(float(gold), ".5g"),
}
_MATCHES: dict[str, Callable[[str, str], bool]] = {  # of the whole text and the gold answer
    "inspect_endswith": _inspect_before_matches,
    "math_verify": lambda text, gold: math_verify_process.ask(text, gold)[1],
}


def _peer(name: str, description: str, source: str, version: str = "1", **pattern: Any) -> Rule:
    read, same = _reader(**pattern) if pattern else _READERS[name], _SAME.get(name, operator.eq)
    return Rule(
        name,
        description,
        source,
        function=lambda text: plain_decimal(read(text).replace(",", "")),
        matches=_MATCHES.get(name, lambda text, gold: same(read(text), gold)),
        version=version,
    )


PEER_RULES: dict[str, Rule] = {name: _peer(name, **facts) for name, facts in table("peers.toml").items()}
