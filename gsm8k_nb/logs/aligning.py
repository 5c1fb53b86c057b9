"""Which problem a completion is of: by the text of its question, or by the row that the log names.

>>> normal("It costs $1,000.50 —  no, “5”!")
'it costs $1,000.50 - no, "5"!'
"""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsm8k_nb.answers import is_correct
from gsm8k_nb.logs.reading import Entry, Log, gold_number
from gsm8k_nb.records import Problem

_LIKE = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})
_WIDTH = 40  # of the beginnings by which questions are looked for in a longer text


@dataclass(frozen=True)
class Aligned:
    """A log's entries by problem id, in their order; ``unaligned`` has a row with the reason for each other entry.

    ``within`` counts the entries whose question stood in a longer text, ``unchecked`` those placed by their row alone.
    """

    entries: dict[str, list[Entry]]
    unaligned: list[dict[str, Any]]
    within: int
    unchecked: int


def align(log: Log, problems: Sequence[Problem]) -> Aligned:
    """Every entry to the one problem that it is of, or to the list of those that are of none or of several."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        by_text[normal(problem.question)].append(problem.id)
    fits = _fits({entry.question for entry in log.entries if entry.index is None}, by_text)
    aligned, unaligned = defaultdict[str, list[Entry]](list), []
    for entry in log.entries:
        if entry.index is None:
            ids = fits[entry.question]
            reason = f"fits {', '.join(ids)}" if ids else "no problem has this question"
        else:
            row, asked = problems[entry.index : entry.index + 1], normal(entry.question)
            ids = [problem.id for problem in row if not asked or normal(problem.question) in asked]
            reason = f"row {entry.index} of the data set has not this question"
        if len(ids) == 1:
            aligned[ids[0]].append(entry)
        else:
            unaligned.append({"reason": reason} | asdict(entry))
    placed = [entry for entries in aligned.values() for entry in entries]
    within = sum(bool(entry.question) and normal(entry.question) not in by_text for entry in placed)
    return Aligned(dict(aligned), unaligned, within, sum(not entry.question and entry.gold is None for entry in placed))


def normal(text: str) -> str:
    """A question as it is compared: Unicode forms, quotes, dashes, case and blanks made alike, numbers untouched."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_LIKE).casefold().split())


def _fits(questions: set[str], by_text: dict[str, list[str]]) -> dict[str, list[str]]:
    """The ids of the problems that have each question, or, where none has it, whose question stands within it."""
    width = min(_WIDTH, *map(len, by_text), _WIDTH)
    by_start = defaultdict[str, list[str]](list)
    for text in by_text:
        by_start[text[:width]].append(text)
    fits = {}
    for question in questions:
        text = normal(question)
        starts = dict.fromkeys(text[at : at + width] for at in range(len(text) - width + 1))
        inside = [whole for start in starts for whole in by_start.get(start, ()) if whole in text]
        fits[question] = by_text.get(text) or [name for whole in inside for name in by_text[whole]]
    several = [set(ids) for ids in fits.values() if len(ids) > 1]
    # What stands in every prompt that has several questions is part of the template, say an exemplar.
    template = set.intersection(*several) if len(several) > 1 else set()
    return {question: [i for i in ids if i not in template] if len(ids) > 1 else ids for question, ids in fits.items()}


def other_golds(problems: Sequence[Problem], aligned: Aligned) -> list[dict[str, str]]:
    """The problems for which the log holds another answer for right than the data set: id, theirs, ours."""
    return [
        {"problem_id": problem.id, "theirs": str(gold), "ours": str(problem.answer)}
        for problem in problems
        for gold in dict.fromkeys(gold_number(entry.gold) for entry in aligned.entries[problem.id])
        if gold is not None and not is_correct(gold, problem.answer)
    ]
