"""Which number of a sentence is the one that it is about: of the highest rank, the last.

    2  the complement: behind a form of *be*, ``a total of``, ``=``                           he will be 13 in 3 years
    1  any other                                                                           8 pens cost $12
    0  an adjunct or a name: behind a preposition or *the*, ``to fill 3``, in brackets     in 3 years, day 5, 36-minute
   -1  an ordinal                                                                          the 3rd

Numbers in bold outrank all others. Where there is an ``=``, only what it equals counts. What leads as a condition (``If
...,``, ``In 3 years,``) or follows (``because``, ``which``) is left out where a number remains.
"""

import re
from decimal import Decimal

from gsm8k_nb.answers.grammar import patterns
from gsm8k_nb.answers.numerals import NUMBER, ORDINAL, value

Reading = tuple[bool, Decimal | None]  # (something was stated, the number it is); (True, None): stated, but no number
ABSENT: Reading = (False, None)

_P = patterns("sentences")


def number_of(sentence: str, is_exact: bool = True) -> Reading:
    """The number that ``sentence`` states; stated without a number where it is an expression that was not worked out.

    ``is_exact``: so is a difference of two numbers (``10 - 12``), which may be a score or a range in running text.
    """
    bold = [span.span() for span in _P.bold.finditer(sentence)]
    start, stop = (0, len(sentence)) if bold else _main_clause(sentence)
    if sentence[start : start + 1] == "=" and _P.unsolved.match(sentence):
        return True, None
    best, best_key = None, (False, False, 0)
    for match in NUMBER.finditer(sentence, start, stop):
        negated = _P.negation.search(sentence, max(0, match.start() - 24), match.start())
        if negated or value(sentence, match) is None:
            continue
        rank = _rank(sentence, start, match)
        is_bold = any(first < match.start() < last for first, last in bold)
        key = (is_bold, rank > 0 and worked_out(sentence, match, is_exact)[1] is not None, rank)
        if best is None or key >= best_key:
            best, best_key = match, key
    return worked_out(sentence, best, is_exact) if best else ABSENT


def _main_clause(sentence: str) -> tuple[int, int]:
    """Where the part that states the number starts and stops: the last consequence, behind its last ``=``."""
    start = 0
    for consequence in _P.consequence.finditer(sentence):
        start = consequence.end() if NUMBER.search(sentence, consequence.end()) else start
    condition = _P.condition.match(sentence, start)
    start = condition.end() if condition and NUMBER.search(sentence, condition.end()) else start
    equals = sentence.rfind("=", start)
    start = equals if equals >= 0 and NUMBER.search(sentence, equals) else start
    first = NUMBER.search(sentence, start)
    behind = _P.subordinate.search(sentence, first.end()) if first else None
    return start, behind.start() if behind else len(sentence)


def _rank(sentence: str, start: int, match: re.Match[str]) -> int:
    before = sentence[max(start, match.start() - 80) : match.start()]
    if ORDINAL.match(sentence, match.end()):
        return -1
    if _P.adjunct_behind.match(sentence, match.end()) or _P.purpose.search(before):
        return 0
    if _P.complement.search(before):
        return 2
    return 0 if _P.adjunct.search(before) else 1


def worked_out(sentence: str, match: re.Match[str], is_exact: bool = True) -> Reading:
    """The value of a number, none where it is a part of an expression (``3 + 4``, ``18 + x``)."""
    is_operand = (
        _P.operation_behind.match(sentence, match.end())
        or (is_exact and _P.difference_behind.match(sentence, match.end()))
        or _P.operation_before.search(sentence, max(0, match.start() - 12), match.start())
    )
    return True, None if is_operand else value(sentence, match)
