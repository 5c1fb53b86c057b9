"""HELM: ``scenario_state.json``, and the ``run_spec.json`` beside it.

    {"adapter_spec": {"model": "openai/gpt-4o", "max_train_instances": 5, "temperature": 0.0, "max_tokens": 400, ...},
     "request_states": [{"instance": {"input": {"text": "Janet's ..."}, "split": "test"}, "num_train_instances": 5,
                         "result": {"success": true, "completions": [{"text": "...", "tokens": [...]}]}}, ...]}

Completions, trials and draws of exemplars of one problem become its samples. HELM leaves out what is null.
"""

import json
from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Entry, Log, LogError, finish_reason, sampling_fields

TOOL = "HELM"


def recognises(value: dict[str, Any]) -> bool:
    return "adapter_spec" in value and "request_states" in value


def read(path: Path, value: dict[str, Any]) -> Log:
    """The log of one run. LogError where it holds no requests."""
    states = value["request_states"]
    if not states:
        raise LogError(f"{path.name}: holds no request states")
    spec = value["adapter_spec"]
    stated = sampling_fields(spec) | {"shots": _shots(states, spec)}
    if spec.get("stop_sequences"):
        stated["stop"] = list(spec["stop_sequences"])
    run_spec = path.with_name("run_spec.json")
    name = json.loads(run_spec.read_text(encoding="utf-8")).get("name", "") if run_spec.exists() else ""
    return Log(
        TOOL,
        [entry for index, state in enumerate(states) for entry in _entries(state, index)],
        model=spec.get("model") or None,
        task=name.partition(":")[0] or None,  # the rest of the name repeats the model
        stated={name: known for name, known in stated.items() if known is not None},
    )


def _shots(states: list[dict[str, Any]], spec: dict[str, Any]) -> int | None:
    """The number of exemplars that every prompt had; where long prompts had fewer, the number asked for."""
    counts = {state.get("num_train_instances") for state in states}
    return counts.pop() if len(counts) == 1 else spec.get("max_train_instances")


def _entries(state: dict[str, Any], index: int) -> list[Entry]:
    question, place = _question(state["instance"]), f"request {index}"
    result = state.get("result") or {"error": "the request was never made"}
    completions = result.get("completions") or []
    if not result.get("success") or not completions:
        return [Entry(question, None, place, error=str(result.get("error") or "no completion"))]
    return [
        Entry(
            question,
            one.get("text"),
            place if len(completions) == 1 else f"{place}, completion {which}",
            finish_reason=finish_reason((one.get("finish_reason") or {}).get("reason")),
            completion_tokens=len(one["tokens"]) if one.get("tokens") else None,
            seconds=result.get("request_time"),
        )
        for which, one in enumerate(completions)
    ]


def _question(instance: dict[str, Any]) -> str:
    said = instance.get("input", {})
    turns = [one.get("content") or "" for one in said.get("messages") or [] if one.get("role") == "user"]
    return said.get("text") or (turns[-1] if turns else "")
