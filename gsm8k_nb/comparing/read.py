"""Finished runs as systems of a comparison: which runs, what each is called, what they share and where they differ."""

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gsm8k_nb.config import ConfigError, RunConfig, read_parameters, short_name
from gsm8k_nb.places import repository_root
from gsm8k_nb.records import Problem, Score
from gsm8k_nb.runs import Run
from gsm8k_nb.summary import Metrics

FINISHED = ("config.json", "problems.jsonl", "scores.jsonl", "metrics.json")
DATA_FIELDS = ("name", "config", "split", "sha256")
DERIVED = {"label"}  # of the protocol: made from its other fields, so a difference there is named already


class ComparisonError(ValueError):
    """These runs cannot be compared as asked. The message names the fields or files and what to do."""


@dataclass(frozen=True)
class System:
    """One finished run. Its arrays are ``(problems, samples)``, their rows in the order of ``problems``."""

    name: str
    run: Run
    model: str
    metrics: Metrics
    rule: str
    problems: tuple[Problem, ...]
    verdicts: np.ndarray  # 1 right, 0 wrong, nan for a failed request
    predicted: np.ndarray  # what the rule read, as Decimal or None

    def on(self, ids: Sequence[str]) -> "System":
        """The same run on these problems alone, in this order."""
        rows = {problem.id: row for row, problem in enumerate(self.problems)}
        chosen = [rows[name] for name in ids]
        problems = tuple(self.problems[row] for row in chosen)
        return replace(self, problems=problems, verdicts=self.verdicts[chosen], predicted=self.predicted[chosen])


def find_runs(text: str) -> tuple[list[Path], list[str]]:
    """The run folders that ``text`` names, in its order, each once; and the unfinished runs that a glob met.

    Names are apart by commas or blanks, and looked for from the working folder, then from the repository. A parameter
    file (``.yaml``) stands for its run, a folder of runs for all in it. What is named outright must be finished:
    ComparisonError if not.
    """
    folders, passed_over = [], []
    for name in _listed(text):
        paths, outright = _matches(name)
        for path in paths:
            by_parameters = path.suffix in (".yaml", ".yml")
            try:
                folder = RunConfig.checked(read_parameters(path)).run_folder if by_parameters else path
            except ConfigError as error:
                raise ComparisonError(f"runs: {path}: {error}") from None
            lacking = [file for file in FINISHED if not (folder / file).exists()]
            if not lacking:
                folders.append(folder.resolve())
            elif outright or by_parameters:
                raise ComparisonError(f"runs: {name!r}: no finished run in {folder}; {' and '.join(lacking)} lacking")
            elif "config.json" not in lacking:
                passed_over.append(folder.name)
    return list(dict.fromkeys(folders)), passed_over


def _listed(text: str) -> list[str]:
    """Names apart by commas or blanks; in a text of several lines, or that is a path as a whole, names have blanks."""
    if "\n" in text:
        return [name for name in text.split("\n") if name.strip()]
    whole = any(os.path.exists(base / text) for base in (Path.cwd(), repository_root()))
    return [text] if whole else [name for name in re.split(r"[,\s]+", text) if name]


def _matches(name: str) -> tuple[list[Path], bool]:
    """The paths that a name or glob matches, and whether it names one run outright."""
    for base in (Path.cwd(), repository_root()):
        place = str(base / os.path.expanduser(name))
        paths = [Path(path) for path in ([place] if os.path.exists(place) else sorted(glob.glob(place)))]
        if len(paths) == 1 and paths[0].is_dir() and not (paths[0] / "config.json").exists():
            return sorted(paths[0].iterdir()), False
        if paths:
            return paths, not glob.has_magic(name) or os.path.exists(place)
    raise ComparisonError(f"runs: no such file or folder: {name!r}")


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: its label or its model's, with the protocol and then its hash where that is not enough."""
    configs = [run.read_json("config.json") for run in runs]
    labels = [run.read_json("metrics.json")["protocol"]["label"] for run in runs]
    names = [config.get("label") or short_name(config["model"]) for config in configs]
    for extra in (labels, [run.folder.name[-8:] for run in runs], list(map(str, range(len(runs))))):
        twice = {name for name in names if names.count(name) > 1}
        names = [f"{name} ({more})" if name in twice else name for name, more in zip(names, extra, strict=True)]
    return names


