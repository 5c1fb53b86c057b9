"""The command line: ``python -m gsm8k_nb.logs import FILE ...`` and ``... export RUN_FOLDER ...``."""

import argparse
import sys
from collections.abc import Sequence

from gsm8k_nb.config import ConfigError
from gsm8k_nb.data import DataError
from gsm8k_nb.logs.commands import add_export, add_import
from gsm8k_nb.logs.log import LogError
from gsm8k_nb.runs import RunError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 where it worked. A fault of the input is one line on standard error, and 1."""
    parser = argparse.ArgumentParser(prog="python -m gsm8k_nb.logs", description="logs in, records out")
    commands = parser.add_subparsers(required=True, metavar="import | export")
    add_import(commands.add_parser("import", help="a run folder from another tool's log"))
    add_export(commands.add_parser("export", help="every-eval-ever records from a scored run"))
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (LogError, DataError, ConfigError, RunError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
