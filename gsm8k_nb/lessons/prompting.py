"""Lesson 2: one model, a few problems, several prompts, and what each does to the completions.

A completion as it is looked at here, of a 135M-parameter model shown the question and nothing else:

    "Each of the 4 shelves holds 30 books ... Therefore, the library has 120 books."     no marker, 96 tokens, cut

Completions are kept in one small run folder for each prompt, so that a notebook that is run again asks for nothing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
from IPython.display import HTML
from matplotlib import rc_context
from matplotlib.figure import Figure

from gsm8k_nb.answers import extract, gold_of, is_correct
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import repository_root
from gsm8k_nb.prompts import FORMATS, Prompt, PromptFormat, prompt_for, render, stops
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, STYLE, WIDTH_IN, WRONG
from gsm8k_nb.reporting.html import escape, preformatted
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, Sampler, open_sampler

EASY_TEXT = {  # one or two steps each, as the model is small: question -> solution
    "Mei has 5 pencils and buys 3 more. How many pencils does she have now?": "5 + 3 = <<5+3=8>>8\n#### 8",
    "A box holds 6 eggs. How many eggs are in 4 boxes?": "4 * 6 = <<4*6=24>>24\n#### 24",
    "Omar had 20 stamps and gave away 8. How many stamps are left?": "20 - 8 = <<20-8=12>>12\n#### 12",
    "Three friends share 15 plums equally. How many plums does each get?": "15 / 3 = <<15/3=5>>5\n#### 5",
    "A shirt costs $12 and a cap costs $7. How many dollars do both cost?": "12 + 7 = <<12+7=19>>19\n#### 19",
    "There are 9 birds on a wire. 4 fly away and 2 come. How many birds are there now?": (
        "9 - 4 = <<9-4=5>>5\n5 + 2 = <<5+2=7>>7\n#### 7"
    ),
    "Lina reads 10 pages a day. How many pages does she read in 7 days?": "7 * 10 = <<7*10=70>>70\n#### 70",
    "A bus has 30 seats. 18 are taken. How many seats are free?": "30 - 18 = <<30-18=12>>12\n#### 12",
}
EASY = [
    Problem(f"easy-{number:04d}", question, solution, gold_of(solution))
    for number, (question, solution) in enumerate(EASY_TEXT.items())
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
        missing = [one for one in problems if (one.id, 0) not in stored]
        if missing:
            requests = [Request(one, 0, render(form, one.question, chat)) for one in missing]
            for batch in _sampler(config).sample(requests, stops(form, chat)):
                run.append(batch)
    after = run.journal().samples
    return [after[one.id, 0] for one in problems]


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
    tokenizer, shortened = _sampler(config).tokenizer, []
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
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 2.0), layout="constrained")
        axes = figure.subplots()
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
    parts = [("text", prompt)] if isinstance(prompt, str) else [(one["role"], one["content"]) for one in prompt]
    return HTML("".join(f"<p><i>{escape(role)}</i></p>{preformatted(text)}" for role, text in parts))


def show_completions(answers: Mapping[str, Sequence[Sample]], which: int = 0) -> HTML:
    """The completions of one problem under each prompt, as plain text, with the tokens and how each ended."""
    blocks = []
    for label, samples in answers.items():
        one = samples[which]
        end = {"stop": "ended by itself or by a stop string", "length": "cut by the limit"}
        note = f"{one.completion_tokens} tokens, {end.get(one.finish_reason or '', 'end not recorded')}"
        blocks.append(
            f"<p style='margin-top: 1em'><b>{escape(label)}</b> ({escape(note)})</p>{preformatted(one.text or '')}"
        )
    return HTML("".join(blocks))


def templated(config: RunConfig, prompt: Prompt) -> str:
    """The text that the model's own chat template makes of messages: what the model really sees."""
    return _sampler(config).tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


@cache
def _sampler(config: RunConfig) -> Sampler:
    return open_sampler(config)


def _folder(config: RunConfig, form: PromptFormat, chat: bool) -> Path:
    digest = hashlib.sha256(f"{config.run_id}/{form.sha256}/{chat}".encode()).hexdigest()
    mode = "chat" if chat else "plain"
    return repository_root() / config.outputs_dir / f"{config.model_slug}-{form.name}-{mode}-{digest[:8]}"
