"""Many parameter files in one go: each through ``eval.ipynb``, then ``compare.ipynb`` over those that succeeded.

    python -m gsm8k_nb sweep params/llama.yaml params/qwen.yaml --set n_samples=8 --set temperature=0.7 --set limit=50

Nothing is run before every file has passed ``RunConfig``. A run that fails is reported and the others go on.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import papermill
from tabulate import tabulate

from gsm8k_nb.config import ConfigError, RunConfig, read_parameters
from gsm8k_nb.places import repository_root
from gsm8k_nb.plain_yaml import PlainYamlError, read_yaml
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import one_line

SHOWN = 300  # characters of an error in the table


@dataclass(frozen=True)
class Job:
    """One run of the sweep: the file it is from, its parameters as written and as checked, and its notebook's place."""

    file: str
    values: dict[str, Any]
    config: RunConfig
    notebook: Path


class Outcome(NamedTuple):
    """How a run ended: whether well, and its headline or the reason why not, in one line."""

    well: bool
    text: str


def sweep(
    files: Sequence[str],
    settings: Sequence[str] = (),
    out_dir: str = "outputs/sweep",
    allow_unlike: bool = False,
    ray: bool = False,
    ray_address: str | None = None,
    cpus: float = 1,
    gpus: float | None = None,
) -> int:
    """Run a sweep. 0 where all went well, 1 where a run or the comparison failed. ConfigError: nothing was run."""
    folder = repository_root() / Path(out_dir).expanduser()
    jobs = plan(files, settings, folder)
    one_by_one = ((place, run(job)) for place, job in enumerate(jobs))
    ended = on_ray(jobs, ray_address, cpus, gpus) if ray else one_by_one
    outcomes = [Outcome(False, "failed: not run: interrupted") for _ in jobs]
    compared = Outcome(True, "")
    try:
        for done, (place, outcome) in enumerate(ended, start=1):
            outcomes[place] = outcome
            print(f"[{done}/{len(jobs)}] {jobs[place].file}: {outcome.text}", flush=True)
        scored = [job for job, outcome in zip(jobs, outcomes, strict=True) if outcome.well]
        if len(scored) > 1:
            compared = compare(scored, folder, allow_unlike)
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on where it was", file=sys.stderr)
    print(f"\n{table(jobs, outcomes)}" + (f"\n\ncompared: {compared.text}" if compared.text else ""))
    return int(not all(outcome.well for outcome in [*outcomes, compared]))


def plan(files: Sequence[str], settings: Sequence[str], folder: Path) -> list[Job]:
    """A job for each file, all checked; ConfigError with every fault of every file, a line each."""
    changed = overrides(settings)
    jobs: list[Job] = []
    faults: list[str] = []
    for file in files:
        try:
            values = read_parameters(file) | changed
            config = RunConfig.checked(values)
        except ConfigError as error:
            faults += [f"{file}: {line}" for line in str(error).splitlines()]
            continue
        same = [job.file for job in jobs if job.config.run_folder == config.run_folder]
        faults += [f"{file}: the same run as {other} ({config.run_id}); leave one out" for other in same]
        stem = Path(file).stem
        if stem in {job.notebook.stem for job in jobs} | {"compare"}:
            stem = f"{stem}-{config.run_id[-8:]}"
        jobs.append(Job(file, values, config, folder / f"{stem}.ipynb"))
    if faults:
        raise ConfigError("\n".join(faults))
    return jobs


