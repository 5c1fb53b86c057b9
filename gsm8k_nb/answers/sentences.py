"""Which number of a sentence is the one that it is about.

    "So, he will be 13 years old in 3 years."  ->  13        "8 pens will cost $12.00."  ->  12
    "So he saves $60 by buying 18 at a time."  ->  60        "9 * 2 = 18 dollars for 7 days"  ->  18

Where there is an ``=``, only what it equals counts. Of the numbers that are left, the highest rank decides:

    3  the complement: behind a form of *be*, ``equals``, ``a total of``, ``=``; or with ``in total`` behind it
    2  the object of a verb that measures: ``costs $12``, ``has 5``, ``needs 3``
    1  any other, the subject among them: ``16 people think ...``
    0  an adjunct or a name: behind a preposition (``in 3 years``, ``for the 7 days``, ``by buying 18``), ``to fill 3``,
       in brackets, ``36-minute``, ``the 3rd``, ``day 5``, ``horse #12``

Numbers in bold outrank all others. A condition that leads (``If she sells 9, ...``, ``In 3 years, ...``) or follows
(``..., because``, ``which``, ``when``) is left out where a number remains; one behind ``not`` or ``instead of`` never
counts. Of equal rank, the last complement and otherwise the first number; outside a conclusion, the last.
"""

import re
from decimal import Decimal

from gsm8k_nb.answers.numerals import CURRENCY, NAMED, NUMBER, is_ordinal, value

Reading = tuple[bool, Decimal | None]  # (something was stated, the number it is); (True, None): stated, but no number
ABSENT: Reading = (False, None)

