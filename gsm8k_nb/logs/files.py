"""A file of any container as rows: JSON, JSON lines, JSON values one behind another, CSV, parquet, inspect's .eval.

    >>> open_rows(Path("samples_gsm8k.jsonl.gz"))
    Source(name='samples_gsm8k.jsonl.gz', rows=[{'doc_id': 0, ...}, ...], document={}, results={})

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
from typing import IO, Any, Final

from gsm8k_nb.logs.log import KNOWN, LogError
from gsm8k_nb.texts import one_line

MOST_BYTES = 2**31  # of text, once unpacked
ABSENT: Final = type("Absent", (), {"__repr__": lambda _: "nothing", "__bool__": lambda _: False})()
_PACKED = {b"\x1f\x8b": gzip.open, b"\xfd7z": lzma.open, b"BZh": bz2.open}
_ZSTD = 93  # the method of inspect's archives since 2026; Python's zipfile knows it from 3.14 on
_DAMAGED = (
    OSError,
    csv.Error,
    EOFError,
    ValueError,
    KeyError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
Row = dict[str, Any]


@dataclass
class Source:
    """A file as read: its rows, the object around them where there is one, and the results file that belongs to it."""

    name: str
    rows: list[Row]
    document: Row = field(default_factory=dict)
    results: Row = field(default_factory=dict)


def pick(value: Any, places: str) -> Any:
    """What stands at the first of ``places`` (``a.0.b|a.*.c``) that holds anything, or ABSENT."""
    first: Any = ABSENT
    for path in places.split("|") if places else ():
        reached = _walk(value, path)
        first = reached if first is ABSENT else first
        if reached is not ABSENT and reached not in (None, "", []):
            return reached
    return first


def _walk(value: Any, path: str) -> Any:
    if isinstance(value, dict) and path in value:  # a name with dots in it is a name first
        return value[path]
    key, _, rest = path.partition(".")
    if key == "*" and isinstance(value, list):
        return [_walk(item, rest) for item in value] if rest else value
    if isinstance(value, dict):
        value = value.get(key, ABSENT)
    elif isinstance(value, list) and key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
        value = value[int(key)]
    else:
        return ABSENT
    return _walk(value, rest) if rest else value


def open_rows(file: Path) -> Source:
    """The rows of a file; a single JSON object is the one row, and the document. LogError says what is wrong."""
    if not file.is_file():
        kind = "is a folder; name a file in it" if file.is_dir() else "no such file"
        raise LogError(f"{file}: {'is no regular file' if file.exists() and not file.is_dir() else kind}")
    with file.open("rb") as stream:
        start = stream.read(4)
    try:
        if start == b"PAR1":
            import pyarrow.parquet  # comes with datasets

            rows = pyarrow.parquet.read_table(file).to_pylist()
        else:
            rows = [_archive(file)] if start == b"PK\x03\x04" else _text_rows(file, start)
    except LogError:
        raise
    except RecursionError:
        raise LogError(f"{file.name}: is nested too deeply to be a log") from None
    except _DAMAGED as error:
        raise LogError(f"{file.name}: is damaged ({one_line(error, 200)}); fetch it again") from None
    if not rows:
        raise LogError(f"{file.name}: is empty")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise LogError(f"{file.name}, row {number}: must be a JSON object, got {type(row).__name__}")
    return Source(file.name, rows, rows[0] if len(rows) == 1 else {})


def _text_rows(file: Path, start: bytes) -> list[Any]:
    opener: Any = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), open)
    with opener(file, "rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise LogError(f"{file.name}: unpacks to more than {MOST_BYTES >> 20} MiB; split it into a file a run")
    if raw.startswith(b"version https://git-lfs"):
        raise LogError(f"{file.name}: is a pointer of Git LFS, not the file itself; fetch that with git lfs pull")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise LogError(f"{file.name}, line {line}: is not UTF-8 text ({error.reason}); convert it") from None
    if re.search(r"\.[ct]sv(\.\w+)?$", file.name.lower()) and text.lstrip()[:1] not in ("[", "{"):
        return _csv(text, file.name)
    values = _json(text, file.name)
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _json(text: str, name: str) -> list[Any]:
    """The JSON values of a text, one behind another, with or without line ends between them."""
    decoder, token, values = json.JSONDecoder(), re.compile(r"\S"), []
    at = 0
    while start := token.search(text, at):
        try:
            value, at = decoder.raw_decode(text, start.start())
        except ValueError as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise LogError(f"{name}, line {line}: not JSON ({one_line(error, 100)}). Known: {KNOWN}") from None
        values.append(value)
    return values


def _csv(text: str, name: str) -> list[Any]:
    csv.field_size_limit(MOST_BYTES - 1)
    separator = max(",;\t", key=text.partition("\n")[0].count)
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    for number, row in enumerate(rows):
        if None in row or None in row.values():
            raise LogError(f"{name}, row {number}: has not as many cells as the header")
    return rows


def _archive(file: Path) -> Row:
    """inspect's ``.eval``: its header with the samples, each of which is a file of its own."""
    with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
        members = {info.filename: info for info in archive.infolist()}
        header = members.get("header.json") or members.get("_journal/start.json")
        if header is None:
            raise LogError(f"{file.name}: is an archive, but not a log of inspect. Known: {KNOWN}")
        samples = [info for name, info in members.items() if name.startswith("samples/")]
        if sum(info.file_size for info in samples) > MOST_BYTES:
            raise LogError(f"{file.name}: unpacks to more than {MOST_BYTES >> 20} MiB")
        document = {"status": "started"} | json.loads(_member(archive, stream, header))
        return document | {"samples": [json.loads(_member(archive, stream, info)) for info in samples]}


def _member(archive: zipfile.ZipFile, stream: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != _ZSTD:
        return archive.read(info)
    import pyarrow

    stream.seek(info.header_offset + 26)  # where the local header says how long the name and its extra field are
    lengths = stream.read(4)
    stream.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), io.SEEK_CUR)
    packed = pyarrow.BufferReader(stream.read(info.compress_size))
    raw = pyarrow.input_stream(packed, compression="zstd").read()
    if zlib.crc32(raw) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {info.filename}")
    return raw
