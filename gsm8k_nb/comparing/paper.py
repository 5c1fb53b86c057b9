r"""A paper's appendix from finished runs: LaTeX, CSV and Markdown tables, and what it takes to repeat them.

    system & right & of & accuracy \% & 95\% interval & group \\
    \textbf{GPT-3 175B + verifier} & 742 & 1319 & \textbf{56.25} & 53.60 to 58.91 & a \\

``appendix.tex`` is a whole article that compiles as it is, with ``booktabs`` and ``graphicx``; each file in ``paper/``
can be input on its own into another paper.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from jinja2 import Environment

from gsm8k_nb import __version__
from gsm8k_nb.comparing import tables
from gsm8k_nb.comparing.figures import FIGURES, save_figures
from gsm8k_nb.comparing.pairs import Comparison, cells, conclusion, say
from gsm8k_nb.comparing.read import System
from gsm8k_nb.comparing.showing import written
from gsm8k_nb.places import own_asset
from gsm8k_nb.reporting import tables as of_run
from gsm8k_nb.reporting.files import csv_text, latex, latex_tabular, markdown, markdown_table
from gsm8k_nb.reporting.html import block
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import manifest


@dataclass(frozen=True)
class PaperTable:
    """One table for print, as text, its first column the names; the numbers behind it, unrounded; a note below it."""

    name: str
    caption: str
    shown: pd.DataFrame
    numbers: pd.DataFrame
    note: str
    align: str  # a letter a column, as in tabular
    strong: np.ndarray | None = None  # which cells of ``shown`` are bold


def accuracy_table(comparison: Comparison) -> PaperTable:
    """Accuracy of each system with its interval and group; bold for those that cannot be told from the best."""
    shown = tables.accuracy(comparison).drop(columns=["standard error", "method"]).reset_index()
    strong = np.outer(comparison.best if comparison.pairs else [False], shown.columns.isin(["system", "accuracy %"]))
    protocols: dict[str, list[str]] = {}
    for system in comparison.systems:
        protocols.setdefault(say("protocol", system), []).append(system.name)
    note, caption = say("accuracy_note", comparison, protocols), say("accuracy_caption", comparison)
    return PaperTable("accuracy", caption, shown, tables.accuracy_numbers(comparison), note, "lrrrlc", strong)


def pairs_table(comparison: Comparison) -> PaperTable:
    """Each pair of systems with the paired test."""
    level, table = f"{comparison.level} interval", tables.pairs(comparison).reset_index()
    shown = pd.DataFrame(
        {
            "pair": table["first"] + " \N{MINUS SIGN} " + table["second"],
            "points": table["difference"],
            level: table[level],
            "only one": table["only first"] + "/" + table["only second"],
            "p": table["p"],
            "p corrected": table[f"p after {comparison.correction}"],
        }
    )
    note, caption = say("pairs_note", comparison), say("pairs_caption", comparison)
    return PaperTable("pairs", caption, shown, tables.pair_numbers(comparison), note, "lrlrrr")


def to_latex(table: PaperTable) -> str:
    """A table environment with booktabs rules, names broken over lines where they are long, and its note below."""
    tabular = latex_tabular(table.shown, table.align, table.strong)
    texts = {"name": table.name, "caption": latex(table.caption), "note": latex(table.note)}
    return _template("table.tex.jinja", **texts, tabular=tabular)


def to_markdown(table: PaperTable) -> str:
    """A table in GitHub's Markdown, bold where the LaTeX is, with caption and note."""
    rows = markdown_table(table.shown, table.align, table.strong)
    return f"{markdown(table.caption)}\n\n{rows}\n\n{markdown(table.note)}\n"


def _template(file: str, **values: Any) -> str:
    environment = Environment("<%", "%>", "<<", ">>", trim_blocks=True, keep_trailing_newline=True)  # LaTeX has braces
    return environment.from_string(own_asset(file)).render(values)


def statement(comparison: Comparison) -> list[str]:
    """How the numbers were made, as sentences to paste: data, code, systems, hardware, seeds, statistics.

    From each run's ``manifest.json`` and ``metrics.json``.
    """
    made = {system.name: facts_of(system) for system in comparison.systems}
    first = next(iter(made.values()))
    shared = {name: value for name, value in first.items() if all(facts.get(name) == value for facts in made.values())}
    code = of_run.facts(of_run.code_of(manifest.environment()))["value"]
    data = "; ".join(dict.fromkeys(say("data", system) for system in comparison.systems))
    sentences = [f"Data: {data}.", *([f"All runs: {_listed(shared)}."] if shared else [])]
    for name, facts in made.items():
        if own := {key: value for key, value in facts.items() if key not in shared}:
            sentences.append(f"{name}: {_listed(own)}.")
    return [*sentences, say("computed", comparison, __version__, _listed(code))]


def facts_of(system: System) -> dict[str, str]:
    """What is recorded of one run, as named texts: model, protocol, and how its samples were made or where from."""
    _, made, inputs = of_run.source_of(system.run)
    known = cells("facts", system, made, inputs) | dict(of_run.made_with(system.run)["value"])
    return {name: value for name, value in known.items() if value} | {"run": system.run.folder.name}


def _listed(facts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items() if value)


def show(comparison: Comparison, name: str) -> HTML:
    """The table ``accuracy`` or ``pairs`` for a notebook: with its note, which warns of unlike runs, and its LaTeX."""
    if name == "pairs" and not comparison.pairs:
        return block("paragraphs", ["A single run has no pair to compare."])
    table = {"accuracy": accuracy_table, "pairs": pairs_table}[name](comparison)
    return block("paper_table", table, table.shown.set_index(table.shown.columns[0]), to_latex(table))


def show_statement(comparison: Comparison) -> HTML:
    """The statement, a paragraph each."""
    return block("paragraphs", statement(comparison))


def save(comparison: Comparison) -> pd.DataFrame:
    """Write ``appendix.tex`` and all its parts into ``out_dir``; returns the files that lie there."""
    out = Run(comparison.config.out_folder)
    made = [accuracy_table(comparison)] + ([pairs_table(comparison)] if comparison.pairs else [])
    for table in made:
        out.write_text(f"paper/{table.name}.tex", to_latex(table))
        out.write_text(f"paper/{table.name}.md", to_markdown(table))
        out.write_text(f"paper/{table.name}.csv", csv_text(table.numbers))
    lines = statement(comparison)
    out.write_text("paper/statement.md", "\n\n".join(map(markdown, lines)) + "\n")
    out.write_text("paper/statement.tex", "\n\n".join(map(latex, lines)) + "\n")
    article = _template(
        "appendix.tex.jinja",
        conclusions=[latex(conclusion(comparison, pair)) for pair in comparison.pairs],
        tables=[table.name for table in made],
        figures={name: latex(FIGURES[name][1]) for name in save_figures(comparison, out)},
        banner=latex(comparison.banner(whole=False)),
    )
    out.write_text("appendix.tex", article)
    return written(out.folder)
