"""A log as read, whoever wrote it: which tool did, told by the content of its file, and what stands where in the rows.

    Entry(question="Janet's ducks ...", text="... The answer is 18.", place="doc_id 0", verdicts={"strict-match": True})
    Log(tool="lm-eval", task="gsm8k_cot", version="0.4.13", model="meta-llama/Llama-3.1-8B",
        stated={"shots": 8, "temperature": 0.0, "max_new_tokens": 256, "stop": ["Q:"]}, entries=[...])

The formats are data, in ``assets/logs.toml``, which says what each of their fields means. A log's protocol is what it
states itself: nothing is filled in from a default.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from gsm8k_nb.answers import parse_gold
from gsm8k_nb.logs import tools
from gsm8k_nb.logs.files import ABSENT, FORMATS, KNOWN, LogError, Row, Source, open_rows, pick
from gsm8k_nb.texts import one_line

COLUMNS = ("question", "completion", "finish_reason", "error", "index", "gold", "verdict")  # that a person may name
_NAME = re.compile(r"(?:samples|details)_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.(?:jsonl|parquet)(?:\.gz)?")
_VERDICTS = FORMATS["verdict"]
_INDEX = re.compile(r"(?:test-|classroom-)?(\d+)(?:\.0)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One completion of a log, or one failed request.

    ``question`` may be the bare question or a prompt around it; ``index``, where it is known, is the problem's row in
    the official file. ``place`` says where in the log the entry stands, ``gold`` the answer that the log holds for
    right. ``verdicts`` are the tool's own: right or wrong by the name of its scorer.
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


@dataclass(frozen=True)
class Log:
    """A log as read. ``entries`` of one problem stand in the order of their sample index.

    ``stated`` is what it states of its protocol, by our names. ``rules`` names, for a scorer of the tool, the rule of
    ours that repeats it; ``voters``, for a scorer of votes, how many texts vote: its verdict stands with the first.
    ``time`` and ``packages`` are those of the machine that made it, ``n_problems`` how many it says it has.
    """

    tool: str
    entries: list[Entry]
    model: str | None
    task: str | None
    version: str | None
    time: str | None
    packages: dict[str, str]
    n_problems: int | None
    stated: dict[str, Any]
    rules: dict[str, str]
    voters: dict[str, int]


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
    source = open_rows(Path(path).expanduser())
    named = {name: place for name, place in (columns or {}).items() if place is not None}
    form = None if named else next((form for form in FORMATS["format"] if _fits(form, source)), None)
    if form is None:
        return _log(_plain(named, source), source)
    source.column, source.results = column, _results(source.file, results)
    try:
        return _log(form, source)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        fault = f"is no whole log of {form['tool']} ({one_line(repr(error), 100)})"
        raise LogError(f"{source.file.name}: {fault}") from error


def _fits(form: Row, source: Source) -> bool:
    value = source.document if "container" in form else source.rows[0]
    return all(pick(value, sign) is not ABSENT for sign in form["signs"])


def _results(file: Path, named: str | None) -> Row:
    """Task and time in a log's name, and the results file of that time: beside it or, of lighteval, in ``results/``."""
    parts = match.groupdict() if (match := _NAME.fullmatch(file.name)) else {}
    name = f"results_{parts.get('time')}.json"
    above = [parent.parent for parent in file.resolve().parents if match and parent.name == "details"]
    places = [file.with_name(name), *(place for folder in above for place in (folder / "results").rglob(name))]
    place = Path(named).expanduser() if named else next((place for place in places if place.exists()), None)
    return parts | (open_rows(place).document if place else {})


def _plain(columns: dict[str, str], source: Source) -> Row:
    """The format that columns describe. LogError where a needed one is not named, or none of the rows has it."""
    needed = ({} if "index" in columns else {"question": None}) | {"completion": None}
    for name, place in (needed | columns).items():
        if place is None or all(pick(row, place) is ABSENT for row in source.rows):
            keys = list(source.rows[0])
            listed = ", ".join(keys[:12]) + (f" and {len(keys) - 12} more" if len(keys) > 12 else "")
            raise LogError(
                f"{source.file.name}: is of no known tool and has the columns {listed}; name the one of the "
                f"{name.replace('_', ' ')} with --{name.replace('_', '-')}, got {place!r}. Known: {KNOWN}"
            )
    for name, read in (("index", _INDEX.fullmatch), ("gold", gold_number), ("verdict", _VERDICTS.get)):
        for number, row in enumerate(source.rows if name in columns else ()):
            value = pick(row, columns[name])
            items = value if name == "verdict" and isinstance(value, list) else [value]
            if any(read(str(item).lower()) is None for item in items if item not in (ABSENT, None, "")):
                raise LogError(f"{source.file.name}, row {number}: {columns[name]!r} holds {value!r:.60}, no {name}")
    verdict = columns.pop("verdict", None)
    return {"tool": "plain rows", "entry": columns, "verdicts": {verdict: verdict} if verdict else {}}


