"""A file of any container as rows: JSON, JSON lines, JSON values one behind another, CSV, parquet, inspect's .eval.

    >>> open_rows(Path("samples_gsm8k.jsonl.gz"))
    Source(file=PosixPath('samples_gsm8k.jsonl.gz'), rows=[{'doc_id': 0, ...}, ...], ...)

What a file is, is told by its content and never by its name. Text may be packed by gzip, xz or bzip2.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gsm8k_nb.places import own_table
from gsm8k_nb.texts import one_line

FORMATS = own_table("logs.toml")
KNOWN = f"{', '.join(dict.fromkeys(form['tool'] for form in FORMATS['format']))}, and any rows whose columns are named"
MOST_BYTES = 2**31  # of text, once unpacked
ABSENT: Final = type("Absent", (), {"__repr__": lambda _: "nothing", "__bool__": lambda _: False})()
_PACKED = {b"\x1f\x8b": gzip.open, b"\xfd7z": lzma.open, b"BZh": bz2.open}
_ZSTD = 93  # the method of inspect's archives since 2026; Python's zipfile knows it from 3.14 on
Row = dict[str, Any]


class LogError(ValueError):
    """A log cannot be imported: the message names the file, what is wrong, and what to do."""


@dataclass
class Source:
    """A file as read: its rows, and what stands around and beside them; `tools` finds what no place holds."""

    file: Path
    rows: list[Row]
    document: Row = field(default_factory=dict)  # the object around the rows
    results: Row = field(default_factory=dict)  # the results file
    column: str | None = None  # the system that was chosen
    facts: Row = field(default_factory=dict)  # of the protocol
    rules: dict[str, str] = field(default_factory=dict)  # a scorer -> the rule of ours that repeats it
    voters: dict[str, int] = field(default_factory=dict)  # a scorer -> how many texts it lets vote


def pick(value: Any, places: str) -> Any:
    """What stands at the first of ``places`` (``a.0.b|a.*.c``) that holds anything, or ABSENT."""
    reached = [item for path in places.split("|") if path and (item := _walk(value, path)) is not ABSENT]
    return next((item for item in reached if item not in (None, "", [])), reached[0] if reached else ABSENT)


def _walk(value: Any, path: str) -> Any:
    if not path:
        return value
    key, _, rest = path.partition(".")
    if isinstance(value, dict) and path in value:  # a name with dots in it is a name first
        key, rest = path, ""
    elif key == "*" and isinstance(value, list):
        return [_walk(item, rest) for item in value]
    try:
        return _walk(value[int(key)] if isinstance(value, list) else value[key], rest)
    except (LookupError, TypeError, ValueError):
        return ABSENT


def open_rows(file: Path) -> Source:
    """The rows of a file; a single JSON object is the one row, and the document. LogError says what is wrong."""
    if not file.is_file():
        what = "is a folder; name a file in it" if file.is_dir() else "is no regular file"
        raise LogError(f"{file}: {what if file.exists() else 'no such file'}")
    try:
        rows = _rows(file)
    except LogError:
        raise
    except Exception as error:  # each reader has its own kinds; what is nested too deeply is one too
        raise LogError(f"{file.name}: is damaged ({one_line(error, 200)}); fetch it again") from None
    document = rows[0] if len(rows) == 1 and isinstance(rows[0], dict) else {}
    if document and set(document) == set(map(str, range(len(document)))):  # an object of rows by their number
        rows = list(document.values())
    if not rows:
        raise LogError(f"{file.name}: is empty")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise LogError(f"{file.name}, row {number}: must be a JSON object, got {type(row).__name__}")
    return Source(file, rows, document)


def _rows(file: Path) -> list[Any]:
    with file.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1":
        import pyarrow.parquet  # comes with datasets

        return pyarrow.parquet.read_table(file).to_pylist()
    if start == b"PK\x03\x04":
        return [_archive(file)]
    opener: Any = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), open)
    with opener(file, "rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    _check_size(file, len(raw))
    if raw.startswith(b"version https://git-lfs"):
        raise LogError(f"{file.name}: is a pointer of Git LFS, not the file itself; fetch that with git lfs pull")
    text = raw.decode("utf-8-sig")
    if re.search(r"\.[ct]sv(\.\w+)?$", file.name.lower()) and text.lstrip()[:1] not in ("[", "{"):
        return _csv(text, file.name)
    values = _json(text, file.name)
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _check_size(file: Path, n: int) -> None:
    if n > MOST_BYTES:
        raise LogError(f"{file.name}: unpacks to more than {MOST_BYTES >> 20} MiB; split it into a file a run")


def _json(text: str, name: str) -> list[Any]:
    """The JSON values of a text, one behind another, with or without line ends between them."""
    decoder, token, values, at = json.JSONDecoder(), re.compile(r"\S"), [], 0
    while start := token.search(text, at):
        try:
            value, at = decoder.raw_decode(text, start.start())
        except ValueError as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise LogError(f"{name}, line {line}: not JSON ({one_line(error, 100)}). Known: {KNOWN}") from None
        values.append(value)
    return values


def _csv(text: str, name: str) -> list[Row]:
    csv.field_size_limit(MOST_BYTES - 1)
    separator = max(",;\t", key=text.partition("\n")[0].count)
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    for number, row in enumerate(rows):
        if None in row or None in row.values():
            raise LogError(f"{name}, row {number}: has not as many cells as the header")
    return rows


def _archive(file: Path) -> Row:
    """inspect's ``.eval``: its header with the samples, each of which is a file of its own."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
        header = members.get("header.json") or members.get("_journal/start.json")
        if header is None:
            raise LogError(f"{file.name}: is an archive, but not a log of inspect. Known: {KNOWN}")
        samples = [info for name, info in members.items() if name.startswith("samples/")]
        _check_size(file, sum(info.file_size for info in samples))
        document = {"status": "started"} | json.loads(_member(archive, header))
        return document | {"samples": [json.loads(_member(archive, info)) for info in samples]}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != _ZSTD:
        return archive.read(info)
    import pyarrow

    with open(str(archive.filename), "rb") as stream:
        stream.seek(info.header_offset + 26)  # where the local header has the lengths of the name and its extra field
        lengths = stream.read(4)
        stream.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), io.SEEK_CUR)
        packed = pyarrow.BufferReader(stream.read(info.compress_size))
    raw = pyarrow.input_stream(packed, compression="zstd").read()
    if zlib.crc32(raw) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {info.filename}")
    return raw
