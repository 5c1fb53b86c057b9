"""What a notebook shows of a comparison, and what is kept of it as files.

Nothing is shown of unlike runs without a warning: whole above the table of systems, in one short line above all else.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import HTML

from gsm8k_nb.comparing.figures import FIGURES, save_figures
from gsm8k_nb.comparing.pairs import Comparison, conclusion
from gsm8k_nb.comparing.tables import TABLES, alone
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting import html
from gsm8k_nb.reporting.files import csv_text, markdown, save_table
from gsm8k_nb.reporting.html import escape, preformatted, table_html
from gsm8k_nb.runs import Run

BANNER_STYLE = "background: #fff3e0; color: #1a1a1a; border-left: 4px solid #D55E00; padding: 0.5rem 1rem"


def show(comparison: Comparison, name: str) -> HTML:
    """One of ``TABLES`` for a notebook's output, below a warning where the runs are unlike."""
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    return HTML(_banner_html(comparison, whole=name == "systems") + table_html(TABLES[name](comparison)))


def show_figure(comparison: Comparison, name: str) -> HTML:
    """One of ``FIGURES`` for a notebook's output."""
    if name not in FIGURES:
        raise ValueError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
    make, text, of_pairs = FIGURES[name]
    if of_pairs and not comparison.pairs:
        return HTML("<p>A single run has no pair to draw.</p>")
    return HTML(_banner_html(comparison) + html.show_figure(make(comparison), text).data)


def show_conclusions(comparison: Comparison) -> HTML:
    """The conclusion of each pair, a paragraph each."""
    lines = "".join(f"<li>{escape(conclusion(comparison, pair))}</li>" for pair in comparison.pairs)
    return HTML(f"{_banner_html(comparison)}<ul>{lines}</ul>")


def _banner_html(comparison: Comparison, whole: bool = False) -> str:
    if not comparison.unlike:
        return ""
    text = comparison.banner() if whole else f"Unlike runs ({', '.join(comparison.unlike)}): see the warning above."
    return f'<p style="{BANNER_STYLE}">{escape(text)}</p>'


def show_solved_by_one(comparison: Comparison, n: int = 1) -> HTML:
    """The first ``n`` problems that each system alone solves, with the text of every system, side by side, escaped."""
    texts = [system.run.journal().samples for system in comparison.systems]
    blocks = [_banner_html(comparison)]
    for place, system in enumerate(comparison.systems):
        solved = list(alone(comparison, place))
        blocks.append(f"<h4>Only {escape(system.name)} solves {len(solved)} problems</h4>")
        blocks += [_side_by_side(comparison, texts, problem, row) for problem, row in solved[:n]]
    return HTML("".join(blocks))


def _side_by_side(
    comparison: Comparison, texts: list[dict[tuple[str, int], Sample]], problem: Problem, row: int
) -> str:
    """One problem and a column for each system's first sample of its majority verdict."""
    columns = []
    for system, samples in zip(comparison.systems, texts, strict=True):
        index = int(np.nonzero(system.verdicts[row] == system.solved[row])[0][0])
        verdict, number = "right" if system.verdicts[row, index] else "wrong", system.predicted[row, index]
        title = f"{system.name}: {verdict}, read as {'no number' if number is None else number}"
        text = preformatted(samples[problem.id, index].text or "")
        columns.append(f'<div style="flex: 1 1 18em; min-width: 0"><b>{escape(title)}</b>{text}</div>')
    return (
        f"<p>{escape(problem.id)}, gold {escape(str(problem.answer))}</p>{preformatted(problem.question)}"
        f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{"".join(columns)}</div>'
    )


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
