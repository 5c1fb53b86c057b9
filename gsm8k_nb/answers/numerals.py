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
import tomllib
import unicodedata
from decimal import Context, Decimal, InvalidOperation
from importlib.resources import files
from types import SimpleNamespace

MAX_DIGITS = 50  # the longest gold answer of GSM8K has 9; a longer run of digits is a model that loops
MAX_EXPONENT = 30

_TABLES = tomllib.loads((files("gsm8k_nb") / "answers" / "answers.toml").read_text(encoding="utf-8"))
WORDS = SimpleNamespace(**{name: f"(?:{'|'.join(words)})" for name, words in _TABLES["words"].items()})
HINTS = SimpleNamespace(**_TABLES["hints"])
_EXACT = Context(prec=2 * MAX_DIGITS)  # contexts of our own, so that a caller's changes no score
_QUOTIENT = Context(prec=28)
_DIGITS = r"[0-9](?:[0-9]|[.,](?=[0-9]))*+"
_UNREADABLE = "\ufffc"  # stands for LaTeX that is a value but not a number: \frac{a+b}{2}, \sqrt{2}

NUMBER = re.compile(
    r"(?:(?P<whole>[0-9]{1,4}) {1,2}(?=[0-9]{1,4} ?/ ?[0-9]{1,4}(?![0-9])))?"
    rf"(?P<number>(?:(?<![.0-9A-Za-z])\.(?=[0-9]))?{_DIGITS})(?:[eE](?P<exponent>[+-]?[0-9]{{1,4}})(?![\w.])"
    r"| {0,2}[×*xX] {0,2}10 ?(?:\^|\*\*) ?[{(]? ?(?P<power>[+-]?[0-9]{1,4})(?![0-9])(?: ?[})])?"
    rf"| ?/ ?(?P<under>{_DIGITS}))?+|{_UNREADABLE}"
)
_GROUPED = re.compile(
    r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
)
_DECIMAL_COMMA = re.compile(
    r"[0-9]+,[0-9]{1,2}|0,[0-9]+|[1-9][0-9]{0,2}(?:(?:\.[0-9]{3})+,[0-9]{1,2}|(?:\.[0-9]{3}){2,})"
)
_LIST = re.compile(r"(?:[0-9]{1,2},){2,}([0-9]{1,2})")

_UNIT_EXPONENT = r"(?!(?:[kcmd]?m|ft|in|yd|mi)[23](?!\w))"
_NO_NUMBER_AFTER = re.compile(
    rf"[.,]?[0-9]| ?{_UNREADABLE}|[:'/][0-9]|\^(?!\{{?[°o])|\*\*[0-9]|_\{{?[0-9]"
    rf"|{_UNIT_EXPONENT}[A-Za-z]{{1,12}}[0-9]"
)
_NO_NUMBER_BEFORE = re.compile(
    r"(?:[A-Za-z]|[0-9][:'/_]|\^\{?[ ]?[-+]?|[A-Za-z0-9)}]_{1,4}\{?|(?:[0-9]|\b[ckm]?m)\*\*)\Z"
)
_SUSPECT_BEFORE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:'/_{*")  # of the pattern above
ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)  # behind a number
_SYMBOLS = "$£€¥₹₩₽₱฿₫₪₺₦¢"
_CODES = r"(?:USD|EUR|GBP|INR|JPY|CNY|CAD|AUD|RMB|US|Rs|RM)"
CURRENCY = rf"(?:(?:\b(?:US|CA|AU|NZ|HK|SG|[ACRS]))?[{_SYMBOLS}]|\b{_CODES}\.?)"
_CURRENCY_BEFORE = re.compile(rf"(?:{CURRENCY}[ ]?)+\Z", re.IGNORECASE)


def value(text: str, match: re.Match[str]) -> Decimal | None:
    """What a match of ``NUMBER`` in normalised ``text`` is worth; None where form or surroundings make it no number."""
    number = match["number"]
    if number is None or _NO_NUMBER_AFTER.match(text, match.end()):
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
    if _GROUPED.fullmatch(digits):
        return plain_decimal(digits.replace(",", ""))
    if _DECIMAL_COMMA.fullmatch(digits):
        return plain_decimal(digits.replace(".", "").replace(",", "."))
    entries = _LIST.fullmatch(digits)
    return Decimal(entries[1]) if entries else None


def _is_negative(before: str) -> bool | None:
    """Whether the text just before a number ends in its minus sign; None where it makes the digits no number at all."""
    if before[-1:] not in _SUSPECT_BEFORE and "-" not in before and "^" not in before:
        return False
    before = _CURRENCY_BEFORE.sub("", before)
    if _NO_NUMBER_BEFORE.search(before):
        return None
    dash = before.rstrip(" ")
    if not dash.endswith("-"):
        return False
    left = _CURRENCY_BEFORE.sub("", dash[:-1])
    if dash != before:  # "- 18" is a bullet or a subtraction, unless an equation or a bracket opens with it
        return left.rstrip(" ")[-1:] in ("=", "{", "(")
    if left[-1:] in (" ", "\t"):  # "16 -3" is a subtraction
        return left.rstrip(" \t")[-1:] not in tuple("0123456789)%")
    return not (left[-1:].isalnum() or left[-1:] in tuple(")]}%.-"))


