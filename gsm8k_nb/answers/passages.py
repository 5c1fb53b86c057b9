"""Which part of a completion is its answer: outside reasoning, in the first turn, up to the next question.

    "<think>2*9=18?</think>She sells 9 eggs.\\n#### 18<|im_end|>\\nuser ..."  ->  "She sells 9 eggs.\\n#### 18"

What follows an opening mark of reasoning that is never closed is no answer, but for a last line with a box, as where an
answer was forced. A text has no last word where it breaks off, ends in a loop, or ends as a program without its output.
"""

import re
from collections.abc import Iterator

from gsm8k_nb.answers.numerals import HINTS, WORDS

_NAME = rf"(?:\w{{1,12}}[:_])?{WORDS.reasoning}(?:_process)?"
_REASONING_END = re.compile(
    rf"</{_NAME}(?: ?>|(?=\s|\Z))|<\|?end_(?:of_)?{_NAME}\|?>|{WORDS.reasoning_end}", re.IGNORECASE
)
_REASONING_START = re.compile(
    rf"<{_NAME} ?>|<\|?(?:start|begin)_(?:of_)?{_NAME}\|?>|{WORDS.reasoning_start}", re.IGNORECASE
)
_FORCED = re.compile(r"\n[^\n]{0,80}\\boxed[^\n]*\s*\Z")
_TURN_END = re.compile(
    rf"<\|{WORDS.turn_end}\|>|{WORDS.other_turn_end}|^[#*> ]{{0,6}}(?:User|Human)[* ]{{0,3}}:"
    r"|<(?:\|im_start\||\|start_header_id\||start_of_turn|\|turn)>\s{0,2}user",
    re.MULTILINE,
)
_SPECIAL = re.compile(
    r"<(?:[|｜][^|｜<>\n]{1,60}[|｜]|\|?(?:channel|turn)\|?|/?(?:s|bos|pad|unk|mask|sep|cls)"
    r"|/?[A-Za-z][A-Za-z_-]{0,30}[0-9][\w-]{0,30})>"
)
_QUESTION = re.compile(
    r"(?:^[ \t>#*_]{0,8}(?:[Nn]ext |[Nn]ew |[Aa]nother )?|(?<=[.!?]) {1,3})"
    rf"(?:{WORDS.asking} {{0,2}}[0-9]{{0,4}}|Q[0-9]{{0,4}}|{WORDS.asking_elsewhere})[*_ ]{{0,3}}[:：]"
    rf"|^\[{WORDS.asking} ?[0-9]{{0,4}}\]|^#{{1,6}} ?\**{WORDS.asking}(?: [0-9]{{1,4}})?[* ]{{0,3}}$",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"\b(?:print ?\(|def \w|import \w|return\b)")
_PROGRAM_LINE = re.compile(
    r"\s*(?:(?:return|import|def|from \w+ import)\b|print ?\("
    r"|[A-Za-z]\w* ?=(?!=)(?: ?[-+*/(]* ?[A-Za-z_][\w.]*\)*)+\(?[^=\n]*\Z)"
)
_BREAKS_OFF = re.compile(
    rf"(?:(?<![0-9]/)[-+*/×÷=(\[{{<:;&]|;\s*\}}|\\\w+|\b{WORDS.not_last})\s*\Z|\([^()\n]{{0,60}}\w\Z", re.IGNORECASE
)
_SENTENCE_END = r"(?<!\bM[rs])(?<!\bMrs)(?<!\bDr)[.!?:]\s{1,2}|\n"
_UNFINISHED = re.compile(  # a last sentence of three words or more, without number and full stop
    rf"(?:{_SENTENCE_END})[*_ ]{{0,4}}[A-Z](?:[^0-9.!?\s]*[ \t]+){{2,}}[^0-9.!?\s]*[a-z,]\Z"
)
_FULL_STOP = re.compile(r"[a-z][.!?](?:\s|\Z)")
_WORD = re.compile(r"\w")
_LOOP = 40  # characters at the end that must stand four times over, a whole number of periods apart


def without_reasoning(text: str) -> str:
    """What follows the last closed reasoning block, up to one that is opened and never closed."""
    return _around_reasoning(text)[0]


def _around_reasoning(text: str) -> tuple[str, str]:
    """The text outside reasoning, and the reasoning that is opened behind it and never closed."""
    lower = text.lower()
    if not any(hint in lower for hint in HINTS.reasoning):
        return text, ""
    end = max((closing.end() for closing in _REASONING_END.finditer(text)), default=0)
    opening = _REASONING_START.search(text, end)
    return (text[end : opening.start()], text[opening.end() :]) if opening else (text[end:], "")


def answer_part(text: str) -> tuple[str, bool]:
    """The first turn outside reasoning, special tokens removed, and whether it goes on to the end of ``text``.

    A boundary with nothing before it, such as a leading ``</s>``, ends no turn.
    """
    text, unclosed = _around_reasoning(text)
    forced = _FORCED.search(unclosed) if "boxed" in unclosed else None
    text += forced[0] if forced else ""
    start = 0
    if any(hint in text for hint in HINTS.turn):
        for boundary in _TURN_END.finditer(text):
            turn = _SPECIAL.sub(" ", text[start : boundary.start()])
            if _WORD.search(turn):
                return turn, False
            start = boundary.end()
    return _SPECIAL.sub(" ", text[start:]).replace("[/INST]", " "), True


def until_each_question(text: str) -> Iterator[str]:
    """The text up to its first new question, then that question up to the next, and so on."""
    start = 0
    if any(hint in text for hint in HINTS.question):
        for question in _QUESTION.finditer(text):
            yield text[start : question.start()]
            start = question.start()
    yield text[start:]


def without_programs(text: str) -> str:
    """``text`` without its fenced programs: their numbers are no answer, what they print would be."""
    return _FENCE.sub(lambda m: "\n" if m[1] in ("python", "py") or _PROGRAM.search(m[2]) else m[0], text)


def has_no_last_word(text: str) -> bool:
    """Whether ``text`` breaks off, ends in a loop, or ends as a program: its last number is then no answer."""
    end = text.rstrip(" \n\t*_`$")
    line = end[end.rfind("\n") + 1 :][-300:]
    if _BREAKS_OFF.search(line) or _UNFINISHED.search(end[-300:]) or _PROGRAM_LINE.match(line):
        return True
    is_prose = line[:1].isalpha() and line[-1:].isalnum() and not set(":=") & set(line) and line.count(" ") > 4
    if is_prose and len(_FULL_STOP.findall(end)) >= 3:  # a text that ends its sentences, but not the last
        return True
    period = len(end) - _LOOP - end.rfind(end[-_LOOP:], max(0, len(end) - 1000), len(end) - 1)
    return 2 <= period <= len(end) // 4 and end.endswith(end[-period:] * 4) and bool(_WORD.search(end[-period:]))
