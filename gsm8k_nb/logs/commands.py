"""The commands ``import`` and ``export``: their options, and what they print."""

import argparse
import shlex
from collections import Counter
from importlib import resources

from jinja2 import Template

from gsm8k_nb.logs.exporting import RELATIONSHIPS, export_run
from gsm8k_nb.logs.files import KNOWN
from gsm8k_nb.logs.importing import Imported, import_log
from gsm8k_nb.logs.reading import COLUMNS


def add_import(parser: argparse.ArgumentParser) -> None:
    """The options of ``import``; ``parser.parse_args(...).run`` is the function that does it."""
    parser.set_defaults(run=_import)
    parser.description = f"Reads {KNOWN}."
    parser.add_argument("files", nargs="+", metavar="FILE", help="logs, each into a run folder of its own")
    parser.add_argument("--dataset", default="gsm8k", choices=("gsm8k", "classroom"), help="what the log is of")
    parser.add_argument("--dataset-config", default="main", choices=("main", "socratic"))
    parser.add_argument("--data-path", metavar="JSONL", help="a copy of the official file, instead of the hub")
    parser.add_argument("--protocol-label", metavar="TEXT", help="the protocol, where the log does not state it")
    parser.add_argument("--model", metavar="NAME", help="the model, where the log does not state it")
    parser.add_argument("--outputs-dir", default="outputs", metavar="FOLDER", help="where run folders go")
    parser.add_argument("--column", metavar="NAME", help="released solutions: the system to import")
    parser.add_argument("--results", metavar="FILE", help="the log's results file, where it does not lie beside it")
    for name in COLUMNS:
        helped = f"rows of no known tool: the column that holds the {name.replace('_', ' ')}, as in output.*.text"
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="COLUMN", help=helped)


def add_export(parser: argparse.ArgumentParser) -> None:
    """The options of ``export``; ``parser.parse_args(...).run`` is the function that does it."""
    parser.set_defaults(run=_export)
    parser.add_argument("folders", nargs="+", metavar="RUN_FOLDER")
    parser.add_argument("--organisation", required=True, metavar="NAME", help="who made the run")
    parser.add_argument("--relationship", default="other", choices=RELATIONSHIPS, help="theirs to the model")
    parser.add_argument("--model-id", metavar="ORGANISATION/NAME", help="where the model's name is not of that form")
    parser.add_argument("--rules", nargs="+", default=[], metavar="RULE", help="else the headline's, strict, flexible")
    parser.add_argument("--output", default=".", metavar="FOLDER", help="the records go into its folder data/")


def _import(options: argparse.Namespace) -> None:
    parameters = {name: value for name, value in vars(options).items() if name not in ("files", "run", *COLUMNS)}
    for file in options.files:
        done = import_log(file, columns={name: getattr(options, name) for name in COLUMNS}, **parameters)
        print(report(done))


def report(done: Imported) -> str:
    """What an import found, what of it needs a look, and the command that opens it in the notebook."""
    text = resources.files("gsm8k_nb").joinpath("assets", "imported.txt.jinja").read_text(encoding="utf-8")
    run, config = done.results.run, done.results.config
    command = ["papermill", "notebooks/eval.ipynb", "out.ipynb", "-p", "sampler", "replay", "-p", "prompt", "as_stored"]
    command += ["-r", "replay_path", str(run.folder), "-r", "model", config.model]
    for name in ("dataset", "dataset_config", "data_path", "n_samples"):  # the problems are those of the folder
        if (value := getattr(config, name)) != type(config).model_fields[name].default:
            command += ["-r" if name == "data_path" else "-p", name, str(value)]
    return Template(text).render(
        done=done,
        folder=run.folder,
        n=len(done.results.problems),
        failed=Counter(sample.error for sample in run.journal().samples.values() if sample.error),
        apart=[verdict for verdict in done.verdicts if verdict.correct != verdict.ours],
        next=shlex.join(command),
    )


def _export(options: argparse.Namespace) -> None:
    parameters = {name: value for name, value in vars(options).items() if name not in ("folders", "run")}
    for folder in options.folders:
        done = export_run(folder, **parameters)
        print(f"{done.results}\n{done.samples} ({done.rows} rows)")
