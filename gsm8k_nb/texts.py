r"""Text of models, of data files and of errors, made fit to show: every character is seen, none acts, or on one line.

>>> visible("\x1b[31mred \u202etxt")
'\u241b[31mred [U+202E]txt'
>>> one_line(ValueError("too\n  long"), most=5), one_line(MemoryError())
('too l ...', 'MemoryError')
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


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\u2421" if code == 127 else chr(0x2400 + code) if code < 32 else f"[U+{code:04X}]"
