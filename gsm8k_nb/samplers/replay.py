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
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import STORES, find_path
from gsm8k_nb.records import Sample, from_row, parse_json, without_check
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, SamplerError
from gsm8k_nb.texts import one_line

BATCH = 512
LONGEST_LINE = 64_000_000  # bytes; a file with a longer line is no JSON Lines, and would fill the memory
# Texts pack to a tenth or so; an archive that unpacks to more than this was made to fill a disk or the memory.
MOST_TIMES, AND_BYTES = 100, 100_000_000
UNPACK: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


class ReplaySampler:
    """Reads every stored completion once, then answers requests from memory."""

    has_chat_template = False

    def __init__(self, config: RunConfig) -> None:
        path = find_path(config.replay_path or "", "replay_path")
        self.path, self.column = _store(path), config.replay_column
        try:
            self.sha256 = _sha256(self.path)
            # The configuration of the run folder that the samples lie in, or None where they lie alone.
            self.source_config = Run(self.path.parent).read_json("config.json") or None
            run_id = str((self.source_config or {}).get("run_id", ""))
            first = next(_rows(self.path, run_id), (0, {}))[1]
            self.by_question = "question" in first
            self.source_config = None if self.by_question else self.source_config
            released = first if self.by_question else None
            self.samples, self.repeated = _samples(self.path, run_id, released, self.column)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            read = "decompressed" if self.path.suffix.lower() in UNPACK else "read"
            raise SamplerError(
                f"replay_path: {self.path.name} cannot be {read} ({one_line(error)}): fetch it again"
            ) from None
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
            "repeated": self.repeated,  # rows in whose place a later one of the same sample stands
            "source_config": self.source_config,
        }

    def _key(self, request: Request) -> tuple[str, int]:
        return (request.problem.question if self.by_question else request.problem.id, request.sample_index)

    def _find(self, request: Request) -> Sample:
        sample = self.samples.get(self._key(request))
        identity: dict[str, Any] = {"problem_id": request.problem.id, "sample_index": request.sample_index}
        if sample is None:
            return Sample(**identity, text=None, error=f"not in {self.path.name}")
        return replace(sample, **identity)


def _store(path: Path) -> Path:
    """The file of samples: the path itself, or that in a run folder. SamplerError where there is none."""
    files = [path] if path.is_file() else [path / name for name in STORES if (path / name).is_file()]
    if not files:
        raise SamplerError(f"replay_path: {str(path)!r} is a folder without {' or '.join(STORES)}")
    return files[0]


def _sha256(file: Path) -> str:
    """The sha256 of a file's text. SamplerError for an archive that unpacks to a size which no texts have."""
    digest, size = hashlib.sha256(), 0
    most = AND_BYTES + MOST_TIMES * file.stat().st_size
    with UNPACK.get(file.suffix.lower(), open)(file, "rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
            if size > most:
                raise SamplerError(
                    f"replay_path: {file.name} unpacks to more than {most:,} bytes, {MOST_TIMES} times its size and "
                    "more: no completions do. If they are right, unpack the file and replay that"
                )
    return digest.hexdigest()


def _rows(file: Path, run_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The file's JSON objects with their line numbers; SamplerError names a line that is none, or was changed."""
    with UNPACK.get(file.suffix.lower(), open)(file, "rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE:
                raise SamplerError(f"{file.name}, line {number}: longer than {LONGEST_LINE:,} bytes: no JSON Lines")
            if not line.strip():
                continue
            try:
                row = parse_json(without_check(line.decode("utf-8-sig", errors="replace"), run_id))
            except ValueError as error:
                raise SamplerError(f"{file.name}, line {number}: not valid JSON ({one_line(error)})") from None
            if not isinstance(row, dict):
                raise SamplerError(f"{file.name}, line {number}: must be a JSON object, got {type(row).__name__}")
            yield number, row


def _samples(
    file: Path, run_id: str, released: dict[str, Any] | None, column: str | None
) -> tuple[dict[tuple[str, int], Sample], int]:
    """Samples by (problem id or question, sample index), and how many rows a later one of the same key replaced.

    ``released`` is the first row of a file of released solutions, of which ``column`` is one system's; None for our own
    rows. As in a run's own journal the later row counts, unless it failed.
    """
    columns = [key for key, value in (released or {}).items() if isinstance(value, dict) and "solution" in value]
    if released is not None and (column is None or column not in columns):
        raise SamplerError(f"replay_column: {file.name} has the columns {', '.join(columns)}; got {column!r}")
    samples: dict[tuple[str, int], Sample] = {}
    rows = 0
    for number, row in _rows(file, run_id):
        try:
            if released is not None and column is not None:
                row = {"problem_id": row["question"], "sample_index": 0, "text": row[column]["solution"]}
            sample = from_row(Sample, row)
        except (KeyError, TypeError, ValueError) as error:
            needed = f"needs 'question' and {column!r} with a 'solution': " if released is not None else ""
            raise SamplerError(f"{file.name}, line {number}: {needed}{error}") from None
        key, rows = (sample.problem_id, sample.sample_index), rows + 1
        if sample.error is None or key not in samples:
            samples[key] = sample
    return samples, rows - len(samples)