_PREPOSITION = (
    r"(?:in|every|each|per|for|after|by|within|at|on|over|during|from|before|with|than|since|until|between|among|of|through"
    r"|throughout|about|across|all|both|another|first|last|next|under|above|below|without|out of)"
)
_DEFINITE = r"(?:the|these|those|his|her|their|its|my|our|your|[a-z]+'s)"
_WORDS = r"(?: (?:[0-9]+ )?[A-Za-z]+){0,3}"
_TO_THE_NUMBER = rf"[ \t]*(?:[*_\\(\[\"'~]|{CURRENCY})*[ \t]*-?\Z"
_COMPLEMENT = re.compile(
    r"(?:(?<!to )\b(?:is|are|was|were|be|been|equals?|becomes?|became|contains?"
    r"|(?:left|ends?|ended|remain\w*) (?:up )?with|(?:com|amount|add|work)\w* (?:out |up )?to"
    r"|(?:total|sum|count|cost|price|profit|loss|balance|amount|remainder|difference) of)|(?:it|that|he|she|there|what)'s|=|共|合計|[是为為])\s*"
    rf"(?:(?!{_PREPOSITION}\b|to\b|\w+ing\b)[A-Za-z']+,? ){{0,4}}"
    rf"(?:(?:equal to|a total of|about|over|at least|at most|up to) )?{_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_PURPOSE = re.compile(  # "to fill 3", but not "has to pay 3"
    r"(?<!has )(?<!have )(?<!had )(?<!need )(?<!needs )(?<!able )(?<!going )\bto (?!be\b)"
    rf"(?!(?:get|make|give){_TO_THE_NUMBER})[A-Za-z]+{_WORDS}{_TO_THE_NUMBER}|\b(?:needed|required|used|necessary|enough) to [A-Za-z]+{_WORDS}{_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_ADJUNCT = re.compile(  # a definite number (the 3 brothers) was known before
    rf"(?:\b(?:{_PREPOSITION}|{_DEFINITE})(?: (?:{_DEFINITE}|an?|other|original|remaining|every|each|all|just|only|about"
    rf"|\w+ing))*(?:{_TO_THE_NUMBER[:-4]}[0-9.,]+(?: [A-Za-z]+){{0,2}} and)?|#"
    rf"|\b(?:{NAMED})|\([^()]*){_TO_THE_NUMBER}",
    re.IGNORECASE,
)
_ADJUNCT_BEHIND = re.compile(r"-[A-Za-z]|[天年月日小时分钟周个]+[后内前]")
_COMPLEMENT_BEHIND = re.compile(
    r"[^0-9.,;=]{0,40}\b(?:in total|altogether|in all)\b|(?: ?[^\W\d]+){0,2} (?:is|are|was|were) (?:the|what|how)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\W*(?:so,? |then,? |therefore,? |thus,? )?(?:if|when|since|because|after|as|for|in|with|given|to|by|at|on|of"
    r"|out of|while|from)\b(?:[^,]|,(?! ))*, ",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\([^()]*\)")
_BOLD = re.compile(r"\*\*(?=[^\s*])[^*\n]{1,60}(?<=[^\s*])\*\*")
_SUBORDINATE = re.compile(
    r",? \b(?:because|since|which|who|where|while|if|when|assuming|as (?!many|much|well))\b"
    r"|, (?=\$?[0-9.]+ (?:more|less|fewer)\b)", re.IGNORECASE
)
_CONSEQUENCE = re.compile(
    r", (?:or|i\.e\.,?|that is,?) (?:about |\W{0,2})?(?=\$?[0-9][0-9.,]* [a-z]|\$)|[,;] (?:and )?(?:so|therefore|thus|hence|which means|meaning)\b|\bround\w* (?:up |down |off )?to (?!the\b)"
    r"|[,;] which (?:is|equals|gives|makes|leaves|results in|simplifies (?:it )?to|comes to)\b"
    r"(?=[^0-9]{0,20}[0-9][0-9.,]*(?! ?[0-9%])(?![^.]*\b(?:more|less|fewer|times|than|of|from|after|before)\b))"
)
_NEGATION = re.compile(
    r"(?:\bnot|n't|\binstead of|\brather than)(?: just| only| equal to)? {1,2}\W{0,4}\Z", re.IGNORECASE
)
_OPERATOR = r"(?: \* |\*(?=[0-9($])| [×÷+/x] |[×÷+] ?| (?:plus|minus|times|divided by) (?=[($£€]?[0-9]))"
_OPERATION_BEHIND = re.compile(
    rf"(?: ?[A-Za-z]{{1,12}}){{0,2}}%?(?:{_OPERATOR}| - )[($£€]{{0,2}}[0-9]"
    rf"|%?(?:{_OPERATOR}(?:[A-Za-z]\b|\(|\Z)| ?- ?[a-z]\b)|[xyzn]\b|\([a-z] "
)
_DIFFERENCE_BEHIND = re.compile(r"%? ?(?:[-/^]|x(?= ?[0-9])) ?[($£€]{0,2} ?[0-9]| ?[-/]\s*\Z")
_OPERATION_BEFORE = re.compile(rf"(?:[A-Za-z0-9)%]{_OPERATOR}|(?:\b[a-z]|[0-9)%]) - |[0-9] ?/ ?){_TO_THE_NUMBER}")


def number_of(sentence: str, is_exact: bool = True) -> Reading:
    """The number that ``sentence`` states; stated without a number where it is an expression that was not worked out.

    ``is_exact``: so is a difference of two numbers (``10 - 12``), which may be a score or a range in running text.
    """
    bold = [span.span() for span in _BOLD.finditer(sentence)]
    start, stop = (0, len(sentence)) if bold else _main_clause(sentence)
    numbers = [
        match
        for match in NUMBER.finditer(sentence, start, stop)
        if value(sentence, match) is not None
        and not _NEGATION.search(sentence[max(0, match.start() - 24) : match.start()])
    ]
    numbers = [match for match in numbers if any(a < match.start() < b for a, b in bold)] or numbers
    if not numbers:
        return ABSENT
    ranked = [(_rank(sentence, start, match), match) for match in numbers]
    whole = [(rank, match) for rank, match in ranked if rank > 0 and worked_out(sentence, match, is_exact)[1] is not None]
    best = max(rank for rank, _ in whole or ranked)
    equals = [match for rank, match in whole or ranked if rank == best]
    return worked_out(sentence, equals[-1], is_exact)


def _main_clause(sentence: str) -> tuple[int, int]:
    """Where the part that states the number starts and stops: the last consequence, behind its last ``=``."""
    start = 0
    for consequence in _CONSEQUENCE.finditer(sentence):
        start = consequence.end() if NUMBER.search(sentence, consequence.end()) else start
    condition = _CONDITION.match(sentence, start)
    start = condition.end() if condition and NUMBER.search(sentence, condition.end()) else start
    equals = _BRACKETS.sub(lambda brackets: " " * len(brackets[0]), sentence).rfind("=")
    if equals >= start and NUMBER.search(sentence, equals):
        start = equals
    first = NUMBER.search(sentence, start)
    behind = _SUBORDINATE.search(sentence, first.end()) if first else None
    return start, behind.start() if behind else len(sentence)


def _rank(sentence: str, start: int, match: re.Match[str]) -> int:
    before = sentence[max(start, match.start() - 80) : match.start()]
    if is_ordinal(sentence, match):
        return -1
    if _ADJUNCT_BEHIND.match(sentence, match.end()) or _PURPOSE.search(before):
        return 0
    if _COMPLEMENT.search(before) or _COMPLEMENT_BEHIND.match(sentence, match.end()):
        return 2
    return 0 if _ADJUNCT.search(before) else 1


def worked_out(sentence: str, match: re.Match[str], is_exact: bool = True) -> Reading:
    """The value of a number, none where it is a part of an expression (``3 + 4``, ``18 + x``)."""
    before = sentence[max(0, match.start() - 12) : match.start()]
    is_operand = (
        _OPERATION_BEHIND.match(sentence, match.end())
        or (is_exact and _DIFFERENCE_BEHIND.match(sentence, match.end()))
        or _OPERATION_BEFORE.search(before)
    )
    return True, None if is_operand else value(sentence, match)
