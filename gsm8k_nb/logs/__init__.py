"""Logs of other evaluation tools in, records for other tools out.

    python -m gsm8k_nb.logs import samples_gsm8k_cot_2026-11-30T08-16-21.jsonl     a run folder from another tool's log
    python -m gsm8k_nb.logs export outputs/RUN --organisation "A University"       every-eval-ever files from a run

Each reader turns a log into one ``Log``: its completions, and what it states of how they were made.

    Entry(question="Janet's ducks ...", text="... The answer is 18.", place="doc 0", verdicts={"strict-match": True})
    Log(tool="lm-eval", task="gsm8k_cot", version="0.4.13", model="meta-llama/Llama-3.1-8B",
        stated={"shots": 8, "temperature": 0.0, "max_new_tokens": 256, "stop": ["Q:"]}, entries=[...])

A log's protocol is what it states itself. What it does not state stays unknown; nothing is filled in from a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_FINISH_REASONS = {
    "max_tokens": "length", "model_length": "length", "endoftext": "stop", "end_turn": "stop", "unknown": None,
}  # fmt: skip
_SAMPLING = {  # our name -> the names that tools use
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k", "top_k_per_token"),
    "max_new_tokens": ("max_new_tokens", "max_gen_toks", "max_tokens"),
}


class LogError(ValueError):
    """A log cannot be imported: the message names the file, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One completion of a log, or one failed request.

    ``question`` may be the bare question or a prompt around it. ``place`` says where in the log it stands. ``verdicts``
    are the tool's own: right or wrong by the name of its scorer.
    """

    question: str
    text: str | None
    place: str
    finish_reason: str | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    verdicts: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A log as read. ``entries`` of one problem stand in the order of their sample index.

    ``stated`` holds what the log states of its protocol, by our names: shots, temperature, top_p, top_k,
    max_new_tokens, stop, chat. ``rules`` names, for a scorer of the tool, the rule of ours that repeats it.
    """

    tool: str
    entries: list[Entry]
    model: str | None = None
    task: str | None = None
    version: str | None = None
    stated: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)


def finish_reason(said: str | None) -> str | None:
    """A tool's word for how a completion ended, in ours: ``stop``, ``length``, or its own where it is neither."""
    return _FINISH_REASONS.get(said, said) if said else None


def sampling_fields(said: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling fields among a tool's settings, by our names. A field that is null, or switched off, is left out."""
    found = {}
    for name, theirs in _SAMPLING.items():
        values = [said[one] for one in theirs if said.get(one) is not None]
        if values and not (name != "temperature" and values[0] <= 0):  # 0 and -1 switch top-k and limits off
            found[name] = values[0]
    if said.get("do_sample") is False:  # greedy whatever the temperature says
        found["temperature"] = 0.0
    return found


def verdict(value: Any) -> bool | None:
    """A tool's score as right or wrong: 1, 1.0, True, ``C``; 0, 0.0, False, ``I``. None for anything between."""
    if value in (1, "C"):
        return True
    return False if value in (0, "I") else None


def verdicts(scores: Mapping[str, Any]) -> dict[str, bool]:
    """The scores of one completion that are plainly right or wrong."""
    return {name: found for name, value in scores.items() if (found := verdict(value)) is not None}
