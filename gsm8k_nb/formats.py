"""Prompt formats: ``assets/formats.toml`` has them as data, and everything that is said of one stands there.

A format keeps template, stop strings and answer form together: wrong scores often come from pairing the template of one
protocol with the stop strings or the answer pattern of another.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass

from pydantic import TypeAdapter

from gsm8k_nb.places import own_asset

MARKER_PATTERN = r"####\s*(-?[\d,]+(?:\.\d+)?)"  # Cobbe et al. 2021: the final answer follows ####


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
    both); ``answer_pattern`` is a regular expression for the form that the prompt asks for. ``takes`` is the fewest,
    the most and the usual number of exemplars; ``asset`` lm-eval's file that they (and an empty ``template``) are read
    from, with its sha256. ``family`` is exemplars and method as published results name them.
    """

    name: str
    template: str
    stop: tuple[str, ...]
    answer_pattern: str
    source: str
    exemplars: tuple[Exemplar, ...] = ()
    cue: str = ""
    separator: str = "\n\n"
    answer_prefix: str = " "  # between the template and an exemplar's answer in plain text
    takes: tuple[int, int, int] = (0, 0, 0)
    asset: tuple[str, str] | None = None
    family: tuple[str, str] | None = None

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


_TABLES = tomllib.loads(own_asset("formats.toml"))
FORMATS = TypeAdapter(dict[str, PromptFormat]).validate_python(
    {name: {"name": name, **fields} for name, fields in _TABLES.items()}
)
INSTRUCTION = FORMATS["zero_shot"].template.partition("\n")[2]
GENERATED = [name for name in FORMATS if name != "as_stored"]
HELP = f"{', '.join(GENERATED[:-1])} or {GENERATED[-1]} (as_stored for a replay)"  # the parameter's line in a notebook
