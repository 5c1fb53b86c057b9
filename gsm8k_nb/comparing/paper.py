r"""A paper's appendix from finished runs: LaTeX, CSV and Markdown tables, and what it takes to repeat them.

    \begin{tabular}{lrrrlc}
    \toprule
    system & right & of & accuracy \% & 95\% interval & group \\
    \midrule
    \textbf{GPT-3 175B + verifier} & 742 & 1319 & \textbf{56.25} & 53.60 to 58.91 & a \\

``appendix.tex`` is a whole article that holds the tables, the figures and the statement: it compiles as it is, with
``booktabs`` and ``graphicx``; each file in ``paper/`` can be input on its own into another paper.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from jinja2 import Environment

from gsm8k_nb import __version__
from gsm8k_nb.comparing import tables
from gsm8k_nb.comparing.figures import FIGURES, save_figures
from gsm8k_nb.comparing.pairs import Comparison, conclusion
from gsm8k_nb.comparing.read import System
from gsm8k_nb.comparing.showing import written
from gsm8k_nb.reporting import making
from gsm8k_nb.reporting.files import csv_text, latex, latex_tabular, markdown, markdown_table
from gsm8k_nb.reporting.html import escape, preformatted, table_html
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import manifest

STATED = (  # protocol field -> how a note states it
    ("metric", "{}"), ("shots", "{} exemplars"), ("prompt", "prompt {}"),
    ("temperature", "temperature {:g}"), ("top_p", "top-p {:g}"), ("top_k", "top-k {}"),
    ("max_new_tokens", "at most {} new tokens"), ("exemplars_as", "exemplars as {}"),
)  # fmt: skip
METHODS = {
    "percentile": "percentile bootstrap", "wilson": "Wilson", "clopper-pearson": "Clopper and Pearson",
    "exact": "the exact one of Fay and Lumbard (2021), which agrees with the test",
    "score": "score interval over problems, which agrees with the test",
}  # fmt: skip


@dataclass(frozen=True)
class PaperTable:
    """One table for print, as text, its first column the names; the numbers behind it, unrounded; a note below it."""

    name: str
    caption: str
    shown: pd.DataFrame
    numbers: pd.DataFrame
    align: str  # a letter a column, as in tabular
    strong: np.ndarray  # which cells of ``shown`` are bold
    note: str


def accuracy_table(comparison: Comparison) -> PaperTable:
    """Accuracy of each system with its interval and group; bold for those that cannot be told from the best."""
    shown = tables.accuracy(comparison).drop(columns=["standard error", "method"]).reset_index()
    caption = f"Accuracy on {len(comparison.problems)} problems of {_dataset(comparison)}."
    best = comparison.best if comparison.pairs else [False]
    strong = np.outer(best, shown.columns.isin(["system", "accuracy %"]))
    note = accuracy_note(comparison)
    return PaperTable("accuracy", caption, shown, tables.accuracy_numbers(comparison), "lrrrlc", strong, note)


def pairs_table(comparison: Comparison) -> PaperTable:
    """Each pair of systems with the paired test."""
    shown = tables.pairs(comparison).reset_index()
    shown = shown.rename(columns={"difference": "points", f"p after {comparison.correction}": "p corrected"})
    shown["pair"] = shown["first"] + " \N{MINUS SIGN} " + shown["second"]
    shown["only one"] = shown["only first"].astype(str) + "/" + shown["only second"].astype(str)
    shown = shown[["pair", "points", f"{comparison.level} interval", "only one", "p", "p corrected"]]
    caption = f"Differences of accuracy between systems on the same {len(comparison.problems)} problems."
    numbers, note = tables.pair_numbers(comparison), pairs_note(comparison)
    return PaperTable("pairs", caption, shown, numbers, "lrlrrr", np.zeros(shown.shape, dtype=bool), note)


def accuracy_note(comparison: Comparison) -> str:
    """Protocol, intervals and groups: what a reader needs under the table of accuracies."""
    methods = sorted({interval.method for interval in comparison.intervals})
    resampled = f" ({comparison.config.n_resamples:,} resamples, seed {comparison.config.seed})"
    named = [METHODS[name] + (resampled if name == "percentile" else "") for name in methods]
    lines = [
        comparison.banner(whole=False),
        protocol_note(comparison),
        f"{comparison.level} intervals over problems: {', '.join(named)}.",
    ]
    if comparison.pairs:
        lines.append(
            f"Systems that share a letter under group cannot be told apart at {comparison.alpha_level} by paired tests "
            f"with {comparison.correction}; bold: not told apart from the highest accuracy."
        )
    left_out = sum(len(part.ids) for part in comparison.left_out)
    if left_out:
        lines.append(f"{left_out} problems that not all runs scored alike are left out.")
    return " ".join(filter(None, lines))


def pairs_note(comparison: Comparison) -> str:
    """The tests under the table of pairs."""
    tests = list(dict.fromkeys(pair.test for pair in comparison.pairs))
    methods = list(dict.fromkeys(METHODS[pair.result.method] for pair in comparison.pairs))
    one_verdict = all(pair.result.p_mcnemar is not None for pair in comparison.pairs)
    only = "solved by the first/the second alone" if one_verdict else "with the higher mean for the first/the second"
    kind = "family-wise error" if comparison.config.correction == "holm" else "false discovery rate"
    lines = [
        comparison.banner(whole=False),
        f"Points: first minus second, in percentage points. Interval: {' or '.join(methods)}, for each pair by itself.",
        f"Only one: problems {only}. p: two-sided {' or '.join(tests)}.",
        f"p corrected: {comparison.correction} for {len(comparison.pairs)} pairs ({kind} {comparison.alpha_level}).",
    ]
    return " ".join(filter(None, lines))


def protocol_note(comparison: Comparison) -> str:
    """What the runs state of their protocol, once where it is one."""
    holders: dict[str, list[str]] = {}
    for system in comparison.systems:
        holders.setdefault(_protocol(system), []).append(system.name)
    if len(holders) == 1:
        return f"Protocol: {next(iter(holders))}."
    return "Protocols: " + "; ".join(f"{text} ({' and '.join(names)})" for text, names in holders.items()) + "."


def _protocol(system: System) -> str:
    parts = [form.format(system.field(name)) for name, form in STATED if system.field(name) is not None]
    if system.field("chat") is not None:
        parts.append("chat template" if system.field("chat") else "no chat template")
    n, stored = system.field("n_samples"), "" if system.field("prompt") else "stored "
    parts.append(f"one {stored}completion a problem" if n == 1 else f"{n} {stored}completions a problem")
    return ", ".join([*parts, f"answers read by the rule {system.rule}"])


def _dataset(comparison: Comparison) -> str:
    data = {(system.field("dataset name"), system.field("dataset split")) for system in comparison.systems}
    return " and ".join(f"{'GSM8K' if name == 'gsm8k' else name} ({split} split)" for name, split in sorted(data))


# --- forms of a table ------------------------------------------------------------------------------------------------


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
    text = resources.files("gsm8k_nb").joinpath("assets", file).read_text(encoding="utf-8")
    environment = Environment(  # braces are LaTeX's own
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(text).render(values)


# --- the statement ---------------------------------------------------------------------------------------------------


def statement(comparison: Comparison) -> list[str]:
    """How the numbers were made, as sentences to paste: data, code, systems, hardware, seeds, statistics.

    From each run's ``manifest.json`` and ``metrics.json``.
    """
    made = [facts_of(system) for system in comparison.systems]
    shared = {name: value for name, value in made[0].items() if all(facts.get(name) == value for facts in made)}
    rules = " and ".join(dict.fromkeys(system.rule for system in comparison.systems))
    own = [{name: value for name, value in facts.items() if name not in shared} for facts in made]
    return [
        f"Data: {'; '.join(dict.fromkeys(_data(system) for system in comparison.systems))}.",
        *([f"All runs: {_listed(shared)}."] if shared else []),
        *(f"{system.name}: {_listed(facts)}." for system, facts in zip(comparison.systems, own, strict=True) if facts),
        f"Comparison: {len(comparison.problems)} problems common to all runs; rule {rules}; {comparison.level} "
        f"intervals, {comparison.config.n_resamples:,} bootstrap resamples, seed {comparison.config.seed}; "
        f"{comparison.correction} for {len(comparison.pairs)} pairs. Computed with gsm8k_nb {__version__}, "
        f"{_listed(making.facts(making.code_of(manifest.environment()))['value'])}.",
    ]


def _data(system: System) -> str:
    data = system.metrics.dataset
    revision = f", revision {data.revision}" if data.revision else ""
    return (
        f"{data.name} ({data.config}, {data.split} split, {data.n_problems} of {data.n_total} problems, "
        f"sha256 {data.sha256}{revision})"
    )


def facts_of(system: System) -> dict[str, str]:
    """What is recorded of one run, as named texts: model, protocol, and how its samples were made or where from."""
    _, made, inputs = making.source_of(system.run)
    facts = {
        "model": (inputs.log or {}).get("model") or made.model,
        "revision": made.revision,
        "protocol": _protocol(system),
        "prompt sha256": system.field("prompt_sha256"),
        "exemplars": ", ".join(inputs.exemplar_ids or []),
        "seed": None if made.sampler == "replay" else made.seed,
        **making.made_with(system.run)["value"],
        "run": system.run.folder.name,
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def _listed(facts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items() if value)


# --- showing and saving ----------------------------------------------------------------------------------------------


def show(comparison: Comparison, name: str) -> HTML:
    """The table ``accuracy`` or ``pairs`` for a notebook: with its note, which warns of unlike runs, and its LaTeX."""
    if name == "pairs" and not comparison.pairs:
        return HTML("<p>A single run has no pair to compare.</p>")
    table = {"accuracy": accuracy_table, "pairs": pairs_table}[name](comparison)
    source = f"<details><summary>LaTeX</summary>{preformatted(to_latex(table))}</details>"
    shown = table_html(table.shown.set_index(table.shown.columns[0]))
    return HTML(f"<p>{escape(table.caption)}</p>{shown}<p>{escape(table.note)}</p>{source}")


def show_statement(comparison: Comparison) -> HTML:
    """The statement, a paragraph each."""
    return HTML("".join(f"<p>{escape(line)}</p>" for line in statement(comparison)))


def save(comparison: Comparison) -> pd.DataFrame:
    """Write ``appendix.tex`` and all its parts into ``out_dir``; returns the files that lie there."""
    out = Run(comparison.config.out_folder)
    made = [accuracy_table(comparison)] + ([pairs_table(comparison)] if comparison.pairs else [])
    for table in made:
        out.write_text(f"paper/{table.name}.tex", to_latex(table))
        out.write_text(f"paper/{table.name}.md", to_markdown(table))
        out.write_text(f"paper/{table.name}.csv", csv_text(table.numbers))
    figures = save_figures(comparison, out)
    lines = statement(comparison)
    out.write_text("paper/statement.md", "\n\n".join(map(markdown, lines)) + "\n")
    out.write_text("paper/statement.tex", "\n\n".join(map(latex, lines)) + "\n")
    article = _template(
        "appendix.tex.jinja",
        conclusions=[latex(conclusion(comparison, pair)) for pair in comparison.pairs],
        tables=[table.name for table in made],
        figures={name: latex(FIGURES[name][1]) for name in figures},
        banner=latex(comparison.banner(whole=False)),
    )
    out.write_text("appendix.tex", article)
    return written(out.folder)
