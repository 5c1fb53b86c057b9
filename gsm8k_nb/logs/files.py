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
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gsm8k_nb.logs.log import KNOWN, LogError
from gsm8k_nb.texts import one_line

MOST_BYTES = 2**31  # of text, once unpacked
_PACKED = {b"\x1f\x8b": gzip.open, b"\xfd7z": lzma.open, b"BZh": bz2.open}
_ZSTD = 93  # the method of inspect's archives since 0.3.18x; Python's zipfile knows it from 3.14 on
_DAMAGED = (
    OSError,
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
    rows: list[Any]
    document: Row = field(default_factory=dict)
    results: Row = field(default_factory=dict)


def open_rows(file: Path) -> Source:
    """The rows of a file; a single JSON object is the one row, and the document. LogError says what is wrong."""
    if not file.is_file():
        kind = "is a folder; name a file in it" if file.is_dir() else "no such file"
        raise LogError(f"{file}: {'is no regular file' if file.exists() and not file.is_dir() else kind}")
    with file.open("rb") as stream:
        start = stream.read(4)
    try:
        if start == b"PAR1":
            return Source(file.name, _parquet(file))
        if start == b"PK\x03\x04":
            document = _archive(file)
            return Source(file.name, [document], document)
        return _text(file, start)
    except LogError:
        raise
    except RecursionError:
        raise LogError(f"{file.name}: is nested too deeply to be a log") from None
    except _DAMAGED as error:
        raise LogError(f"{file.name}: is damaged ({one_line(error, 200)}); fetch it again") from None


def read_object(file: Path) -> Any:
    """The one JSON value of a file. LogError where it holds none, or several."""
    rows = open_rows(file).rows
    return rows[0] if len(rows) == 1 else rows


def _text(file: Path, start: bytes) -> Source:
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
    if not text.strip():
        raise LogError(f"{file.name}: is empty")
    if text.lstrip()[0] not in "[{" and Path(file.name.removesuffix(".gz")).suffix.lower() in (".csv", ".tsv"):
        return Source(file.name, _csv(text, file.name))
    values = _json(text, file.name)
    if len(values) > 1:
        return Source(file.name, values)
    if isinstance(values[0], list):
        return Source(file.name, values[0])
    return Source(file.name, values, values[0] if isinstance(values[0], dict) else {})


def _json(text: str, name: str) -> list[Any]:
    """The JSON values of a text, one behind another, with or without line ends between them."""
    decoder, values, at, end = json.JSONDecoder(), [], 0, len(text.rstrip())
    while at < end:
        at += len(text[at : at + 4096]) - len(text[at : at + 4096].lstrip())
        if text[at].isspace():
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise LogError(f"{name}, line {line}: not JSON ({one_line(error, 100)}). Known: {KNOWN}") from None
        values.append(value)
    return values


def _csv(text: str, name: str) -> list[Row]:
    csv.field_size_limit(MOST_BYTES - 1)
    table = csv.DictReader(io.StringIO(text, newline=""), dialect=csv.Sniffer().sniff(text.split("\n", 1)[0], ",;\t"))
    rows: list[Row] = []
    for row in table:
        if None in row or None in row.values():
            raise LogError(f"{name}, line {table.line_num}: has not as many cells as the header")
        rows.append(dict(row))
    return rows


def _parquet(file: Path) -> list[Row]:
    import pyarrow.parquet  # comes with datasets

    return pyarrow.parquet.read_table(file).to_pylist()


def _archive(file: Path) -> Row:
    """inspect's ``.eval``: its header with the samples, each of which is a file of its own."""
    with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
        members = {info.filename: info for info in archive.infolist()}
        header = next((members[name] for name in ("header.json", "_journal/start.json") if name in members), None)
        if header is None:
            raise LogError(
                f"{file.name}: is an archive, but not a log of inspect; unpack it and name a file in it. Known: {KNOWN}"
            )
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
