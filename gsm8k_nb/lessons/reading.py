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
from matplotlib import rc_context
from matplotlib.figure import Figure

from gsm8k_nb.answers import RULES, extract, is_correct, judge
from gsm8k_nb.answers.calculator import without_annotations
from gsm8k_nb.lessons.labels import one_step_early
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.figures import RIGHT, STYLE, WIDTH_IN, WRONG
from gsm8k_nb.reporting.html import escape, preformatted
from gsm8k_nb.scoring import steps

Extractor = Callable[[str], Decimal | None]
SHOWN_RULES = ("strict", "lm_eval_flexible", "lm_eval_cot_strict", "simple_evals", "opencompass", "flexible")

# Imagined systems: (share of problems that it solves, how it ends an answer). The better the skill, the freer the form.
SYSTEMS = {
    "Tidy": (0.70, "{work}\n#### {answer}"),
    "Wordy": (0.80, "{work}\nThe answer is ${answer}."),
    "Fancy": (0.90, "{work}\nFinal answer: $\\boxed{{{answer}}}$\n\nShall I explain any of the {steps} steps?"),
}


@dataclass(frozen=True)
class Case:
    """A completion and the answer that a person reads from it; None where it gives none."""

    name: str
    text: str
    wanted: Decimal | None


TEN = (
    Case("thousands", "3 boxes hold 3 * 400 = 1,200 screws.\n#### 1,200", Decimal(1200)),
    Case("money", "4 tickets at $6.25 cost 4 * 6.25 = $25.00.\n#### $25.00", Decimal(25)),
    Case("below zero", "It was 4 degrees and fell by 3 * 5 = 15. 4 - 15 = -11.\n#### -11", Decimal(-11)),
    Case("LaTeX box", "\\[ \\frac{3}{4} \\times 24 = 18 \\]\n\nThe answer is $\\boxed{18}$.", Decimal(18)),
    Case("bold and a unit", "5 bags with 7 apples are 35 apples.\n\n**Answer:** **35 apples**", Decimal(35)),
    Case("the sum again", "She has 30 - 12 left. So the answer is 30 - 12 = 18.", Decimal(18)),
    Case("a fraction", "He ate 1/4 and she ate 1/2, so 1/4 are left. The answer is 1/4.", Decimal("0.25")),
    Case(
        "question again",
        "2 * 9 = 18.\n#### 18\n\nQuestion: A farmer has 7 cows and buys 5. How many are there?\nAnswer: 7 + 5 = 12.",
        Decimal(18),
    ),
    Case("two candidates", "First I get 42. But 6 were broken, so the answer is 36 (not 42).", Decimal(36)),
    Case("no answer", "To solve this, we read the problem again. There are 3 shelves with 40 books. We need", None),
)


def report_card(extractor: Extractor, cases: Sequence[Case] = TEN) -> pd.DataFrame:
    """What an extractor reads from each case beside what a person reads. An exception is shown as what was read."""
    rows = {}
    for case in cases:
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
    chosen = [case for case in cases if not names or case.name in names]
    return HTML(
        "".join(
            f"<p style='margin-top: 1em'><b>{escape(case.name)}</b></p>{preformatted(case.text)}" for case in chosen
        )
    )


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
    for name, (skill, ending) in SYSTEMS.items():
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
    blocks = [
        f"<p style='margin-top: 1em'><b>{escape(name)}</b></p>{preformatted(pool.samples[index][0].text or '')}"
        for name, pool in pools.items()
    ]
    return HTML("".join(blocks))


def disagreement_table(counts: Mapping[str, tuple[int, int]], first: str, second: str) -> pd.DataFrame:
    """Counts of completions that only the first, or only the second, of two rules holds right: a row for each run."""
    return pd.DataFrame.from_dict(counts, orient="index", columns=[first, second]).rename_axis("run")


def show_disagreements(pool: Pool, a: str | Extractor, b: str | Extractor, n: int = 4) -> HTML:
    """The first ``n`` completions, of problems as different as can be, on which two rules give another verdict."""
    apart = verdicts(pool, a) != verdicts(pool, b)
    places = [(int(row.argmax()), index) for index, row in enumerate(apart) if row.any()][:n]
    blocks = []
    for sample, index in places:
        text, gold = pool.samples[index][sample].text or "", pool.golds[index]
        read = ", ".join(f"{name} {_plain(_read(rule, text))}" for name, rule in (("first reads", a), ("second", b)))
        head = f"{pool.problems[index].id}, sample {sample}: {read}; gold {gold}"
        blocks.append(f"<p>{escape(head)}</p>{preformatted(text)}")
    return HTML("".join(blocks) or "<p>There are none: the two agree on every completion.</p>")


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
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 0.6 + 0.24 * len(table.columns)), layout="constrained")
        axes = figure.subplots()
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
