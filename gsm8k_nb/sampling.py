"""The one loop of a run: skip what is on disk, generate what is missing, append each batch.

The same call starts a run, resumes one that was interrupted, extends one whose ``limit`` or ``n_samples`` was raised,
and asks again for requests that failed. Where nothing is missing, no model is loaded.
"""

import sys
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from gsm8k_nb import manifest
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import Dataset
from gsm8k_nb.prompts import PromptFormat, render, stops
from gsm8k_nb.records import Problem
from gsm8k_nb.runs import Run, Sampled
from gsm8k_nb.samplers import Request, Sampler, open_sampler

BAR_UPDATES = 20  # an executed notebook keeps every one


def begin(config: RunConfig, dataset: Dataset, problems: Sequence[Problem]) -> Run:
    """Open the run folder for these parameters and this data, and store its problems there."""
    run = Run(config.run_folder)
    facts = {
        "data_sha256": dataset.sha256,
        "data_label": dataset.label,
        "data_source": dataset.source,
        "data_verified": dataset.verified,
        "data_problems": len(dataset.problems),
    }
    with run.writing():  # another process that samples here must not find its problems exchanged
        run.start(config, facts)
        run.write_records("problems.jsonl", problems)
    return run


def fill(run: Run, config: RunConfig, problems: Sequence[Problem], form: PromptFormat) -> Sampled:
    """Generate every missing sample of the run; samples are on disk batch by batch. Safe to interrupt and to repeat."""
    wanted = [(problem, index) for index in range(config.n_samples) for problem in problems]
    with run.writing():
        run.start(config, {"prompt_sha256": form.sha256, "exemplar_ids": [shot.id for shot in form.exemplars]})
        # A replay is opened at once, which costs nothing, to see that its source is still the same.
        sampler = open_replay(run, config) if config.sampler == "replay" else None
        journal = run.journal()
        done = {key for key, sample in journal.samples.items() if sample.error is None}
        missing = [(problem, index) for problem, index in wanted if (problem.id, index) not in done]
        if missing:
            _generate(run, config, form, missing, sampler)
    after = run.journal().samples
    failed = sum(after[problem.id, index].error is not None for problem, index in wanted)
    return Sampled(len(wanted), len(wanted) - len(missing), len(missing) - failed, failed, journal.damaged)


def use_chat(config: RunConfig, sampler: Sampler) -> bool:
    """Whether prompts are rendered by the chat template: as the parameters say, ``auto`` where there is one."""
    if config.chat_template == "template" and not sampler.has_chat_template:
        raise ValueError(f"chat_template: {config.model!r} has no chat template; use chat_template: plain")
    return config.chat_template == "template" or (config.chat_template == "auto" and sampler.has_chat_template)


def open_replay(run: Run, config: RunConfig) -> Sampler:
    """The replay's source, recorded: how its texts were made is its affair, known from its run folder or stated."""
    sampler = open_sampler(config)
    source = sampler.describe()
    run.start(config, {"replay_sha256": source["source_sha256"], "replay_config": source["source_config"]})
    return sampler


def _generate(
    run: Run, config: RunConfig, form: PromptFormat, missing: list[tuple[Problem, int]], sampler: Sampler | None
) -> None:
    started = manifest.now()
    sampler = sampler or open_sampler(config)
    chat = use_chat(config, sampler)
    stop = stops(form, chat)
    if config.sampler != "replay":
        run.start(config, {"chat": chat, "stop": list(stop), "exemplars_as": "turns" if chat else "text"})
        first = missing[0][0]
        if not run.read_json("prompt.json"):
            run.write_json("prompt.json", {"problem_id": first.id, "prompt": render(form, first.question, chat)})
    write_manifest(run, "running", started, sampler.describe())
    requests = [Request(problem, index, render(form, problem.question, chat)) for problem, index in missing]
    with progress(len(requests)) as bar:
        for batch in sampler.sample(requests, stop):
            run.append(batch)
            bar.update(len(batch))
    write_manifest(run, "sampled", started, sampler.describe())


def write_manifest(run: Run, status: str, started: str, engine: dict[str, Any]) -> None:
    """Record how the samples were made. A resumed run keeps a list of its earlier sessions."""
    before = run.read_json("manifest.json")
    sessions = [one for one in before.get("sessions", []) if one["started"] != started]
    ended = None if status == "running" else manifest.now()
    sessions.append({"started": started, "ended": ended, "status": status})
    samples = run.journal().samples.values()
    run.write_json(
        "manifest.json",
        {
            "run_id": run.folder.name,
            "inputs": run.read_json("config.json").get("inputs", {}),
            "engine": engine,
            "environment": manifest.environment(),
            "sessions": sessions,
            "tokens": {
                "prompt": sum(sample.prompt_tokens or 0 for sample in samples),
                "completion": sum(sample.completion_tokens or 0 for sample in samples),
            },
            "status": status,
        },
    )


def progress(total: int) -> tqdm:
    """A plain text bar of at most ``BAR_UPDATES`` lines: widgets break exports, and each redraw would be stored."""
    return tqdm(
        total=total,
        desc="samples",
        unit="sample",
        file=sys.stdout,
        ascii=True,
        ncols=80,
        mininterval=0,
        maxinterval=float("inf"),
        miniters=max(total // BAR_UPDATES, 1),
    )
