"""The rule ``flexible``: which number of a completion is its answer, as one stated order.

    "<think>2*9=18?</think>She sells 9 eggs at $2.\\n**Answer:** $18 a day (not 20).\\n\\nQ: If 5 cars ..."  ->  18

1. Reasoning is dropped: everything up to the last closing tag (``</think>`` and its like). An opening tag that is
   never closed ends the answer: what follows it is no answer.
2. The first turn is kept: an end-of-turn token, or the start of a user's turn, ends the answer. Other special tokens
   are removed.
3. Spellings are made one: signs, digits, spaces, fractions and LaTeX (``numerals.normalise``).
4. A new question (``Question:``, ``Q:``, ``Problem:`` at the start of a line or sentence) ends the answer, once a
   number was given; a question restated before any number does not.
5. The strongest kind of candidate present decides, and of that kind the last one that is a number:
   a. a ``####`` marker with a number, or ``... = number``, right behind it (a heading ``#### 1. Count`` is none);
   b. ``\\boxed{...}``;
   c. an answer phrase or label: ``the answer is``, ``Answer:``, ``A:`` at the start of a line, ``Final answer``, a
      heading ``Answer``, a JSON key ``"answer":``, a tag ``<answer>``. A remark (``the answer is based on ...``) is
      none, nor is ``Answer:`` or ``A:`` at the start of the text with worked steps behind it, not a number alone;
   d. the last number of the text; ordinals only where there is no other, step and list numbers never.
6. Of a, b and c the value is the first number behind it, or what the last ``=`` of its clause equals
   (``the answer is 2 x 9 = 18``). A number after ``not``, ``instead of`` or ``rather than`` is passed over.
7. Where the strongest kind states something that is no number (``#### 7:30``, ``\\boxed{2^{10}}``, ``infinity``, code,
   ``the answer is 3 + 4``), there is no answer: nothing is evaluated, and no weaker kind is asked.

Every step looks at each character a bounded number of times, so the time is linear in the length of the text.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TypeVar

from gsm8k_nb.answers.numerals import CURRENCY, NUMBER, is_ordinal, normalise, value

T = TypeVar("T")
Reading = tuple[bool, Decimal | None]  # (something was stated, the number it is); (True, None): stated, but no number
ABSENT: Reading = (False, None)

WINDOW = 400  # characters behind a marker or phrase in which its value must stand
MAX_CANDIDATES = 1000
MAX_STEP = 20  # a greater number before a dot and a word is not the number of a step

_REASONING_END = re.compile(
    r"</(?:think|thinking|thought|reasoning) ?>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.IGNORECASE
)
_REASONING_START = re.compile(
    r"<(?:think|thinking|thought|reasoning) ?>|\[THINK\]|◁think▷|<\|channel\|>analysis<\|message\|>", re.IGNORECASE
)
_TURN_END = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|end_of_turn|user)\|>|</s>|<eos>|<end_of_turn>|\[INST\]"
    r"|<(?:\|im_start\||\|start_header_id\||start_of_turn)>\s{0,2}user|<｜(?:User|end▁of▁sentence)｜>"
    r"|^[#*> ]{0,6}(?:User|Human)[* ]{0,3}:",
    re.MULTILINE,
)
_SPECIAL = re.compile(
    r"<[|｜][^|｜<>\n]{1,60}[|｜]>|</?(?:s|bos|pad|unk|mask|sep|cls)>|</?[A-Za-z][A-Za-z_-]{0,30}[0-9][\w-]{0,30}>|\[/INST\]"
)
_QUESTION = re.compile(
    r"(?:^[ \t>#*_]{0,8}(?:[Nn]ext |[Nn]ew |[Aa]nother )?|(?<=[.!?]) {1,3})"
    r"(?:(?:[Qq]uestion|[Pp]roblem|Exercise|Instruction|QUESTION|PROBLEM) {0,2}[0-9]{0,4}|Q[0-9]{0,4})[*_ ]{0,3}:"
    r"|^#{1,6} ?\**(?:Question|Problem|Exercise)(?: [0-9]{1,4})?[* ]{0,3}$",
    re.MULTILINE,
)

# A completion holds none of these as a rule; asking for them first is many times faster than searching a pattern.
_TURN_HINTS = ("<|", "</s>", "<eos>", "<end_of", "<start_of", "<｜", "[INST]", "User", "Human")
_QUESTION_HINTS = ("uestion", "roblem", "UESTION", "ROBLEM", "xercise", "nstruction", "Q")

_MARKER = re.compile(r"#{4,}")
_BOX = re.compile(r"(?:\\f?box(?:ed)?|\bboxed|\x08oxed) ?\{")
_BRACE = re.compile(r"[{}]")
_CODE = re.compile(r"__|[A-Za-z_]\w+\(|\b(?:import|lambda)\b")
_ANSWER = re.compile(
    r"""(?<![a-z/]) ans(?:wers?)?(?![a-z]) ["'*_`)\]]{0,4} (?:[ ]?\([^()\n]{0,40}\))?
    (?:[ ,]{1,2}(?:to|for|of|in|on|as|here|therefore|then|thus|now|we|i)\b[^.:=\n]{0,80}? | ,[^.:=,\n]{0,60},)?
    ["'*_`]{0,4}[ ]{0,2}
    (?: (?P<label>[:=]|-?>)
      | (?:is|was|are|equals|becomes|(?:would|will|should|must)\ be|comes\ (?:out\ )?to)(?![\w'])
    )
    """,
    re.VERBOSE,
)
_ANSWER_HEADING = re.compile(r"^[ \t#>*_]{0,8}(?:the )?(final )?answer[ *_#]{0,4}$", re.MULTILINE)
_FINAL_ANSWER = re.compile(rf"final answer(?=[^\w\n:=]{{0,6}}(?:{CURRENCY} ?)?[0-9])", re.IGNORECASE)
_A_LABEL = re.compile(r"^[ \t>*_#\"'(]{0,6}A[*_]{0,2} ?:", re.MULTILINE)

_ABOUT = r"(?:about|approximately|around|roughly|nearly|only|just|exactly|a total of)"
_LEAD = re.compile(rf"(?:[^\w\ufffc]|_)*+(?:(?:{CURRENCY}|{_ABOUT})(?![a-z])(?:[^\w\ufffc]|_)*+){{0,3}}", re.IGNORECASE)
_BULLET = re.compile(r"[-*+•][ \t]\Z")
_STEP = re.compile(
    r"[\W_]{0,12}(?:(?P<word>step|part|case|method|option) {1,2})?(?P<number>[0-9]{1,2})(?P<end>[.):]|$)", re.IGNORECASE
)
_ENTRY_BEHIND = re.compile(r"[*_]{0,2}[ \t]{1,4}[*_\"'($£€]{0,3}[A-Za-z0-9]")
_NO_NUMBER_WORD = re.compile(
    r"(?:infinit|inf\b|nan\b|undefined|indeterminate|unknown\b|none\b|null\b|n/a\b)", re.IGNORECASE
)
_REMARK = re.compile(
    r"(?:based|derived|correct|right|wrong|found|obtained|calculated|computed|given|because|verified|consistent)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"(?:\bnot|n't|\binstead of|\brather than)(?: just| only| equal to)? {1,2}\W{0,4}\Z", re.IGNORECASE
)
_CLAUSE_END = re.compile(
    r"[.!?;](?=\s|$)|,\s(?![$£€(]?[0-9])|(?<=[\w%$)])\s{1,2}\(|\s(?:because|since|as|where|so|and|which|after|if|when)\b|\n",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"%? {0,2}(?:[*×÷/+^-]|x(?= ?[0-9])|(?:plus|minus|times)\b) {0,2}[($£€]{0,2} ?[0-9]", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_BARE_END = re.compile(
    r"[^\w\n]*+(?:[A-Za-z]++[^\w\n]*+){0,3}+(?:\n|$)|[^\w\n.;]*+(?:[A-Za-z]++[^\w\n.;]*+){0,2}+[.;](?:\s|$)"
)
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"\w")


def flexible(text: str) -> Decimal | None:
    """The answer of a completion by the order in the module's docstring, or None where it gives none."""
    kept = _first_turn(without_reasoning(text))
    for piece in _until_each_question(normalise(kept)):
        stated, number = _read(piece)
        if stated:
            return number
    return None


def without_reasoning(text: str) -> str:
    """Step 1: what follows the last closed reasoning block, up to one that is opened and never closed."""
    if "<" not in text and "[" not in text and "◁" not in text:
        return text
    end = 0
    for closing in _REASONING_END.finditer(text):
        end = closing.end()
    opening = _REASONING_START.search(text, end)
    return text[end : opening.start()] if opening else text[end:]


def _first_turn(text: str) -> str:
    """Step 2. A boundary with nothing before it, such as a leading ``</s>``, ends nothing."""
    start = 0
    if any(hint in text for hint in _TURN_HINTS):
        for boundary in _TURN_END.finditer(text):
            turn = _SPECIAL.sub(" ", text[start : boundary.start()])
            if _WORD.search(turn):
                return turn
            start = boundary.end()
    return _SPECIAL.sub(" ", text[start:]) if "<" in text or "[/INST]" in text else text[start:]


def _until_each_question(text: str) -> Iterator[str]:
    """Step 4: the text up to its first new question, then up to the next, and so on."""
    start = 0
    if any(hint in text for hint in _QUESTION_HINTS):
        for question in _QUESTION.finditer(text):
            yield text[start : question.start()]
            start = question.start()
    yield text[start:]


def _read(text: str) -> Reading:
    """Steps 5 and 7: the strongest kind that states something."""
    for kind in (_markers, _boxes, _phrases):
        anything = False
        for stated, number in kind(text):
            if number is not None:
                return True, number
            anything = anything or stated
        if anything:
            return True, None
    return _last_number(text)


def _markers(text: str) -> Iterator[Reading]:
    """Kind a, last first."""
    if "####" not in text:
        return
    after = len(text)
    for marker in _last_first(_MARKER.finditer(text)):
        start, limit, after = marker.end(), after, marker.start()
        lead = _LEAD.match(text, start, limit).end()
        limit = min(limit, _line_end(text, lead))
        equals = text.rfind("=", lead, limit)
        if _is_heading(text, lead):
            continue
        if _is_direct(text, start, limit):
            yield _number_behind(text, start, limit, direct=True)
        elif equals >= 0 and _is_direct(text, equals + 1, limit):
            yield _number_behind(text, equals + 1, limit, direct=True)
        elif _NO_NUMBER_WORD.match(text, lead, limit):
            yield True, None


def _boxes(text: str) -> Iterator[Reading]:
    """Kind b, last first. A box that is not closed within ``WINDOW`` characters is no box."""
    if "box" not in text and "\x08oxed" not in text:
        return
    for box in _last_first(_BOX.finditer(text)):
        end = _closing_brace(text, box.end())
        if end is None:
            continue
        content = text[box.end() : end]
        if _NO_NUMBER_WORD.search(content) or _CODE.search(content):
            yield True, None
        else:
            yield _number_behind(text, box.end(), end, direct=True)


def _phrases(text: str) -> Iterator[Reading]:
    """Kind c, last first."""
    limit = len(text)
    phrases = _answer_phrases(text)
    opening = _WORD.search(text).start() if phrases else 0
    for start, end, may_be_title in _last_first(phrases):
        yield _behind_phrase(text, end, limit, may_be_title and start - opening <= len("The "))
        limit = start


def _answer_phrases(text: str) -> list[tuple[int, int, bool]]:
    """Every phrase and label as (start, end, may be a title of worked steps), in order."""
    found: list[tuple[int, int, bool]] = []
    lower = text.lower()  # of the same length: normalising leaves no letter whose lower case is longer
    if "ans" in lower:
        for match in _ANSWER.finditer(lower):
            before = lower[max(0, match.start() - 8) : match.start()]
            sure = match["label"] is None or "final" in before or before.endswith(('"', "'", "<"))
            found.append((match.start(), match.end(), not sure))
        if "answer" in lower:
            found += [(m.start(), m.end(), m[1] is None) for m in _ANSWER_HEADING.finditer(lower)]
            found += [(m.start(), m.end(), False) for m in _FINAL_ANSWER.finditer(lower)]
    if "A" in text:
        found += [(m.start(), m.end(), True) for m in _A_LABEL.finditer(text)]
    return sorted(found)


def _behind_phrase(text: str, start: int, limit: int, is_first: bool) -> Reading:
    lead = _LEAD.match(text, start, limit).end()
    limit = min(limit, _line_end(text, lead))
    if _NO_NUMBER_WORD.match(text, lead, limit):
        return True, None
    if _REMARK.match(text, lead, limit) or ("\n" in text[start:lead] and _is_list_entry(text, start, lead)):
        return ABSENT
    direct = _is_direct(text, start, limit)
    if is_first and _opens_working(text, lead, limit, direct):
        return ABSENT
    return _number_behind(text, start, limit, direct)


def _opens_working(text: str, lead: int, limit: int, direct: bool) -> bool:
    """Whether worked steps follow: neither a number (and its unit) alone, nor the only sentence with a number."""
    number = NUMBER.search(text, lead, limit)
    if direct and number and _BARE_END.match(text, number.end()):
        return False
    sentence = _SENTENCE_END.search(text, lead)
    return sentence is not None and _DIGIT.search(text, sentence.end()) is not None


def _number_behind(text: str, start: int, limit: int, direct: bool) -> Reading:
    """Step 6: the number stated between ``start`` and ``limit``; one that stands right there must itself be sound."""
    number = None
    for match in NUMBER.finditer(text, start, limit):
        if _is_negated(text, match.start()):
            continue
        if direct or value(text, match) is not None:
            number = match
            break
    if number is None:
        return ABSENT
    if _CODE.search(text, start, number.start()):
        return True, None
    stop = _CLAUSE_END.search(text, number.end(), limit)
    stop_at = stop.start() if stop else limit
    equals = text.rfind("=", number.end(), stop_at)
    result = NUMBER.search(text, equals + 1, stop_at) if equals >= 0 else None
    number = result or number
    return True, None if _OPERATION.match(text, number.end()) else value(text, number)


def _last_number(text: str) -> Reading:
    """Kind d: the last number, line by line from the end."""
    ordinal = None
    end = len(text)
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        step = _step_number(line, 0)
        for match in reversed(list(NUMBER.finditer(line))):
            number = value(line, match)
            if number is None or match.start() == step or _is_negated(line, match.start()):
                continue
            if not is_ordinal(line, match):
                return True, number
            ordinal = number if ordinal is None else ordinal
        end = start - 1
    return (False, None) if ordinal is None else (True, ordinal)


def _step_number(text: str, start: int) -> int | None:
    """Where the number of a step or list entry (``2. Add``, ``Step 2:``) that opens the line at ``start`` stands."""
    step = _STEP.match(text, start)
    if step is None or int(step["number"]) > MAX_STEP:
        return None
    if step["word"] is None and (not step["end"] or not _ENTRY_BEHIND.match(text, step.end())):
        return None
    return step.start("number")


def _last_first(candidates: Iterable[T]) -> list[T]:
    """The candidates from the last back, ``MAX_CANDIDATES`` at most: a text with more of one kind repeats itself."""
    return list(candidates)[: -MAX_CANDIDATES - 1 : -1]


def _is_heading(text: str, start: int) -> bool:
    """Whether ``#### 1. Count the boxes`` titles what follows: a step's number, its text, and more on a later line."""
    return _step_number(text, start) == start and _WORD.search(text, _line_end(text, start)) is not None


def _is_list_entry(text: str, start: int, lead: int) -> bool:
    """Whether what stands at ``lead`` is an entry of a list, not a value."""
    return _BULLET.search(text, max(start, lead - 3), lead) is not None or _step_number(text, lead) is not None


def _is_direct(text: str, start: int, limit: int) -> bool:
    """Whether a number stands right behind ``start``, but for signs, blanks, a currency or ``about``."""
    number = NUMBER.search(text, start, limit)
    return number is not None and number.start() <= _LEAD.match(text, start, limit).end()


def _is_negated(text: str, start: int) -> bool:
    return _NEGATION.search(text[max(0, start - 24) : start]) is not None


def _line_end(text: str, start: int) -> int:
    """The end of the line at ``start``, at most ``WINDOW`` characters on."""
    end = text.find("\n", start, start + WINDOW)
    return min(len(text), start + WINDOW) if end < 0 else end


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for brace in _BRACE.finditer(text, start, start + WINDOW):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None
