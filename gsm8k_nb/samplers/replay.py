"""Stored completions in, no model: our own ``samples.jsonl`` (or its run folder), or OpenAI's released solutions.

Either may be compressed; a file's sha256 is that of its text. Two kinds of row are told apart by their keys:

    {"problem_id": "test-0000", "sample_index": 0, "text": "...", "finish_reason": "stop", ...}           our own
    {"question": "Janet's ...", "ground_truth": "..", "6b_finetuning": {"is_correct": false, "solution": ".."}} OpenAI's

OpenAI's rows are matched to problems by the question. A replay's protocol is its run folder's, or the one stated.
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
        self.path = _store(find_path(config.replay_path or "", "replay_path"))
        self.column, self.by_question = config.replay_column, False
        self.samples: dict[tuple[str, int], Sample] = {}  # by problem id or question, and sample index
        self.repeated = 0  # rows in whose place a later one of the same sample stands
        source = Run(self.path.parent).read_json("config.json")  # empty where the samples lie in no run folder
        digest = hashlib.sha256()
        try:
            for number, line in _lines(self.path, digest):
                self._keep(number, line, str(source.get("run_id", "")))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            read = "decompressed" if self.path.suffix.lower() in UNPACK else "read"
            raise SamplerError(
                f"replay_path: {self.path.name} cannot be {read} ({one_line(error)}): fetch it again"
            ) from None
        self.sha256 = digest.hexdigest()
        self.source_config = None if self.by_question else source or None
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
            "repeated": self.repeated,
            "source_config": self.source_config,
        }

    def _key(self, request: Request) -> tuple[str, int]:
        return (request.problem.question if self.by_question else request.problem.id, request.sample_index)

    def _find(self, request: Request) -> Sample:
        sample = self.samples.get(self._key(request), request.failed(f"not in {self.path.name}"))
        return replace(sample, problem_id=request.problem.id)

    def _keep(self, number: int, line: bytes, run_id: str) -> None:
        """Keep the sample of a line. As in a run's own journal the later row counts, unless it failed."""
        try:
            row = parse_json(without_check(line.decode("utf-8-sig", errors="replace"), run_id))
            self.by_question |= not self.samples and isinstance(row, dict) and "question" in row
            sample = from_row(Sample, self._released(row) if self.by_question else row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SamplerError(f"{self.path.name}, line {number}: {one_line(error)}") from None
        key = sample.problem_id, sample.sample_index
        self.repeated += key in self.samples
        if sample.error is None or key not in self.samples:
            self.samples[key] = sample

    def _released(self, row: dict[str, Any]) -> dict[str, Any]:
        """Of a row of released solutions, that of the system ``replay_column``."""
        systems = {key: value for key, value in row.items() if isinstance(value, dict) and "solution" in value}
        if self.column not in systems:
            raise ValueError(f"replay_column: must be one of {', '.join(systems)}; got {self.column!r}")
        return {"problem_id": row["question"], "sample_index": 0, "text": systems[self.column]["solution"]}


def _store(path: Path) -> Path:
    """The file of samples: the path itself, or that in a run folder. SamplerError where there is none."""
    files = [path] if path.is_file() else [path / name for name in STORES if (path / name).is_file()]
    if not files:
        raise SamplerError(f"replay_path: {str(path)!r} is a folder without {' or '.join(STORES)}")
    return files[0]


def _lines(file: Path, digest: Any) -> Iterator[tuple[int, bytes]]:
    """The lines of a file's text with their numbers, none of them blank; all of it goes into ``digest``.

    SamplerError for a line or an archive that unpacks to a size which no texts have.
    """
    most, size = AND_BYTES + MOST_TIMES * file.stat().st_size, 0
    with UNPACK.get(file.suffix.lower(), open)(file, "rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            digest.update(line)
            size += len(line)
            if len(line) == LONGEST_LINE:
                raise SamplerError(f"{file.name}, line {number}: longer than {LONGEST_LINE:,} bytes: no JSON Lines")
            if size > most:
                raise SamplerError(
                    f"replay_path: {file.name} unpacks to more than {most:,} bytes, {MOST_TIMES} times its size and "
                    "more: no completions do. If they are right, unpack the file and replay that"
                )
            if line.strip():
                yield number, line
