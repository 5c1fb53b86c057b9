"""What a log holds, whoever wrote it: completions, and what it states of how they were made.

    Entry(question="Janet's ducks ...", text="... The answer is 18.", place="doc_id 0", verdicts={"strict-match": True})
    Log(tool="lm-eval", task="gsm8k_cot", version="0.4.13", model="meta-llama/Llama-3.1-8B",
        stated={"shots": 8, "temperature": 0.0, "max_new_tokens": 256, "stop": ["Q:"]}, entries=[...])

A log's protocol is what it states itself. What it does not state stays unknown; nothing is filled in from a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KNOWN = (
    "lm-eval's samples_*.jsonl, inspect's .eval and JSON logs, lighteval's details parquet, HELM's "
    "scenario_state.json, OpenCompass' and evalscope's predictions, rows of Qwen2.5-Math, ToRA, verl and Meta's "
    "evals, OpenAI's released solutions, and any rows (JSON, CSV, parquet) whose columns are named"
)
_FINISH_REASONS = {
    "max_tokens": "length", "model_length": "length", "endoftext": "stop", "end_turn": "stop", "unknown": None,
}  # fmt: skip
_SAMPLING = {  # our name -> the names that tools use
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k", "top_k_per_token"),
    "max_new_tokens": ("max_new_tokens", "max_gen_toks", "max_tokens"),
}
_STOP = ("until", "stop_seqs", "stop_sequences", "stop")


class LogError(ValueError):
    """A log cannot be imported: the message names the file, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One completion of a log, or one failed request.

    ``question`` may be the bare question or a prompt around it; ``index``, where it is known, is the problem's row in
    the official file. ``place`` says where in the log the entry stands, ``gold`` the answer that the log holds for
    right. ``verdicts`` are the tool's own: right or wrong by the name of its scorer. ``votes`` stand with the first of
    the texts that voted: how many did, and whether they were right.
    """

    question: str
    text: str | None
    place: str
    index: int | None = None
    gold: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    verdicts: dict[str, bool] = field(default_factory=dict)
    votes: dict[str, tuple[int, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A log as read. ``entries`` of one problem stand in the order of their sample index.

    ``stated`` holds what the log states of its protocol, by our names: shots, temperature, top_p, top_k,
    max_new_tokens, stop, chat, exemplars_as. ``rules`` names, for a scorer of the tool, the rule of ours that repeats
    it. ``time`` and ``packages`` are those of the machine that made it, ``n_problems`` how many it says it has.
    """

    tool: str
    entries: list[Entry]
    model: str | None = None
    task: str | None = None
    version: str | None = None
    time: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    n_problems: int | None = None
    stated: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)


def finish_reason(word: Any) -> str | None:
    """A tool's word for how a completion ended, in ours: ``stop``, ``length``, or its own where it is neither."""
    return _FINISH_REASONS.get(word, word) if isinstance(word, str) and word else None


def sampling_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling fields among a tool's settings, by our names. A field that is null, or switched off, is left out."""
    fields: dict[str, Any] = {}
    for name, theirs in _SAMPLING.items():
        values = [settings[key] for key in theirs if settings.get(key) is not None]
        if values and not (name != "temperature" and values[0] <= 0):  # 0 and -1 switch top-k and limits off
            fields[name] = values[0]
    if settings.get("do_sample") is False:  # greedy whatever the temperature says
        fields["temperature"] = 0.0
    stops = next((settings[key] for key in _STOP if settings.get(key)), None)
    if stops:
        fields["stop"] = [stops] if isinstance(stops, str) else list(stops)
    return fields


def verdicts(scores: Mapping[str, Any]) -> dict[str, bool]:
    """The scores of one completion that are plainly right (1, True, ``C``) or wrong (0, False, ``I``)."""
    plain: dict[str, bool] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score  # a score may come with its explanation
        if str(value).lower() in ("1", "1.0", "true", "c"):
            plain[name] = True
        elif str(value).lower() in ("0", "0.0", "false", "i"):
            plain[name] = False
    return plain
