"""A comparison in, tables and readable blocks out: what ``compare.ipynb`` shows and saves.

    >>> found = comparing.load(config)
    >>> show(found, pairs(found))          # in a notebook: the table, below the banner where the runs are unlike

Each table is one DataFrame. Nothing that is shown of a comparison of unlike runs comes without the banner.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import HTML

from gsm8k_nb.comparing import (
    DATA_FIELDS,
    POWER,
    Comparison,
    Pair,
    System,
    conclusion,
    said_unlike,
    stated,
)
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting import figures, published
from gsm8k_nb.reporting import page as report
from gsm8k_nb.reporting.files import csv_text, markdown, save_figure, save_table
from gsm8k_nb.reporting.html import escape, preformatted, table_html
from gsm8k_nb.runs import Run
from gsm8k_nb.texts import interval, p_number, p_value, percent, points

N_IDS = 10  # ids named in a table of what was left out
BANNER_STYLE = "background: #fff3e0; color: #1a1a1a; border-left: 4px solid #D55E00; padding: 0.5rem 1rem"
FIGURES = {
    "accuracy_of_systems": (figures.accuracy_of_systems, "Accuracy of each system with interval and group letters"),
    "pairwise_matrix": (figures.pairwise_matrix, "Difference of each pair of systems with its corrected p-value"),
    "pairwise_differences": (figures.pairwise_differences, "Difference of each pair of systems with its interval"),
}


def banner(found: Comparison, short: bool = False) -> str:
    """What must stand by every number where the runs are unlike, as plain text; empty where they are alike.

    ``short`` names the fields that differ without their values.
    """
    if not found.unlike:
        return ""
    fields = ", ".join(found.unlike) if short else said_unlike(found.unlike, [one.name for one in found.systems])
    return f"UNLIKE RUNS. These differ in {fields}. A difference may come from that, and not from the models."


def show(found: Comparison, table: pd.DataFrame) -> HTML:
    """A table for a notebook's output, below the banner where there is one."""
    return HTML(_banner_html(found) + table_html(table))


def show_figure(found: Comparison, name: str) -> HTML:
    """One of ``FIGURES`` for a notebook's output."""
    make, text = FIGURES[name]
    return HTML(_banner_html(found) + report.show_figure(make(found), text).data)


def show_conclusions(found: Comparison) -> HTML:
    """The conclusion of each pair, a paragraph each."""
    lines = "".join(f"<li>{escape(conclusion(found, pair))}</li>" for pair in found.pairs)
    return HTML(f"{_banner_html(found)}<ul>{lines}</ul>")


def _banner_html(found: Comparison) -> str:
    text = banner(found)
    return f'<p style="{BANNER_STYLE}">{escape(text)}</p>' if text else ""


def systems(found: Comparison) -> pd.DataFrame:
    """The runs: folder, protocol, rule, and each one's own accuracy on all the problems it scored."""
    rows = [
        {
            "system": one.name,
            "run folder": one.run.folder.name,
            "protocol": one.metrics["protocol"]["label"],
            "rule": one.rule,
            "problems scored": f"{one.metrics['rules'][one.rule]['n_problems']} of {one.metrics['dataset']['n_total']}",
            "samples a problem": one.verdicts.shape[1],
            "compared": len(found.problems),
        }
        for one in found.systems
    ]
    return pd.DataFrame(rows).set_index("system")


def left_out(found: Comparison) -> pd.DataFrame:
    """What is not compared and why: problems by reason, and folders that hold no finished run."""
    rows = [
        (one.reason, len(one.ids), ", ".join(one.ids[:N_IDS]) + (", ..." if len(one.ids) > N_IDS else ""))
        for one in found.left_out
    ]
    if found.passed_over:
        rows.append(("run not finished", len(found.passed_over), ", ".join(found.passed_over)))
    rows = rows or [("nothing is left out", 0, "")]
    return pd.DataFrame(rows, columns=["reason", "number", "which"]).set_index("reason")


