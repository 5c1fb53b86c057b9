"""Lesson 2: one model, a few problems, several prompts, and what each does to the completions.

A completion as it is looked at here, of a 135M-parameter model shown the question and nothing else:

    "Each of the 4 shelves holds 30 books ... Therefore, the library has 120 books."     no marker, 96 tokens, cut

Completions are kept in one small run folder for each prompt, so that a notebook that is run again asks for nothing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from gsm8k_nb.answers import extract, gold_of, is_correct
from gsm8k_nb.config import RunConfig
from gsm8k_nb.formats import PromptFormat
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.places import repository_root
from gsm8k_nb.prompts import Prompt, prompt_for, render, stops
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, WRONG, frame
from gsm8k_nb.reporting.html import texts
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, open_sampler

EASY = [  # one or two steps each, as the model is small
    Problem(f"easy-{number:04d}", row["question"], row["solution"], gold_of(row["solution"]))
    for number, row in enumerate(DATA["easy"])
]
BARE = PromptFormat("bare", "{question}", (), r"(-?[\d,]+(?:\.\d+)?)", "the question alone")
ENDS = {"stop": "ended by itself or by a stop string", "length": "cut by the limit"}

sampler = cache(open_sampler)  # one model for all cells of a lesson


def wei(shots: int = 8) -> PromptFormat:
    """The first ``shots`` of the eight chain-of-thought exemplars of Wei et al. 2022 (arXiv:2201.11903)."""
    form = prompt_for(RunConfig(prompt="wei_8shot"), [])
    if not 0 <= shots <= form.shots:
        raise ValueError(f"shots must be 0 to {form.shots}, got {shots}")
    return replace(form, name=f"wei_{shots}shot", exemplars=form.exemplars[:shots])


def answers_only(form: PromptFormat) -> PromptFormat:
    """The same exemplars without their reasoning: each answer is its last sentence alone."""
    short = [replace(shot, answer="The answer is" + shot.answer.split("The answer is")[-1]) for shot in form.exemplars]
    return replace(form, name=f"{form.name}_answers", exemplars=tuple(short))


def complete(
    config: RunConfig, form: PromptFormat, problems: Sequence[Problem], chat: bool, times: int = 1
) -> list[Sample]:
    """Completions of each problem, ``times`` of it, from disk where they were asked for before.

    ``config`` gives model, temperature, ``max_new_tokens`` and ``outputs_dir``; the prompt is ``form``, whatever the
    config's is.
    """
    digest = hashlib.sha256(f"{config.run_id}/{form.sha256}/{chat}".encode()).hexdigest()
    name = f"{config.model_slug}-{form.name}-{'chat' if chat else 'plain'}-{digest[:8]}"
    run = Run(repository_root() / config.outputs_dir / name)
    wanted = {(problem.id, index): problem for problem in problems for index in range(times)}
    with run.writing():
        stored = run.journal().samples
        requests = [
            Request(problem, key[1], render(form, problem.question, chat))
            for key, problem in wanted.items()
            if key not in stored
        ]
        for batch in sampler(config).sample(requests, stops(form, chat)) if requests else ():
            run.append(batch)
    stored = run.journal().samples
    return [stored[key] for key in wanted]


def form_table(answers: Mapping[str, Sequence[Sample]], problems: Sequence[Problem]) -> pd.DataFrame:
    """What each prompt did to the form of the completions, in completions; the verdict is that of ``flexible``."""
    golds, rows = {problem.id: problem.answer for problem in problems}, {}
    for label, samples in answers.items():
        written = [sample.text or "" for sample in samples]
        right = [is_correct(extract(sample.text, "flexible"), golds[sample.problem_id]) for sample in samples]
        rows[label] = {
            "completions": len(samples),
            "with ####": sum("####" in text for text in written),
            'with "The answer is"': sum("the answer is" in text.lower() for text in written),
            "cut by the limit": sum(sample.finish_reason == "length" for sample in samples),
            "mean tokens": round(sum(sample.completion_tokens or 0 for sample in samples) / len(samples)),
            "right": sum(right),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def shorten(config: RunConfig, samples: Sequence[Sample], limit: int) -> list[Sample]:
    """The completions as a limit of so many tokens would have cut them.

    Greedy decoding writes the same first tokens whatever the limit, so nothing has to be asked again.
    """
    tokenizer = _tokenizer(config)

    def cut(sample: Sample) -> Sample:
        kept = tokenizer(sample.text or "", add_special_tokens=False).input_ids[:limit]
        return replace(sample, text=tokenizer.decode(kept), finish_reason="length", completion_tokens=limit)

    return [cut(sample) if (sample.completion_tokens or 0) > limit else sample for sample in samples]


def limit_figure(
    config: RunConfig, answers: Mapping[str, Sequence[Sample]], problems: Sequence[Problem], limit: int
) -> Figure:
    """For each prompt, how many completions end within ``limit`` tokens, are cut, and are right (a dot)."""
    table = form_table({label: shorten(config, samples, limit) for label, samples in answers.items()}, problems)
    places, cut = range(len(table)), table["cut by the limit"]
    ended = table["completions"] - cut
    with frame(height=2.0) as (figure, axes):
        axes.barh(places, ended, color=RIGHT, alpha=0.35, label="ended")
        axes.barh(places, cut, left=ended, color=WRONG, alpha=0.5, label="cut")
        axes.plot(table["right"], places, "o", color="black", label="right", clip_on=False)
        axes.set_yticks(places, table.index, fontsize=6)
        axes.invert_yaxis()
        axes.set(xlim=(0, max(table["completions"])), xlabel="completions", title=f"At most {limit} new tokens")
        figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


def show_completions(answers: Mapping[str, Sequence[Sample]], which: int = 0) -> HTML:
    """The completions of one problem under each prompt, as plain text, with the tokens and how each ended."""
    titled = []
    for label, samples in answers.items():
        sample = samples[which]
        end = ENDS.get(sample.finish_reason or "", "end not recorded")
        titled.append((f"{label} ({sample.completion_tokens} tokens, {end})", sample.text))
    return texts(titled)


def templated(config: RunConfig, prompt: Prompt) -> str:
    """The text that the model's own chat template makes of messages: what the model really sees."""
    return _tokenizer(config).apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def _tokenizer(config: RunConfig) -> Any:
    return getattr(sampler(config), "tokenizer")  # noqa: B009  only local engines have one
