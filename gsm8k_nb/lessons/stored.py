"""Lessons 3 to 5: the stored runs of a small model, a row a sample, and what k of a problem's samples are worth.

rows = load()           # run, problem, question, gold, sample, text, finish_reason, answer, correct
curves(rows[rows["run"] == "wei_8shot at 0.7"]).loc[16]     # pass@k and maj@k in percent
"""

import json

import pandas as pd

from gsm8k_nb import data
from gsm8k_nb.answers import judge
from gsm8k_nb.config import RunConfig
from gsm8k_nb.metrics import maj_curve, pass_curve
from gsm8k_nb.places import find_path
from gsm8k_nb.samplers.replay import ReplaySampler

COLUMNS = ["run", "problem", "question", "gold", "sample", "text", "finish_reason", "answer", "correct"]


def load(folder: str = "outputs/stored", rule: str = "flexible") -> pd.DataFrame:
    """Every sample of the stored runs below ``folder``, read by ``rule``; ``run`` is "<prompt> at <temperature>"."""
    problems, rows = {problem.id: problem for problem in data.load("classroom")}, []
    for file in find_path(folder, "stored").glob("*/config.json"):
        made_by = json.loads(file.read_text(encoding="utf-8"))
        name = f"{made_by['prompt']} at {made_by['temperature']}"
        store = ReplaySampler(RunConfig(sampler="replay", dataset="classroom", replay_path=str(file.parent)))
        for sample in store.samples.values():
            problem = problems[sample.problem_id]
            answer, correct = judge(sample.text, problem.answer, rule, sample.finish_reason)
            asked = (name, problem.id, problem.question, problem.answer)
            rows.append((*asked, sample.sample_index, sample.text, sample.finish_reason, answer, correct))
    if not rows:
        raise FileNotFoundError(f"stored: no run folders (with a config.json) below {folder!r}")
    table = pd.DataFrame(rows, columns=COLUMNS, dtype=object)  # a text may be no valid Unicode
    return table.astype({"correct": bool}).sort_values(["run", "problem", "sample"], ignore_index=True)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """pass@k and maj@k of one run in percent, for each k up to its number of samples."""
    pools = rows.groupby("problem")
    passes = pass_curve(pools["correct"].agg(list).tolist())
    votes = maj_curve(pools["answer"].agg(list).tolist(), pools["gold"].first().tolist())
    k = pd.RangeIndex(1, passes.shape[1] + 1, name="k")
    return 100 * pd.DataFrame({"pass@k": passes.mean(axis=0), "maj@k": votes.mean(axis=0)}, index=k)
