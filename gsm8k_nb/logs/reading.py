"""Which tool wrote a file, told by its content and never by its name, and its log as read."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from gsm8k_nb.logs import tools
from gsm8k_nb.logs.files import Row, Source, open_rows, read_object
from gsm8k_nb.logs.formats import ABSENT, Format, check_rows, pick, read
from gsm8k_nb.logs.lm_eval import LM_EVAL
from gsm8k_nb.logs.log import KNOWN, Log, LogError

FORMATS = (
    LM_EVAL, tools.LIGHTEVAL, tools.LIGHTEVAL_OLD, tools.INSPECT, tools.HELM, tools.EVALSCOPE, tools.EVALSCOPE_REVIEWS,
    tools.EVALSCOPE_OLD, tools.OPENCOMPASS, tools.QWEN_MATH, tools.VERL, tools.META,
)  # fmt: skip
_NAME = re.compile(r"(?:samples|details)_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.(?:jsonl|parquet)(?:\.gz)?")


@dataclass(frozen=True)
class Columns:
    """Which columns of a file of no known tool hold what; a name that is None is not read.

    A name may be a path into objects and lists: ``model_output.choices.*.message.content``.
    """

    question: str | None = None
    completion: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    index: str | None = None  # the problem's row in the official file, in place of or beside its question
    gold: str | None = None
    verdict: str | None = None


def read_log(
    path: str | Path, *, column: str | None = None, columns: Columns | None = None, results: str | Path | None = None
) -> Log:
    """The log in a file of any known kind. LogError says what the file is not, or which option it needs.

    ``column`` chooses a system of OpenAI's released file; ``columns`` names the columns of rows of no known tool, and
    where it does the file is read as such; ``results`` is a results file that does not lie beside its log.
    """
    file = Path(path).expanduser()
    source = open_rows(file)
    document = source.document
    if document and all(
        isinstance(value, dict) and {"origin_prompt", "prediction"} <= set(value) for value in document.values()
    ):
        source.rows = list(document.values())  # OpenCompass keys its rows by their number
    check_rows(source)
    first = source.rows[0]
    columns = columns or Columns()
    if columns != Columns():
        return read(_plain(columns, source), source)
    systems = _systems(first)
    if systems:
        return _released(source, column, systems)
    for form in FORMATS:
        if all(pick(document if form.container else first, sign) is not ABSENT for sign in form.signs):
            source.results = _results(form, file, None if results is None else Path(results).expanduser())
            return read(form, source)
    return read(_plain(columns, source), source)


def _results(form: Format, file: Path, named: Path | None) -> Row:
    """What a tool wrote beside a log: the results of the same time, or of HELM's run its specification and statistics.

    lighteval's lie in ``results/`` beside its folder ``details/``.
    """
    if form is tools.HELM:
        spec, statistics = named or file.with_name("run_spec.json"), file.with_name("per_instance_stats.json")
        name = str(pick(read_object(spec), "name") or "") if spec.exists() else ""  # its rest repeats the model
        return {
            "scenario": name.partition(":")[0],
            "per_instance_stats": open_rows(statistics).rows if statistics.exists() else [],
        }
    parts = match.groupdict() if (match := _NAME.fullmatch(file.name)) else {}
    if named is None and match:
        name = f"results_{parts['time']}.json"
        roots = [parent.parent / "results" for parent in file.resolve().parents if parent.name == "details"][:1]
        places = [file.with_name(name), *(place for root in roots for place in sorted(root.rglob(name)))]
        named = next((place for place in places if place.exists()), None)
    results = read_object(named) if named else {}
    if not isinstance(results, dict):
        raise LogError(f"{named}: is no results file, it holds no JSON object")
    return parts | results


def _systems(row: Row) -> list[str]:
    """The columns of a row that hold one system's solution, as in OpenAI's released file."""
    if not isinstance(row.get("question"), str):
        return []
    return [name for name, value in row.items() if isinstance(value, dict) and {"solution", "is_correct"} <= set(value)]


def _released(source: Source, column: str | None, systems: list[str]) -> Log:
    if column not in systems:
        raise LogError(f"{source.name}: has the columns {', '.join(systems)}; choose one with --column, got {column!r}")
    form = Format(
        "released solutions",
        question="question",
        completion=f"{column}.solution",
        gold="ground_truth",
        verdicts={"is_correct": f"{column}.is_correct"},
    )
    return replace(read(form, source), model=column)


def _plain(columns: Columns, source: Source) -> Format:
    """The format that columns describe. LogError where a needed one is not named, or none of the rows has it."""
    for name, column in vars(columns).items():
        needed = name == "completion" or (name == "question" and columns.index is None)
        if (column is None and needed) or (
            column is not None and all(pick(row, column) is ABSENT for row in source.rows)
        ):
            keys = list(source.rows[0])
            listed = ", ".join(keys[:12]) + (f" and {len(keys) - 12} more" if len(keys) > 12 else "")
            raise LogError(
                f"{source.name}: is of no known tool and has the columns {listed}; name the one of the "
                f"{name.replace('_', ' ')} with --{name.replace('_', '-')}, got {column!r}. Known: {KNOWN}"
            )
    return Format(
        "plain rows",
        question=columns.question or "",
        completion=columns.completion or "",
        finish=columns.finish_reason or "",
        error=columns.error or "",
        index=columns.index or "",
        gold=columns.gold or "",
        verdicts={columns.verdict: columns.verdict} if columns.verdict else {},
    )
