"""Stored completions in, no model: our own ``samples.jsonl`` (or its run folder), or OpenAI's released solutions.

Either may be compressed, as ``.gz`` or ``.xz``; a file's sha256 is that of its text, however it is packed.

Two kinds of row are known, told apart by their keys:

    {"problem_id": "test-0000", "sample_index": 0, "text": "...", "finish_reason": "stop", ...}           our own
    {"question": "Janet's ...", "ground_truth": "..", "6b_finetuning": {"is_correct": false, "solution": ".."}} OpenAI's

OpenAI's rows are matched to problems by the text of the question. A replay's protocol is its source's: that of the run
folder it was read from, or the one that ``protocol_label`` states; it never borrows another's.
"""

import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import STORES, find_path
from gsm8k_nb.records import Sample, from_row
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, SamplerError

BATCH = 512
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


class ReplaySampler:
    """Reads every stored completion once, then answers requests from memory."""

    has_chat_template = False

    def __init__(self, config: RunConfig) -> None:
        path = find_path(config.replay_path or "", "replay_path")
        self.folder = path if path.is_dir() else path.parent
        self.path = _store(path) if path.is_dir() else path
        self.column = config.replay_column
        raw = _unpacked(self.path)
        self.sha256 = hashlib.sha256(raw).hexdigest()
        rows = _rows(raw, self.path.name)
        self.by_question = bool(rows) and "question" in rows[0]
        self.samples = _released(rows, self.column, self.path.name) if self.by_question else _own(rows, self.path.name)
        self.source_config = _source_config(self.folder) if not self.by_question else None
        if config.protocol_label is None and self.source_config is None:
            raise SamplerError(
                f"protocol_label: {self.path.name} does not say how its completions were made; state it, "
                "for example protocol_label: fine-tuned test@1"
            )

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        del stop  # a stored text was cut when it was made
        requests = list(requests)
        if not any(self._key(request) in self.samples for request in requests):
            raise SamplerError(f"replay_path: {self.path.name} has completions of none of the problems asked for")
        for start in range(0, len(requests), BATCH):
            yield [self._find(request) for request in requests[start : start + BATCH]]

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "replay",
            "source": self.path.name,
            "source_sha256": self.sha256,
            "column": self.column,
            "stored": len(self.samples),
            "source_config": self.source_config,
        }

    def _key(self, request: Request) -> tuple[str, int]:
        return (request.problem.question if self.by_question else request.problem.id, request.sample_index)

    def _find(self, request: Request) -> Sample:
        found = self.samples.get(self._key(request))
        identity = {"problem_id": request.problem.id, "sample_index": request.sample_index}
        if found is None:
            return Sample(**identity, text=None, error=f"not in {self.path.name}")
        return replace(found, **identity)


def _store(folder: Path) -> Path:
    """The file of samples in a run folder. SamplerError where there is none."""
    for name in STORES:
        if (folder / name).is_file():
            return folder / name
    raise SamplerError(f"replay_path: {str(folder)!r} is a folder without {' or '.join(STORES)}")


def _unpacked(file: Path) -> bytes:
    """A file's bytes, decompressed where its name ends in ``.gz`` or ``.xz``. SamplerError where it is damaged."""
    raw = file.read_bytes()
    unpack = UNPACK.get(file.suffix.lower())
    if unpack is None:
        return raw
    try:
        return unpack(raw)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise SamplerError(f"replay_path: {file.name} cannot be decompressed ({error}): fetch it again") from None


def _rows(raw: bytes, name: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(raw.decode("utf-8-sig", errors="replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise SamplerError(f"{name}, line {number}: not valid JSON ({error})") from None
        if not isinstance(row, dict):
            raise SamplerError(f"{name}, line {number}: must be a JSON object, got {type(row).__name__}")
        rows.append(row)
    return rows


def _own(rows: list[dict[str, Any]], name: str) -> dict[tuple[str, int], Sample]:
    """Samples by (problem id, sample index); where a sample was asked for again the later row counts."""
    samples = {}
    for number, row in enumerate(rows, start=1):
        try:
            sample = from_row(Sample, row)
        except ValueError as error:
            raise SamplerError(f"{name}, row {number}: {error}") from None
        key = (sample.problem_id, sample.sample_index)
        if sample.error is None or key not in samples:  # as in a run's own journal
            samples[key] = sample
    return samples


def _released(rows: list[dict[str, Any]], column: str | None, name: str) -> dict[tuple[str, int], Sample]:
    """One sample a question from the column of one system."""
    columns = [key for key, value in rows[0].items() if isinstance(value, dict) and "solution" in value]
    if column not in columns:
        raise SamplerError(f"replay_column: {name} has the columns {', '.join(columns)}; got {column!r}")
    samples = {}
    for number, row in enumerate(rows, start=1):
        try:
            text = row[column]["solution"]
            samples[row["question"], 0] = from_row(
                Sample, {"problem_id": row["question"], "sample_index": 0, "text": text}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SamplerError(
                f"{name}, row {number}: needs 'question' and {column!r} with a 'solution': {error}"
            ) from None
    return samples


def _source_config(folder: Path) -> dict[str, Any] | None:
    """The configuration of the run folder that the samples lie in, or None where they lie alone."""
    return Run(folder).read_json("config.json") or None
