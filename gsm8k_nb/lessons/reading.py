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

from gsm8k_nb.answers import RULES, extract, is_correct, judge
from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.lessons.labels import one_step_early
from gsm8k_nb.lessons.show import DATA, canvas, texts
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, WIDTH_IN, WRONG
from gsm8k_nb.scoring import steps

Extractor = Callable[[str], Decimal | None]
SHOWN_RULES = ("strict", "lm_eval_flexible", "lm_eval_cot_strict", "simple_evals", "opencompass", "flexible")


@dataclass(frozen=True)
class Case:
    """A completion and the answer that a person reads from it; None where it gives none."""

    name: str
    text: str
    wanted: Decimal | None


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
        rows[case.name] = {
            "read": _plain(read),
            "a person reads": _plain(case.wanted),
            "": "" if _same(read, case.wanted) else "differs",
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def misread(extractor: Extractor, cases: Sequence[Case] = TEN) -> list[str]:
    """Names of the cases that an extractor does not read as a person does. What it raises is passed on."""
    return [case.name for case in cases if not _same(extractor(case.text), case.wanted)]


def cases_by_rule(rules: Sequence[str] = SHOWN_RULES, cases: Sequence[Case] = TEN) -> pd.DataFrame:
    """What each rule of this package reads from each case; a star where a person reads the same."""
    rows = {}
    for case in cases:
        read = {rule: extract(case.text, rule) for rule in rules}
        rows[case.name] = {
            rule: _plain(found) + (" *" if _same(found, case.wanted) else "") for rule, found in read.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def show_cases(names: Sequence[str] = (), cases: Sequence[Case] = TEN) -> HTML:
    """The texts of the cases (or of those named), as they are."""
    return texts((case.name, case.text) for case in cases if not names or case.name in names)


def verdicts(pool: Pool, extractor: str | Extractor) -> np.ndarray:
    """Right or wrong for every stored sample, bool (problems, samples), read by a rule's name or by a function."""
    rows = []
    for problem, samples in zip(pool.problems, pool.samples, strict=True):
        texts = [sample.text or "" for sample in samples]
        if isinstance(extractor, str):
            rows.append([judge(text, problem.answer, extractor)[1] for text in texts])
        else:
            rows.append([is_correct(extractor(text), problem.answer) for text in texts])
    return np.array(rows, dtype=bool)


def leaderboard(pools: Mapping[str, Pool], rules: Mapping[str, str | Extractor]) -> pd.DataFrame:
    """Accuracy in percent of each stored run (row) as each rule (column) reads the same texts."""
    return pd.DataFrame(
        {
            label: {name: round(100 * float(verdicts(pool, rule).mean()), 2) for name, pool in pools.items()}
            for label, rule in rules.items()
        }
    ).rename_axis("run")


def three_systems(problems: Sequence[Problem], seed: int = 0) -> dict[str, Pool]:
    """Completions made from gold solutions for three imagined systems: each has its skill and its way to end an answer.

    A wrong completion states the value of one step before the end. ``Pool.correct`` holds the truth, whatever a rule
    reads from the texts.
    """
    pools = {}
    for name, (skill, ending) in ((name, facts.values()) for name, facts in DATA["systems"].items()):
        right = set(random.Random(f"{seed}/{name}").sample(range(len(problems)), round(skill * len(problems))))
        truth = np.array([[index in right] for index in range(len(problems))])
        given = [one.answer if index in right else one_step_early(one) for index, one in enumerate(problems)]
        texts = [_ended(problem, answer, ending) for problem, answer in zip(problems, given, strict=True)]
        samples = [[Sample(one.id, 0, text, "stop")] for one, text in zip(problems, texts, strict=True)]
        pools[name] = Pool(name, "made up", 0.0, list(problems), samples, [[answer] for answer in given], truth)
    return pools


def truth(pools: Mapping[str, Pool]) -> dict[str, float]:
    """The true accuracy of each system in percent, known where its completions were made up."""
    return {name: round(100 * float(pool.correct.mean()), 2) for name, pool in pools.items()}


def _ended(problem: Problem, answer: Decimal, ending: str) -> str:
    work = without_annotations(problem.solution).rpartition("\n####")[0]
    return ending.format(work=work, answer=f"{answer:,f}", steps=steps(problem))


def show_first(pools: Mapping[str, Pool], index: int = 0) -> HTML:
    """The first completion of one problem from each run or system."""
    return texts((name, pool.samples[index][0].text) for name, pool in pools.items())


def show_disagreements(pool: Pool, a: str | Extractor, b: str | Extractor, n: int = 4) -> HTML:
    """The first ``n`` completions, of problems as different as can be, on which two rules give another verdict."""
    apart = verdicts(pool, a) != verdicts(pool, b)
    titled = []
    for index, row in [(index, row) for index, row in enumerate(apart) if row.any()][:n]:
        sample = int(row.argmax())
        text = pool.samples[index][sample].text or ""
        read = ", ".join(f"{name} {_plain(_read(rule, text))}" for name, rule in (("first reads", a), ("second", b)))
        titled.append((f"{pool.problems[index].id}, sample {sample}: {read}; gold {pool.golds[index]}", text))
    return texts(titled, "There are none: the two agree on every completion.")


def share_read(pools: Mapping[str, Pool], rules: Mapping[str, str | Extractor]) -> pd.DataFrame:
    """Share in percent of each run's completions from which each rule reads any number, right or wrong."""
    rows = {}
    for name, pool in pools.items():
        texts = [sample.text or "" for row in pool.samples for sample in row]
        rows[name] = {
            label: round(100 * sum(_read(rule, text) is not None for text in texts) / len(texts), 1)
            for label, rule in rules.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def all_rules() -> dict[str, str]:
    """The package's rules by name, without the one that needs a further package."""
    return {name: name for name in RULES if name != "math_verify"}


def leaderboard_figure(table: pd.DataFrame) -> Figure:
    """The leaderboard as lines: one a run, a place on the axis for each rule; where lines cross, the order changes."""
    colors = dict(zip(table.index, (RIGHT, WRONG, "#009E73", "#CC79A7"), strict=False))
    with canvas(WIDTH_IN, 0.6 + 0.24 * len(table.columns)) as (figure, axes):
        for name, row in table.iterrows():
            axes.plot(row, range(len(row)), "o-", color=colors.get(name), label=name, linewidth=1, clip_on=False)
        axes.set_yticks(range(len(table.columns)), table.columns)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("accuracy, %")
        figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def _read(rule: str | Extractor, text: str) -> Decimal | None:
    return extract(text, rule) if isinstance(rule, str) else rule(text)


def _same(read: object, wanted: Decimal | None) -> bool:
    if wanted is None or read is None:
        return read is None and wanted is None
    return isinstance(read, Decimal | int | float) and is_correct(read, str(wanted))


def _plain(number: object) -> str:
    return "no answer" if number is None else str(number)
