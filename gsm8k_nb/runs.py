"""The run folder: everything that one run leaves, and the only place where its files are written.

``samples.jsonl`` is a journal: rows are only ever added, a batch at a time, each with a check that it is whole and this
run's. Everything else can be made again from it and is replaced in one step, so that a reader never meets half a file.
The JSON files carry their own sha256: an edited one is refused.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from gsm8k_nb import records
from gsm8k_nb.config import NOT_GENERATION, PLACES, RunConfig
from gsm8k_nb.places import write_atomically
from gsm8k_nb.records import Problem, Record, Sample, Score
from gsm8k_nb.texts import one_line

SEALED = {"config.json", "manifest.json", "metrics.json"}  # these end with the sha256 of the rest


class RunError(RuntimeError):
    """A run folder cannot be used: the message names the file and what to do."""


class Inputs(BaseModel):
    """What samples depend on besides the parameters, as ``config.json`` has it; None is not known. An importer adds."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    data_sha256: str | None = None
    data_label: str | None = None
    data_source: str | None = None
    data_verified: bool | None = None
    data_problems: int | None = None
    problems_sha256: str | None = None  # of problems.jsonl: those of the data that this run uses
    prompt_sha256: str | None = None
    prompt_text: str | None = None  # of a prompt file of one's own
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
        return self.model_copy(update=later.known())

    def changes(self, later: "Inputs") -> list[str]:
        """Names of what both know and do not agree on: of what is replayed, only what can change a completion."""
        free = {"data_label", "data_source", "problems_sha256"}
        decides = set(RunConfig.model_fields) - NOT_GENERATION - PLACES
        mine, theirs = self.known(), later.known()
        for facts in (mine, theirs):
            if replayed := facts.get("replay_config"):
                facts["replay_config"] = {name: replayed.get(name) for name in decides}
        return sorted(name for name in mine.keys() & theirs.keys() - free if mine[name] != theirs[name])


