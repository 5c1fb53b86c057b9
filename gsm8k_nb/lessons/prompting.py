"""Lesson 2: one model, a few problems, several prompts, and what each does to the completions.

A completion as it is looked at here, of a 135M-parameter model shown the question and nothing else:

    "Each of the 4 shelves holds 30 books ... Therefore, the library has 120 books."     no marker, 96 tokens, cut

Completions are kept in one small run folder for each prompt, so that a notebook that is run again asks for nothing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from gsm8k_nb.answers import extract, gold_of, is_correct
from gsm8k_nb.config import RunConfig
from gsm8k_nb.formats import FORMATS, PromptFormat
from gsm8k_nb.lessons.show import DATA, canvas, sampler, texts
from gsm8k_nb.places import repository_root
from gsm8k_nb.prompts import Prompt, prompt_for, render, stops
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, WIDTH_IN, WRONG
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request

EASY = [  # one or two steps each, as the model is small
    Problem(f"easy-{number:04d}", row["question"], row["solution"], gold_of(row["solution"]))
    for number, row in enumerate(DATA["easy"])
]
BARE = PromptFormat("bare", "{question}", (), r"(-?[\d,]+(?:\.\d+)?)", "the question alone")


def wei(shots: int = 8) -> PromptFormat:
    """The first ``shots`` of the eight chain-of-thought exemplars of Wei et al. 2022 (arXiv:2201.11903)."""
    form = prompt_for(RunConfig(prompt="wei_8shot"), [])
    if not 0 <= shots <= form.shots:
        raise ValueError(f"shots must be 0 to {form.shots}, got {shots}")
    return replace(form, name=f"wei_{shots}shot", exemplars=form.exemplars[:shots])


def answers_only(form: PromptFormat) -> PromptFormat:
    """The same exemplars without their reasoning: each answer is its last sentence alone."""
    short = [replace(one, answer="The answer is" + one.answer.rpartition("The answer is")[2]) for one in form.exemplars]
    return replace(form, name=f"{form.name}_answers", exemplars=tuple(short))


def five_prompts() -> dict[str, tuple[PromptFormat, bool]]:
    """Label -> (format, whether it goes through the chat template), from the plainest to the fullest."""
    return {
        "question alone, plain text": (BARE, False),
        "question alone, chat": (BARE, True),
        "asks for steps and ####, chat": (FORMATS["zero_shot"], True),
        "8 answers without steps, plain text": (answers_only(wei()), False),
        "8 chains of thought, plain text": (wei(), False),
    }


def complete(config: RunConfig, form: PromptFormat, problems: Sequence[Problem], chat: bool) -> list[Sample]:
    """One greedy completion of each problem, from disk where it was asked for before.

    ``config`` gives model, ``max_new_tokens`` and ``outputs_dir``; the prompt is ``form``, whatever the config's is.
    """
    run = Run(_folder(config, form, chat))
    with run.writing():
        stored = run.journal().samples
        missing = [problem for problem in problems if (problem.id, 0) not in stored]
        if missing:
            requests = [Request(problem, 0, render(form, problem.question, chat)) for problem in missing]
            for batch in sampler(config).sample(requests, stops(form, chat)):
                run.append(batch)
    after = run.journal().samples
    return [after[problem.id, 0] for problem in problems]


def complete_each(
    config: RunConfig, prompts: Mapping[str, tuple[PromptFormat, bool]], problems: Sequence[Problem]
) -> dict[str, list[Sample]]:
    """``complete`` for each prompt: label -> its samples, in the order of the problems."""
    return {label: complete(config, form, problems, chat) for label, (form, chat) in prompts.items()}


def form_table(answers: Mapping[str, Sequence[Sample]], problems: Sequence[Problem]) -> pd.DataFrame:
    """What each prompt did to the form of the completions, in completions; the verdict is that of ``flexible``."""
    golds = {problem.id: problem.answer for problem in problems}
    rows = {}
    for label, samples in answers.items():
        texts = [sample.text or "" for sample in samples]
        rows[label] = {
            "completions": len(samples),
            "with ####": sum("####" in text for text in texts),
            'with "The answer is"': sum("the answer is" in text.lower() for text in texts),
            "cut by the limit": sum(sample.finish_reason == "length" for sample in samples),
            "mean tokens": round(sum(sample.completion_tokens or 0 for sample in samples) / len(samples)),
            "right": sum(is_correct(extract(one.text, "flexible"), golds[one.problem_id]) for one in samples),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def shorten(config: RunConfig, samples: Sequence[Sample], limit: int) -> list[Sample]:
    """The completions as a limit of so many tokens would have cut them.

    Greedy decoding writes the same first tokens whatever the limit, so nothing has to be asked again.
    """
    tokenizer, shortened = _tokenizer(config), []
    for one in samples:
        if (one.completion_tokens or 0) > limit:
            kept = tokenizer(one.text or "", add_special_tokens=False).input_ids[:limit]
            one = replace(one, text=tokenizer.decode(kept), finish_reason="length", completion_tokens=limit)
        shortened.append(one)
    return shortened


def limit_figure(
    config: RunConfig, answers: Mapping[str, Sequence[Sample]], problems: Sequence[Problem], limit: int
) -> Figure:
    """For each prompt, how many completions end within ``limit`` tokens, are cut, and are right (a dot)."""
    table = form_table({label: shorten(config, samples, limit) for label, samples in answers.items()}, problems)
    cut = table["cut by the limit"]
    with canvas(WIDTH_IN, 2.0) as (figure, axes):
        places = range(len(table))
        axes.barh(places, table["completions"] - cut, color=RIGHT, alpha=0.35, label="ended")
        axes.barh(places, cut, left=table["completions"] - cut, color=WRONG, alpha=0.5, label="cut")
        axes.plot(table["right"], places, "o", color="black", label="right", clip_on=False)
        axes.set_yticks(places, table.index, fontsize=6)
        axes.invert_yaxis()
        axes.set_xlim(0, max(table["completions"]))
        axes.set_xlabel("completions")
        axes.set_title(f"At most {limit} new tokens", loc="left")
        figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


def show_prompt(prompt: Prompt) -> HTML:
    """A prompt as text: in one piece, or message by message."""
    return texts([("text", prompt)] if isinstance(prompt, str) else [(m["role"], m["content"]) for m in prompt])


def show_completions(answers: Mapping[str, Sequence[Sample]], which: int = 0) -> HTML:
    """The completions of one problem under each prompt, as plain text, with the tokens and how each ended."""
    end = {"stop": "ended by itself or by a stop string", "length": "cut by the limit"}
    shown = [(label, samples[which]) for label, samples in answers.items()]
    return texts(
        (
            f"{label} ({sample.completion_tokens} tokens, {end.get(sample.finish_reason or '', 'end not recorded')})",
            sample.text,
        )
        for label, sample in shown
    )


def templated(config: RunConfig, prompt: Prompt) -> str:
    """The text that the model's own chat template makes of messages: what the model really sees."""
    return _tokenizer(config).apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def _tokenizer(config: RunConfig) -> Any:
    return getattr(sampler(config), "tokenizer")  # noqa: B009  only local engines have one


def _folder(config: RunConfig, form: PromptFormat, chat: bool) -> Path:
    digest = hashlib.sha256(f"{config.run_id}/{form.sha256}/{chat}".encode()).hexdigest()
    mode = "chat" if chat else "plain"
    return repository_root() / config.outputs_dir / f"{config.model_slug}-{form.name}-{mode}-{digest[:8]}"
