"""The command line: ``python -m gsm8k_nb.logs import FILE ...`` and ``... export RUN_FOLDER ...``."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from gsm8k_nb.config import ConfigError
from gsm8k_nb.data import DataError
from gsm8k_nb.logs.exporting import RELATIONSHIPS, export_run
from gsm8k_nb.logs.importing import Imported, import_log
from gsm8k_nb.logs.log import KNOWN, LogError
from gsm8k_nb.logs.reading import Columns
from gsm8k_nb.runs import RunError

_COLUMNS = tuple(field.name.replace("_", "-") for field in fields(Columns))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 where it worked. A fault of the input is one line on standard error, and 1."""
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except (LogError, DataError, ConfigError, RunError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gsm8k_nb.logs", description="logs in, records out")
    commands = parser.add_subparsers(required=True, metavar="import | export")
    into = commands.add_parser("import", help="a run folder from another tool's log", description=f"Reads {KNOWN}.")
    into.set_defaults(run=_import)
    into.add_argument("files", nargs="+", metavar="FILE", help="logs, each into a run folder of its own")
    into.add_argument("--dataset", default="gsm8k", choices=("gsm8k", "classroom"), help="what the log is of")
    into.add_argument("--dataset-config", default="main", choices=("main", "socratic"))
    into.add_argument("--data-path", metavar="JSONL", help="a copy of the official file, instead of the hub")
    into.add_argument("--protocol-label", metavar="TEXT", help="the protocol, where the log does not state it")
    into.add_argument("--model", metavar="NAME", help="the model, where the log does not state it")
    into.add_argument("--outputs-dir", default="outputs", metavar="FOLDER", help="where run folders go")
    into.add_argument("--column", metavar="NAME", help="released solutions: the system to import")
    into.add_argument("--results", metavar="FILE", help="the log's results file, where it does not lie beside it")
    for name in _COLUMNS:
        into.add_argument(f"--{name}", metavar="COLUMN", help="rows of no known tool: the column that holds it")
    out = commands.add_parser("export", help="every-eval-ever records from a scored run")
    out.set_defaults(run=_export)
    out.add_argument("folders", nargs="+", metavar="RUN_FOLDER")
    out.add_argument("--organisation", required=True, metavar="NAME", help="who made the run")
    out.add_argument("--relationship", default="other", choices=RELATIONSHIPS, help="theirs to the model")
    out.add_argument("--model-id", metavar="ORGANISATION/NAME", help="where the run's model name is not of that form")
    out.add_argument(
        "--rules", nargs="+", default=[], metavar="RULE", help="the headline's, strict and flexible unless named"
    )
    out.add_argument("--output", default=".", metavar="FOLDER", help="the records go into its folder data/")
    return parser


def _import(given: argparse.Namespace) -> None:
    for file in given.files:
        done = import_log(
            file,
            dataset=given.dataset,
            dataset_config=given.dataset_config,
            data_path=given.data_path,
            protocol_label=given.protocol_label,
            model=given.model,
            column=given.column,
            columns=Columns(**{field.name: getattr(given, field.name) for field in fields(Columns)}),
            results=given.results,
            outputs_dir=given.outputs_dir,
        )
        print("\n".join(_said(done)))


def _said(done: Imported) -> list[str]:
    """What an import found, what of it needs a look, and the command that opens it in the notebook."""
    folder = done.run.folder
    counts = f"{done.problems} problems, {done.samples_each} samples each, {done.failed} samples failed or lacking"
    if done.failed:
        errors = Counter(sample.error for sample in done.run.journal().samples.values() if sample.error)
        counts += f" ({', '.join(f'{n} x {error}' for error, n in errors.most_common(5))})"
    where = f" (listed with reasons in {folder / 'unaligned.jsonl'})" if done.unaligned else ""
    lines = [f"{folder}", f"  {done.headline}", f"  {counts}"]
    lines.append(f"  {done.unaligned} completions without a problem{where}, {done.within} matched within a longer text")
    if done.unchecked:
        lines.append(
            f"  {done.unchecked} completions placed by their row number alone: no question or gold to check it"
        )
    if done.stated not in (None, done.problems):
        lines.append(f"  the log says that it has {done.stated} problems, the file has {done.problems}")
    if done.other_gold:
        listed = folder / "other_gold.jsonl"
        lines.append(
            f"  {done.other_gold} problems have another gold answer in the log (listed in {listed}); ours scores"
        )
    for scorer, found in done.agreement.items():
        how = f"rule {found.rule}" if found.exact else f"no rule here repeats it; {found.rule}"
        lines.append(f"  verdicts of {scorer}: {how} agrees on {found.alike} of {found.of}")
    for row in done.disagreements[:5]:
        sample = "vote" if row["sample_index"] is None else f"sample {row['sample_index']}"
        verdict = "right there, wrong here" if row["correct"] else "wrong there, right here"
        lines.append(f"    {row['problem_id']}, {sample}, {row['scorer']}: {verdict}")
    if len(done.disagreements) > 5:
        lines.append(f"    and {len(done.disagreements) - 5} more in {folder / 'source_verdicts.jsonl'}")
    return [*lines, f"  next: {shlex.join(_next(done))}"]


def _next(done: Imported) -> list[str]:
    config = done.config
    words = ["papermill", "notebooks/eval.ipynb", "out.ipynb", "-p", "sampler", "replay", "-p", "prompt", "as_stored"]
    words += ["-r", "replay_path", str(done.run.folder), "-r", "model", config.model]
    for name in ("dataset", "dataset_config", "data_path", "n_samples"):  # the problems are those of the folder
        value = getattr(config, name)
        if value != type(config).model_fields[name].default:
            words += ["-r" if name == "data_path" else "-p", name, str(value)]
    return words


def _export(given: argparse.Namespace) -> None:
    for folder in given.folders:
        done = export_run(
            folder,
            organisation=given.organisation,
            relationship=given.relationship,
            model_id=given.model_id,
            rules=given.rules,
            output=given.output,
        )
        print(f"{done.results}\n{done.samples} ({done.rows} rows)")


if __name__ == "__main__":
    sys.exit(main())
