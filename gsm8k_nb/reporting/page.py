"""The report: tables and figures saved in the run folder, and ``report.html``, one file that opens anywhere.

    python -m gsm8k_nb.reporting.page params/smollm2.yaml          the headline and where the report lies
    python -m gsm8k_nb.reporting.page params/smollm2.yaml --pdf    and ``report.pdf`` beside it, printed by Chromium

Model text is data: wherever it is shown it is escaped, so that a completion full of HTML, Markdown or dollar signs
shows as the characters it is made of.
"""

import base64
import hashlib
import html
import json
import math
import os
import sys
from importlib import resources
from pathlib import Path

import pandas as pd
from IPython.display import HTML
from jinja2 import Environment
from matplotlib import rc_context
from matplotlib.figure import Figure

from gsm8k_nb import __version__
from gsm8k_nb.config import ConfigError, RunConfig, read_parameters
from gsm8k_nb.records import Problem
from gsm8k_nb.reporting import browser, chromium, figures, published, tables
from gsm8k_nb.reporting.files import csv_text, figure_bytes, save_figure, save_table
from gsm8k_nb.runs import Run
from gsm8k_nb.summary import Results
from gsm8k_nb.texts import visible

N_EXAMPLES = 3
_PRE = "white-space: pre-wrap; overflow-wrap: anywhere"
LONG = 20_000  # characters; of a longer text the rest is folded away, whole but out of the way

FIGURES = {
    "accuracy_by_steps": (figures.accuracy_by_steps, "Accuracy with intervals against the number of solution steps"),
    "length_by_verdict": (figures.length_by_verdict, "Histogram of completion lengths, right and wrong apart"),
    "accuracy_by_rule": (figures.accuracy_by_rule, "Accuracy of the same completions under each answer rule"),
}
TABLES = {
    "accuracy": tables.accuracy,
    "health": tables.health,
    "by_steps": tables.by_steps,
    "rules_crossed": tables.rules_crossed,
    "by_rule": tables.by_rule,
    "disagreements": tables.disagreements,
    "error_kinds": tables.error_kinds,
}


def save(results: Results) -> Path:
    """Write every table (CSV, LaTeX), every figure (PNG, PDF) and ``report.html``; returns the report's path."""
    made = results.run.read_json("manifest.json")
    if made:  # "complete" is written last: from here on, until all is there, the manifest does not say it
        results.run.write_json("manifest.json", made | {"status": "reporting"})
    shown = run_tables(results)
    for name, table in shown.items():
        save_table(results.run, name, table)
    results.run.write_text("tables/disagreeing_samples.csv", csv_text(tables.disagreeing_samples(results)))
    images = {}
    for name, (figure, text) in run_figures(results).items():
        save_figure(results.run, name, figure)
        images[name] = (svg(figure, name), text)
    page = results.run.write_text("report.html", render_html(results, shown, images))
    if made:
        failed = results.metrics["health"]["failed"]
        results.run.write_json("manifest.json", made | {"status": "incomplete" if failed else "complete"})
    return page


def run_tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a run by name; curves over k, and published results, only where there are any."""
    makers = TABLES | ({"at_k": tables.at_k} if results.config.n_samples > 1 else {})
    made = {name: make(results) for name, make in makers.items()}
    beside = beside_published(results)
    return made | ({"beside_published": beside} if len(beside) else {})


def run_figures(results: Results) -> dict[str, tuple[Figure, str]]:
    """The figures of a run by name, each with its alternative text."""
    makers = dict(FIGURES)
    if results.config.n_samples > 1:
        makers["curves_over_k"] = (figures.curves_over_k, "pass@k and maj@k against k")
    return {name: (make(results), text) for name, (make, text) in makers.items()}


def beside_published(results: Results) -> pd.DataFrame:
    """Published results of this run's protocol, and whether each is inside its interval; empty where there is none."""
    return published.beside(results.metrics, results.config.model).set_index("model")


def svg(figure: Figure, name: str) -> str:
    """A figure as SVG in base64: sharp at every size. ``name`` stands for the random part of the ids inside."""
    with rc_context({"svg.hashsalt": name}):
        return base64.b64encode(figure_bytes(figure, "svg")).decode()


def show_figure(figure: Figure, alt: str) -> HTML:
    """A figure for a notebook's output, with alternative text for those who cannot see it."""
    data = base64.b64encode(figure_bytes(figure, "png")).decode()
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" style="max-width: 640px">')


def show_headline(results: Results) -> HTML:
    """The headline, with the run's warnings above everything else that it says."""
    lines = "".join(f"<li>{escape(line)}</li>" for line in tables.warnings(results))
    notes = f"<p><b>Before you quote it:</b></p><ul>{lines}</ul>" if lines else "<p>No warnings.</p>"
    return HTML(f"<p><code style='font-size: 1.2em'>{escape(results.headline)}</code></p>{notes}")


