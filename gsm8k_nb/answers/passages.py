"""Which part of a completion is its answer: outside reasoning, in the first turn, up to the next question.

    "<think>2*9=18?</think>She sells 9 eggs.\\n#### 18<|im_end|>\\nuser ..."  ->  "She sells 9 eggs.\\n#### 18"

What follows an opening mark of reasoning that is never closed is no answer, but for a last line with a box, as where an
answer was forced. A text has no last word where it breaks off, ends in a loop, or ends as a program without its output.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gsm8k_nb.answers.grammar import HINTS, patterns

_P = patterns("passages")
_LOOP = 40  # characters at the end that must stand four times over, a whole number of periods apart


class Parted(NamedTuple):
    """A completion's reasoning, None where it has none, and the text beside it; whether the last thought goes on."""

    reasoning: str | None
    text: str
    is_open: bool

    @property
    def forced(self) -> str:
        """The last line of an open thought where it holds a box: an answer that was forced."""
        forced = _P.forced.search(self.reasoning or "") if self.is_open and "boxed" in (self.reasoning or "") else None
        return forced[0] if forced else ""


def parted(text: str, tags: Sequence[str] = ()) -> Parted:
    """Reasoning, and what follows its last closed block, up to one that is opened and never closed.

    ``tags``, an opening and a closing mark, stand in place of all that are known.
    """
    starts, ends = (re.compile(re.escape(tag)) for tag in tags) if tags else (_P.reasoning_start, _P.reasoning_end)
    lower = "" if tags else text.lower()
    if not tags and not any(hint in lower for hint in HINTS.reasoning):
        return Parted(None, text, False)
    closing = max(ends.finditer(text), key=re.Match.end, default=None)
    end = closing.end() if closing else 0
    thought = starts.sub("", text[: closing.start()], 1) if closing else ""
    if opening := starts.search(text, end):
        return Parted(thought + text[opening.end() :], text[end : opening.start()], True)
    return Parted(thought if closing else None, text[end:], False)


def marks_in(template: str) -> tuple[str, str] | None:
    """The opening and closing mark of reasoning that a chat template tells a thought by, or None where it names none.

    >>> marks_in("{% if '</think>' in content %}{{ content.split('</think>')[-1] }}{% endif %}")
    ('<think>', '</think>')
    """
    split = re.search(r"""split\(\s*(['"])((?:</|\[/)[^'"]{1,40})\1""", template)
    opening, closing = _P.reasoning_start.search(template), _P.reasoning_end.search(template)
    if split:
        return split[2].replace("/", "", 1), split[2]
    if opening and (closing or opening[0][0] in "<["):
        return opening[0], closing[0] if closing else f"{opening[0][0]}/{opening[0][1:]}"
    return None


def answer_part(text: str) -> tuple[str, bool]:
    """The first turn outside reasoning, special tokens removed, and whether it goes on to the end of ``text``.

    A boundary with nothing before it, such as a leading ``</s>``, ends no turn.
    """
    whole = parted(text)
    text = whole.text + whole.forced
    start = 0
    if any(hint in text for hint in HINTS.turn):
        for boundary in _P.turn_end.finditer(text):
            turn = _P.special.sub(" ", text[start : boundary.start()])
            if _P.word.search(turn):
                return turn, False
            start = boundary.end()
    return _P.special.sub(" ", text[start:]).replace("[/INST]", " "), True


def until_each_question(text: str) -> Iterator[str]:
    """The text up to its first new question, then that question up to the next, and so on."""
    start = 0
    if any(hint in text for hint in HINTS.question):
        for question in _P.question.finditer(text):
            yield text[start : question.start()]
            start = question.start()
    yield text[start:]


def without_programs(text: str) -> str:
    """``text`` without its fenced programs: their numbers are no answer, what they print would be."""
    return _P.fence.sub(lambda m: "\n" if m[1] in ("python", "py") or _P.program.search(m[2]) else m[0], text)


def has_no_last_word(text: str) -> bool:
    """Whether ``text`` breaks off, ends in a loop, or ends as a program: its last number is then no answer."""
    end = text.rstrip(" \n\t*_`$")
    line = end[end.rfind("\n") + 1 :][-300:]
    if _P.breaks_off.search(line) or _P.unfinished.search(end[-300:]) or _P.program_line.match(line):
        return True
    is_prose = line[:1].isalpha() and line[-1:].isalnum() and not set(":=") & set(line) and line.count(" ") > 4
    if is_prose and len(_P.full_stop.findall(end)) >= 3:  # a text that ends its sentences, but not the last
        return True
    period = len(end) - _LOOP - end.rfind(end[-_LOOP:], max(0, len(end) - 1000), len(end) - 1)
    return 2 <= period <= len(end) // 4 and end.endswith(end[-period:] * 4) and bool(_P.word.search(end[-period:]))
