"""Lesson 4: what the same samples say as pass@k and as maj@k, and how noisy each is.

noise(pool, k=4, sizes=(4, 16))     # the same metric from 4 samples a problem and from 16, many times over
"""

from decimal import Decimal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gsm8k_nb import data
from gsm8k_nb.lessons.show import chances, share
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.metrics import maj_curve, pass_curve
from gsm8k_nb.reporting.figures import GREY, RIGHT, WRONG, frame


def imagined(skill: float, same_mistake: float, n: int = 16, seed: int = 0) -> Pool:
    """n samples of each classroom problem from a model that does not exist, to see what a vote depends on.

    ``skill`` is its mean chance to be right (see `chances`). Of its wrong answers, the share ``same_mistake`` is one
    and the same number; all others differ from each other.
    """
    problems, rng = data.load("classroom"), np.random.default_rng(seed)
    solves = chances(skill, len(problems), rng)[:, None]
    correct = rng.random((len(problems), n)) < solves
    mistakes = np.where(rng.random(correct.shape) < share("same_mistake", same_mistake), 1, 2 + np.arange(n))
    answers: list[list[Decimal | None]] = [
        [problem.answer + int(offset) for offset in row]
        for problem, row in zip(problems, np.where(correct, 0, mistakes), strict=True)
    ]
    name = f"imagined, {skill:.0%} right, {same_mistake:.0%} of mistakes alike"
    return Pool(name, problems, [], answers, correct)


def noise(pool: Pool, k: int, sizes: tuple[int, ...], draws: int = 1000, seed: int = 0) -> pd.DataFrame:
    """pass@k of the whole set estimated again and again from n samples a problem, for each n of ``sizes``, in percent.

    Each problem is given its observed share of right samples as its true chance, and n new samples are drawn ``draws``
    times. ``unbiased`` is the estimator of Chen et al. 2021, ``plug-in`` is 1 - (1 - c/n)^k; ``off by`` compares their
    means with the true value.
    """
    chance = pool.correct.mean(axis=1)
    truth = (1 - (1 - chance) ** k).mean()
    rng, rows = np.random.default_rng(seed), {}
    for n in sizes:
        c = rng.binomial(n, chance, size=(draws, len(chance)))
        table = pass_curve(np.arange(n) < np.arange(n + 1)[:, None])[:, k - 1]  # by the number of right samples
        unbiased, plug_in = table[c].mean(axis=1), (1 - (1 - c / n) ** k).mean(axis=1)
        rows[n] = {
            "unbiased, off by": f"{100 * (unbiased.mean() - truth):+.2f}",
            "unbiased, standard deviation": f"{100 * unbiased.std():.2f}",
            "plug-in, off by": f"{100 * (plug_in.mean() - truth):+.2f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(f"samples a problem (true pass@{k} {truth:.1%})")


def curves(pool: Pool, k: int) -> Figure:
    """pass@k and maj@k of one run against k, with the values at one k."""
    right = 100 * pass_curve(pool.correct).mean(axis=0)
    vote = 100 * maj_curve(pool.answers, pool.golds).mean(axis=0)
    with frame(6, 2.6) as (figure, axes):
        for name, values, color in (("pass", right, RIGHT), ("maj", vote, WRONG)):
            axes.plot(range(1, 1 + len(values)), values, "o-", color=color, label=f"{name}@{k} {values[k - 1]:.1f}%")
        axes.axhline(right[0], color=GREY, linestyle=":", label=f"one sample {right[0]:.1f}%")
        axes.axvline(k, color=GREY, linewidth=0.6)
        axes.set(ylim=(0, max(2.0, 1.1 * right[-1], 1.1 * vote.max())), xlabel="k", ylabel="problems, %")
        axes.set_title(pool.name)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
