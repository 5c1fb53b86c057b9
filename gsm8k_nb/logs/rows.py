"""Rows of JSON without a tool of their own: OpenAI's released solutions, and any file whose columns are named.

    {"question": "Janet's ...", "6b_finetuning": {"is_correct": false, "solution": "..."}, ...}   --column 6b_finetuning
    {"prompt": "Janet's ...", "response": "...", ...}               --question prompt --completion response

A completion column may hold a list of texts, one a sample. Neither kind states its protocol.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Entry, Log, LogError, finish_reason, verdicts


@dataclass(frozen=True)
class Columns:
    """Which columns of a plain file hold what; a name that is None is not read."""

    question: str | None = None
    completion: str | None = None
    finish_reason: str | None = None
    error: str | None = None


def systems(row: dict[str, Any]) -> list[str]:
    """The columns of a row that hold one system's solution, as in OpenAI's released file."""
    if not isinstance(row.get("question"), str):
        return []
    return [name for name, value in row.items() if isinstance(value, dict) and {"solution", "is_correct"} <= set(value)]


def read_released(path: Path, rows: list[dict[str, Any]], column: str | None) -> Log:
    """One system's column of OpenAI's file. LogError names the columns where ``column`` is none of them."""
    known = systems(rows[0])
    if column not in known:
        raise LogError(f"{path.name}: has the columns {', '.join(known)}; choose one with --column, got {column!r}")
    entries = [
        Entry(
            row["question"],
            row[column]["solution"],
            f"row {index}",
            verdicts=verdicts({"is_correct": row[column]["is_correct"]}),
        )
        for index, row in enumerate(rows)
    ]
    return Log("released solutions", entries, model=column)


def read_plain(path: Path, rows: list[dict[str, Any]], columns: Columns) -> Log:
    """Rows whose columns the caller names. LogError where a named column is missing."""
    for name in ("question", "completion", "finish_reason", "error"):
        column = getattr(columns, name)
        needed = name in ("question", "completion")
        if (needed and column is None) or (column is not None and column not in rows[0]):
            raise LogError(
                f"{path.name}: is of no known tool and has the columns {', '.join(rows[0])}; "
                f"name the one of the {name.replace('_', ' ')} with --{name.replace('_', '-')}, got {column!r}"
            )
    return Log("plain rows", [one for index, row in enumerate(rows) for one in _entries(row, index, columns)])


def _entries(row: dict[str, Any], index: int, columns: Columns) -> list[Entry]:
    question = str(row.get(columns.question) or "")
    failed = row.get(columns.error) if columns.error else None
    if failed:
        return [Entry(question, None, f"row {index}", error=str(failed))]
    said = row.get(columns.completion)
    reason = row.get(columns.finish_reason) if columns.finish_reason else None
    texts = said if isinstance(said, list) else [said]
    return [
        Entry(
            question,
            text if isinstance(text, str) else None,
            f"row {index}" if len(texts) == 1 else f"row {index}, text {which}",
            finish_reason=finish_reason(reason if isinstance(reason, str) else None),
        )
        for which, text in enumerate(texts)
    ]
