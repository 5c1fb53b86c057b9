"""Lesson 4: what the same samples say as accuracy, as pass@k and as maj@k, and how noisy each is.

noise(pool, k=4, sizes=(4, 16))     # the same metric from 4 samples a problem and from 16, many times over
"""

from decimal import Decimal

import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure
from scipy import stats

from gsm8k_nb import data
from gsm8k_nb.answers import extract
from gsm8k_nb.config import SMOLLM2, RunConfig
from gsm8k_nb.lessons.show import canvas, sampler, share, texts
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.metrics import maj_at_k, maj_curve, pass_curve
from gsm8k_nb.prompts import prompt_for, render, stops
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting.figures import GREY, RIGHT, WRONG
from gsm8k_nb.samplers import Request
from gsm8k_nb.sampling import use_chat

DRAWS = 1000
SAME = 1e-9  # two scores closer than this are the same


def ask(
    problem: Problem,
    temperature: float,
    times: int = 3,
    max_new_tokens: int = 96,
    prompt: str = "wei_8shot",
    model: str = SMOLLM2,
) -> pd.DataFrame:
    """Ask SmolLM2 (or another model) one question ``times`` times at one temperature: its answers and texts."""
    config = RunConfig(
        model=model,
        dataset="classroom",
        prompt=prompt,
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        batch_size=times,
    )
    engine, form = sampler(config), prompt_for(config, [problem])
    chat = use_chat(config, engine)
    asked = render(form, problem.question, chat)
    requests = [Request(problem, index, asked) for index in range(times)]
    samples = [sample for batch in engine.sample(requests, stops(form, chat)) for sample in batch]
    samples.sort(key=lambda sample: sample.sample_index)
    rows = [{"answer": str(extract(one.text, "flexible")), "text": one.text} for one in samples]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, times + 1, name="try"))


def show_asked(problem: Problem, temperature: float, times: int = 3) -> HTML:
    """``ask``, its completions as plain text below each other."""
    tried = ask(problem, temperature, times)
    return texts(
        (f"Temperature {temperature}, try {row.Index}, answer {row.answer}", row.text) for row in tried.itertuples()
    )


def imagined(skill: float, same_mistake: float, n: int = 16, seed: int = 0) -> Pool:
    """n samples of each classroom problem from a model that does not exist, to see what a vote depends on.

    ``skill`` is its mean chance to be right, spread over problems as Beta(2 skill, 2 (1 - skill)). Of its wrong
    answers, the share ``same_mistake`` is one and the same number; all others differ from each other.
    """
    problems, rng = data.load("classroom"), np.random.default_rng(seed)
    inside, ranks = np.clip(share("skill", skill), 0.001, 0.999), (np.arange(len(problems)) + 0.5) / len(problems)
    chances = rng.permutation(stats.beta.ppf(ranks, 2 * inside, 2 * (1 - inside)))  # the whole spread, no luck in it
    correct = rng.random((len(problems), n)) < chances[:, None]
    mistakes = np.where(rng.random(correct.shape) < share("same_mistake", same_mistake), 1, 2 + np.arange(n))
    answers: list[list[Decimal | None]] = [
        [problem.answer + int(offset) for offset in row]
        for problem, row in zip(problems, np.where(correct, 0, mistakes), strict=True)
    ]
    name = f"imagined, {skill:.0%} right, {same_mistake:.0%} of mistakes alike"
    return Pool(name, name, 0.0, problems, [], answers, correct)


def summary(pools: dict[str, Pool], k: int) -> pd.DataFrame:
    """Accuracy of one sample, pass@k and maj@k of every run, in percent, on the problems that all runs begin with."""
    rows, both = {}, min(len(pool.problems) for pool in pools.values())
    for name, pool in pools.items():
        correct = pool.correct[:both]
        right, vote = pass_curve(correct), maj_curve(pool.answers[:both], pool.golds[:both])
        values = {f"avg@{correct.shape[1]}": correct.mean(), f"pass@{k}": right[:, k - 1].mean()}
        rows[name] = {key: f"{100 * value:.1f}" for key, value in values.items()}
        rows[name][f"maj@{k}"] = f"{100 * vote[:, k - 1].mean():.1f}"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(f"run, in % of {both} problems")


def gains(pools: dict[str, Pool]) -> pd.DataFrame:
    """For each run, the problems on which the vote of all samples scores more, or less, than one sample on average."""
    rows = {}
    for name, pool in pools.items():
        vote = np.array([maj_at_k(answers, gold) for answers, gold in zip(pool.answers, pool.golds, strict=True)])
        gain = vote - pool.correct.mean(axis=1)
        helped, hurt = gain > SAME, gain < -SAME
        rows[name] = {
            "problems": len(gain),
            "helped": helped.sum(),
            "points from these": f"{100 * gain[helped].sum() / len(gain):+.1f}",
            "hurt": hurt.sum(),
            "points from those": f"{100 * gain[hurt].sum() / len(gain):+.1f}",
            "no sample right": int((~pool.correct.any(axis=1)).sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def noise(pool: Pool, k: int, sizes: tuple[int, ...], draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
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
        table = pass_curve([[True] * right + [False] * (n - right) for right in range(n + 1)])[:, k - 1]
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
    every = np.arange(1, len(right) + 1)
    with canvas(6, 2.6) as (figure, axes):
        for name, values, color in (("pass", right, RIGHT), ("maj", vote, WRONG)):
            axes.plot(every, values, "o-", color=color, label=f"{name}@{k} {values[k - 1]:.1f}%")
        axes.axhline(right[0], color=GREY, linestyle=":", label=f"one sample {right[0]:.1f}%")
        axes.axvline(k, color=GREY, linewidth=0.6)
        axes.set_ylim(0, max(2.0, 1.1 * right[-1], 1.1 * vote.max()))
        axes.set_xlabel("k")
        axes.set_ylabel("problems, %")
        axes.set_title(pool.name, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
