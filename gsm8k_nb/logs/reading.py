"""Which tool wrote a file, told by its content and never by its name, and its log as read.

The signs, in the order in which they are looked for:

    first bytes PAR1        lighteval's details
    a zip archive           inspect's .eval
    one JSON object         HELM's scenario state, or inspect's JSON log
    JSON rows               lm-eval's samples, OpenAI's released solutions, or any rows whose columns are named
"""

import json
import zipfile
from pathlib import Path
from typing import Any

from gsm8k_nb.logs import Log, LogError, helm, inspect_log, lighteval, lm_eval, rows
from gsm8k_nb.logs.rows import Columns

KNOWN = (
    "lm-eval's samples_*.jsonl, inspect's .eval and JSON logs, lighteval's details parquet, "
    "HELM's scenario_state.json, OpenAI's released solutions, JSON rows with a question and a completion"
)


def read_log(path: str | Path, *, column: str | None = None, columns: Columns | None = None) -> Log:
    """The log in a file of any known kind. LogError says what the file is not, or which option it needs.

    ``column`` chooses a system of OpenAI's released file; ``columns`` names the columns of rows of no known tool.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise LogError(f"{file}: {'is a folder; name a file in it' if file.is_dir() else 'no such file'}")
    with file.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1":
        return lighteval.read(file)
    if start == b"PK\x03\x04":
        return inspect_log.read(_inspects_archive(file), "eval")
    value = _json(file)
    if isinstance(value, dict):
        return _of_object(file, value, column, columns)
    return _of_rows(file, value, column, columns)


def _inspects_archive(file: Path) -> Path:
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
    if not names & {"header.json", "_journal/start.json"}:
        raise LogError(f"{file.name}: is an archive, but not a log of inspect. Known: {KNOWN}")
    return file


def _of_object(file: Path, value: dict[str, Any], column: str | None, columns: Columns | None) -> Log:
    if helm.recognises(value):
        return helm.read(file, value)
    if {"eval", "status", "version"} <= set(value):
        return inspect_log.read(file, "json")
    return _of_rows(file, [value], column, columns)  # a file of one row


def _of_rows(file: Path, found: list[Any], column: str | None, columns: Columns | None) -> Log:
    if not found:
        raise LogError(f"{file.name}: is empty")
    for number, row in enumerate(found, start=1):
        if not isinstance(row, dict):
            raise LogError(f"{file.name}, row {number}: must be a JSON object, got {type(row).__name__}")
    if lm_eval.recognises(found[0]):
        return lm_eval.read(file, found)
    if rows.systems(found[0]):
        return rows.read_released(file, found, column)
    return rows.read_plain(file, found, columns or Columns())


def _json(file: Path) -> Any:
    """The file's one JSON value, or its lines as a list. LogError names the first line that is not JSON."""
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        pass
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise LogError(f"{file.name}, line {number}: not JSON ({error}). Known: {KNOWN}") from None
    return found