@dataclass(frozen=True)
class Journal:
    """The samples of a run as read: one a (problem, sample index), the last row where there are several."""

    samples: dict[tuple[str, int], Sample]
    damaged: int  # rows that could not be read or were changed, counted and passed over

    @property
    def completed(self) -> int:
        return sum(sample.error is None for sample in self.samples.values())


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
        stored = self.read_json("config.json").get("inputs") or {}
        if "data_sha256" not in stored:
            raise RunError(f"{self.folder.name} has no config.json: run 01_load first, with the same parameters")
        return Inputs(**stored)

    def check(self, config: RunConfig, inputs: Inputs) -> None:
        """RunError where the folder belongs to a run with other parameters or inputs: no sample could be compared."""
        name, before = self.folder.name, self.read_json("config.json")
        if not before and self.samples_file.exists():
            fault = f"{name} has samples but no config.json that says how they were made"
            raise RunError(f"{fault}; put it back, or move the folder away")
        free = NOT_GENERATION | PLACES | {"model"}  # a model's name, but for its spelling, names the folder
        free |= {"prompt"} if config.form.text else set()  # its text counts, wherever it lies
        values = config.model_dump(exclude=free) if before else {}
        known = Inputs(**before.get("inputs") or {})
        changed = [field for field, value in values.items() if before.get(field) != value] + known.changes(inputs)
        way_out = "choose another outputs_dir, or remove that folder"
        if changed == ["model_fingerprint"]:
            was, now = known.model_fingerprint or {}, inputs.model_fingerprint or {}
            parts = " and ".join(sorted(part for part in was | now if was.get(part) != now.get(part)))
            made = f"model: {config.model} is not the model that made the samples of {name}"
            raise RunError(f"{made}: its {parts} changed since; {way_out}")
        if changed:
            raise RunError(f"{name} holds a run with another {' and '.join(changed)}; {way_out}")

    def start(self, config: RunConfig, inputs: Inputs, problems: Sequence[Problem] | None = None) -> None:
        """Create the folder, and record the configuration, inputs and problems. RunError as ``check`` raises it."""
        self._make_folder()
        self.check(config, inputs)
        before = self.read_json("config.json")
        if problems is not None:
            inputs = inputs.joined(Inputs(problems_sha256=sha256_of(problems)))
            self.write_records("problems.jsonl", problems)
        known = Inputs(**before.get("inputs") or {}).joined(inputs).known()
        run_id = before.get("run_id", config.run_id)  # version 0.1.0 made other ids of some parameters
        self.write_json("config.json", config.model_dump() | {"run_id": run_id, "inputs": known})

    def check_scored(self) -> None:
        """RunError where ``metrics.json`` was not made from the problems and scores there, or samples came since."""
        made_from = self.read_json("metrics.json").get("made_from")  # version 0.1.0 does not say
        there = {f"{name}_sha256": sha256_of(self.folder / f"{name}.jsonl") for name in ("problems", "scores")}
        stale = made_from and made_from != self.read_json("manifest.json").get("scored")
        if stale or (made_from and not there.items() <= made_from.items()):
            fault = f"{self.folder.name}/metrics.json was made from other samples or scores than lie there"
            raise RunError(f"{fault}: run 03_score and 04_report again")

    def check_problems(self, problems: Sequence[Problem]) -> None:
        """RunError where these are not the problems that ``start`` stored."""
        if self.inputs().problems_sha256 not in (None, sha256_of(problems)):
            fault = f"{self.folder.name}/problems.jsonl does not hold the problems that 01_load put there"
            raise RunError(f"{fault}: run 01_load and the steps after it again")

    def _make_folder(self) -> None:
        """Create the folder and test that it can be written, before anything is asked of a model."""
        try:
            write_atomically(self.folder / ".write-test", "x").unlink()
        except OSError as error:
            where = f"outputs_dir: cannot write to {self.folder}: {error.strerror}"
            raise RunError(f"{where}; choose another outputs_dir") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to add samples: one writer at a time. RunError at once where another process has it."""
        self._make_folder()
        if self.samples_file.is_symlink():
            raise RunError(f"{self.samples_file} is a link, and rows are never added to another folder's file: copy it")
        try:
            with FileLock(self.folder / ".lock").acquire(timeout=0):
                self._set_torn_line_aside()
                yield
        except Timeout:
            raise RunError(f"{self.folder.name} is being written by another process; wait for it or stop it") from None

    def append(self, samples: Iterable[Sample]) -> None:
        """Add a batch of samples to the journal; it is on disk when this returns.

        A sample that could not be read again is stored as a failed one. RunError where nothing can be written, on a
        full disk say: the journal then ends with the batch before.
        """
        run_id = self._run_id()
        rows = "".join(records.journal_row(sample, run_id) for sample in samples).encode()
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
        damaged, run_id = 0, self._run_id()
        for line in filter(str.strip, _lines(self.samples_file)):
            try:
                sample = records.from_row(Sample, records.parse_json(records.without_check(line, run_id)))
            except ValueError:
                damaged += 1
                continue
            key = (sample.problem_id, sample.sample_index)
            if sample.error is None or key not in samples:  # a later failure never hides a completion
                samples[key] = sample
        return Journal(samples, damaged)

    def _run_id(self) -> str:
        return str(self.read_json("config.json").get("run_id", ""))

    def write_records(self, name: str, content: Iterable[Problem | Score]) -> Path:
        """A whole file of records, replaced in one step."""
        return self.write_text(name, records.as_lines(content))

    def read_records(self, name: str, kind: type[Record]) -> list[Record]:
        """The records of a file of ``write_records``. RunError where it is missing (names its step) or damaged."""
        if not (self.folder / name).exists():
            step = {"problems.jsonl": "01_load", "scores.jsonl": "03_score"}.get(name, "02_sample")
            raise RunError(f"{self.folder.name} has no {name} yet: run {step} first, with the same parameters")
        try:
            return list(records.parse_records(kind, _lines(self.folder / name)))
        except ValueError as error:
            fault = f"{self.folder.name}/{name} is damaged ({one_line(error, 200)})"
            raise RunError(f"{fault}: run the step that writes it again") from None

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
            value = records.parse_json(file.read_text(encoding="utf-8"))
            if not isinstance(value, dict):
                raise ValueError(f"it must be a JSON object, got {type(value).__name__}")
            if name in SEALED and value.pop("sha256", None) not in (None, _seal(value)):
                raise ValueError("it was changed after it was written")
        except (ValueError, OSError) as error:
            fault = f"{self.folder.name}/{name} is damaged ({one_line(error, 200)})"
            raise RunError(f"{fault}: put it right, or move it away") from None
        return value

    def update_manifest(self, status: str | None = None, **parts: Any) -> None:
        """Set parts of ``manifest.json``, and the status last. Nothing is written where nothing was sampled yet.

        Without a ``status``, a finished run is a sampled one again: its tables and figures are of what was before.
        """
        if before := self.read_json("manifest.json"):
            was = before.pop("status", "sampled")
            status = status or ("sampled" if was in ("complete", "incomplete", "reporting") else was)
            self.write_json("manifest.json", before | parts | {"status": status})

    def write_text(self, name: str, content: str | bytes) -> Path:
        """A whole file of the run, see ``write_atomically``. RunError where it cannot be written."""
        if "/" in name and (folder := (self.folder / name).parent).is_symlink():
            raise RunError(f"{folder} is a link, and nothing is written into another folder: remove the link")
        try:
            return write_atomically(self.folder / name, content)
        except OSError as error:
            raise self._unwritable(error) from error

    write_bytes = write_text

    def _unwritable(self, error: OSError) -> RunError:
        fault = f"cannot write to {self.folder}: {error.strerror}"
        return RunError(f"{fault}. What was sampled before is safe; make room there and run the same again")

    def _set_torn_line_aside(self) -> None:
        """Where a crash left half a line, move it to ``samples.torn``, so that the next row starts on its own line."""
        with _reading(self.samples_file):
            raw = self.samples_file.read_bytes() if self.samples_file.exists() else b""
        whole = raw.rfind(b"\n") + 1
        if whole < len(raw):
            with (self.folder / "samples.torn").open("ab") as torn:
                torn.write(raw[whole:] + b"\n")
            os.truncate(self.samples_file, whole)


def sha256_of(content: Path | Iterable[Problem | Score]) -> str:
    """The sha256 of a file, empty where there is none, or of records as their file has them."""
    if isinstance(content, Path):
        with _reading(content):
            return hashlib.sha256(content.read_bytes()).hexdigest() if content.exists() else ""
    return hashlib.sha256(records.as_lines(content).encode()).hexdigest()


def _seal(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _lines(file: Path) -> Iterator[str]:
    if file.exists():
        with _reading(file), file.open(encoding="utf-8", errors="replace", newline="\n") as stream:
            yield from stream


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{file.parent.name}/{file.name} cannot be read: {error.strerror}") from error