def overrides(settings: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` texts as parameters, values read as YAML. ConfigError where a name is no parameter."""
    values: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: must be NAME=VALUE, as in --set limit=50")
        try:
            values[name] = read_yaml(value)
        except PlainYamlError as error:
            raise ConfigError(f"--set {text}: {value!r} is no YAML value ({error}); quote it") from None
        if name not in RunConfig.model_fields:
            RunConfig.checked({name: values[name]})  # says which name is near
    return values


def on_ray(jobs: Sequence[Job], address: str | None, cpus: float, gpus: float | None) -> Iterator[tuple[int, Outcome]]:
    """Run the jobs as Ray tasks, as many at a time as there are cores and GPUs; outcomes as they end.

    ``gpus`` None gives a job the GPUs of its ``tensor_parallel`` where it runs a model here and Ray has any.
    """
    if own := [job.file for job in jobs if job.config.sampler == "ray"]:
        raise ConfigError(f"{own[0]}: sampler 'ray' has workers of its own; run it without --ray")
    from gsm8k_nb.samplers.ray import RayError, connect, ray

    started = connect(address)
    there = ray.cluster_resources().get("GPU", 0)
    task: Any = ray.remote(max_retries=0)(run)
    waiting = {}
    try:
        for place, job in enumerate(jobs):
            local = job.config.sampler in ("transformers", "vllm") and job.config.device != "cpu"
            share = (job.config.tensor_parallel if there and local else 0) if gpus is None else gpus
            waiting[task.options(num_cpus=cpus, num_gpus=share).remote(job, os.getcwd())] = place
        while waiting:
            [ready], _ = ray.wait(list(waiting), num_returns=1)
            try:
                outcome = ray.get(ready)
            except RayError as error:  # its process or node is gone
                outcome = Outcome(False, f"failed: {type(error).__name__}: {one_line(error, SHOWN)}")
            yield waiting.pop(ready), outcome
    finally:
        if started:
            ray.shutdown()


def run(job: Job, cwd: str | None = None) -> Outcome:
    """One job through ``eval.ipynb``. Its notebook stays, also where it failed."""
    error = execute("eval", job.notebook, job.values, cwd)
    metrics = {} if error else Run(job.config.run_folder).read_json("metrics.json")
    if not metrics:
        return Outcome(False, f"failed: {error or 'no metrics.json: nothing was scored'}")
    failed = metrics["health"]["failed"]
    return Outcome(True, metrics["headline"] + (f" ({failed} requests failed: run it again)" if failed else ""))


def compare(jobs: Sequence[Job], folder: Path, allow_unlike: bool) -> Outcome:
    """``compare.ipynb`` over the runs of these jobs, into ``folder/compared``."""
    out = folder / "compared"
    runs = [str(job.config.run_folder) for job in jobs]
    values = {"runs": runs, "allow_unlike": allow_unlike, "out_dir": str(out)}
    error = execute("compare", folder / "compare.ipynb", values)
    return Outcome(not error, f"failed: {error}" if error else _shown(out / "conclusions.md"))


def execute(name: str, notebook: Path, values: dict[str, Any], cwd: str | None = None) -> str | None:
    """Run a notebook by papermill, in a kernel of its own. None, or what went wrong, in one line."""
    notebook.parent.mkdir(parents=True, exist_ok=True)
    notebook.unlink(missing_ok=True)
    book = repository_root() / "notebooks" / f"{name}.ipynb"
    paths = [str(path).replace("{", "{{").replace("}", "}}") for path in (book, notebook)]  # papermill fills in braces
    options = {"kernel_name": "python3", "progress_bar": False, "start_timeout": 600, "cwd": cwd}
    try:
        papermill.execute_notebook(*paths, parameters=values, **options)
    except Exception as error:  # of a cell, of which papermill keeps the kernel's own words, or of papermill
        kind, message = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", error)
        return one_line(f"{kind}: {message}", SHOWN)
    return None


def table(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> str:
    """File, folder (of a failed run, its notebook), and headline or error, in aligned columns of plain text."""
    rows = [
        (job.file, _shown(job.config.run_folder if outcome.well else job.notebook), outcome.text)
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    return tabulate(rows, ("file", "folder", "result"), tablefmt="plain", disable_numparse=True)


def _shown(path: Path) -> str:
    root = repository_root()
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
