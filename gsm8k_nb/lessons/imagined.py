"""Lessons 1, 3, 4 and 5: answers that are wrong on purpose, and samples of models that do not exist."""

import random
from decimal import Decimal

import numpy as np
import pandas as pd
from scipy import stats

from gsm8k_nb import data
from gsm8k_nb.answers import is_correct
from gsm8k_nb.answers.calculator import annotations, evaluate, without_annotations
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.records import Problem
from gsm8k_nb.scoring import steps


def one_step_early(problem: Problem) -> Decimal:
    """The last calculation that is not the answer, a common mistake; the answer plus one where there is none."""
    values = [evaluate(value) for _, value in annotations(problem.solution)]
    numbers = [Decimal(value.numerator) / value.denominator for value in values if value is not None]
    others = [number for number in numbers if not is_correct(number, problem.answer)]
    return others[-1] if others else problem.answer + 1


def samples(skill: float, same_mistake: float, n: int = 16, seed: int = 0) -> pd.DataFrame:
    """n samples of each classroom problem, a row each: problem, gold, sample, answer, correct.

    ``skill`` is the mean chance to be right: Beta(2 skill, 2 (1 - skill)) over problems, some hard, some easy; its
    quantiles, shuffled, so that no luck is in them. Of the wrong answers, the share ``same_mistake`` is one and the
    same number; all others differ from each other.
    """
    problems, rng = data.load("classroom"), np.random.default_rng(seed)
    mean, ranks = np.clip(skill, 0.001, 0.999), (np.arange(len(problems)) + 0.5) / len(problems)
    chances = rng.permutation(stats.beta.ppf(ranks, 2 * mean, 2 * (1 - mean)))
    correct = rng.random((len(problems), n)) < chances[:, None]
    mistakes = np.where(rng.random(correct.shape) < same_mistake, 1, 2 + np.arange(n))
    rows = [
        (problem.id, problem.answer, index, problem.answer + int(offset), offset == 0)
        for problem, offsets in zip(problems, np.where(correct, 0, mistakes), strict=True)
        for index, offset in enumerate(offsets)
    ]
    return pd.DataFrame(rows, columns=["problem", "gold", "sample", "answer", "correct"])


def systems(seed: int = 0) -> pd.DataFrame:
    """Completions of the classroom set by three systems that differ in skill, a row each (run, gold, text, truth).

    Each is made from the gold solution and has its system's way to end an answer; a wrong one stops one step early.
    ``truth`` is whether its answer is right, whatever a rule reads from the text.
    """
    problems, rows = data.load("classroom"), []
    for name, system in DATA["systems"].items():
        n_right = round(system["skill"] * len(problems))
        right = set(random.Random(f"{seed}/{name}").sample(range(len(problems)), n_right))
        for index, problem in enumerate(problems):
            answer = problem.answer if index in right else one_step_early(problem)
            work = without_annotations(problem.solution).rpartition("\n####")[0]
            text = system["ending"].format(work=work, answer=f"{answer:,f}", steps=steps(problem))
            rows.append((name, problem.answer, text, index in right))
    return pd.DataFrame(rows, columns=["run", "gold", "text", "truth"])