# Normalising: one spelling for each sign, digit and LaTeX command, so that the grammar above sees plain ASCII forms.

_COMMANDS = {command: sign for sign, commands in _TABLES["latex"].items() for command in commands}
_SPELLINGS = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | {character: sign for sign, characters in _TABLES["characters"].items() for character in characters}
)
_FRACTIONS = {chr(code): unicodedata.normalize("NFKC", chr(code)).replace("\u2044", "/")
              for code in (*range(0xBC, 0xBF), *range(0x2150, 0x215F), 0x2189)}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_VULGAR = re.compile(rf"(?:(?<=([0-9])) ?)?([{''.join(_FRACTIONS)}])")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])(?<!\d[\xa0\u2009\u202f])\d{1,3}(?:[\xa0\u2009\u202f]\d{3})++(?!\d)")
_WIDE_COMMA = re.compile(r"(?<=[０-９])，(?=[０-９]{3})|(?<=[0-9])，(?=000(?!\d))")
_BLANK_THOUSANDS = re.compile(
    r"[1-9](?<![\d.,:/'-].)(?<!\d[ ~'].)[0-9]{0,2}([ ~'])[0-9]{3}(?:\1[0-9]{3})*(?![ ~']?\d|-[A-Za-z]| ?[/:]\d)"
)
_NAME_BEFORE = re.compile(rf"\b{WORDS.named} ?\Z", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:(\b(?:is|was|be|of|to|at) )minus|\bnegative) (?=\$?[0-9])")
_ON_THE_HOUR = re.compile(r"(?<![\d:.])(\d{1,2}):00(?![:\d])")
_ONE_BY_ONE = re.compile(r"[0-9](?<![^\s(*$:].)([-\n])[0-9](?:\1[0-9])+(?![^\s.,)*$])(?! ?=)")
_LATEX_NEIGHBOURS = re.compile(r"(\\[A-Za-z]+)(?=\\[A-Za-z])")
_LATEX_THIN_SPACE = re.compile(r"(?<=\d)(?:\\[,;:]|\{\\,\})(?=\d{3})")
_LATEX_ESCAPED = re.compile(r"\\\\(?=[A-Za-z$%])")
_LATEX_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt)|boldsymbol|mbox|emph|underline) ?\{([^{}]*)\}"
)
_LATEX_FRACTION = re.compile(r"\\[dtc]?frac ?(?:\{([^{}]*)\} ?\{([^{}]*)\}|([0-9]) ?([0-9]))")
_LATEX_ROOT = re.compile(r"\\(?:sqrt(?:\[[^\]{}]{0,9}\])?|binom\{[^{}]*\}) ?\{[^{}]*\}")
_LATEX_COMMAND = re.compile(r"\\([A-Za-z]+|[^A-Za-z0-9])")


def normalise(text: str) -> str:
    """``text`` with one spelling for each sign, digit, fraction and LaTeX form that the grammar reads."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    latex = "\\" in text
    if latex:
        text = _LATEX_NEIGHBOURS.sub(r"\1 ", text)
        text = _LATEX_THIN_SPACE.sub("\u2009", _LATEX_ESCAPED.sub(r"\\", text).replace("\\!", ""))
    text = text.replace("{,}", ",")
    if not text.isascii():
        text = _plain_characters(text)
    if latex:
        text = _plain_latex(text)
    if "minus " in text or "negative " in text:
        text = _NEGATIVE.sub(r"\1-", text)
    if ":00" in text:
        text = _ON_THE_HOUR.sub(r"\1", text)
    return _ONE_BY_ONE.sub(_only_digits, _BLANK_THOUSANDS.sub(_joined, text))


def _joined(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 12) : match.start()]
    return match[0] if _NAME_BEFORE.search(before) else _only_digits(match)


def _only_digits(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])


def _plain_characters(text: str) -> str:
    text = _WIDE_COMMA.sub(",", _SPACED_THOUSANDS.sub(_only_digits, text))
    text = _OTHER_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), text.translate(_SPELLINGS))
    text = _VULGAR.sub(lambda m: (" " if m[1] else "") + _FRACTIONS[m[2]], text)
    return _SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), text)


def _plain_latex(text: str) -> str:
    text = _LATEX_TEXT.sub(r"\1", _LATEX_TEXT.sub(r"\1", text))  # twice: one command within another
    text = _LATEX_ROOT.sub(_UNREADABLE, _LATEX_FRACTION.sub(_plain_fraction, text))
    return _LATEX_COMMAND.sub(lambda m: _COMMANDS.get(m[1], m[0]), text)


def _plain_fraction(match: re.Match[str]) -> str:
    over, under = (match[1] or match[3] or "").strip(), (match[2] or match[4] or "").strip()
    if not re.search(r"[0-9]", over + under) and len(over) > 1:
        return f"{over}/{under}"  # a unit: miles/hour
    if not re.fullmatch(r"-?[0-9][0-9.,]*", over) or not re.fullmatch(r"[0-9][0-9.,]*", under):
        return _UNREADABLE
    glued = match.start() > 0 and match.string[match.start() - 1].isdigit()  # 1\frac{1}{2}: a mixed number
    return f"{' ' if glued else ''}{over}/{under}"
