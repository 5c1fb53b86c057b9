"""A tool's format as data: where in its rows and files each thing stands; and the one reader of all such formats.

    Format("verl", signs=("input", "output", "score", "step"), question="input", completion="output", gold="gts",
           verdicts={"score": "score"}, one_run=("step",))

A place is a path of keys: ``choices.*.message.content`` is the content of each choice, ``gold.0`` the first of a list,
``a|b`` what stands at a or, where that is missing or empty, at b. Places of the whole log begin with ``rows``,
``document`` (the object around the rows) or ``results`` (the results file).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gsm8k_nb.logs.files import Row, Source
from gsm8k_nb.logs.log import Entry, Log, LogError, finish_reason, sampling_fields, verdict, verdicts
from gsm8k_nb.texts import one_line

ABSENT: Final = type("Absent", (), {"__repr__": lambda _: "nothing", "__bool__": lambda _: False})()
_KINDS = {dict: "an object", list: "a list", bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True)
class Format:
    """Where a tool writes what. ``signs`` are places that every file of it has; ``container`` the place of its rows.

    ``verdicts`` maps a scorer's name to the place of its score, or ``*`` to the place of an object of scores by name.
    ``prepare`` makes a source's own rows into those that the places speak of.
    """

    tool: str
    signs: tuple[str, ...] = ()
    container: str = ""
    prepare: Callable[[Source], list[Row]] | None = None
    order: str = ""  # a place to sort rows by
    place: str = ""  # how a row is called, else by its number
    one_run: tuple[str, ...] = ()  # places that hold the same in all rows of one run
    question: str = ""
    index: str = ""
    completion: str = ""
    gold: str = ""
    error: str = ""
    finish: str = ""
    prompt_tokens: str = ""
    completion_tokens: str = ""
    seconds: str = ""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    on_first: bool = False  # where a problem has several texts, its scores are of the first
    votes: str = ""
    rules: Callable[[Source], dict[str, str]] | None = None
    model: str = ""
    task: str = ""
    version: str = ""
    time: str = ""
    packages: str = ""
    n_problems: str = ""
    shots: str = ""
    settings: tuple[str, ...] = ()  # places of objects with sampling fields, the last one in force
    stated: Callable[[Source], dict[str, Any]] | None = None  # what needs more than a place


def pick(value: Any, places: str) -> Any:
    """What stands at the first of ``places`` that holds anything, or ABSENT."""
    last: Any = ABSENT
    for path in places.split("|") if places else ():
        reached = _walk(value, path)
        last = reached if last is ABSENT else last
        if reached is not ABSENT and reached not in (None, "", []):
            return reached
    return last


def _walk(value: Any, path: str) -> Any:
    if isinstance(value, dict) and path in value:  # a name with dots in it is a name first
        return value[path]
    key, _, rest = path.partition(".")
    if key == "*":
        if not isinstance(value, list):
            return ABSENT
        return [_walk(item, rest) for item in value] if rest else value
    if isinstance(value, dict):
        value = value.get(key, ABSENT)
    elif isinstance(value, list) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
        value = value[int(key)]
    else:
        return ABSENT
    return _walk(value, rest) if rest and value is not ABSENT else value


def read(form: Format, source: Source) -> Log:
    """The log in a source of this format. LogError where a completion is no text, or where there are two runs."""
    if form.container:
        source.rows = pick(source.document, form.container) or []
    check_rows(source)
    if form.prepare:
        source.rows = form.prepare(source)
    rows = sorted(source.rows, key=lambda row: pick(row, form.order) or 0) if form.order else source.rows
    for place in form.one_run:
        runs = dict.fromkeys(str(value) for row in rows if (value := pick(row, place)) not in (ABSENT, None, ""))
        if len(runs) > 1:
            names = ", ".join(list(runs)[:6])
            raise LogError(f"{source.name}: holds several runs, of {place} {names}; split it into a file each")
    entries = [entry for index, row in enumerate(rows) for entry in _entries(form, row, index, source.name)]
    if all(entry.text is None for entry in entries):
        raise LogError(f"{source.name}: holds no completion; its first entry: {entries[0].error}")
    about = vars(source)
    names = {name: _same(about, getattr(form, name)) for name in ("model", "task", "version", "time")}
    packages, n_problems = _same(about, form.packages), _same(about, form.n_problems)
    return Log(
        form.tool,
        entries,
        **{name: None if value is None else str(value) for name, value in names.items()},
        packages={str(name): str(value) for name, value in packages.items()} if isinstance(packages, dict) else {},
        n_problems=n_problems if type(n_problems) is int else None,
        stated=_stated(form, source),
        rules=form.rules(source) if form.rules else {},
    )


def check_rows(source: Source) -> None:
    """LogError where there are no rows, or one of them is no object."""
    if not source.rows:
        raise LogError(f"{source.name}: holds no samples")
    for number, row in enumerate(source.rows, start=1):
        if not isinstance(row, dict):
            raise LogError(f"{source.name}, row {number}: must be a JSON object, got {type(row).__name__}")


def _same(about: Row, places: str) -> Any:
    """The value at the first place that has one; at a place in every row, the one that all rows share."""
    for place in places.split("|") if places else ():
        value = pick(about, place)
        if "*" in place and isinstance(value, list):
            value = value[0] if value and all(item == value[0] for item in value) else ABSENT
        if value not in (ABSENT, None, ""):
            return value
    return None


def _stated(form: Format, source: Source) -> dict[str, Any]:
    stated: dict[str, Any] = {}
    settings = [value for place in form.settings if isinstance(value := pick(vars(source), place), dict)]
    merged = {name: value for part in settings for name, value in part.items() if value is not None}
    stated |= sampling_fields(merged)
    shots = _same(vars(source), form.shots)
    if isinstance(shots, int | str) and str(shots).isdigit():
        stated["shots"] = int(shots)
    return stated | (form.stated(source) if form.stated else {})


def _entries(form: Format, row: Row, index: int, name: str) -> list[Entry]:
    label = pick(row, form.place)
    place = f"row {index}" if label is ABSENT else f"{form.place} {label}"
    number = str(pick(row, form.index)).removeprefix("test-").removeprefix("classroom-")
    gold = pick(row, form.gold)
    common: dict[str, Any] = {
        "question": question_of(pick(row, form.question)),
        "index": int(number) if number.isdecimal() else None,
        "gold": str(gold) if isinstance(gold, str | int | float) else None,
    }
    error = pick(row, form.error)
    if error:
        return [Entry(text=None, place=place, error=one_line(str(error)), **common)]
    value = pick(row, form.completion)
    try:
        texts = texts_of(value)
    except TypeError as fault:
        raise LogError(f"{name}, {place}: {form.completion!r} holds {fault}, not a text{_hint(value, form)}") from None
    if not texts:
        texts = [None]
    scores = _scores(form, row, len(texts))
    measures = _measures(form, row, len(texts))
    return [
        Entry(
            text=text,
            place=place if len(texts) == 1 else f"{place}, text {which}",
            error=f"no text in {form.completion!r}" if text is None else None,
            verdicts={} if text is None else scores[which],
            votes=pick(row, form.votes) or {} if which == 0 else {},
            **(measures[which] if text is not None else {}),
            **common,
        )
        for which, text in enumerate(texts)
    ]


def _measures(form: Format, row: Row, n: int) -> list[dict[str, Any]]:
    """How each of ``n`` texts ended, what it took and cost. A number that is of all of them together is of none."""
    reasons, tokens = _each(pick(row, form.finish), n, True), _each(pick(row, form.completion_tokens), n)
    seconds, prompt = pick(row, form.seconds), _count(pick(row, form.prompt_tokens))
    return [
        {
            "finish_reason": finish_reason(reasons[which]),
            "prompt_tokens": prompt,
            "completion_tokens": _count(tokens[which]),
            "seconds": float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None,
        }
        for which in range(n)
    ]


def _each(value: Any, n: int, for_all: bool = False) -> list[Any]:
    """A value for each of n texts: from a list of as many, or the one value where there is one text (or for all)."""
    if isinstance(value, list) and len(value) == n:
        return value
    return [value if n == 1 or (for_all and not isinstance(value, list)) else None] * n


def _count(value: Any) -> int | None:
    if isinstance(value, list):
        return len(value) or None
    return value if type(value) is int and value >= 0 else None


def _scores(form: Format, row: Row, n: int) -> list[dict[str, bool]]:
    """The verdicts on each of ``n`` texts. One score of several texts is a verdict on none of them."""
    scores: list[dict[str, bool]] = [{} for _ in range(n)]
    for scorer, place in form.verdicts.items():
        value = pick(row, place)
        if scorer == "*" and isinstance(value, dict):
            if n == 1 or form.on_first:
                scores[0] |= verdicts(value)
            continue
        for which, score in enumerate(_each(value, n)):
            right = verdict(score)
            if right is not None:
                scores[which][scorer] = right
    return scores


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
            parts = [part.get("text") for part in value if part["type"] == "text"]
            return ["".join(part for part in parts if isinstance(part, str))] if parts else [None]
        return [text for item in value for text in texts_of(item)]
    kind = _KINDS.get(type(value), type(value).__name__)
    raise TypeError(f"{kind} ({one_line(str(value), 40)})")


def _hint(value: Any, form: Format) -> str:
    places = [f"{form.completion}.{place}" for place in _texts_within(value)][:3]
    return f"; texts stand in {' and '.join(places)}" if places else "; name the column that holds the model's text"


def _texts_within(value: Any) -> list[str]:
    if isinstance(value, str):
        return [""]
    items = (
        value.items()
        if isinstance(value, dict)
        else [("*", item) for item in value[:1]]
        if isinstance(value, list)
        else []
    )
    return [f"{key}.{rest}".rstrip(".") for key, item in items for rest in _texts_within(item)]
