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

from gsm8k_nb.answers.numerals import CURRENCY, NUMBER, ORDINAL, WORDS, value

Reading = tuple[bool, Decimal | None]  # (something was stated, the number it is); (True, None): stated, but no number
ABSENT: Reading = (False, None)

_TO_THE_NUMBER = rf"[ \t]*(?:[*_\\(\[\"'~]|{CURRENCY})*[ \t]*-?\Z"
_COMPLEMENT = re.compile(
    r"(?:(?<!to )\b(?:is|are|was|were|be|been|equals?|becomes?|became|contains?"
    r"|(?:left|ends?|ended|remain\w*) (?:up )?with|(?:com|amount|add|work)\w* (?:out |up )?to"
    rf"|{WORDS.total} of)|(?:it|that|he|she|there|what)'s|=|共|合計|[是为為])\s*"
    rf"(?:(?!{WORDS.preposition}\b|to\b|\w+ing\b)[a-z']+,? ){{0,4}}"
    rf"(?:(?:equal to|a total of|about|over|at least|at most|up to) )?{_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_PURPOSE = re.compile(  # to fill 3, needed to make 4; but not: has to pay 3, to get 3
    r"(?:(?<!has )(?<!have )(?<!had )(?<!need )(?<!needs )(?<!able )(?<!going )\bto (?!be\b)"
    rf"(?!(?:get|make|give|find|obtain){_TO_THE_NUMBER})|\b(?:needed|required|used|necessary|enough) to )"
    rf"[a-z]+(?: (?:[0-9]+ )?[a-z]+){{0,3}}{_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_ADJUNCT = re.compile(
    rf"(?:\b(?:{WORDS.preposition}|{WORDS.definite})"
    rf"(?: (?:{WORDS.definite}|an?|other|original|remaining|every|each|all|just|only|about|\w+ing))*"
    rf"(?: [^\w ]?[0-9.,]+(?: [a-z]+){{0,2}} and)?|#|\b{WORDS.named}|\([^()]*){_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_ADJUNCT_BEHIND = re.compile(r"-[A-Za-z]|[天年月日小时分钟周个]+[后内前]")
_CONDITION = re.compile(rf"\W*(?:(?:{WORDS.consequence}|then),? )?{WORDS.condition}\b(?:[^,]|,(?! ))*, ", re.IGNORECASE)
_SUBORDINATE = re.compile(rf",? \b{WORDS.subordinate}\b|, (?=\$?[0-9.]+ (?:more|less|fewer)\b)", re.IGNORECASE)
_CONSEQUENCE = re.compile(
    rf"[,;] (?:and )?{WORDS.consequence}\b|\bround\w* (?:up |down |off )?to (?!the\b)"
    r"|, (?:or|i\.e\.,?|that is,?) (?:about |\W{0,2})?(?=\$?[0-9][0-9.,]* [a-z]|\$)"
    r"|[,;] which (?:is|equals|gives|makes|leaves|results in|simplifies (?:it )?to|comes to)\b"
    r"(?=[^0-9]{0,20}[0-9][0-9.,]*(?! ?[0-9%])(?![^.]*\b(?:more|less|fewer|times|than|of|from|after|before)\b))"
)
_BOLD = re.compile(r"\*\*(?=[^\s*])[^*\n]{1,60}(?<=[^\s*])\*\*")
_NEGATION = re.compile(
    r"(?:\bnot|n't|\binstead of|\brather than)(?: just| only| equal to)? {1,2}\W{0,4}\Z", re.IGNORECASE
)
_OPERATOR = r"(?: \* |\*(?=[0-9($]|\Z)| [×÷+/x] |[×÷+] ?| (?:plus|minus|times|divided by) (?=[($£€]?[0-9]|\Z))"
_OPERATION_BEHIND = re.compile(
    rf"(?: ?[A-Za-z]{{1,12}}){{0,2}}%?(?:{_OPERATOR}| - )[($£€]{{0,2}}[0-9]"
    rf"|%?(?:{_OPERATOR}(?:[A-Za-z]\b|\(|\Z)| ?- ?[a-z]\b)|[xyzn]\b|\([a-z] "
)
_DIFFERENCE_BEHIND = re.compile(r"%? ?(?:[-/^]|x(?= ?[0-9])) ?[($£€]{0,2} ?[0-9]| ?[-/]\s*\Z")
_OPERATION_BEFORE = re.compile(rf"(?:[A-Za-z0-9)%]{_OPERATOR}|(?:\b[a-z]|[0-9)%]) - |[0-9] ?/ ?){_TO_THE_NUMBER}")
_UNSOLVED = re.compile(  # an equation that is left in its unknown: 3x + 4 = 19
    r"[^=]*?(?:[0-9][xyzn]\b|\b[xyzn] [-+*/×] [^=\s]|[0-9)] [-+*/×] [xyzn]\b)[^=A-Za-z$]*=[^=A-Za-z$]*\Z"
)


def number_of(sentence: str, is_exact: bool = True) -> Reading:
    """The number that ``sentence`` states; stated without a number where it is an expression that was not worked out.

    ``is_exact``: so is a difference of two numbers (``10 - 12``), which may be a score or a range in running text.
    """
    bold = [span.span() for span in _BOLD.finditer(sentence)]
    start, stop = (0, len(sentence)) if bold else _main_clause(sentence)
    if sentence[start : start + 1] == "=" and _UNSOLVED.match(sentence):
        return True, None
    best, best_key = None, (False, False, 0)
    for match in NUMBER.finditer(sentence, start, stop):
        negated = _NEGATION.search(sentence, max(0, match.start() - 24), match.start())
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
    for consequence in _CONSEQUENCE.finditer(sentence):
        start = consequence.end() if NUMBER.search(sentence, consequence.end()) else start
    condition = _CONDITION.match(sentence, start)
    start = condition.end() if condition and NUMBER.search(sentence, condition.end()) else start
    equals = sentence.rfind("=", start)
    start = equals if equals >= 0 and NUMBER.search(sentence, equals) else start
    first = NUMBER.search(sentence, start)
    behind = _SUBORDINATE.search(sentence, first.end()) if first else None
    return start, behind.start() if behind else len(sentence)


def _rank(sentence: str, start: int, match: re.Match[str]) -> int:
    before = sentence[max(start, match.start() - 80) : match.start()]
    if ORDINAL.match(sentence, match.end()):
        return -1
    if _ADJUNCT_BEHIND.match(sentence, match.end()) or _PURPOSE.search(before):
        return 0
    if _COMPLEMENT.search(before):
        return 2
    return 0 if _ADJUNCT.search(before) else 1


def worked_out(sentence: str, match: re.Match[str], is_exact: bool = True) -> Reading:
    """The value of a number, none where it is a part of an expression (``3 + 4``, ``18 + x``)."""
    is_operand = (
        _OPERATION_BEHIND.match(sentence, match.end())
        or (is_exact and _DIFFERENCE_BEHIND.match(sentence, match.end()))
        or _OPERATION_BEFORE.search(sentence, max(0, match.start() - 12), match.start())
    )
    return True, None if is_operand else value(sentence, match)
