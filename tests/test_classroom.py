"""The bundled classroom set keeps GSM8K's format and is nobody's copy."""

import json
import re
from collections import Counter
from fractions import Fraction

import pytest

from gsm8k_nb import data
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.scoring import steps

PROBLEMS = data.load("classroom")


def test_size_and_even_spread():
    assert len(PROBLEMS) >= 100
    counts = Counter(steps(problem) for problem in PROBLEMS)
    assert set(counts) == set(range(2, 9))
    assert max(counts.values()) - min(counts.values()) <= 2
    assert len({problem.question for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_every_step_is_annotated_and_true(problem):
    *lines, last = problem.solution.split("\n")
    assert re.fullmatch(r"#### -?(\d+|\d{1,3}(,\d{3})+)", last)
    for line in lines:
        [(expression, stated)] = annotations(line)
        assert evaluate(expression) is not None, expression
        assert evaluate(expression) == evaluate(stated), line
        shown = re.match(r"-?\$?-?[\d,]*\.?\d+", line.split(">>", 1)[1])
        assert shown and evaluate(shown.group()) == evaluate(stated), line
    assert evaluate(annotations(lines[-1])[0][1]) == Fraction(problem.answer)


def test_kinds_of_answers_and_steps():
    golds = [problem.solution.split("\n")[-1] for problem in PROBLEMS]
    text = [problem.question + problem.solution for problem in PROBLEMS]
    assert sum("," in gold for gold in golds) >= 5
    assert sum("-" in gold for gold in golds) >= 3
    for pattern in (r"\$", r"%", r"\b(hour|minute)", r"half|third|quarter|\d/\d"):
        assert sum(bool(re.search(pattern, line)) for line in text) >= 10, pattern


def test_no_near_copy_of_gsm8k(official):
    """No problem shares a quarter of its five-word runs (numbers masked) with a GSM8K problem."""
    known: dict[tuple[str, ...], set[int]] = {}
    sizes = []
    for name in ("test", "train"):
        for line in (official / f"{name}.jsonl").open():
            runs = _runs(json.loads(line)["question"])
            for run in runs:
                known.setdefault(run, set()).add(len(sizes))
            sizes.append(len(runs))
    for problem in PROBLEMS:
        runs = _runs(problem.question)
        shared = Counter(other for run in runs for other in known.get(run, ()))
        for other, count in shared.items():
            assert count <= 0.25 * min(len(runs), sizes[other]), problem.id


def _runs(text: str, n: int = 5) -> set[tuple[str, ...]]:
    words = re.sub(r"[^a-z# ]", "", re.sub(r"\d[\d,.]*", "#", text.lower())).split()
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}