def _log(form: Row, source: Source) -> Log:
    """The log in a source of this format. LogError where a completion is no text, or where there are two runs."""
    if "container" in form:
        source.rows = pick(source.document, form["container"]) or []
        if not source.rows:
            raise LogError(f"{source.file.name}: holds no samples")
    if "prepare" in form:
        getattr(tools, form["prepare"])(source)
    rows = sorted(source.rows, key=lambda row: pick(row, form.get("order", "")) or 0)
    for place in form.get("one_run", ()):
        runs = list(dict.fromkeys(str(pick(row, place)) for row in rows))
        if len(runs) > 1:
            listed = ", ".join(runs[:6])
            raise LogError(f"{source.file.name}: holds several runs, of {place} {listed}; split it into a file each")
    by_row = [_entries(form, row, number, source.file.name) for number, row in enumerate(rows)]
    entries = [entry for of_row in by_row for entry in of_row]
    if all(entry.text is None for entry in entries):
        raise LogError(f"{source.file.name}: holds no completion; its first entry: {entries[0].error}")
    about = {name: _about(source, places) for name, places in form.get("log", {}).items()}
    texts = {name: str(about[name]) if about.get(name) else None for name in ("model", "task", "version", "time")}
    settings: Row = {}
    for place in form.get("settings", ()):
        settings |= {name: value for name, value in (pick(vars(source), place) or {}).items() if value is not None}
    shots = {"shots": int(about["shots"])} if str(about.get("shots")).isdigit() else {}
    stated = shots | source.facts | sampling_fields(settings)
    _refuse_two_runs(form, source.file.name, by_row, stated.get("temperature"))
    return Log(
        form["tool"],
        entries,
        **texts,
        packages={name: str(version) for name, version in (about.get("packages") or {}).items() if version},
        n_problems=_count(about.get("n_problems")),
        stated=stated,
        rules=form.get("rules", {}) | source.rules,
        voters=source.voters,
    )


def _refuse_two_runs(form: Row, name: str, by_row: list[list[Entry]], temperature: float | None) -> None:
    """LogError where a problem stands in several rows that cannot be samples of one run."""
    rows = defaultdict[Any, list[list[str]]](list)
    for of_row in by_row:
        problem = of_row[0].question, of_row[0].index
        if problem != ("", None) and (texts := [entry.text for entry in of_row if entry.text is not None]):
            rows[problem].append(texts)
    repeated = [texts for texts in rows.values() if len(texts) > 1 and "order" not in form]
    alike = all(texts.count(texts[0]) == len(texts) for texts in repeated)
    if repeated and (form.get("whole_rows") or temperature == 0 or (alike and temperature is None)):
        found = f"{'the same' if alike else 'other'} texts{' at temperature 0' if temperature == 0 else ''}"
        found = f"holds several runs, {len(repeated)} problems stand in several rows with {found}"
        raise LogError(f"{name}: {found}; split it into a file for each run, or remove what stands there twice")


def _about(source: Source, places: str) -> Any:
    """What a source says of the whole log: at a place in every row, the value that all rows share."""
    for place in places.split("|"):
        value = pick(vars(source), place)
        if "*" in place and isinstance(value, list):
            value = value[0] if value and all(item == value[0] for item in value) else None
        if value not in (ABSENT, None, ""):
            return value
    return None


def sampling_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling fields among a tool's settings, by our names. A field that is null, or switched off, is left out."""
    fields = {name: pick(settings, names) for name, names in FORMATS["sampling"].items()}
    fields = {name: value for name, value in fields.items() if value not in (ABSENT, None, "", [])}
    for name in ("top_p", "top_k", "max_new_tokens"):
        if fields.get(name, 1) <= 0:  # 0 and -1 switch them off
            del fields[name]
    if settings.get("do_sample") is False:  # greedy whatever the temperature says
        fields["temperature"] = 0.0
    if isinstance(stop := fields.get("stop"), str):
        fields["stop"] = [stop]
    return fields


