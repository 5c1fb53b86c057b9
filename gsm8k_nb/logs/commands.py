"""The commands ``import`` and ``export``: their options, and what they print."""

import argparse
import shlex
from collections import Counter

from gsm8k_nb.logs.exporting import RELATIONSHIPS, export_run
from gsm8k_nb.logs.files import KNOWN
from gsm8k_nb.logs.importing import Imported, import_log
from gsm8k_nb.logs.reading import COLUMNS

_SHOWN = 5  # disagreements, and reasons of failed samples


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
        print("\n".join(report(done)))


def report(done: Imported) -> list[str]:
    """What an import found, what of it needs a look, and the command that opens it in the notebook."""
    results, folder, aligned = done.results, done.results.run.folder, done.aligned
    failed = Counter(sample.error for sample in results.run.journal().samples.values() if sample.error)
    reasons = f" ({', '.join(f'{n} x {error}' for error, n in failed.most_common(_SHOWN))})" if failed else ""
    n, each = len(results.problems), results.config.n_samples
    lost, within = len(aligned.unaligned), f"{aligned.within} matched within a longer text"
    where = f" (listed with reasons in {folder / 'unaligned.jsonl'})" if lost else ""
    lines = [
        f"{folder}",
        f"  {results.headline}",
        f"  {n} problems, {each} samples each, {failed.total()} samples failed or lacking{reasons}",
        f"  {lost} completions without a problem{where}, {within}",
    ]
    if aligned.unchecked:
        lines.append(
            f"  {aligned.unchecked} completions placed by row alone: no question or gold answer to check it by"
        )
    if done.log.n_problems not in (None, n):
        lines.append(f"  the log says that it has {done.log.n_problems} problems, the file has {n}")
    if done.other_gold:
        lines.append(f"  {len(done.other_gold)} problems have another gold answer in the log, ours scores (listed in "
                     f"{folder / 'other_gold.jsonl'})")  # fmt: skip
    for scorer, agreement in done.agreement.items():
        rule = f"rule {agreement.rule}" if agreement.exact else f"no rule here repeats it; {agreement.rule}"
        lines.append(f"  verdicts of {scorer}: {rule} agrees on {agreement.alike} of {agreement.of}")
    apart = [verdict for verdict in done.verdicts if verdict.correct != verdict.ours]
    for verdict in apart[:_SHOWN]:
        sample = "vote" if verdict.sample_index is None else f"sample {verdict.sample_index}"
        sides = "right there, wrong here" if verdict.correct else "wrong there, right here"
        lines.append(f"    {verdict.problem_id}, {sample}, {verdict.scorer}: {sides}")
    if len(apart) > _SHOWN:
        lines.append(f"    and {len(apart) - _SHOWN} more in {folder / 'source_verdicts.jsonl'}")
    return [*lines, f"  next: {shlex.join(_replay(done))}"]


def _replay(done: Imported) -> list[str]:
    config = done.results.config
    words = ["papermill", "notebooks/eval.ipynb", "out.ipynb", "-p", "sampler", "replay", "-p", "prompt", "as_stored"]
    words += ["-r", "replay_path", str(done.results.run.folder), "-r", "model", config.model]
    for name in ("dataset", "dataset_config", "data_path", "n_samples"):  # the problems are those of the folder
        value = getattr(config, name)
        if value != type(config).model_fields[name].default:
            words += ["-r" if name == "data_path" else "-p", name, str(value)]
    return words


def _export(options: argparse.Namespace) -> None:
    parameters = {name: value for name, value in vars(options).items() if name not in ("folders", "run")}
    for folder in options.folders:
        done = export_run(folder, **parameters)
        print(f"{done.results}\n{done.samples} ({done.rows} rows)")
