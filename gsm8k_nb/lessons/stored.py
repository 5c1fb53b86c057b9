"""Lessons 4 and 5: the stored runs of a small model, read, scored and laid out as arrays.

A run in store, and what is made of it:

    outputs/stored/SmolLM2-135M-Instruct.Q4-1-wei_8shot-469b61ba/
        config.json  manifest.json  prompt.json  samples.jsonl.xz

    pools = load()
    pools["wei_8shot at 0.7"].correct        # bool array (112 problems, 16 samples)
    pools["wei_8shot at 0.7"].answers[3]     # [Decimal("40"), None, Decimal("16"), ...], what each sample answered
"""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from IPython.display import HTML

from gsm8k_nb import data
from gsm8k_nb.answers import judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons.show import texts
from gsm8k_nb.places import find_path
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import open_sampler
from gsm8k_nb.samplers.replay import ReplaySampler

STORED = "outputs/stored"


@dataclass(frozen=True, eq=False)
class Pool:
    """N samples of every problem from one run. Rows of ``samples``, ``answers`` and ``correct`` are problems."""

    name: str
    prompt: str
    temperature: float
    problems: list[Problem]
    samples: list[list[Sample]]
    answers: list[list[Decimal | None]]
    correct: np.ndarray

    @property
    def golds(self) -> list[Decimal]:
        return [problem.answer for problem in self.problems]


def load(folder: str = STORED, rule: str = "flexible") -> dict[str, Pool]:
    """Every stored run below ``folder`` by its name, "<prompt> at <temperature>", answers read by ``rule``."""
    runs = sorted(path.parent for path in find_path(folder, "stored").glob("*/config.json"))
    if not runs:
        raise FileNotFoundError(f"stored: no run folders (with a config.json) below {folder!r}")
    problems = data.load("classroom")
    pools = [_pool(run, problems, rule) for run in runs]
    return {pool.name: pool for pool in sorted(pools, key=lambda pool: (pool.prompt, pool.temperature))}


def _pool(folder: Path, problems: list[Problem], rule: str) -> Pool:
    made_by = Run(folder).read_json("config.json")
    config = RunConfig(sampler="replay", dataset="classroom", replay_path=str(folder), n_samples=made_by["n_samples"])
    problems = data.choose(problems, made_by["limit"])
    found = cast(ReplaySampler, open_sampler(config)).samples
    samples = [[found[problem.id, index] for index in range(config.n_samples)] for problem in problems]
    judged = [
        [judge(one.text, problem.answer, rule, one.finish_reason) for one in row]
        for problem, row in zip(problems, samples, strict=True)
    ]
    answers = [[answer for answer, _ in row] for row in judged]
    correct = np.array([[right for _, right in row] for row in judged])
    name = f"{made_by['prompt']} at {made_by['temperature']}"
    return Pool(name, made_by["prompt"], made_by["temperature"], problems, samples, answers, correct)


def table(pools: dict[str, Pool]) -> pd.DataFrame:
    """What is in store: a row for each run."""
    rows = {}
    for name, pool in pools.items():
        cut = [sample.finish_reason == "length" for row in pool.samples for sample in row]
        rows[name] = {
            "problems": len(pool.problems),
            "samples each": pool.correct.shape[1],
            "different answers each, mean": round(np.mean([len(set(row) - {None}) for row in pool.answers]), 1),
            "without an answer": f"{np.mean([answer is None for row in pool.answers for answer in row]):.1%}",
            "cut by the limit": f"{np.mean(cut):.1%}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def votes(pool: Pool, index: int) -> pd.DataFrame:
    """The answers to one problem with the number of samples that gave each, the commonest first."""
    answers = ["no answer" if answer is None else f"{answer:f}" for answer in pool.answers[index]]
    right = {answer for answer, correct in zip(answers, pool.correct[index], strict=True) if correct}
    rows = [
        {"answer": answer, "samples": n, "right": "yes" if answer in right else ""}
        for answer, n in Counter(answers).most_common()
    ]
    return pd.DataFrame(rows).set_index("answer").rename_axis(f"answer (gold: {pool.golds[index]})")


def show_samples(pool: Pool, index: int, n: int = 4) -> HTML:
    """One question and its first ``n`` completions, as plain text."""
    return texts([_question(pool, index), *(_completion(pool, index, sample) for sample in range(n))])


def show_right(pool: Pool, n: int = 4) -> HTML:
    """The first ``n`` right completions of the pool, one a problem, each below its question."""
    rows = [(int(row), int(pool.correct[row].argmax())) for row in np.flatnonzero(pool.correct.any(axis=1))[:n]]
    titled = [part for row, sample in rows for part in (_question(pool, row), _completion(pool, row, sample))]
    return texts(titled, "No sample of this run is right.")


def _question(pool: Pool, index: int) -> tuple[str, str]:
    return f"Problem {index}, gold answer {pool.golds[index]}", pool.problems[index].question


def _completion(pool: Pool, index: int, sample: int) -> tuple[str, str | None]:
    return f"Sample {sample}, {_read(pool.answers[index][sample])}", pool.samples[index][sample].text


def _read(answer: Decimal | None) -> str:
    return "no answer" if answer is None else f"answer {answer:f}"
