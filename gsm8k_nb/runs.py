"""The run folder: everything that one run leaves, and the only place where its files are written.

    outputs/SmolLM2-135M-Instruct.Q4-1-zero_shot-443d2898/
        config.json  problems.jsonl  samples.jsonl  scores.jsonl  metrics.json  manifest.json
        tables/  figures/  report.html

``samples.jsonl`` is a journal: rows are only ever added, flushed to disk a batch at a time, each with a check that it
is whole and this run's. Everything else can be made again from it and is written beside its place and moved there, so
that a reader never meets half a file. The JSON files carry their own sha256: an edited one is refused.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from gsm8k_nb.config import NOT_GENERATION, PLACES, RunConfig
from gsm8k_nb.records import Problem, Record, Sample, Score, from_row, parse_json, parse_lines, to_row
from gsm8k_nb.texts import one_line

SEALED = {"config.json", "manifest.json", "metrics.json"}  # these end with the sha256 of the rest
_CHECK = ', "check": "'


class RunError(RuntimeError):
    """A run folder cannot be used: the message names the file and what to do."""


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


class Inputs(BaseModel):
    """What a run's samples depend on besides its parameters, as ``config.json`` keeps it; None is not known (yet).

    Facts that an importer adds are kept as they are.
    """

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    data_sha256: str | None = None
    data_label: str | None = None
    data_source: str | None = None
    data_verified: bool | None = None
    data_problems: int | None = None
    problems_sha256: str | None = None  # of problems.jsonl: those of the data that this run uses
    prompt_sha256: str | None = None
    exemplar_ids: list[str] | None = None
    chat: bool | None = None
    stop: list[str] | None = None
    exemplars_as: str | None = None  # turns or text
    model_fingerprint: dict[str, str] | None = None
    replay_sha256: str | None = None
    replay_config: dict[str, Any] | None = None  # config.json of the run that is replayed
    stated: dict[str, Any] | None = None  # what an imported log says of its protocol
    log: dict[str, Any] | None = None  # who made an imported log
    log_sha256: str | None = None

    def known(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)

    def joined(self, later: "Inputs") -> "Inputs":
        """These with what ``later`` knows."""
        return Inputs(**self.known() | later.known())

    def changes(self, later: "Inputs") -> list[str]:
        """Names of what both know and do not agree on. A file may move, and other problems of it extend a run."""
        free = {"data_label", "data_source", "problems_sha256"}
        mine, theirs = self.known(), later.known()
        return [
            name
            for name in mine.keys() & theirs.keys() - free
            if _compared(name, mine[name]) != _compared(name, theirs[name])
        ]


def _compared(name: str, value: Any) -> Any:
    """A fact as it is compared: of a replayed run only what can change a completion, and none of its file's seals."""
    if name != "replay_config":
        return value
    decides = set(RunConfig.model_fields) - NOT_GENERATION - PLACES
    return {key: one for key, one in value.items() if key in decides}


