"""The first samples of a long run, looked at before the others are asked for.

    Finding("cut", 7, 8, "completions were cut: raise max_new_tokens, or ...", ("Let us see. ...",))

A wrong template, stop string or limit makes every completion of a run worthless, and shows in the first few. Nothing is
stopped: an honest small model can look odd too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gsm8k_nb.places import own_table
from gsm8k_nb.prompts import PromptFormat
from gsm8k_nb.records import Sample
from gsm8k_nb.texts import degenerate

ADVICE: dict[str, str] = own_table("smoke.toml")
TOLERATED = 0.25  # of the answered samples may have a fault
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


def look(samples: Sequence[Sample], form: PromptFormat, chat: bool) -> list[Finding]:
    """What is odd about a run's first samples: failed requests, and each fault that more than ``TOLERATED`` have."""
    failed = [sample for sample in samples if sample.error is not None]
    answered = [(sample.text or "", odd(sample, form)) for sample in samples if sample.error is None]
    findings = []
    if failed:
        findings.append(Finding("failed", len(failed), len(samples), f"requests failed: {failed[0].error}", ()))
    other = "chat_template: " + ("plain, if this is a base model" if chat else "template, if this is a chat model")
    for name, advice in ADVICE.items():
        texts = [text for text, faults in answered if name in faults]
        if len(texts) > TOLERATED * len(answered):
            advice = advice.format(other=other, short=SHORT)
            findings.append(Finding(name, len(texts), len(answered), advice, tuple(texts[:SHOWN])))
    return findings


def odd(sample: Sample, form: PromptFormat) -> set[str]:
    """The names of what is odd about a completion."""
    text = sample.text or ""
    blank = not text.strip()
    faults = {
        "empty": blank and not sample.reasoning,
        "thought_only": blank and sample.reasoning,
        "short": not blank and (sample.completion_tokens or SHORT + 1) <= SHORT,  # a restated question that was stopped
        "repeats": degenerate(text),
        "cut": sample.finish_reason == "length",
        "no_form": not re.search(form.answer_pattern, text),
        "runs_on": _RUNS_ON.search(text),
        "marks": _MARKS.search(text),
    }
    return {name for name, fault in faults.items() if fault}
