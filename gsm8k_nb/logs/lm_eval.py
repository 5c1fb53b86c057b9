"""lm-evaluation-harness: ``samples_TASK_TIME.jsonl``, and the ``results_TIME.json`` that it writes beside it.

A row of the first is one problem under one filter; a task with two filters has two rows a problem, with the same texts:

    {"doc_id": 0, "doc": {"question": "..."}, "arguments": {"gen_args_0": {"arg_0": "Q: ...", "arg_1": {...}}},
     "resps": [[" She sells ... The answer is 18."]], "filter": "strict-match", "exact_match": 1.0, ...}

The rows state how the texts were sampled; model, version and number of exemplars stand in the second file alone.
"""

import json
import re
from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Entry, Log, LogError, sampling_fields, verdicts

TOOL = "lm-eval"
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_RULES = (  # what a filter's pattern holds -> the rule that repeats it
    ("#### ", "lm_eval_strict"),
    ("The final answer is ", "lm_eval_llama_strict"),
    ("The answer is ", "lm_eval_cot_strict"),
    ("[$0-9.,]{2,}", "lm_eval_flexible"),
)


def recognises(row: dict[str, Any]) -> bool:
    return {"doc_id", "doc", "resps", "arguments"} <= set(row)


def read(path: Path, rows: list[dict[str, Any]]) -> Log:
    """The log of one task. LogError where a row is malformed."""
    name = _NAME.fullmatch(path.name)
    results = _results(path, name["time"]) if name else {}
    task = name["task"] if name else None
    settings = results.get("configs", {}).get(task, {})
    return Log(
        TOOL,
        _entries(rows, path.name),
        model=results.get("model_name"),
        task=task,
        version=results.get("lm_eval_version"),
        stated=_stated(rows[0], results, task),
        rules=_rules(settings.get("filter_list") or []),
    )


def _results(path: Path, time: str) -> dict[str, Any]:
    file = path.with_name(f"results_{time}.json")
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _entries(rows: list[dict[str, Any]], name: str) -> list[Entry]:
    """One entry a text. The rows of a problem's other filters add their verdicts, which are on the first text."""
    by_doc: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        if not recognises(row) or not isinstance(row["resps"], list):
            raise LogError(f"{name}: a row is no sample of lm-eval, it has the keys {', '.join(row)}")
        by_doc.setdefault(row["doc_id"], []).append(row)
    entries = []
    for doc_id, filtered in by_doc.items():
        scores = {row.get("filter", "none"): row[metric] for row in filtered for metric in row.get("metrics", [])[:1]}
        texts = _texts(filtered[0]["resps"])
        for index, text in enumerate(texts):
            place = f"doc {doc_id}" if len(texts) == 1 else f"doc {doc_id}, repeat {index}"
            found = verdicts(scores) if index == 0 else {}
            entries.append(Entry(_question(filtered[0]), text, place, verdicts=found))
    return entries


def _texts(resps: list[Any]) -> list[str | None]:
    texts = [text for part in resps for text in (part if isinstance(part, list) else [part])]
    return [text if isinstance(text, str) else None for text in texts]


def _question(row: dict[str, Any]) -> str:
    """The question of the data row, or, where it has none by that name, the whole prompt."""
    doc = row["doc"]
    question = doc.get("question") if isinstance(doc, dict) else None
    return question if isinstance(question, str) else str(_arguments(row).get("arg_0", ""))


def _arguments(row: dict[str, Any]) -> dict[str, Any]:
    arguments = row["arguments"]
    return arguments.get("gen_args_0", {}) if isinstance(arguments, dict) else {}


def _stated(row: dict[str, Any], results: dict[str, Any], task: str | None) -> dict[str, Any]:
    said = _arguments(row).get("arg_1")
    settings = said if isinstance(said, dict) else {}
    stated = sampling_fields(settings)
    if settings.get("until"):
        stated["stop"] = [settings["until"]] if isinstance(settings["until"], str) else list(settings["until"])
    if task in results.get("n-shot", {}):
        stated["shots"] = results["n-shot"][task]
    if "chat_template" in results:
        stated["chat"] = results["chat_template"] is not None
    return stated


def _rules(filters: list[dict[str, Any]]) -> dict[str, str]:
    rules = {}
    for one in filters:
        pattern = next((step["regex_pattern"] for step in one.get("filter", []) if "regex_pattern" in step), "")
        rule = next((rule for part, rule in _RULES if part in pattern), None)
        if rule:
            rules[one["name"]] = rule
    return rules