def show_prompt(run: Run) -> HTML:
    """One rendered prompt of the run in full, message by message where it went through a chat template."""
    stored = run.read_json("prompt.json")
    if not stored:
        return HTML("<p>A replay: the prompt is its source's.</p>")
    prompt = stored["prompt"]
    parts = [("text", prompt)] if isinstance(prompt, str) else [(one["role"], one["content"]) for one in prompt]
    return HTML("".join(f"<p><i>{escape(role)}</i></p>{preformatted(text)}" for role, text in parts))


def show_examples(results: Results, correct: bool, n: int = N_EXAMPLES) -> HTML:
    """The first ``n`` right or wrong samples under the headline rule, each in full: question, gold, completion."""
    return HTML("".join(example["html"] for example in examples(results, correct, n)) or "<p>There is none.</p>")


def examples(results: Results, correct: bool, n: int) -> list[dict[str, str]]:
    """The blocks of ``show_examples``, each with its problem's id."""
    problems = {problem.id: problem for problem in results.problems}
    rows = results.of_rule()
    rows = rows[rows["correct"].map(lambda verdict: verdict is correct)].head(n)
    return [{"id": row.problem_id, "html": _example(problems[row.problem_id], row)} for row in rows.itertuples()]


def _example(problem: Problem, row) -> str:
    read = "no number" if row.predicted is None or row.predicted != row.predicted else row.predicted
    verdict = "right" if row.correct else "wrong"
    return (
        f"<h4>{escape(problem.id)}, sample {row.sample_index}: {verdict}</h4>"
        f"<p>Question</p>{preformatted(problem.question)}<p>Gold solution</p>{preformatted(problem.solution)}"
        f"<p>Completion ({escape(str(row.finish_reason or 'finish not recorded'))}); read as {escape(read)}, "
        f"gold {escape(row.gold)}</p>{preformatted(row.text or '')}"
    )


def show_disagreements(results: Results, a: str = "strict", b: str = "flexible", n: int = N_EXAMPLES) -> HTML:
    """Completions on which two rules give another verdict: all their ids, and the first ``n`` texts in full."""
    return HTML(disagreement_html(tables.disagreeing_samples(results), a, b, n))


def disagreement_html(samples: pd.DataFrame, a: str, b: str, n: int) -> str:
    """The block of ``show_disagreements``, from ``tables.disagreeing_samples``."""
    if not len(samples):
        return f"<p>{escape(a)} and {escape(b)} agree on every completion that was scored.</p>"
    right = {rule: samples[rule].astype(str).str.endswith("(right)") for rule in (a, b)}
    apart = samples[right[a] != right[b]]
    if not len(apart):
        return f"<p>{escape(a)} and {escape(b)} agree on every completion.</p>"
    ids = ", ".join(f"{problem}/{index}" for problem, index in apart.index)
    columns = (apart.head(n)[name] for name in (a, b, "gold", "text"))
    blocks = [
        f"<p>{escape(problem)}/{index}: {escape(a)} read {escape(read_a)}, {escape(b)} read {escape(read_b)}, "
        f"gold {escape(gold)}</p>{preformatted(text if isinstance(text, str) else '')}"
        for (problem, index), read_a, read_b, gold, text in zip(apart.index[:n], *columns, strict=True)
    ]
    return f"<p>{len(apart)} completions: {escape(ids)}</p>" + "".join(blocks)


def how_to_repeat(results: Results) -> HTML:
    """The command that makes this run again, and how to cite what it rests on."""
    return HTML(preformatted(repeat_text(results)))


def repeat_text(results: Results) -> str:
    """Commands and references as plain text; only parameters that differ from the defaults are written out."""
    defaults = type(results.config).model_fields
    changed = {name: value for name, value in results.config.model_dump().items() if value != defaults[name].default}
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in changed.items()]  # JSON is YAML
    return "\n".join(
        [
            "# params.yaml",
            *(lines or ["{}"]),
            "",
            "papermill notebooks/eval.ipynb out.ipynb -f params.yaml",
            "",
            f"# Run {results.run.folder.name}, gsm8k_nb {__version__}. Versions, hashes and seeds: manifest.json.",
            "# Cite: Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems, arXiv:2110.14168;",
            "# and gsm8k_nb by its CITATION.cff.",
        ]
    )


