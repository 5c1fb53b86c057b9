"""Lessons 3 to 5: the stored runs of a small model, read, scored and laid out as arrays.

pools = load()
pools["wei_8shot at 0.7"].correct        # bool array (112 problems, 16 samples)
pools["wei_8shot at 0.7"].answers[3]     # [Decimal("40"), None, Decimal("16"), ...], what each sample answered
"""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from gsm8k_nb import data
from gsm8k_nb.answers import judge
from gsm8k_nb.config import RunConfig
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
    problems: list[Problem]
    samples: list[list[Sample]]
    answers: list[list[Decimal | None]]
    correct: np.ndarray

    @property
    def golds(self) -> list[Decimal]:
        return [problem.answer for problem in self.problems]

    def first(self, n: int) -> "Pool":
        """The same run on its first ``n`` problems: runs begin with the same ones, some have fewer."""
        return Pool(self.name, self.problems[:n], self.samples[:n], self.answers[:n], self.correct[:n])


def load(folder: str = STORED, rule: str = "flexible") -> dict[str, Pool]:
    """Every stored run below ``folder`` by its name, "<prompt> at <temperature>", answers read by ``rule``."""
    runs = sorted(path.parent for path in find_path(folder, "stored").glob("*/config.json"))
    if not runs:
        raise FileNotFoundError(f"stored: no run folders (with a config.json) below {folder!r}")
    pools = [_pool(run, data.load("classroom"), rule) for run in runs]
    return {pool.name: pool for pool in sorted(pools, key=lambda pool: pool.name)}


def _pool(folder: Path, problems: list[Problem], rule: str) -> Pool:
    made_by = Run(folder).read_json("config.json")
    config = RunConfig(sampler="replay", dataset="classroom", replay_path=str(folder), n_samples=made_by["n_samples"])
    problems = data.choose(problems, made_by["limit"])
    texts = cast(ReplaySampler, open_sampler(config)).samples
    samples = [[texts[problem.id, index] for index in range(config.n_samples)] for problem in problems]
    judged = [
        [judge(sample.text, problem.answer, rule, sample.finish_reason) for sample in row]
        for problem, row in zip(problems, samples, strict=True)
    ]
    answers = [[answer for answer, _ in row] for row in judged]
    correct = np.array([[right for _, right in row] for row in judged])
    return Pool(f"{made_by['prompt']} at {made_by['temperature']}", problems, samples, answers, correct)


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
