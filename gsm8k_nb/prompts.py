"""Prompts: what the model is shown, where its text is cut, and what form its answer was asked for in.

A ``PromptFormat`` keeps the three together: wrong scores often come from pairing the template of one protocol with the
stop strings or the answer pattern of another. ``zero_shot`` renders, as plain text, as

    Question: Janet's ducks lay 16 eggs ...
    Solve the problem step by step. End with a last line "#### <number>", ...
    Answer:

and under a chat template as one user message of the same text. Exemplars become turns under a chat template, and text
in plain mode; the two are different protocols, and a run records which it was.
"""

import hashlib
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import yaml

from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import DataError, open_dataset
from gsm8k_nb.places import OFFICIAL, asset_path, find_path
from gsm8k_nb.records import Problem

MARKER_PATTERN = r"####\s*(-?[\d,]+(?:\.\d+)?)"  # Cobbe et al. 2021: the final answer follows ####
INSTRUCTION = (
    "Solve the problem step by step. Then end with a last line of the form\n"
    "#### <number>\n"
    "where <number> is the final answer alone, without units."
)
# The de-facto text of two published protocols, read from the lm-eval package and never imported.
ASSETS = {
    "wei_8shot": ("gsm8k-cot.yaml", "7c9dd2561fe334a55f62bdc6a876f045e6dc7f53714c7a9db506b89c6de6bc96"),
    "llama3_8shot": ("gsm8k-cot-llama.yaml", "c295bc7e942e8f3a51b91d14d5e592d2b037330c831f4ab5b2f8ddca27e031d6"),
}
ASSET_FOLDER = "lm_eval/tasks/gsm8k"

Message = dict[str, str]  # {"role": "user" or "assistant", "content": ...}
Prompt = str | list[Message]


class PromptError(ValueError):
    """A prompt cannot be built: the message names what is missing or wrong."""


@dataclass(frozen=True)
class Exemplar:
    """A worked problem shown before the question. ``id`` says where it is from (``train-0042``, ``wei-1``)."""

    id: str
    question: str
    answer: str


@dataclass(frozen=True)
class PromptFormat:
    """A template with the stop strings and the answer pattern that belong to it, and its exemplars.

    ``template`` holds ``{question}``; ``cue`` follows it in plain text only, to show whose turn it is; ``stop`` cuts
    plain text only (under a chat template the end of turn does it); ``answer_pattern`` is a regular expression for the
    form that the prompt asks for.
    """

    name: str
    template: str
    stop: tuple[str, ...]
    answer_pattern: str
    source: str
    exemplars: tuple[Exemplar, ...] = field(default=())
    cue: str = ""
    separator: str = "\n\n"
    answer_prefix: str = " "  # between the template and an exemplar's answer in plain text

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):  # a bare string would be read as one stop per character
            raise PromptError(f"stop must be a list of strings, got the text {self.stop!r}")
        for stop in self.stop:
            if len(stop.strip()) < 2:  # "=" or a lone blank ends a text at its first equation
                raise PromptError(f"stop string {stop!r} would match ordinary text; use a whole delimiter")

    @property
    def shots(self) -> int:
        return len(self.exemplars)

    @property
    def marked(self) -> bool:
        """Whether the answer is asked for after ``####``."""
        return self.answer_pattern == MARKER_PATTERN

    @property
    def sha256(self) -> str:
        """Hash of everything that this format adds to a question."""
        parts = [self.template, self.cue, self.separator, self.answer_prefix, list(self.stop)]
        parts += [[exemplar.question, exemplar.answer] for exemplar in self.exemplars]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


