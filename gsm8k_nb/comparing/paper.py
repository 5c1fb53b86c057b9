r"""A paper's appendix from finished runs: LaTeX, CSV and Markdown tables, and what it takes to repeat them.

    \begin{tabular}{llrlc}
    \toprule
    System & Protocol & Accuracy (\%) & 95\% interval & Group \\
    \midrule
    \textbf{GPT-3 175B + verifier} & ... & \textbf{56.25} & 53.60--58.91 & a \\

``appendix.tex`` is a whole article that holds the tables, the figures and the statement: it compiles as it is, with
``booktabs`` and ``graphicx``; each file in ``tables/`` can be input on its own into another paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from IPython.display import HTML

from gsm8k_nb import __version__
from gsm8k_nb.comparing import Comparison, System, best_group, conclusion
from gsm8k_nb.comparing import tables as compare_tables
from gsm8k_nb.reporting.files import csv_text, latex, markdown, save_figure
from gsm8k_nb.reporting.html import escape, preformatted
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import manifest
from gsm8k_nb.texts import p_number, percent, points

STATED = (  # protocol field -> how a note states it
    ("metric", "{}"), ("shots", "{} exemplars"), ("prompt", "prompt {}"),
    ("temperature", "temperature {:g}"), ("top_p", "top-p {:g}"), ("top_k", "top-k {}"),
    ("max_new_tokens", "at most {} new tokens"), ("exemplars_as", "exemplars as {}"),
)  # fmt: skip


@dataclass(frozen=True)
class PaperTable:
    """One table as text: a heading, rows of plain text (a first cell may have two lines), which are bold, a note."""

    name: str
    caption: str
    heading: list[str]
    align: str  # a letter a column, as in tabular
    rows: list[list[str]]
    bold: list[bool]
    emphasis: tuple[int, ...]  # the cells of a bold row that are bold
    note: str


def accuracy_table(found: Comparison) -> PaperTable:
    """Accuracy of each system with its interval and group; bold for those that cannot be told from the best."""
    level = f"{found.level} interval"
    rows = [
        [
            one.name,
            f"{int(one.verdicts.sum())}/{one.verdicts.size}",
            percent(one.interval.estimate),
            _between(one.interval.low, one.interval.high),
            letters,
        ]
        for one, letters in zip(found.systems, found.letters, strict=True)
    ]
    heading = ["System", "Right", "Accuracy (%)", level, "Group"]
    caption = f"Accuracy on {len(found.problems)} problems of {_dataset(found)}."
    bold = best_group(found) if found.pairs else [False] * len(rows)
    return PaperTable("accuracy", caption, heading, "lrrlc", rows, bold, (0, 2), accuracy_note(found))


def pairs_table(found: Comparison) -> PaperTable:
    """Each pair of systems with the paired test."""
    level = f"{found.level} interval"
    rows = [
        [
            "\n\N{MINUS SIGN} ".join(found.names(pair)),
            points(pair.result.difference),
            _between(pair.result.low, pair.result.high),
            f"{pair.result.only_a}/{pair.result.only_b}",
            p_number(pair.p, found.alpha),
            p_number(pair.p_adjusted, found.alpha),
        ]
        for pair in found.pairs
    ]
    heading = ["Pair", "Points", level, "Only one", "p", "p corrected"]
    caption = f"Differences of accuracy between systems on the same {len(found.problems)} problems."
    return PaperTable("pairs", caption, heading, "lrlrrr", rows, [False] * len(rows), (), pairs_note(found))


def accuracy_note(found: Comparison) -> str:
    """Protocol, intervals and groups: what a reader needs under the table of accuracies."""
    level = f"{found.level}"
    methods = sorted({one.interval.method for one in found.systems})
    resampled = f" ({found.config.n_resamples:,} resamples, seed {found.config.seed})"
    said = [_METHODS[name] + (resampled if name in ("percentile", "bca") else "") for name in methods]
    lines = [
        compare_tables.banner(found, short=True),
        protocol_note(found),
        f"{level} intervals over problems: {', '.join(said)}.",
    ]
    if found.pairs:
        lines.append(
            f"Systems that share a letter in Group cannot be told apart at {found.alpha_level} by paired tests with "
            f"{found.correction}; bold: not told apart from the highest accuracy."
        )
    left_out = sum(len(one.ids) for one in found.left_out)
    if left_out:
        lines.append(f"{left_out} problems that not all runs scored alike are left out.")
    return " ".join(filter(None, lines))


def pairs_note(found: Comparison) -> str:
    """The tests under the table of pairs."""
    tests = list(dict.fromkeys(pair.test for pair in found.pairs))
    methods = list(dict.fromkeys(pair.result.method for pair in found.pairs))
    intervals = {
        "exact": "the exact one of Fay and Lumbard (2021), which agrees with the test",
        "score": "score interval over problems, which agrees with the test",
    }
    one_verdict = all(pair.result.p_mcnemar is not None for pair in found.pairs)
    only = "solved by the first/the second alone" if one_verdict else "with the higher mean for the first/the second"
    kind = "family-wise error" if found.config.correction == "holm" else "false discovery rate"
    lines = [
        compare_tables.banner(found, short=True),
        "Points: first minus second, in percentage points. Interval: "
        f"{' or '.join(intervals[one] for one in methods)}, for each pair by itself.",
        f"Only one: problems {only}. p: two-sided {' or '.join(tests)}.",
        f"p corrected: {found.correction} for {len(found.pairs)} pairs ({kind} {found.alpha_level}).",
    ]
    return " ".join(filter(None, lines))


def protocol_note(found: Comparison) -> str:
    """What the runs state of their protocol, once where it is one."""
    holders: dict[str, list[str]] = {}
    for one in found.systems:
        holders.setdefault(_protocol(one), []).append(one.name)
    if len(holders) == 1:
        return f"Protocol: {next(iter(holders))}."
    return "Protocols: " + "; ".join(f"{text} ({' and '.join(names)})" for text, names in holders.items()) + "."


def _protocol(one: System) -> str:
    values = one.metrics["protocol"]
    parts = [form.format(values[name]) for name, form in STATED if values.get(name) is not None]
    if values.get("chat") is not None:
        parts.append("chat template" if values["chat"] else "no chat template")
    n, stored = values["n_samples"], "" if values.get("prompt") else "stored "
    parts.append(f"one {stored}completion a problem" if n == 1 else f"{n} {stored}completions a problem")
    return ", ".join([*parts, f"answers read by the rule {one.rule}"])


def _dataset(found: Comparison) -> str:
    data = {(one.metrics["dataset"]["name"], one.metrics["dataset"]["split"]) for one in found.systems}
    named = " and ".join(f"{'GSM8K' if name == 'gsm8k' else name} ({split} split)" for name, split in sorted(data))
    return named


# --- forms of a table ------------------------------------------------------------------------------------------------


def to_latex(table: PaperTable) -> str:
    """A table environment with booktabs rules, names broken over lines where they are long, and its note below."""
    wide = any(len(row[0]) > 24 or "\n" in row[0] for row in table.rows)
    first = r"p{0.28\linewidth}" if wide else "l"
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{latex(table.caption)}}}",
        rf"\label{{tab:gsm8k-{table.name}}}",
        r"\small",
        r"\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{{first}{table.align[1:]}}}",
        r"\toprule",
        " & ".join(latex(cell) for cell in table.heading) + r" \\",
        r"\midrule",
        *(_latex_row(cells, wide) for cells in _cells(table, latex, r"\textbf{{{}}}")),
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\medskip",
        r"\parbox{\linewidth}{\footnotesize\raggedright " + latex(table.note) + "}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: list[str], broken: bool) -> str:
    first = r"\raggedright " + cells[0].replace("\n", r"\newline ") if broken else cells[0]
    return " & ".join([first, *cells[1:]]) + r" \\"


def _cells(table: PaperTable, escaped: Callable[[str], str], bold: str) -> list[list[str]]:
    """The rows, escaped, with the emphasised cells of bold rows put into the form ``bold``."""
    return [
        [bold.format(escaped(cell)) if is_bold and place in table.emphasis else escaped(cell)
         for place, cell in enumerate(row)]
        for row, is_bold in zip(table.rows, table.bold, strict=True)
    ]  # fmt: skip


def to_markdown(table: PaperTable) -> str:
    """A table in GitHub's Markdown, bold where the LaTeX is, with caption and note."""
    rule = [{"l": "---", "r": "---:", "c": ":---:"}[letter] for letter in table.align]
    lines = ["| " + " | ".join(row) + " |" for row in [table.heading, rule, *_cells(table, markdown, "**{}**")]]
    return "\n".join([f"{markdown(table.caption)}", "", *lines, "", markdown(table.note)]) + "\n"