def read(run: Run, name: str, rule: str) -> System:
    """A finished run on all its problems, its answers read by ``rule`` (``auto``: its headline's).

    RunError or ComparisonError where its scores are not those that its metrics were made from.
    """
    run.check_scored()
    metrics = Metrics(**run.read_json("metrics.json"))
    used = metrics.protocol.headline_rule if rule == "auto" else rule
    if used not in metrics.rules:
        known = ", ".join(metrics.rules)
        raise ComparisonError(f"rule: {used!r} was not scored in {run.folder.name}; scored there: {known}")
    problems = tuple(run.read_records("problems.jsonl", Problem))
    rows = {problem.id: row for row, problem in enumerate(problems)}
    shape = (len(problems), metrics.protocol.n_samples)
    verdicts, predicted = np.full(shape, np.nan), np.full(shape, None, dtype=object)
    for score in run.read_records("scores.jsonl", Score):
        if score.rule == used and score.problem_id in rows and score.sample_index < shape[1]:
            place = rows[score.problem_id], score.sample_index
            verdicts[place] = np.nan if score.correct is None else score.correct
            predicted[place] = score.predicted
    scored = verdicts[~np.isnan(verdicts).any(axis=1)]
    # Of a run of version 0.1.0, which kept no hashes, the counts are all that can be compared.
    if (scored.size, scored.sum()) != (metrics.rules[used].n, metrics.rules[used].correct):
        raise ComparisonError(
            f"runs: {run.folder.name}: scores.jsonl and metrics.json do not belong together: run 03_score and then "
            "04_report again"
        )
    return System(name, run, run.read_json("config.json")["model"], metrics, used, problems, verdicts, predicted)


def fields(systems: Sequence[System]) -> dict[str, list[Any]]:
    """Every field of data and protocol with its value in each system, in their order; None where it is not stated."""
    facts = [
        {f"dataset {name}": system.metrics.dataset[name] for name in DATA_FIELDS} | system.metrics.protocol.model_dump()
        for system in systems
    ]
    return {name: [values.get(name) for values in facts] for name in dict.fromkeys(name for of in facts for name in of)}


def unlike_fields(systems: Sequence[System], by_rule: bool = True) -> dict[str, list[str]]:
    """The fields that are not the same in all systems, each with its value in every one.

    ``by_rule`` False leaves out the headline's rule, where one rule was named for all.
    """
    skipped = DERIVED if by_rule else DERIVED | {"headline_rule"}
    return {
        name: [stated(value) for value in values]
        for name, values in fields(systems).items()
        if name not in skipped and any(value != values[0] for value in values)
    }


def stated(value: Any) -> str:
    """A field's value as a message or table shows it; a sha256 by its first digits."""
    text = "not stated" if value is None else str(value) if isinstance(value, int | float | bool) else repr(value)
    return f"{text[:13]}...'" if re.fullmatch(r"'[0-9a-f]{64}'", text) else text


def holders(values: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Who has each value of a field, in the order of the values."""
    return pd.Series(names).groupby(list(values), sort=False).agg(list).to_dict()


def align(systems: Sequence[System]) -> tuple[list[str], dict[str, list[str]]]:
    """Ids of the problems that all runs scored in full, in the first run's order; and those left out, by the reason."""
    rows = {
        system.name: {p.id: (p, np.isnan(row).any()) for p, row in zip(system.problems, system.verdicts, strict=True)}
        for system in systems
    }
    common, left_out = [], dict[str, list[str]]()
    for name in dict.fromkeys(name for of_run in rows.values() for name in of_run):
        held = {who: of_run[name] for who, of_run in rows.items() if name in of_run}
        failed = [who for who, (_, unscored) in held.items() if unscored]
        if len(held) < len(rows):
            reason = f"not in {' and '.join(who for who in rows if who not in held)}"
        elif len({(problem.question, problem.answer) for problem, _ in held.values()}) > 1:
            reason = "another question or gold answer under the same id"
        elif failed:
            reason = f"a failed request in {' and '.join(failed)}"
        else:
            common.append(name)
            continue
        left_out.setdefault(reason, []).append(name)
    return common, left_out