FORMATS = {
    "zero_shot": PromptFormat(
        "zero_shot",
        "Question: {question}\n" + INSTRUCTION,
        ("\n\nQuestion:",),
        MARKER_PATTERN,
        "gsm8k_nb",
        cue="\nAnswer:",
    ),
    "train_kshot": PromptFormat(
        "train_kshot",
        "Question: {question}",
        ("\n\nQuestion:",),
        MARKER_PATTERN,
        "exemplars from GSM8K's train split (Cobbe et al. 2021)",
        cue="\nAnswer:",
    ),
    "wei_8shot": PromptFormat(
        "wei_8shot",
        "Q: {question}\nA:",
        ("\n\nQ:",),
        r"[Tt]he answer is\s*\$?(-?[\d,]+(?:\.\d+)?)",
        "Wei et al. 2022 (arXiv:2201.11903), text as in lm-eval's gsm8k_cot",
    ),
    "llama3_8shot": PromptFormat(
        "llama3_8shot",
        "",  # the asset's own template, see _asset_format
        ("\n\nGiven the following problem",),
        r"[Tt]he final answer is\s*\$?(-?[\d,]+(?:\.\d+)?)",
        "Meta's Llama 3 evaluation, text as in lm-eval's gsm8k_cot_llama",
        answer_prefix="\n",
    ),
    "as_stored": PromptFormat("as_stored", "{question}", (), r"(-?[\d,]+(?:\.\d+)?)", "stored completions"),
}


def prompt_for(config: RunConfig, problems: list[Problem]) -> PromptFormat:
    """The prompt that a run's parameters name, with its exemplars; none of them is one of the scored ``problems``."""
    form = FORMATS[config.prompt]
    if config.prompt in ASSETS:
        form = _asset_format(form)
    elif config.prompt == "train_kshot" and config.sampler != "replay":
        train = open_dataset("gsm8k", config=config.dataset_config, split="train", path=_train_path(config)).problems
        form = replace(form, exemplars=draw_exemplars(train, config.n_shots, config.seed, problems))
    check_no_overlap(form.exemplars, problems)
    return form


def render(form: PromptFormat, question: str, chat: bool) -> Prompt:
    """The prompt of one question: messages where ``chat``, one text otherwise. No trailing blank."""
    if not chat:
        shots = [_text(form, shot.question) + form.answer_prefix + shot.answer for shot in form.exemplars]
        return form.separator.join([*shots, _text(form, question)])
    messages: list[Message] = []
    for shot in form.exemplars:
        messages += [_user(form, shot.question), {"role": "assistant", "content": shot.answer}]
    return [*messages, _user(form, question)]


def _text(form: PromptFormat, question: str) -> str:
    return (form.template.format(question=question).rstrip() + form.cue).rstrip()


def _user(form: PromptFormat, question: str) -> Message:
    return {"role": "user", "content": form.template.format(question=question).rstrip()}


def stops(form: PromptFormat, chat: bool) -> tuple[str, ...]:
    """The stop strings to send: none under a chat template, where a model may well restate the question first."""
    return () if chat else form.stop


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
    if config.train_path is not None:
        return config.train_path
    if config.data_path is None:
        return None
    if config.data_path.startswith(OFFICIAL):
        return f"{OFFICIAL}train.jsonl"
    beside = find_path(config.data_path, "data_path").parent / "train.jsonl"
    if beside.exists():
        return str(beside)
    raise DataError(
        f"train_path: prompt 'train_kshot' takes its exemplars from the train split, and there is no {beside}; "
        "set train_path to a JSONL copy of it"
    )


def _asset_format(form: PromptFormat) -> PromptFormat:
    """A format whose exemplars (and, for Llama, template) are an lm-eval task file, checked by its sha256."""
    file, expected = ASSETS[form.name]
    raw = asset_path("lm_eval", f"{ASSET_FOLDER}/{file}").read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != expected:
        raise PromptError(f"{file} is not the known text of {form.name}: sha256 {digest}, expected {expected}")
    task = yaml.safe_load(raw)
    prefix = form.name.split("_")[0]
    exemplars = tuple(
        Exemplar(f"{prefix}-{number}", shot["question"], shot["target"])
        for number, shot in enumerate(task["fewshot_config"]["samples"], start=1)
    )
    template = form.template or task["doc_to_text"].replace("{{question}}", "{question}")
    return replace(form, template=template, exemplars=exemplars)
