"""The rule ``flexible``: which number of a completion is its answer. docs/answers.md states its grammar step by step.

    "<think>2*9=18?</think>She sells 9 eggs at $2.\\n**Answer:** $18 a day (not 20).\\n\\nQ: If 5 cars ..."  ->  18

The last statement decides: a ``####`` marker, a box, a tag, an answer phrase or label. Where there is none, it is a
number that stands alone, else the one that the last sentence is about. What is stated but is no number (``#### 7:30``,
``18 + x``) is no answer: nothing is evaluated, and no weaker kind is asked. Every step looks at each character a
bounded number of times, so the time is linear in the length of the text.
"""

import re
from collections import deque
from decimal import Decimal
from itertools import islice, pairwise

from gsm8k_nb.answers.grammar import patterns
from gsm8k_nb.answers.numerals import NUMBER, ORDINAL, normalise, value
from gsm8k_nb.answers.passages import answer_part, has_no_last_word, until_each_question, without_programs
from gsm8k_nb.answers.sentences import ABSENT, Reading, number_of, worked_out

WINDOW = 400  # characters behind a marker or phrase in which its value must stand
LONGEST = 600  # characters of a sentence that are looked at, from its end
MAX_CANDIDATES = 1000  # a text with more statements of one kind, or more questions, repeats itself
MAX_STEP = 20  # a greater number before a dot and a word is not the number of a step
RETRACTED: Reading = (False, Decimal(0))  # an empty box: what was stated before it holds no more
IN_WORDS: Reading = (False, Decimal(1))  # a statement in words alone

_P = patterns("flexible")
_KINDS = (  # what a text must hold to be searched for the pattern: many times faster than the search
    ("####", _P.marker), ("box", _P.box), ("<", _P.tag), ("ans", _P.phrase), ("answer", _P.heading),
    ("答", _P.other_phrase), ("답", _P.other_phrase), ("a:", _P.a_label), ("a*", _P.a_label),
    ("final answer", _P.bare_phrase), ("should", _P.bare_phrase),
)  # fmt: skip


def flexible(text: str, cut: bool = False) -> Decimal | None:
    """The answer of a completion; None where it gives none, its last number too if the token limit ``cut`` it."""
    part, is_end = answer_part(text)
    part = without_programs(part)
    cut = (cut and is_end) or part.rfind(r"\[") > part.rfind(r"\]") or part.rfind(r"\(") > part.rfind(r"\)")
    pieces = list(islice(until_each_question(normalise(part)), MAX_CANDIDATES))
    for piece in pieces:
        stated, number = _stated(piece)
        if not stated and not (cut and piece is pieces[-1]):
            stated, number = _unstated(piece)
        if stated:
            return number
    return None


def _stated(text: str) -> Reading:
    """The last statement that holds."""
    lower = text.lower()  # of the same length: normalising leaves no letter whose lower case is longer
    found: list[re.Match[str]] = []
    for hint, pattern in _KINDS:
        if hint in lower:
            found += deque(pattern.finditer(text if pattern in (_P.a_label, _P.bare_phrase) else lower), MAX_CANDIDATES)
    found.sort(key=lambda match: match.span())
    anything, retracted, limit = False, False, len(text)
    for index in range(len(found) - 1, -1, -1):
        reading = _statement(text, found[index], limit, found[index - 1].end() if index else 0)
        if reading[0]:
            return (True, None) if retracted else reading
        anything = anything or reading is IN_WORDS
        retracted = retracted or reading is RETRACTED
        limit = found[index].start()
    return (anything, None)


def _statement(text: str, match: re.Match[str], limit: int, before: int) -> Reading:
    """What one statement says; the one before it ends at ``before``, the next begins at ``limit``."""
    start, end = match.span()
    if match.re is _P.marker:
        return _behind_marker(text, end, limit)
    if match.re is _P.box:
        return _in_box(text, start, end, before > 0 and _P.word.search(text, before, start) is None)
    if match.re is _P.tag:
        close = text.find("</", end, limit)
        return _section(text, end, limit if close < 0 else close)
    return _behind_phrase(text, match, limit)


def _behind_marker(text: str, start: int, limit: int) -> Reading:
    lead = min(_P.lead.match(text, start, limit).end(), limit)
    stop = min(limit, _line_end(text, lead))
    number = NUMBER.search(text, lead, stop)
    has_more = _P.word.search(text, stop) is not None
    if _P.no_number.match(text, lead, stop):
        return True, None
    if number is None or has_more and (_step_number(text, lead) == lead or ORDINAL.match(text, number.end())):
        return ABSENT
    if number.start() > lead and _P.digit.search(text, stop):
        return ABSENT  # a heading with working below it
    return _value(text, start, stop)


