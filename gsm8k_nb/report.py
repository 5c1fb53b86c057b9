"""The report: tables and figures saved in the run folder, and ``report.html``, one file that opens anywhere.

Model text is data: wherever it is shown it is escaped, so that a completion full of HTML, Markdown or dollar signs
shows as the characters it is made of.
"""

import base64
import html
import io
import json
import os
import sys
from importlib import resources
from itertools import combinations
from pathlib import Path

import pandas as pd
import yaml
from IPython.display import HTML
from jinja2 import Environment
from matplotlib.figure import Figure

from gsm8k_nb import __version__, figures, published, tables
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.runs import Run
from gsm8k_nb.summary import Results

N_EXAMPLES = 3
_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}

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
    shown = run_tables(results)
    for name, table in shown.items():
        save_table(results.run, name, table)
    results.run.write_text("tables/disagreeing_samples.csv", tables.disagreeing_samples(results).to_csv())
    images = {name: (save_figure(results.run, name, one), text) for name, (one, text) in run_figures(results).items()}
    page = results.run.write_text("report.html", render_html(results, shown, images))
    made = results.run.read_json("manifest.json")
    if made:  # the last thing written: a manifest that says complete means that everything else is there
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


def save_table(run: Run, name: str, table: pd.DataFrame) -> None:
    """``tables/NAME.csv`` and ``.tex``, the latter with every special character escaped."""
    run.write_text(f"tables/{name}.csv", table.to_csv())
    escaped = table.reset_index().map(str)
    styled = escaped.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
    run.write_text(f"tables/{name}.tex", styled.to_latex(hrules=True))


def save_figure(run: Run, name: str, figure: Figure) -> str:
    """``figures/NAME.png`` and ``.pdf``; returns the PNG in base64."""
    folder = run.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    # Without the date of the day, so that the same results give the same file.
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    (folder / f"{name}.png").write_bytes(buffer.getvalue())
    return base64.b64encode(buffer.getvalue()).decode()


def show_figure(figure: Figure, alt: str) -> HTML:
    """A figure for a notebook's output, with alternative text for those who cannot see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
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
    blocks = [
        f"<p>{escape(problem)}/{index}: {escape(a)} read {escape(row[a])}, {escape(b)} read {escape(row[b])}, "
        f"gold {escape(row['gold'])}</p>{preformatted(row['text'] if isinstance(row['text'], str) else '')}"
        for (problem, index), row in apart.head(n).iterrows()
    ]
    return f"<p>{len(apart)} completions: {escape(ids)}</p>" + "".join(blocks)


def disagreeing_pairs(results: Results) -> list[dict[str, str]]:
    """A block for every pair of rules that disagree somewhere, the first text of each in full."""
    samples, counts = tables.disagreeing_samples(results), tables.disagreements(results)
    return [
        {"title": f"{a} against {b}: {counts.loc[a, b]}", "html": disagreement_html(samples, a, b, 1)}
        for a, b in combinations(counts.index, 2)
        if counts.loc[a, b]
    ]


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


def render_html(results: Results, shown: dict[str, pd.DataFrame], images: dict[str, tuple[str, str]]) -> str:
    """The whole report as one HTML page without scripts or outside references.

    ``shown`` are ``run_tables``; ``images`` those of ``run_figures`` as PNG in base64, with alternative texts.
    """
    template = resources.files("gsm8k_nb").joinpath("data", "report.html.jinja").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            results=results,
            version=__version__,
            warnings=tables.warnings(results),
            tables={name: table_html(table) for name, table in shown.items()},
            parameters=table_html(tables.parameters(results.config)),
            made_with=table_html(tables.made_with(results.run)),
            images=images,
            prompt=show_prompt(results.run).data,
            right=examples(results, True, N_EXAMPLES),
            wrong=examples(results, False, N_EXAMPLES),
            pairs=disagreeing_pairs(results),
            repeat=repeat_text(results),
        )
    )


def main(arguments: list[str]) -> int:
    """``python -m gsm8k_nb.report params/x.yaml``: print the headline and the report's path of a finished run."""
    if len(arguments) != 1:
        print("usage: python -m gsm8k_nb.report PARAMETERS.yaml", file=sys.stderr)
        return 2
    values = yaml.safe_load(Path(arguments[0]).read_text(encoding="utf-8")) or {}
    run = Run(RunConfig.checked(values).run_folder)
    found = run.read_json("metrics.json")
    if not found:
        print(f"{run.folder} has no metrics.json: the run has not finished", file=sys.stderr)
        return 1
    print(found["headline"])
    print(f"report: {os.path.relpath(run.folder / 'report.html')}")
    return 0


def table_html(table: pd.DataFrame) -> str:
    """A table as HTML, cells escaped and never shortened."""
    with pd.option_context("display.max_colwidth", None):
        return table.map(_visible).reset_index().to_html(index=False, escape=True, border=0)


def preformatted(text: str) -> str:
    """Text as it is, line by line, for HTML."""
    return f'<pre style="white-space: pre-wrap">{escape(text)}</pre>'


def escape(text: str) -> str:
    """Text as HTML that shows exactly its characters; control characters as their pictures, dollars as entities.

    MathJax, which notebooks load, reads ``$`` in any HTML output; an entity inside ``<pre>`` is left alone.
    """
    return html.escape(_visible(text)).replace("$", "&#36;")


def _visible(value: object) -> object:
    return value.translate(_VISIBLE) if isinstance(value, str) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
