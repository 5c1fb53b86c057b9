"""Stored completions to a finished report in one process: scores, statistics, all tables, figures and report.html.

python workers/report.py params/cobbe-6b-finetuned.yaml data_path=test.jsonl replay_path=... outputs_dir=...
"""

import sys
from pathlib import Path

import yaml

from gsm8k_nb import data, prompts, sampling, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.reporting import page as report

if __name__ == "__main__":
    changes = dict(argument.split("=", 1) for argument in sys.argv[2:])
    config = RunConfig(**yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8")) | changes)
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
    summary.score_run(run, config, problems)
    report.save(summary.summarise(run, config))
