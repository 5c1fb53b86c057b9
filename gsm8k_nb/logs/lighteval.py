"""lighteval: ``details_TASK_TIME.parquet``, and the ``results_TIME.json`` of the same run.

Since 0.10 a row has three columns; before that its fields lay side by side (``example``, ``predictions``, ...):

    {"doc": {"query": "Question: Janet's ...", "task_name": "gsm8k|5", "generation_size": 256, ...},
     "model_response": {"text": ["..."], "input_tokens": [...], "output_tokens": [[...]]}, "metric": {"em": 1.0}}

The rows state the exemplars and the limit of tokens; model and temperature stand in the second file alone.
"""

import json
import re
from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Entry, Log, LogError, sampling_fields, verdicts

TOOL = "lighteval"
_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.parquet")


def read(path: Path) -> Log:
    """The log of one task. LogError where the file is no details file."""
    rows = _rows(path)
    old = "predictions" in rows[0]
    name = _NAME.fullmatch(path.name)
    general = _results(path, name["time"]).get("config_general", {}) if name else {}
    task = rows[0]["doc"].get("task_name") if not old else name["task"] if name else None
    stated = _old_stated(rows[0]) if old else _new_stated(rows[0]["doc"])
    settings = (general.get("model_config") or {}).get("generation_parameters") or general.get("generation_parameters")
    return Log(
        TOOL,
        [one for index, row in enumerate(rows) for one in (_old_entries if old else _new_entries)(row, index)],
        model=general.get("model_name"),
        task=task,
        version=general.get("lighteval_sha"),
        stated=stated | sampling_fields(settings if isinstance(settings, dict) else {}),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet  # comes with datasets

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise LogError(f"{path.name}: cannot be read as parquet: {error}") from error
    if not rows:
        raise LogError(f"{path.name}: holds no rows")
    if not ({"doc", "model_response"} <= set(rows[0]) or {"example", "predictions"} <= set(rows[0])):
        raise LogError(f"{path.name}: is no details file of lighteval, it has the columns {', '.join(rows[0])}")
    return rows


def _results(path: Path, time: str) -> dict[str, Any]:
    """The results file of the same time: beside the details, or in ``results/`` beside their folder ``details/``."""
    name = f"results_{time}.json"
    places = [path.with_name(name)]
    for parent in path.resolve().parents:
        if parent.name == "details":
            places += sorted((parent.parent / "results").rglob(name))
            break
    found = next((place for place in places if place.exists()), None)
    return json.loads(found.read_text(encoding="utf-8")) if found else {}


def _new_entries(row: dict[str, Any], index: int) -> list[Entry]:
    response = row["model_response"]
    lengths = [len(tokens) for tokens in response.get("output_tokens") or []]
    return _entries(
        row["doc"].get("original_query") or row["doc"]["query"],
        response.get("text") or [],
        index,
        row.get("metric") or {},
        len(response.get("input_tokens") or []) or None,
        lengths,
    )


def _old_entries(row: dict[str, Any], index: int) -> list[Entry]:
    predictions = row["predictions"] or []
    texts = [text for part in predictions for text in (part if isinstance(part, list) else [part])]
    return _entries(row["example"], texts, index, row.get("metrics") or {}, None, [])


def _entries(
    question: str, texts: list[Any], index: int, scores: dict[str, Any], n_prompt: int | None, lengths: list[int]
) -> list[Entry]:
    if not texts:
        return [Entry(question, None, f"row {index}", error="no text in the log")]
    return [
        Entry(
            question,
            text if isinstance(text, str) else None,
            f"row {index}" if len(texts) == 1 else f"row {index}, text {which}",
            prompt_tokens=n_prompt,
            completion_tokens=lengths[which] if len(lengths) == len(texts) else None,
            verdicts=verdicts(scores) if len(texts) == 1 else {},  # of several texts, a score is of all
        )
        for which, text in enumerate(texts)
    ]


def _new_stated(doc: dict[str, Any]) -> dict[str, Any]:
    stated: dict[str, Any] = {}
    if "fewshot_samples" in doc:  # the exemplars themselves; none may also be stored as null
        stated["shots"] = len(doc["fewshot_samples"] or [])
    if doc.get("generation_size"):
        stated["max_new_tokens"] = doc["generation_size"]
    if doc.get("stop_sequences"):
        stated["stop"] = list(doc["stop_sequences"])
    return stated


def _old_stated(row: dict[str, Any]) -> dict[str, Any]:
    shots = row.get("num_effective_few_shots")
    return {"shots": int(shots)} if isinstance(shots, int) and shots >= 0 else {}
