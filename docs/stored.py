"""The stored runs of SmolLM2, replayed and scored, for the chapters that read several runs.

    python docs/stored.py outputs/stored docs/_build/runs

A stored run holds its samples alone; ``compare.ipynb`` and ``appendix.ipynb`` read finished run folders.
"""

import shutil
import sys
from pathlib import Path

from gsm8k_nb import data, prompts, sampling, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.runs import Run


def finish(stored: Path, outputs: Path, limit: int | None) -> None:
    """Replay one stored run into a run folder below ``outputs``, its first ``limit`` problems, and score it."""
    made_by = Run(stored).read_json("config.json")
    config = RunConfig(
        model=f"SmolLM2 {made_by['prompt']}, T={made_by['temperature']:g}",
        sampler="replay",
        replay_path=str(stored),
        dataset=made_by["dataset"],
        limit=limit,
        n_samples=made_by["n_samples"],
        headline_rule="flexible",
        rules="both",
        outputs_dir=str(outputs.resolve()),
    )
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
    summary.score_run(run, config, problems)
    print(summary.summarise(run, config).headline)


if __name__ == "__main__":
    store, outputs = Path(sys.argv[1]), Path(sys.argv[2])
    found = sorted(file.parent for file in store.glob("*/config.json"))
    if len(found) < 2:
        sys.exit(f"{store}: the chapters on several runs need at least two stored runs, found {len(found)}")
    shutil.rmtree(outputs, ignore_errors=True)  # of an earlier store
    limits = [Run(one).read_json("config.json")["limit"] for one in found]
    for one in found:  # on the problems that all of them have, so that they can be compared
        finish(one, outputs, min((limit for limit in limits if limit), default=None))
