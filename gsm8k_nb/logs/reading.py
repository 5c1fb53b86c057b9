"""Which tool wrote a file, told by its content and never by its name, and its log as read."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsm8k_nb.logs.files import ABSENT, Row, Source, open_rows, pick
from gsm8k_nb.logs.formats import Format, known_formats, read
from gsm8k_nb.logs.log import KNOWN, Log, LogError
from gsm8k_nb.texts import one_line

COLUMNS = ("question", "completion", "finish_reason", "error", "index", "gold", "verdict")  # that a person may name
_NAME = re.compile(r"(?:samples|details)_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.(?:jsonl|parquet)(?:\.gz)?")


def read_log(
    path: str | Path,
    *,
    column: str | None = None,
    results: str | None = None,
    columns: Mapping[str, str | None] | None = None,
) -> Log:
    """The log in a file of any known kind. LogError says what the file is not, or which option it needs.

    ``column`` chooses a system of OpenAI's released file; ``results`` is a results file that does not lie beside its
    log. ``columns`` says which column, or path into one, holds what of COLUMNS; a file is read so where any is named.
    """
    file = Path(path).expanduser()
    source = open_rows(file)
    if all(isinstance(row, dict) and {"origin_prompt", "prediction"} <= set(row) for row in source.document.values()):
        source.rows = list(source.document.values()) or source.rows  # OpenCompass keys its rows by their number
    named = {name: place for name, place in (columns or {}).items() if place is not None}
    systems = [name for name, value in source.rows[0].items() if isinstance(value, dict) and "is_correct" in value]
    form = next((form for form in known_formats() if form.fits(source)), None)
    if named or (form is None and not systems):
        return read(_plain(named, source), source)
    if form is None:
        return _released(source, column, systems)
    source.results = _results(form, file, results)
    try:
        return read(form, source)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise LogError(f"{file.name}: is no whole log of {form.tool} ({one_line(repr(error), 100)})") from error


def _results(form: Format, file: Path, named: str | None) -> Row:
    """What a tool wrote beside a log: the results of the same time, or of HELM's run its specification and statistics.

    lighteval's lie in ``results/`` beside its folder ``details/``.
    """
    parts = match.groupdict() if (match := _NAME.fullmatch(file.name)) else {}
    place = Path(named).expanduser() if named else file.with_name(f"results_{parts.get('time')}.json")
    if form.tool == "HELM":
        spec, statistics = file.with_name("run_spec.json"), file.with_name("per_instance_stats.json")
        task = str(open_rows(spec).document.get("name")).partition(":")[0] if spec.exists() else None  # then the model
        return {"task": task, "per_instance_stats": open_rows(statistics).rows if statistics.exists() else []}
    if not named and match and not place.exists():
        roots = [parent.parent / "results" for parent in file.resolve().parents if parent.name == "details"][:1]
        place = next((file for root in roots for file in sorted(root.rglob(place.name))), place)
    return parts | (open_rows(place).document if named or place.exists() else {})


def _released(source: Source, system: str | None, systems: list[str]) -> Log:
    """One system's column of OpenAI's released solutions."""
    if system not in systems:
        raise LogError(f"{source.name}: has the columns {', '.join(systems)}; choose one with --column, got {system!r}")
    form = Format(
        "released solutions",
        question="question",
        completion=f"{system}.solution",
        gold="ground_truth",
        verdicts={"is_correct": f"{system}.is_correct"},
    )
    return replace(read(form, source), model=system)


def _plain(columns: dict[str, str], source: Source) -> Format:
    """The format that columns describe. LogError where a needed one is not named, or none of the rows has it."""
    needed = ({} if "index" in columns else {"question": None}) | {"completion": None}
    for name, place in (needed | columns).items():
        if place is None or all(pick(row, place) is ABSENT for row in source.rows):
            keys = list(source.rows[0])
            listed = ", ".join(keys[:12]) + (f" and {len(keys) - 12} more" if len(keys) > 12 else "")
            raise LogError(
                f"{source.name}: is of no known tool and has the columns {listed}; name the one of the "
                f"{name.replace('_', ' ')} with --{name.replace('_', '-')}, got {place!r}. Known: {KNOWN}"
            )
    places: dict[str, Any] = {name: place for name, place in columns.items() if name != "verdict"}
    verdict = columns.get("verdict")
    return Format("plain rows", verdicts={verdict: verdict} if verdict else {}, **places)
