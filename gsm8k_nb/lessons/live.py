"""Lessons 2, 4 and 6: completions of a model that is asked while the lesson runs, or stored ones where none can be.

They are kept in one small run folder for each prompt, so that a notebook that is run again asks for nothing.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.formats import PromptFormat
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.places import repository_root
from gsm8k_nb.prompts import Prompt, render, stops
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, open_sampler
from gsm8k_nb.samplers.replay import ReplaySampler

STORED = "outputs/stored/lessons"
NO_ENGINE = "No engine is installed here: these are stored completions, made with this lesson's own parameters."


@cache
def engine(config: RunConfig) -> Any:
    """The engine, its model loaded once for all cells; None, which is said, where its packages are not installed."""
    try:
        return open_sampler(config)
    except ImportError:
        print(NO_ENGINE)
        return None


def complete(
    config: RunConfig, form: PromptFormat, problems: Sequence[Problem], chat: bool, times: int = 1
) -> list[Sample]:
    """Completions of each problem, ``times`` of it, from disk where they were asked for before.

    ``config`` gives model, temperature, ``max_new_tokens`` and ``outputs_dir``; the prompt is ``form``, whatever the
    config's is.
    """
    name = f"{form.name}-{'chat' if chat else 'plain'}-{config.temperature:g}-{config.max_new_tokens}"
    digest = hashlib.sha256(f"{config.run_id}/{form.sha256}".encode()).hexdigest()
    run = Run(repository_root() / config.outputs_dir / f"{config.model_slug}-{name}-{digest[:8]}")
    prompts = [(problem, render(form, problem.question, chat)) for problem in problems]
    wanted = [Request(problem, index, prompt) for problem, prompt in prompts for index in range(times)]
    if asked := [request for request in wanted if request.key not in run.journal().samples]:
        if engine(config) is None:
            stored = {"replay_path": f"{STORED}/{name}.jsonl", "protocol_label": "a lesson's"}
            return next(ReplaySampler(RunConfig(sampler="replay", **stored)).sample(wanted, ()))
        with run.writing():
            for batch in engine(config).sample(asked, stops(form, chat)):
                run.append(batch)
    kept = run.journal().samples
    return [kept[request.key] for request in wanted]


def templated(config: RunConfig, prompt: Prompt) -> str:
    """The text that the model's own chat template makes of messages: what the model really sees."""
    if engine(config) is None:
        return DATA["chat"].format(question=prompt[-1]["content"])  # type: ignore[index]
    return engine(config).tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
