"""``report.html``, one file that opens anywhere; its blocks, as the notebooks show them; and all files of a report.

The page holds no reference to anything outside itself; its one script is allowed by its hash. Model text in it is data,
escaped wherever it is shown.
"""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from IPython.display import HTML
from jinja2 import Environment, Template
from matplotlib import rc_context
from matplotlib.figure import Figure

from gsm8k_nb import __version__, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import own_asset
from gsm8k_nb.reporting import browser, failure, figures, html, tables
from gsm8k_nb.reporting.files import csv_text, figure_bytes, save_figure, save_table
from gsm8k_nb.reporting.html import block, table_html, texts
from gsm8k_nb.reporting.html import show_figure as show_figure
from gsm8k_nb.runs import Run
from gsm8k_nb.summary import Results

N_EXAMPLES = 3
RUN_FILES = ("metrics.json", "samples.jsonl", "scores.jsonl", "manifest.json")  # beside it, to be opened
LARGEST_COPY = 8_000_000  # bytes of a report that an output of a notebook may hold

FIGURES = {
    "accuracy_by_steps": (figures.accuracy_by_steps, "Accuracy with intervals against the number of solution steps"),
    "length_by_verdict": (figures.length_by_verdict, "Histogram of completion lengths, right and wrong apart"),
    "accuracy_by_rule": (figures.accuracy_by_rule, "Accuracy of the same completions under each answer rule"),
    "curves_over_k": (figures.curves_over_k, "pass@k and maj@k against k"),
    "accuracy_by_tokens": (figures.accuracy_by_tokens, "Accuracy against a limit on tokens"),
}
TABLES = (
    tables.accuracy, tables.health, tables.by_steps, tables.rules_crossed, tables.by_rule, tables.disagreements,
    tables.error_kinds,
)  # fmt: skip


def save(results: Results) -> Path:
    """Write every table (CSV, LaTeX), every figure (PNG, PDF) and ``report.html``; returns the report's path.

    Those that could not be made are named in the report and in the manifest, whose status is then ``incomplete``.
    """
    run = results.run
    run.update_manifest("reporting")  # "complete" is written last: from here on, until all is there, it is not said
    shown, drawn = run_tables(results), run_figures(results)
    samples = tables.disagreeing_samples(results)
    for name, table in shown.items():
        save_table(run, name, table)
    run.write_text("tables/disagreeing_samples.csv", csv_text(samples))
    for name, (figure, _) in drawn.items():
        save_figure(run, name, figure)
    images = {name: (svg(figure, name), text) for name, (figure, text) in drawn.items()}
    products = [*shown.values(), samples, *(figure for figure, _ in drawn.values())]
    failures = list(filter(None, map(failure, products)))
    page = run.write_text("report.html", render_html(results, shown, images, failures))
    whole = not failures and not results.metrics["health"]["failed"]
    run.update_manifest("complete" if whole else "incomplete", not_made=failures)
    return page


def run_tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a run by name; those over k or tokens, and published results, only where there are any."""
    shown = {make.__name__: make(results) for make in TABLES}
    if results.config.n_samples > 1:
        shown["at_k"] = tables.at_k(results)
    more = {name: getattr(tables, name)(results) for name in ("beside_published", "by_tokens", "tokens")}
    return shown | {name: table for name, table in more.items() if len(table)}


def run_figures(results: Results) -> dict[str, tuple[Figure, str]]:
    """The figures of a run by name, each with its alternative text; those over k or tokens only where there are any."""
    lacking = {"curves_over_k"} if results.config.n_samples == 1 else set()
    lacking |= set() if len(summary.by_tokens(results)) else {"accuracy_by_tokens"}
    return {name: (make(results), text) for name, (make, text) in FIGURES.items() if name not in lacking}


def svg(figure: Figure, name: str) -> str:
    """A figure as SVG in base64: sharp at every size. ``name`` stands for the random part of the ids inside."""
    with rc_context({"svg.hashsalt": name}):
        return base64.b64encode(figure_bytes(figure, "svg")).decode()


def show_parameters(config: RunConfig) -> HTML:
    """The parameters that differ from their defaults; all the others folded away."""
    table = tables.parameters(config)
    return block("parameters", *(table[table["changed"] == mark].drop(columns="changed") for mark in ("*", "")))


def show_saved(page: Path) -> HTML:
    """Where a report lies; in Jupyter with links that open it and the run's files, and one that saves a copy.

    JupyterLab opens nothing outside the folder in which it was started: from there the copy is the way to it.
    """
    path, places, copy = Path(os.path.relpath(page)), {}, ""
    if "JPY_SESSION_NAME" in os.environ:  # set by Jupyter's server, whose kernels work in the notebook's folder
        places = {name: quote(path.with_name(name).as_posix()) for name in (page.name, *RUN_FILES)}
        if page.stat().st_size <= LARGEST_COPY:
            copy = base64.b64encode(page.read_bytes()).decode()
    return block("saved", path.as_posix(), places, copy)


def show_headline(results: Results) -> HTML:
    """The headline, with the run's warnings above everything else that it says."""
    return block("headline", results.headline, tables.warnings(results))


