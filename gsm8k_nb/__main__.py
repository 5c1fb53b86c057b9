"""The command line: ``python -m gsm8k_nb COMMAND``.

Exit status: 0 where all went well, 1 where a run or file is at fault, 2 where the parameters are.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import get_args, get_origin

from gsm8k_nb.config import NOT_GENERATION, ConfigError, Parameters, RunConfig, read_parameters
from gsm8k_nb.config.comparison import CompareConfig
from gsm8k_nb.places import own_table, repository_root
from gsm8k_nb.runs import Run, RunError

# A notebook's configuration, and the names in its parameters cell: 01 takes what names the run and its problems.
LOADED = [name for name in RunConfig.model_fields if name not in NOT_GENERATION - {"limit", "shuffle", "outputs_dir"}]
BOOKS: dict[str, tuple[type[Parameters], Sequence[str]]] = {
    "01_load": (RunConfig, LOADED),
    **dict.fromkeys(("eval", "02_sample", "03_score", "04_report"), (RunConfig, list(RunConfig.model_fields))),
    **dict.fromkeys(("compare", "appendix"), (CompareConfig, list(CompareConfig.model_fields))),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``commands.toml``. A fault of the input is told on standard error, never by a traceback."""
    parser = argparse.ArgumentParser(prog="python -m gsm8k_nb", description="GSM8K, measured: the command line")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, about in own_table("commands.toml").items():
        line = about["help"]
        command = commands.add_parser(
            name, help=line, description=f"{line[0].upper()}{line[1:]}.", epilog=about.get("epilog"),
            argument_default=argparse.SUPPRESS,
        )  # fmt: skip
        command.set_defaults(run=about["run"])
        command.register("type", "number", float)
        for argument, settings in about["arguments"].items():
            command.add_argument(argument, **settings)
    stated = vars(parser.parse_args(arguments))
    module, function = stated.pop("run").split(":")  # only what is asked for is imported
    try:
        return getattr(import_module(f"gsm8k_nb.{module}"), function)(**stated) or 0
    except Exception as error:
        if not (isinstance(error, OSError) or type(error).__module__.startswith("gsm8k_nb.")):
            raise  # a fault of the program, and not of its input
        print(*(f"error: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def report(folder: str, pdf: bool = False) -> None:
    """The headline and the report's path of a finished run, from its folder or its parameter file."""
    run = Run(folder)
    if not run.folder.is_dir():
        try:
            run = Run(RunConfig.checked(read_parameters(folder)).run_folder)
        except ConfigError as error:
            raise ConfigError("\n".join(f"{folder}: {line}" for line in str(error).splitlines())) from None
    metrics, page = run.read_json("metrics.json"), run.folder / "report.html"
    if not metrics or not page.exists():
        raise RunError(f"{run.folder} has no {'report.html' if metrics else 'metrics.json'}: the run has not finished")
    print(f"{metrics['headline']}\nreport: {os.path.relpath(page)}")
    if pdf:
        print(f"pdf: {os.path.relpath(import_module('gsm8k_nb.reporting.printing').print_pdf(page))}")


def write_parameters() -> None:
    """Write the parameters cell of every notebook; names those that were not up to date."""
    for name, (config, names) in BOOKS.items():
        file = repository_root() / "notebooks" / f"{name}.ipynb"
        book = json.loads(file.read_text(encoding="utf-8"))
        cell = next(cell for cell in book["cells"] if "parameters" in cell["metadata"].get("tags", []))
        source = parameters_cell(config, names).splitlines(keepends=True)
        if cell["source"] != source:
            cell["source"] = source
            file.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"written: {file}")


def parameters_cell(config: type[Parameters], names: Sequence[str]) -> str:
    """A line for each parameter, as ``limit: int = None  # use only so many problems (None for all)``."""
    lines = []
    for name in names:
        field = config.model_fields[name]
        kinds = [get_origin(kind) or kind for kind in (get_args(field.annotation) or (field.annotation,))]
        kind, value = kinds[0].__name__ if isinstance(kinds[0], type) else "str", field.default  # a choice among texts
        shown = f"{value:_}" if type(value) is int else json.dumps(value) if isinstance(value, str) else repr(value)
        lines.append(f"{name}: {kind} = {shown}  # {field.description}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
