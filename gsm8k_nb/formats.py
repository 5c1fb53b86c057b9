"""Prompt formats: each is a YAML file, ours in ``assets/prompts``, yours wherever it lies; see docs/prompts.md.

A format keeps template, stop strings and answer form together: wrong scores often come from pairing the template of one
protocol with the stop strings or the answer pattern of another.
"""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from gsm8k_nb.places import find_path
from gsm8k_nb.plain_yaml import PlainYamlError, line_of, read_yaml

_NUMBER = r"(-?[\d,]+(?:\.\d+)?)"
MARKER_PATTERN = rf"####\s*{_NUMBER}"  # Cobbe et al. 2021: the final answer follows ####
ANSWER_FORMS = {  # the forms that most prompts ask for, by the name that a file gives
    "####": MARKER_PATTERN,
    "boxed": r"\\boxed\s*\{[^{}]*?" + _NUMBER,
    "the answer is": rf"[Tt]he answer is\s*\$?{_NUMBER}",
    "the final answer is": rf"[Tt]he final answer is\s*\$?{_NUMBER}",
}


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
    """A template with all that belongs to it.

    ``template`` holds ``{question}``; ``cue`` follows it and ``stop`` cuts in plain text only (a chat template does
    both); ``answer_pattern`` is a regular expression for the form that the prompt asks for. ``then`` is written behind
    the model's text, which goes on from there (Kojima et al. 2022). ``takes`` is the fewest, the most and the usual
    number of exemplars; ``published`` the set they are of, ``train`` where they are drawn. ``family`` is exemplars and
    method as published results name them; ``text`` is the file, where it is not one of ours.
    """

    name: str
    template: str
    stop: tuple[str, ...]
    answer_pattern: str
    source: str
    exemplars: tuple[Exemplar, ...] = ()
    system: str = ""
    cue: str = ""
    separator: str = "\n\n"
    answer_prefix: str = " "  # between the template and an exemplar's answer in plain text
    then: str = ""
    stop_in_chat: bool = False
    takes: tuple[int, int, int] = (0, 0, 0)
    published: str = ""
    family: tuple[str, str] | None = None
    text: str = ""

    def __post_init__(self) -> None:
        check_stops(self.stop)

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
        parts: list[Any] = [self.template, self.cue, self.separator, self.answer_prefix, list(self.stop)]
        parts += [[exemplar.question, exemplar.answer] for exemplar in self.exemplars]
        parts += [{"system": self.system, "then": self.then}] if self.system or self.then else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def check_stops(stops: Any) -> Any:
    """Stop strings as they are. PromptError for one that would cut ordinary text."""
    if isinstance(stops, str):  # it would be read as one stop per character
        raise PromptError(f"stop must be a list of strings, got the text {stops!r}")
    for stop in stops or ():
        if len(stop.strip()) < 2:  # "=" or a lone blank ends a text at its first equation
            raise PromptError(f"stop string {stop!r} would match ordinary text; use a whole delimiter")
    return stops


def _with_a_number(form: str) -> str:
    with suppress(re.error):
        if re.compile(pattern := ANSWER_FORMS.get(form, form)).groups:
            return pattern
    forms = ", ".join(map(repr, ANSWER_FORMS))
    raise ValueError(f"must be {forms}, or a regular expression with the number in a group, got {form!r}")


def _with_question(template: str, info: ValidationInfo) -> str:
    if "{question}" not in template and info.data.get("exemplars") != "llama3":  # which brings its own
        raise ValueError("must hold {question}")
    return template


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Shot(_Strict):
    question: str
    answer: str


class _Drawn(_Strict):
    train: int = Field(ge=1, le=32)


class _File(_Strict):
    """What a prompt file may say."""

    exemplars: Literal["wei", "llama3"] | _Drawn | list[_Shot] = []
    template: Annotated[str, AfterValidator(_with_question)]
    system: str = ""
    cue: str = ""
    separator: str = "\n\n"
    answer_prefix: str = " "
    then: str = ""
    stop: Annotated[list[str], AfterValidator(check_stops)] = []
    answer_form: Annotated[str, AfterValidator(_with_a_number)]
    source: str = "a file of one's own"
    family: tuple[str, str] | None = Field(None, strict=False)


@cache
def read_format(name: str, text: str, *, own: bool = False) -> PromptFormat:
    """The format that a file describes. PromptError names the line, the key and what it may say."""
    try:
        values = read_yaml(text)
        file = _File.model_validate(values)
    except PlainYamlError as error:
        raise PromptError(f"{name}, {error}") from None
    except ValidationError as error:
        fault = error.errors()[0]
        key, said = str((fault["loc"] or ("a prompt",))[0]), str(fault.get("ctx", {}).get("error") or fault["msg"])
        said = f"unknown; known: {', '.join(_File.model_fields)}" if fault["type"] == "extra_forbidden" else said
        raise PromptError(f"{name}, line {line_of(text, key)}: {key}: {said}") from None
    shots, fields = file.exemplars, file.model_dump(exclude={"exemplars", "answer_form", "stop"})
    fields |= {"stop": tuple(file.stop), "answer_pattern": file.answer_form, "text": text if own else ""}
    if isinstance(shots, _Drawn):
        return PromptFormat(name, **fields, takes=(1, 32, shots.train), published="train")
    if isinstance(shots, str):
        return PromptFormat(name, **fields, takes=(8, 8, 8), published=shots)
    exemplars = tuple(Exemplar(f"{name}-{n}", shot.question, shot.answer) for n, shot in enumerate(shots, start=1))
    return PromptFormat(name, **fields, takes=(len(shots),) * 3, exemplars=exemplars)


def format_of(prompt: str) -> PromptFormat:
    """The format that the parameter ``prompt`` names: one of ours, or a file. PromptError where it is neither."""
    if prompt in FORMATS:
        return FORMATS[prompt]
    if not prompt.endswith((".yaml", ".yml")):
        near = get_close_matches(prompt, FORMATS, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise PromptError(f"must be one of {', '.join(FORMATS)}, or a .yaml file with a prompt, got {prompt!r}{hint}")
    try:
        text = find_path(prompt, "prompt").read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{prompt!r} cannot be read: {error}") from None
    return read_format(Path(prompt).stem, text, own=True)


FORMATS = {
    file.name.removesuffix(".yaml"): read_format(file.name.removesuffix(".yaml"), file.read_text(encoding="utf-8"))
    for file in sorted(resources.files("gsm8k_nb").joinpath("assets/prompts").iterdir(), key=lambda file: file.name)
}
FORMATS["as_stored"] = replace(FORMATS["as_stored"], takes=(0, 32, 0))  # as many as its source says
_OURS = (name for name in FORMATS if name != "as_stored")
HELP = ", ".join([*_OURS, "or your own .yaml file (as_stored for a replay)"])  # the parameter's line in a notebook