@dataclass(frozen=True)
class Journal:
    """The samples of a run as read: one a (problem, sample index), the last row where there are several."""

    samples: dict[tuple[str, int], Sample]
    damaged: int  # rows that could not be read or were changed, counted and passed over

    @property
    def failed(self) -> int:
        return sum(sample.error is not None for sample in self.samples.values())

    @property
    def completed(self) -> int:
        return len(self.samples) - self.failed


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

    def inputs(self) -> Inputs:
        """What the samples were made from. RunError where ``config.json`` does not say so."""
        stored = self.read_json("config.json").get("inputs")
        if stored is None:
            raise RunError(f"{self.folder.name} has no config.json: run 01_load first, with the same parameters")
        return Inputs(**stored)

    def check(self, config: RunConfig, inputs: Inputs) -> None:
        """RunError where the folder belongs to a run with other parameters or inputs: no sample could be compared."""
        before = self.read_json("config.json")
        if not before:
            if self.samples_file.exists():
                raise RunError(
                    f"{self.folder.name} has samples but no config.json that says how they were made; put it back, or "
                    "move the folder away"
                )
            return
        free = NOT_GENERATION | PLACES | {"model"}  # a model's name, but for its spelling, names the folder
        changed = [
            name for name, value in config.model_dump().items() if name not in free and before.get(name) != value
        ]
        known = Inputs(**before.get("inputs") or {})
        changed += known.changes(inputs)
        way_out = "choose another outputs_dir, or remove that folder"
        if changed == ["model_fingerprint"]:
            was, now = known.model_fingerprint or {}, inputs.model_fingerprint or {}
            parts = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
            raise RunError(
                f"model: {config.model} is not the model that made the samples of {self.folder.name}: its "
                f"{' and '.join(parts)} changed since; {way_out}"
            )
        if changed:
            raise RunError(f"{self.folder.name} holds a run with another {' and '.join(changed)}; {way_out}")

    def start(self, config: RunConfig, inputs: Inputs, problems: Sequence[Problem] | None = None) -> None:
        """Create the folder, test that it can be written, and record the configuration, inputs and problems.

        RunError as ``check`` raises it.
        """
        self._make_folder()
        self.check(config, inputs)
        before = self.read_json("config.json")
        if problems is not None:
            inputs = inputs.joined(Inputs(problems_sha256=sha256_of(problems)))
        inputs = Inputs(**before.get("inputs") or {}).joined(inputs)
        run_id = before.get("run_id", config.run_id)  # version 0.1.0 made other ids of some parameters
        self.write_json("config.json", config.model_dump() | {"run_id": run_id, "inputs": inputs.known()})
        if problems is not None:
            self.write_records("problems.jsonl", problems)

    def check_problems(self, problems: Sequence[Problem]) -> None:
        """RunError where these are not the problems that ``start`` stored."""
        recorded = self.inputs().problems_sha256
        if recorded is not None and recorded != sha256_of(problems):
            raise RunError(
                f"{self.folder.name}/problems.jsonl does not hold the problems that 01_load put there: run 01_load and "
                "the steps after it again"
            )

    def _make_folder(self) -> None:
        """Create the folder and test that it can be written, before anything is asked of a model."""
        try:
            write_atomically(self.folder / ".write-test", "x").unlink()
        except OSError as error:
            raise RunError(
                f"outputs_dir: cannot write to {self.folder}: {error.strerror}; choose another outputs_dir"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to add samples: one writer at a time. RunError at once where another process has it."""
        self._make_folder()
        if self.samples_file.is_symlink():
            raise RunError(f"{self.samples_file} is a link, and rows are never added to another folder's file: copy it")
        lock = FileLock(self.folder / ".lock")
        try:
            with lock.acquire(timeout=0):
                self._set_torn_line_aside()
                yield
        except Timeout:
            raise RunError(f"{self.folder.name} is being written by another process; wait for it or stop it") from None

    def append(self, samples: Iterable[Sample]) -> None:
        """Add a batch of samples to the journal; it is on disk when this returns.

        A sample that could not be read again (a count that is no number, say) is stored as a failed one. RunError where
        nothing can be written, on a full disk say: the journal then ends with the batch before.
        """
        run_id = self._run_id()
        rows = "".join(_checked_line(_readable(sample), run_id) for sample in samples).encode()
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
        """Every sample on disk; a row that cannot be read or was changed is counted, never fatal and never believed."""
        samples: dict[tuple[str, int], Sample] = {}
        damaged = 0
        run_id = self._run_id()
        for line in _lines(self.samples_file):
            if not line.strip():
                continue
            try:
                sample = from_row(Sample, parse_json(without_check(line, run_id)))
            except ValueError:
                damaged += 1
                continue
            key = (sample.problem_id, sample.sample_index)
            if sample.error is None or key not in samples:  # a later failure never hides a completion
                samples[key] = sample
        return Journal(samples, damaged)

    def _run_id(self) -> str:
        return str(self.read_json("config.json").get("run_id", ""))

    def write_records(self, name: str, records: Iterable[Problem | Score]) -> Path:
        """A whole file of records, replaced in one step."""
        return self.write_text(name, _text(records))

    def read_records(self, name: str, kind: type[Record]) -> list[Record]:
        """The records of a file written by ``write_records``. RunError where it is missing (names the step before) or
        damaged (names the line)."""
        if not (self.folder / name).exists():
            step = {"problems.jsonl": "01_load", "scores.jsonl": "03_score"}.get(name, "02_sample")
            raise RunError(f"{self.folder.name} has no {name} yet: run {step} first, with the same parameters")
        records = []
        for number, row in parse_lines(_lines(self.folder / name)):
            try:
                records.append(from_row(kind, row))
            except ValueError as error:
                reason = one_line(row if isinstance(row, ValueError) else error, 200)
                raise RunError(
                    f"{self.folder.name}/{name} is damaged (line {number}: {reason}): run the step that writes it again"
                ) from None
        return records

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        seal = {"sha256": _seal(value)} if name in SEALED else {}
        self.write_text(name, json.dumps(value | seal, indent=2, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the run, or an empty dict where it is not there yet. RunError where it was damaged or edited.

        Files of version 0.1.0 have no sha256 of their own and are taken as they are.
        """
        file = self.folder / name
        if not file.exists():
            return {}
        try:
            value = parse_json(file.read_text(encoding="utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"it must be a JSON object, got {type(value).__name__}")
            if name in SEALED and value.pop("sha256", None) not in (None, _seal(value)):
                raise ValueError("it was changed after it was written")
        except (ValueError, OSError) as error:
            raise RunError(
                f"{self.folder.name}/{name} is damaged ({one_line(error, 200)}): put it right, or move it away"
            ) from None
        return value

    def update_manifest(self, status: str | None = None, **parts: Any) -> None:
        """Set parts of ``manifest.json``, and the status last. Nothing is written where nothing was sampled yet.

        Without a ``status``, a finished run is a sampled one again: its tables and figures are of what was before.
        """
        if before := self.read_json("manifest.json"):
            was = before.pop("status", "sampled")
            status = status or ("sampled" if was in ("complete", "incomplete", "reporting") else was)
            self.write_json("manifest.json", before | parts | {"status": status})

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


def sha256_of(records: Iterable[Problem | Score]) -> str:
    """The sha256 of records as their file has them."""
    return hashlib.sha256(_text(records).encode()).hexdigest()


def without_check(line: str, run_id: str) -> str:
    """A journal's row without its check, a hash of the row and of the run's id. ValueError where they do not agree.

    Rows of version 0.1.0 and of other tools have no check and are taken as they are; where ``run_id`` is empty, the
    rows are no run's and nothing is compared.
    """
    head, mark, check = line.rstrip().rpartition(_CHECK)
    row = head + "}" if mark else line
    if mark and run_id and check != _check(row, run_id) + '"}':
        raise ValueError("the row was changed after it was written, or is another run's")
    return row


def _checked_line(sample: Sample, run_id: str) -> str:
    row = json.dumps(to_row(sample))
    return f'{row[:-1]}{_CHECK}{_check(row, run_id)}"}}\n'


def _check(row: str, run_id: str) -> str:
    return hashlib.blake2b(row.encode(), key=run_id.encode()[-64:], digest_size=4).hexdigest()


def _readable(sample: Sample) -> Sample:
    try:
        return from_row(Sample, to_row(sample))
    except ValueError as error:
        whose = Sample(str(sample.problem_id), int(sample.sample_index), None)
        return replace(whose, error=f"what came cannot be stored: {error}")


def _seal(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _text(records: Iterable[Problem | Score]) -> str:
    return "".join(json.dumps(to_row(record)) + "\n" for record in records)


def _lines(file: Path) -> Iterator[str]:
    if file.exists():
        with file.open(encoding="utf-8", errors="replace", newline="\n") as stream:
            yield from stream
