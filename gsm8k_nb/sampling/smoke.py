"""The first samples of a long run, looked at before the others are asked for.

    Finding("cut", 7, 8, "completions were cut: raise max_new_tokens, or ...", ("Let us see. ...",))

A wrong template, stop string or limit makes every completion of a run worthless, and shows in the first few. Nothing is
stopped: an honest small model can look odd too.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gsm8k_nb.prompts import PromptFormat
from gsm8k_nb.records import Sample
from gsm8k_nb.texts import degenerate

SHOWN = 2  # texts shown with a finding
SHORT = 4  # tokens; a chain of thought is longer
_RUNS_ON = re.compile(r"^\s*(Question|Q|Problem|User|Human)\s*\d*\s*:", re.MULTILINE)
_MARKS = re.compile(r"<\|[a-z_]+\|>|<(start|end)_of_turn>|\[/?INST\]|<</?SYS>>|<\|?(bos|eos|s|/s)\|?>")


@dataclass(frozen=True)
class Finding:
    """One thing that is odd about ``count`` of ``of`` completions, what to do about it, and some of them."""

    name: str
    count: int
    of: int
    advice: str
    texts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.count} of the first {self.of} {self.advice}"


def look(samples: Sequence[Sample], form: PromptFormat, chat: bool, threshold: float = 0.25) -> list[Finding]:
    """What is odd about a run's first samples: failed requests, and each check that more than this share fails."""
    failed = [sample for sample in samples if sample.error is not None]
    answered = [sample for sample in samples if sample.error is None]
    findings = []
    if failed:
        findings.append(Finding("failed", len(failed), len(samples), f"requests failed: {failed[0].error}", ()))
    for name, (odd, advice) in _checks(form, chat).items():
        texts = [sample.text or "" for sample in answered if odd(sample.text or "", sample)]
        if len(texts) > threshold * len(answered):
            findings.append(Finding(name, len(texts), len(answered), advice, tuple(texts[:SHOWN])))
    return findings


def _checks(form: PromptFormat, chat: bool) -> dict[str, tuple[Callable[[str, Sample], object], str]]:
    """By name, what is odd about a text or its sample, and what to do about it."""
    other = "chat_template: " + ("plain, if this is a base model" if chat else "template, if this is a chat model")
    return {
        "empty": (
            lambda text, sample: not text.strip() and not sample.reasoning,
            "completions are empty: an end token or stop string comes at once; look at the prompt and its template",
        ),
        "thought_only": (
            lambda text, sample: not text.strip() and sample.reasoning,
            "completions hold reasoning and no answer: raise max_new_tokens where they were cut; else the server's "
            "reasoning parser takes all text for a thought: start it without, or with the one made for this model, or "
            "read the thought on purpose by answer_from: reasoning",
        ),
        "short": (  # a restated question that meets a stop string
            lambda text, sample: text.strip() and (sample.completion_tokens or SHORT + 1) <= SHORT,
            f"completions end within {SHORT} tokens: does a stop string cut them?",
        ),
        "repeats": (lambda text, sample: degenerate(text), "completions end in a loop of one piece of text"),
        "cut": (
            lambda text, sample: sample.finish_reason == "length",
            f"completions were cut: raise max_new_tokens, or {other}",
        ),
        "no_form": (
            lambda text, sample: not re.search(form.answer_pattern, text),
            "completions do not give their answer in the form that the prompt asks for; see the rules' disagreement",
        ),
        "runs_on": (
            lambda text, sample: _RUNS_ON.search(text),
            f"completions go on with a question of their own: try {other}",
        ),
        "marks": (
            lambda text, sample: _MARKS.search(text),
            f"completions hold marks of a chat template: it was not applied, or twice; try {other}",
        ),
    }
