"""The grammar of ``flexible`` as data: its words in ``answers.toml``, its patterns in ``grammar.toml``.

    patterns("numerals").ordinal.match("3rd", 1)          # the pattern ``ordinal`` of the section [numerals]

A pattern too long for a line is a list of its pieces.
"""

import re
import tomllib
from importlib.resources import files
from types import SimpleNamespace
from typing import Any


def table(name: str) -> dict[str, Any]:
    """A data file beside this module."""
    return tomllib.loads((files("gsm8k_nb") / "answers" / name).read_text(encoding="utf-8"))


WORDS = table("answers.toml")
HINTS = SimpleNamespace(**WORDS["hints"])
_GRAMMAR = table("grammar.toml")
_PARTS = {name: f"(?:{'|'.join(words)})" for name, words in WORDS["words"].items()}


def _filled(pattern: str | list[str]) -> str:
    return re.sub(r"%\{(\w+)\}", lambda reference: _PARTS[reference[1]], "".join(pattern))


for _name, _part in _GRAMMAR["parts"].items():
    _PARTS[_name] = _filled(_part)  # each may hold those before it


def patterns(section: str) -> SimpleNamespace:
    """The compiled patterns of a section of the grammar, by name."""
    return SimpleNamespace(**{name: re.compile(_filled(pattern)) for name, pattern in _GRAMMAR[section].items()})
