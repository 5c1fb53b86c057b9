"""Lesson 1: what wrong gold answers do to a score.

    She earns 3 * 4 = $<<3*4=12>>12 a day.        one step, with its calculator annotation
    #### 12                                       the gold answer

A wrong gold answer is made as people make them: the solution stops one step too early.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations

from matplotlib.figure import Figure

from gsm8k_nb.answers import is_correct
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.lessons.show import share as check_share
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting.figures import GREY, RIGHT, frame

GSM8K_STEPS: dict[int, int] = DATA["steps_of_gsm8k"]
LEADERBOARD: dict[str, float] = DATA["leaderboard"]


def with_wrong_labels(problems: Sequence[Problem], share: float, seed: int = 0) -> list[Problem]:
    """The same problems, a share of them (drawn by ``seed``) with a gold answer that stops one step too early.

    Only the label is wrong: the solution stays as it is. ValueError unless 0 <= share <= 1.
    """
    order = list(range(len(problems)))
    random.Random(seed).shuffle(order)
    chosen = set(order[: round(check_share("share", share) * len(problems))])
    return [
        replace(problem, answer=one_step_early(problem)) if index in chosen else problem
        for index, problem in enumerate(problems)
    ]


def one_step_early(problem: Problem) -> Decimal:
    """The value of the last calculation that is not the answer; the answer plus one where there is none."""
    values = [evaluate(value) for _, value in annotations(problem.solution)]
    numbers = [Decimal(value.numerator) / value.denominator for value in values if value is not None]
    others = [number for number in numbers if not is_correct(number, problem.answer)]
    return others[-1] if others else problem.answer + 1


def leaderboard_figure(wrong_percent: float) -> Figure:
    """Five measured scores with all true accuracies that so many percent of wrong labels leave possible."""
    wrong = wrong_percent / 100
    bands = {name: (max(0.0, score - wrong), min(1.0, score + wrong)) for name, score in LEADERBOARD.items()}
    pairs = list(combinations(bands.values(), 2))
    apart = sum(first[0] > second[1] for first, second in pairs)
    with frame(height=1.7) as (figure, axes):
        for place, (name, score) in enumerate(LEADERBOARD.items()):
            axes.plot([100 * end for end in bands[name]], [place, place], color=GREY, linewidth=4, alpha=0.5)
            axes.plot(100 * score, place, "o", color=RIGHT)
        axes.set_yticks(range(len(LEADERBOARD)), LEADERBOARD)
        axes.invert_yaxis()
        axes.set(xlim=(75, 100.5), xlabel="measured accuracy (point), possible true accuracy (bar), %")
        axes.set_title(f"{wrong_percent:g}% wrong labels: order certain for {apart} of {len(pairs)} pairs")
    return figure