def render_html(
    results: Results, shown: dict[str, pd.DataFrame], images: dict[str, tuple[str, str]], budget: int = browser.BUDGET
) -> str:
    """The whole report as one HTML page without outside references; its one script is allowed by its hash.

    ``shown`` are ``run_tables``; ``images`` those of ``run_figures`` as SVG in base64, with alternative texts;
    ``budget`` is how many bytes of samples the page may hold.
    """
    script, samples = _data_file("report.js"), browser.browser_data(results, budget)
    values = {
        "results": results,
        "version": __version__,
        "style": _data_file("report.css"),
        "policy": content_policy(script),
        "score": results.metrics["rules"][results.headline_rule],
        "level": f"{100 * results.config.confidence:g}%",
        "facts": title_facts(results),
        "warnings": tables.warnings(results),
        "tables": {name: table_html(table) for name, table in shown.items()},
        "matrix": matrix_cells(shown["disagreements"]),
        "parameters": table_html(tables.parameters(results.config)),
        "made_with": table_html(tables.made_with(results.run)),
        "images": images,
        "prompt": show_prompt(results.run).data,
        "right": examples(results, True, N_EXAMPLES),
        "wrong": examples(results, False, N_EXAMPLES),
        "repeat": repeat_text(results),
        "browser": samples,
        "data": browser.script_json(samples),
        "script": script,
    }
    return Environment(autoescape=True).from_string(_data_file("report.html.jinja")).render(values)


def content_policy(script: str) -> str:
    """The page's Content-Security-Policy: nothing is fetched, and only this very script runs."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def title_facts(results: Results) -> dict[str, str]:
    """What a reader must know to place the number: model, data, protocol, rule, health, date."""
    found, health = results.metrics, results.metrics["health"]
    dataset, sessions = found["dataset"], results.run.read_json("manifest.json").get("sessions") or []
    counts = {"failed": "failed", "truncated": "truncated", "no_answer": "without a number", "empty": "empty"}
    said = [f"{health[key]:,} {name}" for key, name in counts.items() if health[key] is not None]
    facts = {
        "Model": results.config.model,
        "Data": f"{dataset['name']} ({dataset['config']}, {dataset['split']}), {dataset['n_problems']:,} problems",
        "Protocol": found["protocol"]["label"],
        "Answer rule": results.headline_rule,
        "Health": f"of {health['requested']:,} completions {', '.join(said)}",
    }
    return facts | ({"Sampled": sessions[-1]["started"][:10]} if sessions else {})


def matrix_cells(counts: pd.DataFrame) -> dict[str, dict[str, dict[str, int]]]:
    """The extractor matrix, each cell with its count and a shade from 0 (none) to 4 (as many as anywhere)."""
    most = max(1, int(counts.to_numpy().max(initial=0)))
    return {
        rule: {other: {"n": int(n), "shade": math.ceil(4 * n / most)} for other, n in row.items()}
        for rule, row in counts.iterrows()
    }


def main(arguments: list[str]) -> int:
    """``python -m gsm8k_nb.reporting.page params/x.yaml [--pdf]``: headline and report's path of a finished run."""
    files = [one for one in arguments if one != "--pdf"]
    if len(files) != 1 or files[0].startswith("-"):
        print("usage: python -m gsm8k_nb.reporting.page PARAMETERS.yaml [--pdf]", file=sys.stderr)
        return 2
    try:
        run = Run(RunConfig.checked(read_parameters(files[0])).run_folder)
    except ConfigError as error:
        print(*(f"{files[0]}: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        return 2
    found = run.read_json("metrics.json")
    page = run.folder / "report.html"
    if not found or not page.exists():
        missing = "report.html" if found else "metrics.json"
        print(f"{run.folder} has no {missing}: the run has not finished", file=sys.stderr)
        return 1
    print(found["headline"])
    print(f"report: {os.path.relpath(page)}")
    if "--pdf" in arguments:
        try:
            print(f"pdf: {os.path.relpath(chromium.print_pdf(page))}")
        except chromium.ChromiumError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def table_html(table: pd.DataFrame) -> str:
    """A table as HTML, cells escaped and never shortened."""
    with pd.option_context("display.max_colwidth", None):
        page = table.map(_visible).reset_index().to_html(index=False, escape=True, border=0)
    return page.replace("<th>", '<th scope="col">')  # cells are escaped: every other < is the table's own


def preformatted(text: str) -> str:
    """Text as it is, line by line, for HTML; what is beyond ``LONG`` characters is folded away."""
    head, rest = (f'<pre style="{_PRE}">{escape(part)}</pre>' for part in (text[:LONG], text[LONG:]))
    if len(text) <= LONG:
        return head
    summary = f"<summary>The other {len(text) - LONG:,} characters</summary>"
    return f'{head}<details class="rest">{summary}{rest}</details>'


def escape(text: str) -> str:
    """Text as HTML that shows exactly its characters; control characters as their pictures, dollars as entities.

    MathJax, which notebooks load, reads ``$`` in any HTML output; an entity inside ``<pre>`` is left alone.
    """
    return html.escape(visible(text)).replace("$", "&#36;")


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) else value


def _data_file(name: str) -> str:
    return resources.files("gsm8k_nb").joinpath("assets", name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
