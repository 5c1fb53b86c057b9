"""What a notebook shows of a comparison, and what is kept of it as files.

Nothing is shown of unlike runs without a warning: whole above the table of systems, in one short line above all else.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from gsm8k_nb.comparing.figures import FIGURES, save_figures
from gsm8k_nb.comparing.pairs import Comparison, conclusion
from gsm8k_nb.comparing.tables import TABLES
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting import html
from gsm8k_nb.reporting.files import csv_text, markdown, save_table
from gsm8k_nb.reporting.html import block, table_html
from gsm8k_nb.runs import Run


def show(comparison: Comparison, name: str) -> HTML:
    """One of ``TABLES`` for a notebook's output, below a warning where the runs are unlike."""
    make = _known(TABLES, name, "table")
    return block("compared", comparison, table_html(make(comparison)), name == "systems")


def show_figure(comparison: Comparison, name: str) -> HTML:
    """One of ``FIGURES`` for a notebook's output."""
    make, text, of_pairs = _known(FIGURES, name, "figure")
    if of_pairs and not comparison.pairs:
        return block("paragraphs", ["A single run has no pair to draw."])
    return block("compared", comparison, html.show_figure(make(comparison), text))


def _known(things: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in things:
        raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(things)}")
    return things[name]


def show_conclusions(comparison: Comparison) -> HTML:
    """The conclusion of each pair, a paragraph each."""
    lines = [conclusion(comparison, pair) for pair in comparison.pairs]
    return block("compared", comparison, block("listed", lines))


def show_solved_by_one(comparison: Comparison, n: int = 1) -> HTML:
    """The first ``n`` problems that each system alone solves, with the text of every system, side by side, escaped."""
    texts = [system.run.journal().samples for system in comparison.systems]

    def columns(problem: Problem, row: int) -> Iterator[tuple[str, str]]:
        """A title and a text of each system: its first sample of its majority verdict."""
        for system, samples, solved in zip(comparison.systems, texts, comparison.solved[:, row], strict=True):
            index = int(np.nonzero(system.verdicts[row] == solved)[0][0])
            verdict, number = "right" if system.verdicts[row, index] else "wrong", system.predicted[row, index]
            title = f"{system.name}: {verdict}, read as {'no number' if number is None else number}"
            yield title, samples[problem.id, index].text or ""

    of_systems = []
    for place, system in enumerate(comparison.systems):
        solved = list(comparison.alone(place))
        of_systems.append((system, len(solved), [(problem, columns(problem, row)) for problem, row in solved[:n]]))
    return block("compared", comparison, block("solved_by_one", of_systems))


def save(comparison: Comparison) -> pd.DataFrame:
    """Write every table (CSV, LaTeX), figure (PNG, PDF) and the conclusions into ``out_dir``; returns what is there.

    Where the runs are unlike, a column of each table says so.
    """
    out = Run(comparison.config.out_folder)
    for name, make in TABLES.items():
        table = make(comparison)
        table = table.assign(unlike=", ".join(comparison.unlike)) if comparison.unlike else table
        if name == "solved_by_one":  # whole questions: data, not a table to print
            out.write_text(f"tables/{name}.csv", csv_text(table))
        else:
            save_table(out, name, table)
    save_figures(comparison, out)
    lines = [comparison.banner(), *(conclusion(comparison, pair) for pair in comparison.pairs)]
    out.write_text("conclusions.md", "\n\n".join(markdown(line) for line in lines if line) + "\n")
    return written(out.folder)


def written(folder: Path) -> pd.DataFrame:
    """The files below a folder, with their sizes."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
    rows = [(str(file.relative_to(folder)), file.stat().st_size) for file in files]
    return pd.DataFrame(rows, columns=["file", "bytes"]).set_index("file")