def verdicts(scores: Mapping[str, Any]) -> dict[str, bool]:
    """The scores of one completion that are plainly right (1, True, ``C``) or wrong (0, False, ``I``)."""
    values = {name: score.get("value") if isinstance(score, dict) else score for name, score in scores.items()}
    words = {name: str(value).lower() for name, value in values.items()}  # a score may come with its explanation
    return {name: _VERDICTS[word] for name, word in words.items() if word in _VERDICTS}


def _entries(form: Row, row: Row, number: int, name: str) -> list[Entry]:
    """One entry for each text of a row, or the one of a failed request."""
    at = defaultdict(lambda: ABSENT, {name: pick(row, places) for name, places in form["entry"].items()})
    place = f"{form['row_name']} {pick(row, form['row_name'])}" if "row_name" in form else f"row {number}"
    index = _INDEX.fullmatch(str(at["index"]))
    common: dict[str, Any] = {
        "question": question_of(at["question"]),
        "index": int(index[1]) if index else None,
        "gold": str(at["gold"]) if isinstance(at["gold"], str | int | float) else None,
    }
    if at["error"]:
        return [Entry(text=None, place=place, error=one_line(str(at["error"])), **common)]
    try:
        texts = texts_of(at["completion"]) or [None]
    except TypeError as fault:
        column = form["entry"]["completion"]
        raise LogError(f"{name}, {place}: {column!r} holds {fault}, not a text; name the place of the text") from None
    n = len(texts)
    scores, reasons, tokens = _scores(form, row, n), _each(at["finish_reason"], n), _each(at["completion_tokens"], n)
    return [
        Entry(
            text=text,
            place=place if n == 1 else f"{place}, text {which}",
            error=f"no text in {form['entry']['completion']!r}" if text is None else None,
            finish_reason=FORMATS["finish_reason"].get(word, word) or None if isinstance(word, str) else None,
            prompt_tokens=_count(at["prompt_tokens"]),
            completion_tokens=_count(tokens[which]),
            seconds=float(at["seconds"]) if isinstance(at["seconds"], int | float) else None,
            verdicts={} if text is None else verdicts(scores[which]),
            **common,
        )
        for which, (text, word) in enumerate(zip(texts, reasons, strict=True))
    ]


def _scores(form: Row, row: Row, n: int) -> list[dict[str, Any]]:
    """The scores of each of ``n`` texts. One score of several texts is a verdict on none of them."""
    scores: list[dict[str, Any]] = [{} for _ in range(n)]
    for scorer, place in form.get("verdicts", {}).items():
        value = pick(row, place)
        if scorer != "*":
            for of_text, score in zip(scores, _each(value, n), strict=True):
                of_text[scorer] = score
        elif isinstance(value, dict) and (n == 1 or form.get("on_first")):
            scores[0] |= value
    return scores


def _each(value: Any, n: int) -> list[Any]:
    """A value for each of n texts, from a list of as many; a value that is of several texts together is of none."""
    return value if isinstance(value, list) and len(value) == n else [value if n == 1 else None] * n


def _count(value: Any) -> int | None:
    number = len(value) if isinstance(value, list) else value
    return number if type(number) is int and number >= 0 and value != [] else None


def gold_number(text: str | None) -> Decimal | None:
    """The number in a log's gold answer, a whole solution or the number alone; None where it has none to read."""
    try:
        return None if text is None else parse_gold(text.strip().strip("$"))
    except ValueError:
        return None


def question_of(value: Any) -> str:
    """A question as text: of a conversation, its last message by the user."""
    if isinstance(value, list):
        turns = [item for item in value if isinstance(item, dict) and item.get("role") in ("user", "HUMAN")]
        value = pick(turns, "-1.content|-1.prompt")
    try:
        return "".join(text or "" for text in texts_of(value))
    except TypeError:
        return ""


def texts_of(value: Any) -> list[str | None]:
    """The texts of a completion: one, or one for each item of a list; None for one that is not there.

    A list of typed parts is one text, without its reasoning. TypeError says what stands there instead of a text.
    """
    if value is None or value is ABSENT:
        return [None]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        if value and all(isinstance(part, dict) and "type" in part for part in value):
            parts = [part["text"] for part in value if isinstance(part.get("text"), str)]
            return ["".join(parts)] if parts else [None]
        return [text for item in value for text in texts_of(item)]
    kinds = {dict: "an object", bool: "true or false", int: "a number", float: "a number"}
    raise TypeError(f"{kinds.get(type(value), type(value).__name__)} ({one_line(str(value), 40)})")
