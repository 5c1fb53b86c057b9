"""The one number grammar: where a number stands in a model's text, and what it is worth.

    normalise("a total of \\\\$9{,}200")  ->  "a total of $9,200"
    [value(text, m) for m in NUMBER.finditer(text)]  ->  [Decimal("9200")]

A number has currency before or after it, thousands grouped by comma, blank, ``'`` or LaTeX, decimals, a fraction, an
exponent (``1.5 × 10^3``); a comma before one or two last digits is a decimal comma, and a row of short numbers
(``1,2,3``) is read as its last entry. Percent, units and their exponents are left out; of a time on the hour, the hour
is read. No number: a clock time or ratio (``7:30``), a power, a date, digits glued to letters before them, and anything
of more than ``MAX_DIGITS`` digits. Nothing is ever evaluated but one division, that of a fraction.
"""

import re
import unicodedata
from decimal import Context, Decimal, InvalidOperation

from gsm8k_nb.answers.grammar import WORDS, patterns

MAX_DIGITS = 50  # the longest gold answer of GSM8K has 9; a longer run of digits is a model that loops
MAX_EXPONENT = 30

_EXACT = Context(prec=2 * MAX_DIGITS)  # contexts of our own, so that a caller's changes no score
_QUOTIENT = Context(prec=28)
_UNREADABLE = "\ufffc"  # stands for LaTeX that is a value but not a number: \frac{a+b}{2}, \sqrt{2}
_P = patterns("numerals")
NUMBER: re.Pattern[str] = _P.number
ORDINAL: re.Pattern[str] = _P.ordinal  # behind a number
_SUSPECT_BEFORE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:'/_{*")  # of no_number_before


def value(text: str, match: re.Match[str]) -> Decimal | None:
    """What a match of ``NUMBER`` in normalised ``text`` is worth; None where form or surroundings make it no number."""
    number = match["number"]
    if number is None or _P.no_number_after.match(text, match.end()):
        return None
    negative = _is_negative(text[max(0, match.start() - 16) : match.start()])
    amount = _amount(match, number) if negative is not None else None
    return amount.copy_negate() if amount and negative else amount  # -amount would round to the caller's context


def plain_decimal(text: str) -> Decimal | None:
    """The Decimal that ``text`` spells in digits of any script; None if none, or past ``MAX_DIGITS`` characters."""
    if len(text) > MAX_DIGITS:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= MAX_DIGITS else None


def _amount(match: re.Match[str], number: str) -> Decimal | None:
    amount = _decimal(number)
    if amount is None:
        return None
    scale = match["exponent"] or match["power"]
    if scale is not None:
        return Decimal(format(amount.scaleb(int(scale), _EXACT), "f")) if abs(int(scale)) <= MAX_EXPONENT else None
    if match["under"] is not None:
        under = _decimal(match["under"])
        if not under:
            return None
        whole = Decimal(match["whole"]) if match["whole"] and amount < under else Decimal(0)
        return _EXACT.add(whole, _QUOTIENT.divide(amount, under))
    return amount


def _decimal(digits: str) -> Decimal | None:
    """The value of a run of digits, commas and dots by the grouping rules above."""
    if len(digits) > 2 * MAX_DIGITS:
        return None
    if digits.isdigit():
        return plain_decimal(digits)
    if _P.grouped.fullmatch(digits):
        return plain_decimal(digits.replace(",", ""))
    if _P.decimal_comma.fullmatch(digits):
        return plain_decimal(digits.replace(".", "").replace(",", "."))
    entries = _P.list.fullmatch(digits)
    return Decimal(entries[1]) if entries else None


def _is_negative(before: str) -> bool | None:
    """Whether the text just before a number ends in its minus sign; None where it makes the digits no number at all."""
    if before[-1:] not in _SUSPECT_BEFORE and "-" not in before and "^" not in before:
        return False
    before = _P.currency_before.sub("", before)
    if _P.no_number_before.search(before):
        return None
    dash = before.rstrip(" ")
    if not dash.endswith("-"):
        return False
    left = _P.currency_before.sub("", dash[:-1])
    if dash != before:  # "- 18" is a bullet or a subtraction, unless an equation or a bracket opens with it
        return left.rstrip(" ")[-1:] in ("=", "{", "(")
    if left[-1:] in (" ", "\t"):  # "16 -3" is a subtraction
        return left.rstrip(" \t")[-1:] not in tuple("0123456789)%")
    return not (left[-1:].isalnum() or left[-1:] in tuple(")]}%.-"))


# Normalising: one spelling for each sign, digit and LaTeX command, so that the grammar above sees plain ASCII forms.

_COMMANDS = {command: sign for sign, commands in WORDS["latex"].items() for command in commands}
_SPELLINGS = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | {character: sign for sign, characters in WORDS["characters"].items() for character in characters}
)
_FRACTIONS = {chr(code): unicodedata.normalize("NFKC", chr(code)).replace("\u2044", "/")
              for code in (*range(0xBC, 0xBF), *range(0x2150, 0x215F), 0x2189)}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_VULGAR = re.compile(rf"(?:(?<=([0-9])) ?)?([{''.join(_FRACTIONS)}])")


def normalise(text: str) -> str:
    """``text`` with one spelling for each sign, digit, fraction and LaTeX form that the grammar reads."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    latex = "\\" in text
    if latex:
        text = _P.latex_neighbours.sub(r"\1 ", text)
        text = _P.latex_thin_space.sub("\u2009", _P.latex_escaped.sub(r"\\", text).replace("\\!", ""))
    text = text.replace("{,}", ",")
    if not text.isascii():
        text = _P.wide_comma.sub(",", _P.spaced_thousands.sub(_only_digits, text))
        text = _P.other_digit.sub(lambda m: str(unicodedata.decimal(m[0])), text.translate(_SPELLINGS))
        text = _VULGAR.sub(lambda m: (" " if m[1] else "") + _FRACTIONS[m[2]], text)
        text = _P.superscript.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), text)
    if latex:
        text = _P.latex_text.sub(r"\1", _P.latex_text.sub(r"\1", text))  # twice: one command within another
        text = _P.latex_root.sub(_UNREADABLE, _P.latex_fraction.sub(_plain_fraction, text))
        text = _P.latex_command.sub(lambda m: _COMMANDS.get(m[1], m[0]), text)
    if "minus " in text or "negative " in text:
        text = _P.negative.sub(r"\1-", text)
    if ":00" in text:
        text = _P.on_the_hour.sub(r"\1", text)
    return _P.one_by_one.sub(_only_digits, _P.blank_thousands.sub(_joined, text))


def _joined(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 12) : match.start()]
    return match[0] if _P.name_before.search(before) else _only_digits(match)


def _only_digits(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])


def _plain_fraction(match: re.Match[str]) -> str:
    over, under = (match[1] or match[3] or "").strip(), (match[2] or match[4] or "").strip()
    if not re.search(r"[0-9]", over + under) and len(over) > 1:
        return f"{over}/{under}"  # a unit: miles/hour
    if not re.fullmatch(r"-?[0-9][0-9.,]*", over) or not re.fullmatch(r"[0-9][0-9.,]*", under):
        return _UNREADABLE
    glued = match.start() > 0 and match.string[match.start() - 1].isdigit()  # 1\frac{1}{2}: a mixed number
    return f"{' ' if glued else ''}{over}/{under}"