def protocols(found: Comparison) -> pd.DataFrame:
    """Every field of data and protocol by system; a star marks those that differ."""
    names = dict.fromkeys(name for one in found.systems for name in one.metrics["protocol"])
    fields = [("dataset ", "dataset", name) for name in DATA_FIELDS] + [("", "protocol", name) for name in names]
    rows = {}
    for before, part, name in fields:
        values = [one.metrics[part].get(name) for one in found.systems]
        differ = any(value != values[0] for value in values)
        rows[before + name] = ["*" if differ else "", *(stated(value).strip("'") for value in values)]
    columns = ["differs", *(one.name for one in found.systems)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("field")


def accuracy(found: Comparison) -> pd.DataFrame:
    """Each system on the common problems: accuracy in percent, interval, and the letters of its groups."""
    level = f"{found.level} interval"
    rows = [
        {
            "system": one.name,
            "right": int(one.verdicts.sum()),
            "of": one.verdicts.size,
            "accuracy %": percent(one.interval.estimate),
            level: interval(one.interval.low, one.interval.high),
            "standard error": f"{100 * one.interval.standard_error:.2f}",
            "method": one.interval.method,
            "group": letters,
        }
        for one, letters in zip(found.systems, found.letters, strict=True)
    ]
    return pd.DataFrame(rows).set_index("system")


def pairs(found: Comparison) -> pd.DataFrame:
    """Each pair: difference in points with its own interval, the test, and p-values before and after correction."""
    level = f"{found.level} interval"
    rows = [
        {
            "first": names[0],
            "second": names[1],
            "difference": points(pair.result.difference),
            level: interval(pair.result.low, pair.result.high),
            "standard error": f"{100 * pair.result.standard_error:.2f}",
            "test": pair.test,
            "p": p_number(pair.p, found.alpha),
            f"p after {found.correction}": p_number(pair.p_adjusted, found.alpha),
            f"differ at {found.alpha_level}": "yes" if pair.different else "not shown",
            "p of the unpaired z-test": p_number(pair.unpaired_p, found.alpha),
        }
        for pair, names in _named(found)
    ]
    columns = list(rows[0]) if rows else ["first", "second"]
    return pd.DataFrame(rows, columns=columns).set_index(["first", "second"])


def matrix(found: Comparison) -> pd.DataFrame:
    """Row minus column in points, with the corrected p-value; a star where the pair differs."""
    table = {}
    for i, one in enumerate(found.systems):
        cells = []
        for j in range(len(found.systems)):
            if i == j:
                cells.append("")
                continue
            pair = found.pair(i, j)
            difference = pair.result.difference * (1 if pair.first == i else -1)
            p = p_value(pair.p_adjusted, found.alpha)
            cells.append(f"{points(difference)}{'*' if pair.different else ''} ({p})")
        table[one.name] = cells
    names = [one.name for one in found.systems]
    return pd.DataFrame.from_dict(table, orient="index", columns=names).rename_axis("row minus column")


def discordance(found: Comparison) -> pd.DataFrame:
    """The two by two table of each pair, a row each: problems by who is right (or has the higher mean)."""
    rows = []
    for pair, names in _named(found):
        a, b = (found.systems[place].verdicts.mean(axis=1) for place in (pair.first, pair.second))
        both, neither = int(((a == 1) & (b == 1)).sum()), int(((a == 0) & (b == 0)).sum())
        tied = len(a) - both - neither - pair.result.only_a - pair.result.only_b
        rows.append((*names, both, pair.result.only_a, pair.result.only_b, neither, tied))
    columns = ["first", "second", "both right", "first ahead", "second ahead", "both wrong", "tied between"]
    table = pd.DataFrame(rows, columns=columns).set_index(["first", "second"])
    return table if table["tied between"].any() else table.drop(columns="tied between")


def agreement(found: Comparison) -> pd.DataFrame:
    """How alike two systems are, problem by problem.

    ``same verdict``: the chance that a sample of each is judged alike. ``kappa``: how far that is above what their
    accuracies alone would give (Cohen 1960). ``same wrong answer``: of two wrong samples of a problem, the share that
    gave the same number. Shares in percent.
    """
    rows = []
    for pair, names in _named(found):
        first, second = found.systems[pair.first], found.systems[pair.second]
        a, b = first.verdicts.mean(axis=1), second.verdicts.mean(axis=1)
        same = float((a * b + (1 - a) * (1 - b)).mean())
        chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
        kappa = f"{(same - chance) / (1 - chance):.2f}" if chance < 1 else ""
        alike, wrong = same_wrong_answers(first, second)
        share = f"{100 * alike / wrong:.1f}" if wrong else ""
        rows.append((*names, f"{100 * same:.1f}", kappa, wrong, share))
    columns = ["first", "second", "same verdict %", "kappa", "pairs of wrong samples", "same wrong answer %"]
    return pd.DataFrame(rows, columns=columns).set_index(["first", "second"])


def same_wrong_answers(first: System, second: System) -> tuple[int, int]:
    """Of all pairs of wrong samples, one of each system on the same problem: how many read the same number, and all."""
    alike = total = 0
    for a, b, x, y in zip(first.predicted, second.predicted, first.verdicts, second.verdicts, strict=True):
        wrong_a, wrong_b = Counter(a[x == 0]), Counter(b[y == 0])
        total += wrong_a.total() * wrong_b.total()
        alike += sum(count * wrong_b[value] for value, count in wrong_a.items() if value is not None)
    return alike, total


def power(found: Comparison) -> pd.DataFrame:
    """The smallest true difference, in points, that a pair of runs like these finds with 80% probability."""
    rows = [
        {
            "first": names[0],
            "second": names[1],
            "problems": pair.power.n_problems,
            "disagree %": f"{100 * pair.power.discordance:.1f}",
            "of it sampling noise %": "" if pair.power.within is None else f"{100 * pair.power.within:.1f}",
            f"found with {POWER:.0%}, this pair alone": points(pair.power.difference, sign=False),
            f"among {len(found.pairs)} pairs": points(pair.power_corrected.difference, sign=False),
            "ruled out beyond": points(pair.bound, sign=False),
        }
        for pair, names in _named(found)
    ]
    columns = list(rows[0]) if rows else ["first", "second"]
    table = pd.DataFrame(rows, columns=columns).set_index(["first", "second"])
    noise = "of it sampling noise %"
    return table if noise in table and (table[noise] != "").any() else table.drop(columns=noise, errors="ignore")


def only_one(found: Comparison) -> pd.DataFrame:
    """How many problems each system alone solves, and how many it alone fails."""
    solved = np.array([one.solved for one in found.systems])
    number = solved.sum(axis=0)
    rows = [
        (one.name, int(mine.sum()), int((mine & (number == 1)).sum()), int((~mine & (number == len(solved) - 1)).sum()))
        for one, mine in zip(found.systems, solved, strict=True)
    ]
    return pd.DataFrame(rows, columns=["system", "solves", "alone solves", "alone fails"]).set_index("system")


def solved_by_one(found: Comparison) -> pd.DataFrame:
    """Every problem that one system alone solves: who, the gold answer, what each read, and the question."""
    rows = []
    for place, one in enumerate(found.systems):
        for problem, where in _alone(found, place):
            readings = {other.name: _read_as(other, where) for other in found.systems}
            rows.append({"problem": problem.id, "solved by": one.name, "gold": str(problem.answer), **readings,
                         "question": problem.question})  # fmt: skip
    names = [one.name for one in found.systems]
    return pd.DataFrame(rows, columns=["problem", "solved by", "gold", *names, "question"]).set_index("problem")


def show_solved_by_one(found: Comparison, n: int = 1) -> HTML:
    """The first ``n`` problems that each system alone solves, with the text of every system, side by side, escaped."""
    texts = [one.run.journal().samples for one in found.systems]
    blocks = [_banner_html(found)]
    for place, one in enumerate(found.systems):
        alone = list(_alone(found, place))
        blocks.append(f"<h4>Only {escape(one.name)} solves {len(alone)} problems</h4>")
        blocks += [_side_by_side(found, texts, problem, where) for problem, where in alone[:n]]
    return HTML("".join(blocks))


def _alone(found: Comparison, place: int) -> Iterator[tuple[Problem, int]]:
    """The problems that the system at ``place`` alone solves, each with its row."""
    solved = np.array([one.solved for one in found.systems])
    for where in np.nonzero(solved[place] & (solved.sum(axis=0) == 1))[0]:
        yield found.problems[where], int(where)


def _side_by_side(found: Comparison, texts: list[dict[tuple[str, int], Sample]], problem: Problem, where: int) -> str:
    """One problem and a column for each system's first sample of its majority verdict."""
    columns = []
    for one, samples in zip(found.systems, texts, strict=True):
        index = int(np.nonzero(one.verdicts[where] == one.solved[where])[0][0])
        verdict = "right" if one.verdicts[where, index] else "wrong"
        read = one.predicted[where, index]
        title = f"{one.name}: {verdict}, read as {'no number' if read is None else read}"
        text = samples[problem.id, index].text or ""
        columns.append(f'<div style="flex: 1 1 18em; min-width: 0"><b>{escape(title)}</b>{preformatted(text)}</div>')
    return (
        f"<p>{escape(problem.id)}, gold {escape(str(problem.answer))}</p>{preformatted(problem.question)}"
        f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{"".join(columns)}</div>'
    )


def _read_as(one: System, where: int) -> str:
    """What was read from a system's samples of a problem: the number, or each number with its count."""
    counts = Counter("none" if value is None else str(value) for value in one.predicted[where])
    if len(one.predicted[where]) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count}x)" for value, count in counts.most_common())


