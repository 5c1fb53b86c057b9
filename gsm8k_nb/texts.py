r"""Text of models, of data files and of errors, made fit to show: every character is seen, none acts, or on one line.

And numbers as text: p-values, shares and intervals whose rounding never says another thing than the number does.

>>> visible("\x1b[31mred \u202etxt")
'\u241b[31mred [U+202E]txt'
>>> one_line(ValueError("too\n  long"), most=5), one_line(MemoryError())
('too l ...', 'MemoryError')
>>> p_value(0.0032), p_number(0.0497), percent(0.99997), interval(0.00002, 0.1118)
('p = 0.0032', '0.0497', '99.997', '0.002 to 11.18')
"""

import re

# Control characters (tab and line feed apart), marks that turn the direction of writing, line separators, characters
# without width (joiners apart: scripts and emoji need them), halves of surrogate pairs.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text in which nothing acts and nothing hides: ESC is shown as its picture, U+202E as ``[U+202E]``."""
    return _UNSEEN.sub(_picture, text)


def one_line(said: str | BaseException, most: int = 500) -> str:
    """A text, or what an error says (its kind where it says nothing), on one line of about ``most`` characters."""
    line = " ".join(str(said).split())
    if not line and isinstance(said, BaseException):
        line = type(said).__name__
    return line if len(line) <= most else f"{line[:most]} ..."


def degenerate(text: str) -> bool:
    """Whether a text ends in a loop: its end is one piece of 5 to 200 characters, four times over.

    >>> degenerate("So the answer is 5. " * 5)
    True
    """
    end = text.rstrip()
    return any(len(end) >= 4 * n and end[-3 * n :] == end[-4 * n : -n] for n in range(5, 201))


def p_value(p: float, alpha: float = 0.05) -> str:
    """``p = 0.0032``, ``p < 0.0001`` or ``p > 0.99``: see `p_number`."""
    number = p_number(p, alpha)
    return f"p {number}" if number[0] in "<>" else f"p = {number}"


def p_number(p: float, alpha: float = 0.05) -> str:
    """A p-value with two digits that count: ``0.0032``, ``< 0.0001``, ``> 0.99``; more where two would reach ``alpha``.

    So 0.0497 is not written as 0.050 beside a decision at 5%. ValueError for what is no probability.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a p-value must be from 0 to 1, got {p}")
    if p < 0.0001 <= alpha:
        return "< 0.0001"
    if p > 0.99 >= alpha:
        return "> 0.99"
    places = 4 if p < 0.01 else 3 if p < 0.1 else 2
    text = f"{float(f'{p:.2g}'):.{places}f}"
    while _side(float(text), alpha) != _side(p, alpha) and places < 17:
        places += 1
        text = f"{p:.{places}f}"
    return text


def points(share: float, sign: bool = True) -> str:
    """A share as percentage points with two decimals; a true minus sign, and no minus zero.

    What is not 0 is never written as 0 (unless it is below a millionth of a point), so that the end of an interval
    stays on its side of no difference.
    """
    text = _unlike(100 * share, (0,), 2, "+" if sign else "")
    return text.replace("-", "\N{MINUS SIGN}")


def percent(share: float, places: int = 2) -> str:
    """A share from 0 to 1 in percent, without the sign; neither 0 nor 100 unless it is (to a millionth)."""
    return _unlike(100 * share, (0, 100), places, "")


def interval(low: float, high: float) -> str:
    """An interval of shares in percent or points: ``1.52 to 7.13``."""
    return f"{points(low, sign=False)} to {points(high, sign=False)}"


def _side(value: float, alpha: float) -> int:
    return (value > alpha) - (value < alpha)


def _unlike(value: float, ends: tuple[int, ...], places: int, sign: str) -> str:
    """A number with so many decimals that it is not taken for one of ``ends``; at most seven."""
    value = round(value, 7) + 0.0  # no minus zero
    while value not in ends and round(value, places) in ends:
        places += 1
    return f"{round(value, places) + 0.0:{sign}.{places}f}"


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\u2421" if code == 127 else chr(0x2400 + code) if code < 32 else f"[U+{code:04X}]"
