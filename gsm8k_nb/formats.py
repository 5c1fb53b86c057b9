"""Prompt formats as data: each is one entry of ``FORMATS``, and everything that is said of it stands there.

    FORMATS["wei_8shot"].template -> "Q: {question}\nA:"      FORMATS["wei_8shot"].takes -> (8, 8, 8)

A ``PromptFormat`` keeps template, stop strings and answer form together: wrong scores often come from pairing the
template of one protocol with the stop strings or the answer pattern of another.
"""

import hashlib
import json
from dataclasses import dataclass

MARKER_PATTERN = r"####\s*(-?[\d,]+(?:\.\d+)?)"  # Cobbe et al. 2021: the final answer follows ####
INSTRUCTION = (
    "Solve the problem step by step. Then end with a last line of the form\n"
    "#### <number>\n"
    "where <number> is the final answer alone, without units."
)
LM_EVAL = "lm_eval/tasks/gsm8k/"  # of the package lm-eval, whose files are read and never imported


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

    ``template`` holds ``{question}``; ``cue`` follows it in plain text only, to show whose turn it is; ``stop`` cuts
    plain text only (under a chat template the end of turn does it); ``answer_pattern`` is a regular expression for the
    form that the prompt asks for. ``takes`` is the fewest, the most and the usual number of exemplars; ``asset`` the
    package's file that they (and an empty ``template``) are read from, with its sha256. ``family`` is the exemplars and
    the method as published results name them, None where there are none.
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


_ALL = (
    PromptFormat(
        name="zero_shot",
        template="Question: {question}\n" + INSTRUCTION,
        cue="\nAnswer:",
        stop=("\n\nQuestion:",),
        answer_pattern=MARKER_PATTERN,
        source="gsm8k_nb",
        family=("none", "cot"),
    ),
    PromptFormat(
        name="wei_8shot",
        template="Q: {question}\nA:",
        stop=("\n\nQ:",),
        answer_pattern=r"[Tt]he answer is\s*\$?(-?[\d,]+(?:\.\d+)?)",
        source="Wei et al. 2022 (arXiv:2201.11903), text as in lm-eval's gsm8k_cot",
        takes=(8, 8, 8),
        asset=(LM_EVAL + "gsm8k-cot.yaml", "7c9dd2561fe334a55f62bdc6a876f045e6dc7f53714c7a9db506b89c6de6bc96"),
        family=("wei", "cot"),
    ),
    PromptFormat(
        name="train_kshot",
        template="Question: {question}",
        cue="\nAnswer:",
        stop=("\n\nQuestion:",),
        answer_pattern=MARKER_PATTERN,
        source="exemplars from GSM8K's train split (Cobbe et al. 2021)",
        takes=(1, 32, 8),
        family=("train", "cot"),
    ),
    PromptFormat(
        name="llama3_8shot",
        template="",
        answer_prefix="\n",
        stop=("\n\nGiven the following problem",),
        answer_pattern=r"[Tt]he final answer is\s*\$?(-?[\d,]+(?:\.\d+)?)",
        source="Meta's Llama 3 evaluation, text as in lm-eval's gsm8k_cot_llama",
        takes=(8, 8, 8),
        asset=(LM_EVAL + "gsm8k-cot-llama.yaml", "c295bc7e942e8f3a51b91d14d5e592d2b037330c831f4ab5b2f8ddca27e031d6"),
        family=("wei", "cot"),
    ),
    PromptFormat(
        name="as_stored",
        template="{question}",
        stop=(),
        answer_pattern=r"(-?[\d,]+(?:\.\d+)?)",
        source="stored completions",
        takes=(0, 32, 0),
    ),
)
FORMATS = {form.name: form for form in _ALL}
GENERATED = [name for name in FORMATS if name != "as_stored"]
HELP = f"{', '.join(GENERATED[:-1])} or {GENERATED[-1]} (as_stored for a replay)"  # the parameter's line in a notebook
