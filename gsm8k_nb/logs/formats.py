"""Rows of a format that is described by data into a log: one reader for all tools, and for columns that a person names.

    Format("verl", question="input", completion="output", gold="gts", verdicts={"score": "score"}, one_run=["step"])

``assets/logs.toml`` holds the formats of the known tools, and says what each field means.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, resources
from typing import Any

from gsm8k_nb.logs.files import ABSENT, Row, Source, pick
from gsm8k_nb.logs.log import Entry, Log, LogError, finish_reason, sampling_fields, verdicts
from gsm8k_nb.texts import one_line


@dataclass(frozen=True)
class Format:
    """Where a tool writes what: places as in ``assets/logs.toml``, an empty one where it does not write it."""

    tool: str
    question: str = ""
    completion: str = ""
    finish_reason: str = ""
    error: str = ""
    index: str = ""  # the problem's row in the official file, in place of or beside its question
    gold: str = ""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: str = ""
    completion_tokens: str = ""
    seconds: str = ""
    signs: Sequence[str] = ()
    container: str = ""
    prepare: str = ""
    facts: str = ""
    rules: str | Mapping[str, str] = ""
    order: str = ""
    row_name: str = ""
    one_run: Sequence[str] = ()
    on_first: bool = False
    votes: str = ""
    model: str = ""
    task: str = ""
    version: str = ""
    time: str = ""
    packages: str = ""
    n_problems: str = ""
    shots: str = ""
    settings: Sequence[str] = ()

    def fits(self, source: Source) -> bool:
        """Whether a source has all the signs of this format."""
        value = source.document if self.container else source.rows[0]
        return all(pick(value, sign) is not ABSENT for sign in self.signs)


def known_formats() -> list[Format]:
    """The formats of the known tools, in the order in which their signs are looked for."""
    text = resources.files("gsm8k_nb").joinpath("assets", "logs.toml").read_text(encoding="utf-8")
    return [Format(**table) for table in tomllib.loads(text)["format"]]


def read(form: Format, source: Source) -> Log:
    """The log in a source of this format. LogError where a completion is no text, or where there are two runs."""
    if form.container:
        source.rows = pick(source.document, form.container) or []
        if not source.rows:
            raise LogError(f"{source.name}: holds no samples")
    if form.prepare:
        source.rows = _function(form.prepare)(source)
    rows = sorted(source.rows, key=lambda row: pick(row, form.order) or 0) if form.order else source.rows
    for place in form.one_run:
        runs = list(dict.fromkeys(str(pick(row, place)) for row in rows))
        if len(runs) > 1:
            listed = ", ".join(runs[:6])
            raise LogError(f"{source.name}: holds several runs, of {place} {listed}; split it into a file each")
    entries = [entry for number, row in enumerate(rows) for entry in _entries(form, row, number, source.name)]
    if all(entry.text is None for entry in entries):
        raise LogError(f"{source.name}: holds no completion; its first entry: {entries[0].error}")
    about = {name: _about(source, getattr(form, name)) for name in ("model", "task", "version", "time")}
    packages = _about(source, form.packages) or {}
    return Log(
        form.tool,
        entries,
        **{name: None if value is None else str(value) for name, value in about.items()},
        packages={name: str(version) for name, version in packages.items()},
        n_problems=_count(_about(source, form.n_problems)),
        stated=_stated(form, source),
        rules=_function(form.rules)(source) if form.rules and isinstance(form.rules, str) else dict(form.rules or {}),
    )


def _function(name: str) -> Any:
    module, _, function = name.partition(".")
    return getattr(import_module(f"gsm8k_nb.logs.{module}"), function)


def _about(source: Source, places: str) -> Any:
    """What a source says of the whole log: at a place in every row, the value that all rows share."""
    for place in places.split("|") if places else ():
        value = pick(vars(source), place)
        if "*" in place and isinstance(value, list):
            value = value[0] if value and all(item == value[0] for item in value) else ABSENT
        if value not in (ABSENT, None, ""):
            return value
    return None


def _stated(form: Format, source: Source) -> dict[str, Any]:
    settings: Row = {}
    for place in form.settings:
        part = pick(vars(source), place)
        settings |= {name: value for name, value in part.items() if value is not None} if isinstance(part, dict) else {}
    shots = _about(source, form.shots)
    stated = {"shots": int(shots)} if str(shots).isdigit() else {}
    return stated | (_function(form.facts)(source) if form.facts else {}) | sampling_fields(settings)


def _entries(form: Format, row: Row, number: int, name: str) -> list[Entry]:
    """One entry for each text of a row, or the one of a failed request."""
    place = f"{form.row_name} {pick(row, form.row_name)}" if form.row_name else f"row {number}"
    index = re.fullmatch(r"(?:test-|classroom-)?(\d+)", str(pick(row, form.index)))
    gold, error, value = (pick(row, where) for where in (form.gold, form.error, form.completion))
    common: dict[str, Any] = {
        "question": question_of(pick(row, form.question)),
        "index": int(index[1]) if index else None,
        "gold": str(gold) if isinstance(gold, str | int | float) else None,
    }
    if error:
        return [Entry(text=None, place=place, error=one_line(str(error)), **common)]
    try:
        texts = texts_of(value) or [None]
    except TypeError as fault:
        raise LogError(f"{name}, {place}: {form.completion!r} holds {fault}, not a text{_hint(value, form)}") from None
    n, votes, seconds = len(texts), pick(row, form.votes) or {}, pick(row, form.seconds)
    scores, reasons = _scores(form, row, n), _each(pick(row, form.finish_reason), n)
    tokens, prompt = _each(pick(row, form.completion_tokens), n), _count(pick(row, form.prompt_tokens))
    return [
        Entry(
            text=text,
            place=place if n == 1 else f"{place}, text {which}",
            error=f"no text in {form.completion!r}" if text is None else None,
            finish_reason=finish_reason(reasons[which]),
            prompt_tokens=prompt,
            completion_tokens=_count(tokens[which]),
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
            verdicts={} if text is None else scores[which],
            votes=votes if which == 0 else {},
            **common,
        )
        for which, text in enumerate(texts)
    ]


def _scores(form: Format, row: Row, n: int) -> list[dict[str, bool]]:
    """The verdicts on each of ``n`` texts. One score of several texts is a verdict on none of them."""
    scores: list[dict[str, Any]] = [{} for _ in range(n)]
    for scorer, place in form.verdicts.items():
        value = pick(row, place)
        if scorer != "*":
            for which, score in enumerate(_each(value, n)):
                scores[which][scorer] = score
        elif isinstance(value, dict) and (n == 1 or form.on_first):
            scores[0] |= value
    return [verdicts(of_text) for of_text in scores]


def _each(value: Any, n: int) -> list[Any]:
    """A value for each of n texts, from a list of as many; a value that is of several texts together is of none."""
    return value if isinstance(value, list) and len(value) == n else [value if n == 1 else None] * n


def _count(value: Any) -> int | None:
    number = len(value) if isinstance(value, list) else value
    return number if type(number) is int and number >= 0 and value != [] else None


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


def _hint(value: Any, form: Format) -> str:
    places = [f"{form.completion}.{place}" for place in _texts_within(value)][:3]
    return f"; texts stand in {' and '.join(places)}" if places else "; name the column that holds the model's text"


def _texts_within(value: Any) -> list[str]:
    """The places of texts in a value."""
    if isinstance(value, str):
        return [""]
    items = (
        list(value.items())
        if isinstance(value, dict)
        else [("*", value[0])]
        if value and isinstance(value, list)
        else []
    )
    return [f"{key}.{rest}".rstrip(".") for key, item in items for rest in _texts_within(item)]
