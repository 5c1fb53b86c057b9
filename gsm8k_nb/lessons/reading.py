"""Lesson 3: completions that are hard to read, and what a reading rule does to a leaderboard.

    Case("bold and a unit", "... so in total she has **18 apples**.", Decimal("18"))

The cases are written for teaching, each after a habit that models are known for; ``wanted`` is what a person reads.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from gsm8k_nb.answers import extract, is_correct, judge
from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.lessons.labels import one_step_early
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, WRONG, frame
from gsm8k_nb.reporting.html import texts
from gsm8k_nb.scoring import steps

Extractor = Callable[[str], Decimal | None]
SHOWN_RULES = ("strict", "lm_eval_flexible", "lm_eval_cot_strict", "simple_evals", "opencompass", "flexible")


@dataclass(frozen=True)
class Case:
    """A completion and the answer that a person reads from it; None where it gives none."""

    name: str
    text: str
    wanted: Decimal | None

    def is_read_by(self, read: object) -> bool:
        """Whether an extractor read what a person reads."""
        if read is None or self.wanted is None:
            return read is self.wanted
        return isinstance(read, Decimal | int | float) and is_correct(read, self.wanted)


TEN = tuple(
    Case(row["name"], row["text"], None if row["wanted"] is None else Decimal(row["wanted"])) for row in DATA["cases"]
)


def report_card(extractor: Extractor, cases: Sequence[Case] = TEN) -> pd.DataFrame:
    """What an extractor reads from each case beside what a person reads. An exception is shown as what was read."""
    rows = {}
    for case in cases:
        read: object
        try:
            read = extractor(case.text)
        except Exception as error:  # a learner's function may raise anything; the other cases are still of interest
            read = f"{type(error).__name__}: {error}"
        mark = "" if case.is_read_by(read) else "differs"
        rows[case.name] = {"read": _plain(read), "a person reads": _plain(case.wanted), "": mark}
    return pd.DataFrame.from_dict(rows, orient="index")


def misread(extractor: Extractor, cases: Sequence[Case] = TEN) -> list[str]:
    """Names of the cases that an extractor does not read as a person does. What it raises is passed on."""
    return [case.name for case in cases if not case.is_read_by(extractor(case.text))]


def cases_by_rule(rules: Sequence[str] = SHOWN_RULES, cases: Sequence[Case] = TEN) -> pd.DataFrame:
    """What each rule of this package reads from each case; a star where a person reads the same."""

    def cell(case: Case, rule: str) -> str:
        read = extract(case.text, rule)
        return _plain(read) + (" *" if case.is_read_by(read) else "")

    return pd.DataFrame({rule: {case.name: cell(case, rule) for case in cases} for rule in rules})


def readings(pool: Pool, rule: str | Extractor) -> pd.DataFrame:
    """Every completion of a run as a rule, named or a function, reads its text alone: a row each.

    Columns: ``problem`` and ``sample``, ``gold``, ``text``, ``read`` (None where no answer), ``right``.
    """
    rows = []
    for problem, samples in zip(pool.problems, pool.samples, strict=True):
        for sample in samples:
            text = sample.text or ""
            if isinstance(rule, str):
                read, right = judge(text, problem.answer, rule)
            else:
                read = rule(text)
                right = is_correct(read, problem.answer)
            rows.append((problem.id, sample.sample_index, problem.answer, text, read, right))
    columns = ["problem", "sample", "gold", "text", "read", "right"]
    return pd.DataFrame(rows, columns=columns, dtype=object).astype({"right": bool})  # a text may be no valid Unicode


def leaderboard(pools: Mapping[str, Pool], rules: Mapping[str, str | Extractor]) -> pd.DataFrame:
    """Accuracy in percent of each stored run (row) as each rule (column) reads the same texts."""
    accuracies = {
        label: {name: 100 * readings(pool, rule)["right"].mean() for name, pool in pools.items()}
        for label, rule in rules.items()
    }
    return pd.DataFrame(accuracies).round(2).rename_axis("run")


def three_systems(problems: Sequence[Problem], seed: int = 0) -> dict[str, Pool]:
    """Completions made from gold solutions for three imagined systems: each has its skill and its way to end an answer.

    A wrong completion states the value of one step before the end. ``Pool.correct`` holds the truth, whatever a rule
    reads from the texts.
    """
    pools = {}
    for name, system in DATA["systems"].items():
        n_right = round(system["skill"] * len(problems))
        right = set(random.Random(f"{seed}/{name}").sample(range(len(problems)), n_right))
        answers = [row.answer if index in right else one_step_early(row) for index, row in enumerate(problems)]
        samples = []
        for problem, answer in zip(problems, answers, strict=True):
            work = without_annotations(problem.solution).rpartition("\n####")[0]
            text = system["ending"].format(work=work, answer=f"{answer:,f}", steps=steps(problem))
            samples.append([Sample(problem.id, 0, text, "stop")])
        truth = np.array([[index in right] for index in range(len(problems))])
        pools[name] = Pool(name, list(problems), samples, [[answer] for answer in answers], truth)
    return pools


def show_disagreements(pool: Pool, a: str | Extractor, b: str | Extractor, n: int = 4) -> HTML:
    """The first ``n`` completions, of problems as different as can be, on which two rules give another verdict."""
    first, second = readings(pool, a), readings(pool, b)
    apart = first.assign(other=second["read"])[first["right"] != second["right"]].drop_duplicates("problem")[:n]
    titled = (
        (f"{row.problem}, sample {row.sample}: first reads {_plain(row.read)}, second {_plain(row.other)}; "
         f"gold {row.gold}", row.text)
        for row in apart.itertuples()
    )  # fmt: skip
    return texts(titled, "There are none: the two agree on every completion.")


def leaderboard_figure(table: pd.DataFrame) -> Figure:
    """The leaderboard as lines: one a run, a place on the axis for each rule; where lines cross, the order changes."""
    colors = dict(zip(table.index, (RIGHT, WRONG, "#009E73", "#CC79A7"), strict=False))
    with frame(height=0.6 + 0.24 * len(table.columns)) as (figure, axes):
        for name, row in table.iterrows():
            axes.plot(row, range(len(row)), "o-", color=colors.get(name), label=name, linewidth=1, clip_on=False)
        axes.set_yticks(range(len(table.columns)), table.columns)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("accuracy, %")
        figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def _plain(number: object) -> str:
    return "no answer" if number is None else str(number)
