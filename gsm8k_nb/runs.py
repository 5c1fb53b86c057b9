"""The run folder: everything that one run leaves, and the only place where its files are written.

    outputs/SmolLM2-135M-Instruct.Q4-1-zero_shot-443d2898/
        config.json  problems.jsonl  samples.jsonl  scores.jsonl  metrics.json  manifest.json
        tables/  figures/  report.html

``samples.jsonl`` is a journal: rows are only ever added, flushed to disk a batch at a time. Everything else can be made
again from it and is written to a temporary file that is then renamed, so that a reader never meets half a file.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gsm8k_nb.config import NOT_GENERATION, PLACES, RunConfig
from gsm8k_nb.records import Problem, Sample, Score, from_row, to_row


def write_atomically(file: Path, content: str | bytes) -> Path:
    """Write a whole file beside its place and move it there: a reader, a kill or a full disk never leaves half of it.

    A link at the place is replaced, not followed. Missing folders are made. OSError where it cannot be written: what
    was there before is then untouched.
    """
    # A lone half of a surrogate pair, which a model can write, has no UTF-8 form.
    raw = content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    return file


class RunError(RuntimeError):
    """A run folder cannot be used: the message names the file and what to do."""


@dataclass(frozen=True)
class Journal:
    """The samples of a run as read: one a (problem, sample index), the last row where there are several."""

    samples: dict[tuple[str, int], Sample]
    damaged: int  # rows that could not be read, counted and passed over

    @property
    def failed(self) -> int:
        return sum(sample.error is not None for sample in self.samples.values())


@dataclass(frozen=True)
class Sampled:
    """What one call of the sampling loop found and did, in samples."""

    requested: int
    on_disk: int
    generated: int
    failed: int
    not_asked: int  # in a dry run, or once the budget was spent
    damaged_rows: int


class Run:
    """One run folder. Opening it reads nothing and creates nothing."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({self.folder.name!r})"

    @property
    def samples_file(self) -> Path:
        return self.folder / "samples.jsonl"

    def start(self, config: RunConfig, facts: dict[str, Any]) -> None:
        """Create the folder, test that it can be written, and record the configuration and its inputs.

        ``facts`` are hashes of what completions depend on besides the parameters (data, prompt). RunError where the
        folder belongs to a run with other ones: its samples would not be comparable.
        """
        self._make_folder()
        before = self.read_json("config.json")
        values = config.model_dump()
        if not before and self.samples_file.exists():
            raise RunError(
                f"{self.folder.name} has samples but no config.json that says how they were made; put it back, or move "
                "the folder away"
            )
        if before:
            free = NOT_GENERATION | PLACES | {"model"}  # a model's name, but for its spelling, names the folder
            changed = [name for name in values if name not in free and before.get(name) != values[name]]
            moved = {"data_label", "data_source"}  # the file's place; its content is compared by its hash
            known = {name: value for name, value in (before.get("inputs") or {}).items() if name not in moved}
            changed += [name for name in facts if name in known and known[name] != facts[name]]
            if changed:
                raise RunError(
                    f"{self.folder.name} holds a run with another {' and '.join(changed)}; "
                    "choose another outputs_dir, or remove that folder"
                )
        inputs = (before.get("inputs") or {}) | facts
        run_id = before.get("run_id", config.run_id)  # version 0.1.0 made other ids of some parameters
        self.write_json("config.json", values | {"run_id": run_id, "inputs": inputs})

    def _make_folder(self) -> None:
        """Create the folder and test that it can be written, before anything is asked of a model."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / ".write-test", "x").unlink()
        except OSError as error:
            raise RunError(
                f"outputs_dir: cannot write to {self.folder}: {error.strerror}; choose another outputs_dir"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to add samples: one writer at a time. RunError at once where another process has it."""
        self._make_folder()
        lock = FileLock(self.folder / ".lock")
        try:
            with lock.acquire(timeout=0):
                self._set_torn_line_aside()
                yield
        except Timeout:
            raise RunError(f"{self.folder.name} is being written by another process; wait for it or stop it") from None

    def append(self, samples: Iterable[Sample]) -> None:
        """Add a batch of samples to the journal; it is on disk when this returns.

        RunError where it cannot be written, on a full disk say: the journal then ends with the batch before.
        """
        rows = "".join(json.dumps(to_row(sample)) + "\n" for sample in samples).encode()
        with self.samples_file.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while rows:
                    rows = rows[file.write(rows) :]
                os.fsync(file.fileno())
            except OSError as error:
                with suppress(OSError):  # if this fails too, the next run sets the torn line aside
                    file.truncate(end)
                raise self._unwritable(error) from error

    def journal(self) -> Journal:
        """Every sample on disk; a row that cannot be read is counted, never fatal."""
        samples: dict[tuple[str, int], Sample] = {}
        damaged = 0
        for line in _lines(self.samples_file):
            try:
                sample = from_row(Sample, json.loads(line))
            except ValueError:
                damaged += 1
                continue
            key = (sample.problem_id, sample.sample_index)
            if sample.error is None or key not in samples:  # a later failure never hides a completion
                samples[key] = sample
        return Journal(samples, damaged)

    def write_records(self, name: str, records: Iterable[Problem | Score]) -> None:
        """A whole file of records, replaced in one step."""
        self.write_text(name, "".join(json.dumps(to_row(record)) + "\n" for record in records))

    def read_records(self, name: str, kind: type) -> list[Any]:
        """The records of a file written by ``write_records``. RunError where it is missing: names the step before."""
        if not (self.folder / name).exists():
            step = {"problems.jsonl": "01_load", "scores.jsonl": "03_score"}.get(name, "02_sample")
            raise RunError(f"{self.folder.name} has no {name} yet: run {step} first, with the same parameters")
        return [from_row(kind, json.loads(line)) for line in _lines(self.folder / name)]

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        self.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the run, or an empty dict where it is not there yet."""
        file = self.folder / name
        if not file.exists():
            return {}
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunError(f"{self.folder.name}/{name} is damaged ({error}): put it right, or move it away") from None
        if not isinstance(found, dict):
            raise RunError(
                f"{self.folder.name}/{name} is damaged: it must be a JSON object, got {type(found).__name__}"
            )
        return found

    def write_text(self, name: str, text: str) -> Path:
        return self.write_bytes(name, text.encode("utf-8", errors="replace"))

    def write_bytes(self, name: str, content: bytes) -> Path:
        """A whole file of the run, see ``write_atomically``. RunError where it cannot be written."""
        try:
            return write_atomically(self.folder / name, content)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(
            f"cannot write to {self.folder}: {error.strerror}. What was sampled before is safe; make room there and "
            "run the same again"
        )

    def _set_torn_line_aside(self) -> None:
        """Where a crash left half a line, move it to ``samples.torn``, so that the next row starts on its own line."""
        if not self.samples_file.exists():
            return
        with self.samples_file.open("rb+") as file:
            raw = file.read()
            whole = raw.rfind(b"\n") + 1
            if whole == len(raw):
                return
            with (self.folder / "samples.torn").open("ab") as torn:
                torn.write(raw[whole:] + b"\n")
            file.truncate(whole)


def _lines(file: Path) -> Iterator[str]:
    if not file.exists():
        return
    with file.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        for line in stream:
            if line.strip():
                yield line
