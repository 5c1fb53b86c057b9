"""Runs to compare, for the tests of this room."""

import json
from functools import cache

import numpy as np
import pytest

from ..conftest import OFFICIAL

SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@cache
def released():
    """OpenAI's released verdicts, one array (1319,) a system."""
    solutions = OFFICIAL / "example_model_solutions.jsonl"
    if not solutions.exists():
        pytest.skip(f"OpenAI's released solutions are not at {solutions}")
    rows = [json.loads(line) for line in solutions.read_text(encoding="utf-8").splitlines()]
    return {name: np.array([row[name]["is_correct"] for row in rows]) for name in SYSTEMS}


def verdicts(only_a, only_b, n):
    """Two runs (n,) with these many discordant problems; the rest alternate between both right and both wrong."""
    rest = np.arange(n - only_a - only_b) % 2
    a = np.r_[np.ones(only_a), np.zeros(only_b), rest]
    b = np.r_[np.zeros(only_a), np.ones(only_b), rest]
    return a, b


def sampled_runs(n, samples_a, samples_b, seed=0, gap=0.03):
    """Two runs with several samples a problem, alike in which problems are hard."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.6, 0.6, n)[:, None]
    return rng.random((n, samples_a)) < np.clip(chance + gap, 0, 1), rng.random((n, samples_b)) < chance