def _in_box(text: str, start: int, end: int, behind_phrase: bool) -> Reading:
    if text[end - 1] != "{":
        return _value(text, end, min(len(text), end + 40))
    close = _P.balanced.match(text, end, end + WINDOW).end()
    if text[close : close + 1] != "}" and not (behind_phrase and close == len(text)):
        return RETRACTED
    content = text[end:close]
    if not _P.word.search(content):
        return ABSENT if _P.named_only.search(text[max(0, start - 12) : start]) else RETRACTED
    if _P.no_number.match(content.lstrip("\\( ")):
        return True, None
    return _value(text, end, close)


def _behind_phrase(text: str, match: re.Match[str], limit: int) -> Reading:
    start = match.end()
    lead = _P.lead.match(text, start, limit).end()
    stop = min(limit, _line_end(text, lead))
    if _P.no_number.match(text, lead, stop):
        return True, None
    if _P.remark.match(text, lead, stop):
        return ABSENT
    is_label = match.groupdict().get("label", True) is not None
    number = NUMBER.search(text, lead, stop)
    if is_label and _is_title(text, match, lead, stop, limit, number):
        return _section(text, start, limit)
    if number and not is_label and _P.sentence_end.search(text, lead, number.start()):
        return ABSENT
    if number is None:
        return IN_WORDS if _P.word.search(text, lead, stop) and not _P.digit.search(text, stop) else ABSENT
    return _value(text, start, stop, is_label)


def _is_title(text: str, match: re.Match[str], lead: int, stop: int, limit: int, number: re.Match[str] | None) -> bool:
    """Whether a label heads what follows: not a number (and its unit) alone, but a list or several sentences."""
    alone = "\n" in text[match.end() : lead]
    is_entry = alone and (_P.bullet.search(text, max(0, lead - 3), lead) or _step_number(text, lead) is not None)
    if number and number.start() == lead and _P.bare_end.match(text, number.end(), limit) and not is_entry:
        return False
    before = text[max(0, match.start() - 8) : match.start()].lower()
    if alone or "final" in before or before.endswith(('"', "'", "<")) or (match.re is _P.heading and match[1]):
        return alone
    opens = not _P.word.search(text, 0, max(0, match.start() - len("The ")))
    end = _P.sentence_end.search(text, lead, stop)
    return bool((end and _P.digit.search(text, end.end(), stop)) or (opens and _P.digit.search(text, stop, limit)))


def _section(text: str, start: int, stop: int) -> Reading:
    """What is read as a text of its own: behind a heading, within a tag."""
    reading = _unstated(text[start:stop], is_end=stop == len(text))
    return reading if reading[0] or not _P.word.search(text, start, stop) else IN_WORDS


def _value(text: str, start: int, stop: int, may_be_subject: bool = False) -> Reading:
    """The number stated between ``start`` and ``stop``; one that stands right there must itself be sound."""
    number = NUMBER.search(text, start, stop)
    if number is None:
        return ABSENT
    if _P.code.search(text, start, number.start()):
        return True, None
    stands_right_there = number.start() <= _P.lead.match(text, start, stop).end()
    end = (_P.clause_end if stands_right_there else _P.sentence_end).search(text, number.end(), stop)
    clause = text[start : end.start() if end else stop]
    equals = NUMBER.search(clause, clause.rfind("=")) if "=" in clause else None
    if equals or not stands_right_there or (may_be_subject and value(text, number) is not None):
        return number_of(clause)
    return worked_out(text[:stop], number)


def _unstated(text: str, is_end: bool = True) -> Reading:
    """A number that stands alone, else the one that the last sentence with a number is about."""
    text = _P.empty_label.sub("", text.rstrip())
    rest = _P.rest.search(text)
    if rest and NUMBER.search(text, 0, rest.start()):
        text, is_end = text[: rest.start()], False
    if is_end and has_no_last_word(text):
        return ABSENT
    alone = _P.alone.findall(text)
    if alone:
        return number_of(alone[-1])
    weak: Reading = ABSENT
    for line in filter(_P.word.search, reversed(text.split("\n"))):
        step = _step_number(line, 0)
        start = 0 if step is None else step + 2
        ends = [start, *(end.end() for end in _P.sentence_end.finditer(line, start)), len(line)]
        for begin, end in reversed(list(pairwise(ends))):
            sentence = line[max(begin, end - LONGEST) : end]
            if _P.no_number.match(sentence) and not weak[0]:
                return True, None
            reading = number_of(sentence, is_exact=False)
            if not reading[0] or _P.asks.search(sentence):
                continue
            if not _P.aside.match(sentence):
                return reading
            weak = weak if weak[0] else reading
    return weak


def _step_number(text: str, start: int) -> int | None:
    """Where the number of a step or list entry (``2. Add``, ``Step 2:``) that opens the line at ``start`` stands."""
    step = _P.step.match(text, start)
    if step is None or int(step["number"]) > MAX_STEP:
        return None
    if step["word"] is None and (not step["end"] or not _P.entry_behind.match(text, step.end())):
        return None
    return step.start("number")


def _line_end(text: str, start: int) -> int:
    """The end of the line at ``start``, at most ``WINDOW`` characters on."""
    end = text.find("\n", start, start + WINDOW)
    return min(len(text), start + WINDOW) if end < 0 else end
