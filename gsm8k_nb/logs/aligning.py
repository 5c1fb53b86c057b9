"""Which problem a completion is of: by the text of its question, or by the row that the log names.

>>> normal("It costs $1,000.50 —  no, “5”!")
'it costs $1,000.50 - no, "5"!'
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from gsm8k_nb.answers import gold_of, is_correct, parse_gold
from gsm8k_nb.logs.log import Entry, Log
from gsm8k_nb.records import Problem

_LIKE = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})
_WIDTH = 40  # of the beginnings by which questions are looked for in a longer text


@dataclass(frozen=True)
class Aligned:
    """A log's entries by problem id, in their order; ``unaligned`` has a row with the reason for each other entry.

    ``within`` counts the entries whose question stood in a longer text, ``unchecked`` those placed by their row alone.
    """

    matched: dict[str, list[Entry]]
    unaligned: list[dict[str, Any]]
    within: int
    unchecked: int


def align(log: Log, problems: Sequence[Problem]) -> Aligned:
    """Every entry to the one problem that it is of, or to the list of those that are of none or of several."""
    finder = _Finder(problems, [entry.question for entry in log.entries if entry.index is None])
    matched: dict[str, list[Entry]] = {}
    unaligned, within, unchecked = [], 0, 0
    for entry in log.entries:
        fits, reason = finder.by_row(entry) if entry.index is not None else finder.by_question(entry.question)
        if len(fits) != 1:
            unaligned.append({"reason": reason} | asdict(entry))
            continue
        matched.setdefault(fits[0], []).append(entry)
        within += bool(entry.question) and normal(entry.question) not in finder.by_text
        unchecked += not entry.question and entry.gold is None
    return Aligned(matched, unaligned, within, unchecked)


def normal(text: str) -> str:
    """A question as it is compared: Unicode forms, quotes, dashes, case and blanks made alike, numbers untouched."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_LIKE).casefold().split())


def other_golds(problems: Sequence[Problem], matched: dict[str, list[Entry]]) -> list[dict[str, Any]]:
    """The problems for which the log holds another answer for right than the data set: id, theirs, ours."""
    rows = []
    for problem in problems:
        golds = {gold for entry in matched[problem.id] if (gold := _gold(entry.gold)) is not None}
        rows += [
            {"problem_id": problem.id, "theirs": str(gold), "ours": str(problem.answer)}
            for gold in golds
            if not is_correct(gold, problem.answer)
        ]
    return rows


def _gold(text: str | None) -> Decimal | None:
    """The number in a log's gold answer, a whole solution or the number alone; None where it has none to read."""
    try:
        return None if text is None else gold_of(text) if "####" in text else parse_gold(text.strip().strip("$"))
    except ValueError:
        return None


class _Finder:
    """Finds the problems whose question a text is, or has in it."""

    def __init__(self, problems: Sequence[Problem], questions: list[str]) -> None:
        self.problems = problems
        self.by_text: dict[str, list[str]] = {}
        for problem in problems:
            self.by_text.setdefault(normal(problem.question), []).append(problem.id)
        self.width = min(_WIDTH, *map(len, self.by_text), _WIDTH)
        self.by_start: dict[str, list[str]] = {}
        for text in self.by_text:
            self.by_start.setdefault(text[: self.width], []).append(text)
        fits = {question: self._fits(question) for question in dict.fromkeys(questions)}
        several = [set(ids) for ids in fits.values() if len(ids) > 1]
        # What stands in every prompt that has several questions is part of the template, say an exemplar.
        template = set.intersection(*several) if len(several) > 1 else set()
        self.known = {
            question: [name for name in ids if name not in template] if len(ids) > 1 else ids
            for question, ids in fits.items()
        }

    def _fits(self, question: str) -> list[str]:
        text = normal(question)
        if text in self.by_text:
            return self.by_text[text]
        starts = Counter(text[at : at + self.width] for at in range(len(text) - self.width + 1))
        inside = [
            whole for start in starts if start in self.by_start for whole in self.by_start[start] if whole in text
        ]
        return [name for whole in inside for name in self.by_text[whole]]

    def by_question(self, question: str) -> tuple[list[str], str]:
        """The ids that a question fits, and the reason why it is not one."""
        ids = self.known[question]
        return ids, f"fits {', '.join(ids)}" if ids else "no problem has this question"

    def by_row(self, entry: Entry) -> tuple[list[str], str]:
        """The problem in the row that the log names, if it has the question that the log has for it."""
        if entry.index is None or not 0 <= entry.index < len(self.problems):
            return [], f"there is no row {entry.index} in the data set"
        problem = self.problems[entry.index]
        if entry.question and normal(problem.question) not in normal(entry.question):
            return [], f"{problem.id} has another question"
        return [problem.id], ""