def to_frame(table: PaperTable) -> pd.DataFrame:
    """A table as a frame, as a notebook shows it."""
    rows = [[cell.replace("\n", " ") for cell in row] for row in table.rows]
    return pd.DataFrame(rows, columns=table.heading).set_index(table.heading[0])


def accuracy_numbers(found: Comparison) -> pd.DataFrame:
    """The numbers behind `accuracy_table`, unrounded, as shares: for the CSV file."""
    rows = [
        {
            "system": one.name, "right": int(one.verdicts.sum()), "of": one.verdicts.size,
            "accuracy": one.interval.estimate, "low": one.interval.low, "high": one.interval.high,
            "standard_error": one.interval.standard_error, "interval": one.interval.method, "group": letters,
            "best": best, "protocol": one.metrics["protocol"]["label"], "rule": one.rule,
        }
        for one, letters, best in zip(found.systems, found.letters, best_group(found), strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("system")


def pairs_numbers(found: Comparison) -> pd.DataFrame:
    """The numbers behind `pairs_table`, unrounded, as shares: for the CSV file."""
    rows = [
        {
            "first": found.names(pair)[0], "second": found.names(pair)[1], "difference": pair.result.difference,
            "low": pair.result.low, "high": pair.result.high, "standard_error": pair.result.standard_error,
            "interval": pair.result.method, "only_first": pair.result.only_a, "only_second": pair.result.only_b,
            "test": pair.test, "p": pair.p, "p_corrected": pair.p_adjusted, "correction": found.config.correction,
            "different": pair.different, "p_unpaired_z": pair.unpaired_p, "unlike": " ".join(pair.unlike),
        }
        for pair in found.pairs
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("first")


# --- the statement ---------------------------------------------------------------------------------------------------


def statement(found: Comparison) -> list[str]:
    """How the numbers were made, as sentences to paste: data, code, systems, hardware, seeds, statistics.

    From each run's ``manifest.json`` and ``metrics.json``; what is not recorded is said to be so.
    """
    here = manifest.environment()
    versions = here["packages"]
    made = [facts_of(one) for one in found.systems]
    shared = {name: value for name, value in made[0].items() if all(one.get(name) == value for one in made)}
    return [
        f"Data: {'; '.join(dict.fromkeys(_data(one) for one in found.systems))}.",
        f"All runs: {_listed(shared)}.",
        *(
            f"{one.name}: {_listed({name: value for name, value in facts.items() if name not in shared})}."
            for one, facts in zip(found.systems, made, strict=True)
        ),
        f"Comparison: {len(found.problems)} problems common to all runs; rule {_rules(found)}; "
        f"{found.level} intervals, {found.config.n_resamples:,} bootstrap resamples, seed "
        f"{found.config.seed}; {found.correction} for {len(found.pairs)} pairs. Computed with gsm8k_nb {__version__} "
        f"({_commit(here['git'])}), Python {here['python']}, NumPy {versions.get('numpy')}, "
        f"SciPy {versions.get('scipy')}.",
    ]


def _rules(found: Comparison) -> str:
    return " and ".join(dict.fromkeys(one.rule for one in found.systems))


def _data(one: System) -> str:
    data = one.metrics["dataset"]
    revision = f", revision {data['revision']}" if data.get("revision") else ""
    return (
        f"{data['name']} ({data['config']}, {data['split']} split, {data['n_problems']} of {data['n_total']} problems, "
        f"sha256 {data['sha256']}{revision})"
    )


def facts_of(one: System) -> dict[str, str]:
    """What is recorded of one run, as named texts: model, protocol, engine, code, machine, seed, hashes, dates."""
    made = one.run.read_json("manifest.json")
    config, environment = one.config, made.get("environment", {})
    inputs, engine = made.get("inputs", config.get("inputs", {})), made.get("engine", {})
    sessions = made.get("sessions", [])
    facts = {
        "model": config["model"],
        "revision": config.get("revision"),
        "protocol": _protocol(one),
        "prompt sha256": one.metrics["protocol"].get("prompt_sha256"),
        "exemplars": inputs.get("exemplar_ids"),
        **{name.replace("_", " "): value for name, value in engine.items() if name not in ("source_config", "stored")},
        "seed": config["seed"],
        "code": f"gsm8k_nb {environment.get('packages', {}).get('gsm8k_nb')} ({_commit(environment.get('git'))})",
        "Python": environment.get("python"),
        "packages": _packages(environment),
        "machine": f"{environment['platform']}, {environment['cores']} cores" if environment else "not recorded",
        "sampled on": f"{sessions[0]['started'][:10]} to {sessions[-1]['ended'][:10]} (UTC)" if sessions else None,
        "run": one.run.folder.name,
    }
    return {name: _plain(value) for name, value in facts.items() if value not in (None, "", [], {})}


def _listed(facts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items())


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return str(value)


def _packages(environment: dict[str, Any]) -> str:
    wanted = ("torch", "transformers", "tokenizers", "numpy", "scipy")
    versions = environment.get("packages", {})
    return ", ".join(f"{name} {versions[name]}" for name in wanted if name in versions)


def _commit(git: dict[str, Any] | None) -> str:
    if not git:
        return "commit not recorded"
    return f"commit {git['commit'][:12]}{' with local changes' if git['dirty'] else ''}"


# --- showing and saving ----------------------------------------------------------------------------------------------


def show(found: Comparison, make: Callable[[Comparison], PaperTable]) -> HTML:
    """One paper table for a notebook: as a table, with its note, and its LaTeX to copy."""
    table = make(found)
    shown = compare_tables.show(found, to_frame(table)).data
    source = f"<details><summary>LaTeX</summary>{preformatted(to_latex(table))}</details>"
    return HTML(f"<p>{escape(table.caption)}</p>{shown}<p>{escape(table.note)}</p>{source}")


def show_statement(found: Comparison) -> HTML:
    """The statement, a paragraph each."""
    return HTML("".join(f"<p>{escape(line)}</p>" for line in statement(found)))


def save(found: Comparison) -> pd.DataFrame:
    """Write ``appendix.tex`` and all its parts into ``out_dir``; returns the files that lie there."""
    out = Run(found.config.out_folder)
    made = [(accuracy_table(found), accuracy_numbers(found))]
    if found.pairs:
        made.append((pairs_table(found), pairs_numbers(found)))
    for table, numbers in made:
        out.write_text(f"paper/{table.name}.tex", to_latex(table))
        out.write_text(f"paper/{table.name}.md", to_markdown(table))
        out.write_text(f"paper/{table.name}.csv", csv_text(numbers))
    shown = compare_tables.FIGURES if found.pairs else {}
    for name, (draw, _) in shown.items():
        save_figure(out, name, draw(found))
    lines = statement(found)
    out.write_text("paper/statement.md", "\n\n".join(map(markdown, lines)) + "\n")
    out.write_text("paper/statement.tex", "\n\n".join(map(latex, lines)) + "\n")
    out.write_text("appendix.tex", article(found, [table.name for table, _ in made], list(shown)))
    return compare_tables.written(out.folder)


def article(found: Comparison, tables: list[str], shown: list[str]) -> str:
    """A minimal article around the parts that `save` writes."""
    texts = {name: text for name, (_, text) in compare_tables.FIGURES.items()}
    banner = compare_tables.banner(found, short=True)
    figures = [
        "\n".join(
            [
                r"\begin{figure}[htbp]",
                r"\centering",
                rf"\includegraphics{{figures/{name}.pdf}}",
                rf"\caption{{{latex(texts[name])}. {latex(banner)}}}",
                rf"\label{{fig:gsm8k-{name.replace('_', '-')}}}",
                r"\end{figure}",
            ]
        )
        for name in shown
    ]
    sentences = [latex(conclusion(found, pair)) for pair in found.pairs]
    return "\n\n".join(
        [
            r"\documentclass{article}" "\n" r"\usepackage{booktabs,graphicx}" "\n"
            r"\begin{document}" "\n" r"\raggedright\sloppy" "\n" r"\section{Results}",
            *sentences,
            *(rf"\input{{paper/{name}.tex}}" for name in tables),
            *figures,
            r"\section{Reproducibility}",
            r"\input{paper/statement.tex}",
            r"\end{document}",
        ]
    ) + "\n"  # fmt: skip


def _between(low: float, high: float) -> str:
    """An interval in percent, in brackets where a minus sign would meet the dash."""
    if low < 0:
        return f"[{points(low, sign=False)}, {points(high, sign=False)}]"
    return f"{points(low, sign=False)}\N{EN DASH}{points(high, sign=False)}"


_METHODS = {
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
    "wilson": "Wilson",
    "clopper-pearson": "Clopper and Pearson",
    "clustered": "t interval with standard errors over problems",
}