def show_prompt(run: Run) -> HTML:
    """One rendered prompt of the run in full, message by message where it went through a chat template."""
    stored = run.read_json("prompt.json")
    return html.show_prompt(stored["prompt"]) if stored else texts([], "A replay: the prompt is its source's.")


def show_examples(results: Results, correct: bool, n: int = N_EXAMPLES) -> HTML:
    """The first ``n`` right or wrong samples under the headline rule, each in full: question, gold, completion."""
    rows, problems = results.of_rule(), {problem.id: problem for problem in results.problems}
    shown = rows[rows["correct"].map(lambda verdict: verdict is correct)].head(n)
    return block("examples", list(shown.itertuples()), problems, "right" if correct else "wrong")


def show_disagreements(results: Results, a: str = "strict", b: str = "flexible", n: int = N_EXAMPLES) -> HTML:
    """Completions on which two rules give another verdict: all their ids, and the first ``n`` texts in full."""
    samples = tables.disagreeing_samples(results)
    if problem := failure(samples):
        return texts([], problem)
    right = samples.reindex(columns=[a, b]).map(lambda cell: str(cell).endswith("(right)"))
    apart = samples[right[a] != right[b]]
    if apart.empty:
        return texts([], f"{a} and {b} agree on every completion that was scored.")
    names, shown = [f"{problem}/{index}" for problem, index in apart.index], apart[[a, b, "gold", "text"]].head(n)
    return block("disagreements", names, a, b, list(shown.itertuples(index=False, name=None)))


def how_to_repeat(results: Results) -> HTML:
    """The command that makes this run again, and how to cite what it rests on."""
    return block("whole", repeat_text(results))


def repeat_text(results: Results) -> str:
    """Commands and references as plain text; only parameters that differ from the defaults are written out."""
    changed = results.config.model_dump(exclude_defaults=True)
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in changed.items()]  # JSON is YAML
    values = {"run_id": results.run.folder.name, "version": __version__}
    return Template(own_asset("repeat.txt.jinja")).render(parameters="\n".join(lines) or "{}", **values)


def render_html(
    results: Results,
    shown: dict[str, pd.DataFrame],
    images: dict[str, tuple[str, str]],
    failures: Sequence[str] = (),
    budget: int = browser.BUDGET,
) -> str:
    """The whole report as one HTML page without outside references; its one script is allowed by its hash.

    ``shown`` are ``run_tables``; ``images`` those of ``run_figures`` as SVG in base64, with alternative texts;
    ``failures`` say which of them could not be made; ``budget`` is how many bytes of samples the page may hold.
    """
    script = own_asset("report.js")
    known = {"table_html": table_html, "of_run": tables, "examples": show_examples, "prompt": show_prompt}
    known |= {"asset": own_asset, "script_json": browser.script_json, "repeat": repeat_text, "version": __version__}
    return (
        Environment(autoescape=True)
        .from_string(own_asset("report.html.jinja"), known)
        .render(
            results=results,
            tables=shown,
            images=images,
            warnings=[*failures, *tables.warnings(results)],
            browser=browser.browser_data(results, budget),
            script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            script=script,
        )
    )