def beside_published(found: Comparison) -> pd.DataFrame:
    """Each run beside published results of its own protocol: inside or outside its interval over all its problems."""
    tables = [published.beside(one.metrics, one.config["model"]).assign(run=one.name) for one in found.systems]
    table = pd.concat(tables, ignore_index=True)
    if not len(table):
        note = "no published result of the same protocol, or no complete run of the official test split"
        table = pd.DataFrame([{"run": note}], columns=["run", *published.COLUMNS]).fillna("")
    return table.set_index("run")


def save(found: Comparison) -> pd.DataFrame:
    """Write every table (CSV, LaTeX), figure (PNG, PDF) and the conclusions into ``out_dir``; returns what was written.

    Where the runs are unlike, a column of each table says so.
    """
    out = Run(found.config.out_folder)
    for name, make in TABLES.items():
        table = make(found)
        table = table.assign(unlike=", ".join(found.unlike)) if found.unlike else table
        if name == "solved_by_one":  # whole questions: data, not a table to print
            out.write_text(f"tables/{name}.csv", csv_text(table))
        else:
            save_table(out, name, table)
    for name, (make, _) in FIGURES.items():
        if found.pairs:
            save_figure(out, name, make(found))
    lines = [conclusion(found, pair) for pair in found.pairs]
    out.write_text("conclusions.md", "\n\n".join(map(markdown, filter(None, [banner(found), *lines]))) + "\n")
    return written(out.folder)


def written(folder: Path) -> pd.DataFrame:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
    rows = [(str(file.relative_to(folder)), file.stat().st_size) for file in files]
    return pd.DataFrame(rows, columns=["file", "bytes"]).set_index("file")


TABLES = {
    "systems": systems,
    "left_out": left_out,
    "protocols": protocols,
    "accuracy": accuracy,
    "pairs": pairs,
    "matrix": matrix,
    "discordance": discordance,
    "agreement": agreement,
    "power": power,
    "only_one": only_one,
    "solved_by_one": solved_by_one,
    "beside_published": beside_published,
}


def _named(found: Comparison) -> Iterator[tuple[Pair, tuple[str, str]]]:
    return ((pair, found.names(pair)) for pair in found.pairs)
