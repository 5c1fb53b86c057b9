r"""Text made fit to show (every character is seen, none acts), and numbers that rounding does not turn into others.

>>> visible("\x1b[31mred \u202etxt")
'\u241b[31mred [U+202E]txt'
>>> p_value(0.0032), p_number(0.0497), percent(0.99997), interval(0.00002, 0.1118)
('p = 0.0032', '0.0497', '99.997', '0.002 to 11.18')
"""

import re

import numpy as np

# Control characters (tab and line feed apart), marks that turn the direction of writing, line separators, characters
# without width (joiners apart: scripts and emoji need them), halves of surrogate pairs.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text in which nothing acts and nothing hides: ESC is shown as its picture, U+202E as ``[U+202E]``."""

    def picture(match: re.Match[str]) -> str:
        code = ord(match[0])
        return "\u2421" if code == 127 else chr(0x2400 + code) if code < 32 else f"[U+{code:04X}]"

    return _UNSEEN.sub(picture, text)


def one_line(message: str | BaseException, most: int = 500) -> str:
    """A text, or what an error says (its kind where it says nothing), on one line of about ``most`` characters."""
    line = " ".join(str(message).split()) or (type(message).__name__ if isinstance(message, BaseException) else "")
    return line if len(line) <= most else f"{line[:most]} ..."


def facts(text: str) -> dict[str, str]:
    """Named facts that a text has a line each, as ``name: value``; other lines are passed over."""
    parts = (line.partition(":") for line in text.split("\n"))
    return {name.strip(): value.strip() for name, colon, value in parts if colon}


def degenerate(text: str) -> bool:
    """Whether a text ends in a loop: its end is one piece of 5 to 200 characters, four times over."""
    end = text.rstrip()
    return len(end) > 19 and end[-5:] in end[-205:-5] and any(end[-3 * n :] == end[-4 * n : -n] for n in range(5, 201))


def p_value(p: float, alpha: float = 0.05) -> str:
    """``p = 0.0032``, ``p < 0.0001`` or ``p > 0.99``: see `p_number`."""
    number = p_number(p, alpha)
    return f"p {number}" if number[0] in "<>" else f"p = {number}"


def p_number(p: float, alpha: float = 0.05) -> str:
    """A p-value with two digits that count: ``0.0032``, ``< 0.0001``, ``> 0.99``; more where two would reach ``alpha``.

    ValueError for what is no probability.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a p-value must be from 0 to 1, got {p}")
    if p < 0.0001 <= alpha:
        return "< 0.0001"
    if p > 0.99 >= alpha:
        return "> 0.99"
    places = 4 if p < 0.01 else 3 if p < 0.1 else 2
    text = f"{float(f'{p:.2g}'):.{places}f}"
    while np.sign(float(text) - alpha) != np.sign(p - alpha) and places < 17:
        places += 1
        text = f"{p:.{places}f}"
    return text


def points(share: float, sign: bool = True) -> str:
    """A share as percentage points with two decimals, a true minus sign, and no zero where it is none."""
    text = _unlike(100 * share, (0,), 2, "+" if sign else "")
    return text.replace("-", "\N{MINUS SIGN}")


def percent(share: float | None, places: int = 2) -> str:
    """A share from 0 to 1 in percent, without the sign; neither 0 nor 100 unless it is (to a millionth).

    Empty for what is undefined: None or NaN.
    """
    return "" if share is None or np.isnan(share) else _unlike(100 * share, (0, 100), places, "")


def interval(low: float | None, high: float | None) -> str:
    """An interval of shares in percent or points: ``1.52 to 7.13``; empty where there is none."""
    if low is None or high is None or np.isnan(low):
        return ""
    return f"{points(low, sign=False)} to {points(high, sign=False)}"


def _unlike(value: float, ends: tuple[int, ...], places: int, sign: str) -> str:
    """A number with so many decimals that it is not taken for one of ``ends``; at most seven."""
    value = round(value, 7) + 0.0  # no minus zero
    while value not in ends and round(value, places) in ends:
        places += 1
    return f"{round(value, places) + 0.0:{sign}.{places}f}"
