"""Prompts: a format with its exemplars, rendered for one question. ``zero_shot`` renders, as plain text, as

    Question: Janet's ducks lay 16 eggs ...
    Solve the problem step by step. Then end with a last line of the form ...
    Answer:

and under a chat template as one user message. Exemplars become turns under a chat template, and text in plain mode; the
two are different protocols, and a run records which it was.
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import replace

import yaml

from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import DataError, open_dataset
from gsm8k_nb.formats import FORMATS as FORMATS
from gsm8k_nb.formats import Exemplar, PromptError, PromptFormat
from gsm8k_nb.places import OFFICIAL, asset_path, find_path, own_table
from gsm8k_nb.records import Problem

Message = dict[str, str]  # {"role": "user" or "assistant", "content": ...}
Prompt = str | list[Message]
PUBLISHED = own_table("exemplars.toml")


def prompt_for(config: RunConfig, problems: list[Problem]) -> PromptFormat:
    """The prompt that a run's parameters name, with its exemplars; none of them is one of the scored ``problems``."""
    form = config.form
    if form.published == "train" and config.sampler != "replay":
        train = open_dataset("gsm8k", config=config.dataset_config, split="train", path=_train_path(config)).problems
        form = replace(form, exemplars=draw_exemplars(train, config.n_shots, config.seed, problems))
    elif form.published in PUBLISHED:
        form = _published(form)
    if config.system_prompt is not None:
        form = replace(form, system=config.system_prompt)
    if config.stop is not None:
        form = replace(form, stop=tuple(config.stop), stop_in_chat=True)
    check_no_overlap(form.exemplars, problems)
    return form


def render(form: PromptFormat, question: str, chat: bool) -> Prompt:
    """The prompt of one question: messages where ``chat``, one text otherwise. No trailing blank."""

    def asked(question: str) -> str:
        text = form.template.replace("{question}", question).rstrip()
        return text if chat else (text + form.cue).rstrip()

    if not chat:
        shots = [asked(shot.question) + form.answer_prefix + shot.answer for shot in form.exemplars]
        return form.separator.join([*([form.system] if form.system else []), *shots, asked(question)])
    messages: list[Message] = [{"role": "system", "content": form.system}] if form.system else []
    for shot in form.exemplars:
        messages += [{"role": "user", "content": asked(shot.question)}, {"role": "assistant", "content": shot.answer}]
    return [*messages, {"role": "user", "content": asked(question)}]


def stops(form: PromptFormat, chat: bool) -> tuple[str, ...]:
    """The stop strings to send; under a chat template, where a model may restate the question, only a run's own."""
    return () if chat and not form.stop_in_chat else form.stop


def draw_exemplars(train: list[Problem], k: int, seed: int, scored: Iterable[Problem] = ()) -> tuple[Exemplar, ...]:
    """``k`` train problems in one seeded draw for the whole run, calculator annotations removed.

    Problems that are scored too, by their text, are left out of the draw.
    """
    taken = {_key(problem.question) for problem in scored}
    free = [problem for problem in train if _key(problem.question) not in taken]
    if len(free) < k:
        raise PromptError(f"shots: {k} exemplars asked for, the train split has {len(free)}")
    chosen = random.Random(seed).sample(free, k)
    return tuple(Exemplar(shot.id, shot.question, without_annotations(shot.solution)) for shot in chosen)


def check_no_overlap(exemplars: Iterable[Exemplar], problems: Iterable[Problem]) -> None:
    """PromptError where an exemplar is one of the scored problems: its answer would be in its own prompt."""
    scored = {_key(problem.question): problem.id for problem in problems}
    for exemplar in exemplars:
        if _key(exemplar.question) in scored:
            raise PromptError(f"exemplar {exemplar.id} is the scored problem {scored[_key(exemplar.question)]}")


def _key(question: str) -> str:
    return " ".join(question.lower().split())


def _train_path(config: RunConfig) -> str | None:
    """``train_path``, or ``train.jsonl`` beside ``data_path``, or None for the hub."""
    if config.train_path is not None or config.data_path is None:
        return config.train_path
    if config.data_path.startswith(OFFICIAL):
        return f"{OFFICIAL}train.jsonl"
    beside = find_path(config.data_path, "data_path").parent / "train.jsonl"
    if not beside.exists():
        raise DataError(f"train_path: 'train_kshot' takes its exemplars from the train split: there is no {beside}")
    return str(beside)


def _published(form: PromptFormat) -> PromptFormat:
    """A format with its published exemplars (and, for Llama, template), an lm-eval task file checked by its sha256."""
    file, expected = PUBLISHED[form.published]
    raw = asset_path("lm_eval", file).read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != expected:
        raise PromptError(f"{file} is not the known text of {form.name}: sha256 {digest}, expected {expected}")
    task = yaml.safe_load(raw)
    exemplars = tuple(
        Exemplar(f"{form.published}-{number}", shot["question"], shot["target"])
        for number, shot in enumerate(task["fewshot_config"]["samples"], start=1)
    )
    template = form.template or task["doc_to_text"].replace("{{question}}", "{question}")
    return replace(form, template=template, exemplars=exemplars)
