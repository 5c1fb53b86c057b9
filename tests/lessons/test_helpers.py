"""What the lessons rest on: imagined models, completions asked for once, readers of texts, renumbered problems."""

import json
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from gsm8k_nb import data, stats
from gsm8k_nb.answers import RULES, extract, gold_of, judge
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.config import RunConfig
from gsm8k_nb.formats import FORMATS, PromptFormat
from gsm8k_nb.lessons import imagined, live, renumber, show, stored
from gsm8k_nb.lessons.show import DATA
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.scoring import steps

BARE = PromptFormat("bare", "{question}", (), r"(-?[\d,]+)", "the question alone")
COLUMNS = {
    "GPT-3 6B fine-tuned": "6b_finetuning",
    "GPT-3 175B fine-tuned": "175b_finetuning",
    "GPT-3 6B + verifier": "6b_verification",
    "GPT-3 175B + verifier": "175b_verification",
}


@pytest.fixture(scope="module")
def classroom() -> list[Problem]:
    return data.load("classroom")


# --- the lessons' data


def test_the_counts_of_steps_are_gsm8ks(official):
    lengths = [steps(problem) for problem in data.load("gsm8k", path=str(official / "test.jsonl"))]
    assert {n: lengths.count(n) for n in sorted(set(lengths))} == DATA["steps_of_gsm8k"]


def test_easy_problems_are_right():
    for row in DATA["easy"]:
        pairs = annotations(row["solution"])
        assert pairs and all(evaluate(left) == evaluate(right) for left, right in pairs)
        assert evaluate(pairs[-1][1]) == gold_of(row["solution"])


def test_counts_of_the_published_systems_are_those_of_the_released_solutions(official):
    problems = data.load("gsm8k", path=str(official / "test.jsonl"))
    lines = (official / "example_model_solutions.jsonl").read_text(encoding="utf-8").split("\n")
    rows = {row["question"]: row for row in map(json.loads, filter(None, lines))}
    right = {
        name: np.array([judge(rows[row.question][column]["solution"], row.answer, "flexible")[1] for row in problems])
        for name, column in COLUMNS.items()
    }
    for names, counts in DATA["pairs"].items():
        a, b = (right[name] for name in names.split(" - "))
        assert [(a & b).sum(), (a & ~b).sum(), (b & ~a).sum(), (~a & ~b).sum()] == counts
    assert len(DATA["pairs"]) == 6


def test_pairing_decides_one_pair():
    counts = DATA["pairs"]["GPT-3 6B + verifier - GPT-3 175B fine-tuned"]
    a, b = np.repeat([(1, 1), (1, 0), (0, 1), (0, 0)], counts, axis=0).T
    assert (len(a), a.sum(), b.sum()) == (1319, 515, 458)
    assert stats.Paired.of(a, b).unpaired_p() > 0.02 and stats.compare(a, b).p < 0.005


# --- lessons 1, 3 and 4: answers made up


def test_a_wrong_label_stops_one_step_early(problems):
    assert imagined.one_step_early(problems[1]) == 24  # 4 * 6 = 24, then 24 * 2 = 48
    assert imagined.one_step_early(problems[0]) == 6  # only one step: the answer 5 plus one
    odd = Problem("odd", "?", "<<1/2=1/2>>1/2 <<2*3=6>>6\n#### 6", Decimal(6))
    assert imagined.one_step_early(odd) == Decimal("0.5")


def test_imagined_samples():
    rows = imagined.samples(skill=0.5, same_mistake=0.8, seed=2)
    assert ((rows["answer"] == rows["gold"]) == rows["correct"]).all() and len(rows) == 112 * 16
    assert rows["correct"].mean() == pytest.approx(0.5, abs=0.07)  # 112 problems of uniform difficulty: SE 0.03
    alike = stored.curves(rows)
    assert alike["pass@k"][1] == pytest.approx(100 * rows["correct"].mean()) == alike["maj@k"][1]
    different = stored.curves(imagined.samples(skill=0.5, same_mistake=0.0, seed=2))
    assert different["maj@k"][16] > alike["maj@k"][16] + 10
    weak = stored.curves(imagined.samples(skill=0.2, same_mistake=0.8, seed=2))
    assert weak["maj@k"][16] < weak["maj@k"][1]
    assert imagined.samples(1, 0)["correct"].mean() > 0.99


def test_a_rule_turns_the_order_of_systems_round():
    systems = imagined.systems()
    truth = systems.groupby("run")["truth"].mean()
    assert truth["Tidy"] < truth["Wordy"] < truth["Fancy"]
    rules = ("strict", "lm_eval_flexible", "flexible")
    board = pd.DataFrame({rule: show.readings(systems, rule).groupby("run")["right"].mean() for rule in rules})
    assert (board["flexible"] == truth).all()
    assert board["strict"].idxmax() == "Tidy" and board["lm_eval_flexible"].idxmax() == "Wordy"
    assert board.loc["Fancy", "lm_eval_flexible"] < 0.05 and board.loc["Wordy", "strict"] == 0


# --- lessons 2, 4 and 6: completions asked for


class Counted:
    """A sampler that counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sample(self, requests, stop):
        self.asked += [request.problem.id for request in requests]
        text = "So the answer is 8.\n#### 8"
        yield [Sample(asked.problem.id, asked.sample_index, text, "stop", None, 5, 8) for asked in requests]


def test_completions_are_asked_for_once(monkeypatch, problems, tmp_path):
    sampler, config = Counted(), RunConfig(outputs_dir=str(tmp_path))
    monkeypatch.setattr(live, "engine", lambda config: sampler)
    first = live.complete(config, BARE, problems[:2], chat=False)
    again = live.complete(config, BARE, problems[:3], chat=False)
    assert [sample.problem_id for sample in again] == ["test-0000", "test-0001", "test-0002"] and again[:2] == first
    assert sampler.asked == ["test-0000", "test-0001", "test-0002"]
    live.complete(config, BARE, problems[:1], chat=True)  # another protocol, another folder
    live.complete(config, FORMATS["zero_shot"], problems[:1], chat=True)
    assert len(sampler.asked) == 5 and len(list(tmp_path.iterdir())) == 3
    thrice = live.complete(config, BARE, problems[:1], chat=False, times=3)
    assert [sample.sample_index for sample in thrice] == [0, 1, 2] and len(sampler.asked) == 7


def test_asking_again_greedily_gives_the_same_text(classroom, tiny_model, tmp_path):
    asked = {"dataset": "classroom", "prompt": "zero_shot", "max_new_tokens": 8, "batch_size": 3}
    for temperature, different in ((0.0, 1), (1.0, 3)):
        config = RunConfig(model=str(tiny_model), outputs_dir=str(tmp_path), temperature=temperature, **asked)
        form = prompt_for(config, classroom[31:32])
        samples = live.complete(config, form, classroom[31:32], chat=True, times=3)
        assert len(samples) == 3 and len({sample.text for sample in samples}) == different
    turns = [{"role": "user", "content": "Why?"}]
    assert live.templated(config, turns).endswith("[user]Why?[assistant]")


# --- lesson 3: readers


def read_by(rule: str) -> pd.DataFrame:
    return show.report_card(lambda text: extract(text, rule))


def test_the_ten_completions_part_the_rules():
    shown = ("strict", "lm_eval_flexible", "lm_eval_cot_strict", "simple_evals", "opencompass", "flexible")
    same = {rule: read_by(rule)["same"] for rule in shown}
    assert not any(card.all() for card in same.values()), "a rule that reads all ten would leave nothing to discuss"
    assert list(same["flexible"].index[~same["flexible"]]) == ["no answer"]
    assert not same["strict"]["money"] and not same["lm_eval_flexible"]["question again"]
    assert len({tuple(card) for card in same.values()}) >= 5
    assert read_by("opencompass").loc["thousands", "read"] == "200"


def test_a_card_survives_a_broken_extractor():
    card = show.report_card(lambda text: 1 / 0)
    assert list(card["read"]) == ["ZeroDivisionError: division by zero"] * 10 and not card["same"].any()
    assert not show.report_card(lambda text: "18")["same"].any()  # a text is no number


def test_verdicts_by_rule_and_by_function():
    texts = ["#### 5", "5", "#### 48", "none", "1,200", "#### 1"]
    rows = pd.DataFrame({"text": texts, "gold": [Decimal(gold) for gold in (5, 5, 48, 48, 1200, 1200)]})
    strict, flexible = show.readings(rows, "strict"), show.readings(rows, "flexible")
    assert strict["right"].tolist() == [True, False, True, False, False, False]
    assert show.readings(rows, RULES["strict"].function).equals(strict)
    assert (strict["read"].notna().sum(), flexible["read"].notna().sum(), flexible["right"].sum()) == (3, 5, 4)


# --- lesson 6: renumbering


@pytest.fixture(scope="module")
def twins(classroom) -> list[tuple[Problem, Problem]]:
    table = renumber.twins(classroom, seed=0)
    assert (table["twin"].isna() == table["refused"].notna()).all() and list(table["original"]) == classroom
    pairs = table.dropna(subset="twin")
    return list(zip(pairs["original"], pairs["twin"], strict=True))


def test_a_part_of_the_classroom_set_can_be_renumbered(twins):
    assert len(twins) >= 25


def test_a_renumbered_problem_is_a_problem(twins):
    for original, version in twins:
        steps = annotations(version.solution)
        assert steps and all(evaluate(expression) == evaluate(value) for expression, value in steps), version.id
        assert evaluate(steps[-1][1]) == evaluate(str(version.answer)), version.id
        assert version.answer > 0 and version.answer == version.answer.to_integral_value(), version.id
        assert version.answer != original.answer and version.id.startswith(f"{original.id}-r")
        assert judge(version.solution, version.answer, "strict")[1]


def test_only_numbers_change_and_they_keep_their_look_and_order(twins):
    for original, version in twins:
        assert renumber.NUMBER.sub("#", original.question) == renumber.NUMBER.sub("#", version.question)
        old, new = renumber.NUMBER.findall(original.question), renumber.NUMBER.findall(version.question)
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert len(changed) >= renumber.FEWEST_CHANGED
        assert all(len(a) == len(b) and ("," in a) == ("," in b) and "." not in a + b for a, b in changed)
        values = [[Decimal(text.replace(",", "")) for text in side] for side in (old, new)]
        assert np.argsort(values[0], kind="stable").tolist() == np.argsort(values[1], kind="stable").tolist()


# Formulas written by hand from the questions; n are the question's numbers in their order.
BY_HAND = {
    "classroom-0000": lambda n: (n[0] - n[3]) / (n[1] * n[2]),
    "classroom-0031": lambda n: n[0] * n[1] - n[2],
    "classroom-0061": lambda n: n[0] * n[1] - n[2],
    "classroom-0064": lambda n: n[0] + n[1] * (n[2] - n[3]),
    "classroom-0078": lambda n: (n[2] - n[0]) / n[1],
    "classroom-0081": lambda n: n[2] * n[0] + (n[3] - n[4]) * n[1],
    "classroom-0097": lambda n: (n[0] - n[1]) * n[2],
}


def test_new_answers_agree_with_formulas_written_by_hand(twins):
    checked = set()
    for original, version in twins:
        if original.id in BY_HAND:
            for problem in (original, version):
                numbers = [Decimal(text.replace(",", "")) for text in renumber.NUMBER.findall(problem.question)]
                assert BY_HAND[original.id](numbers) == problem.answer, problem.id
            checked.add(original.id)
    assert checked == set(BY_HAND)


def test_renumbering_is_repeatable_and_a_seed_changes_it(classroom):
    assert renumber.renumber(classroom[31], 5) == renumber.renumber(classroom[31], 5)
    assert renumber.renumber(classroom[31], 5).question != renumber.renumber(classroom[31], 6).question


@pytest.mark.parametrize(
    ("question", "solution", "reason"),
    [
        ("A puppy gains 5 kg in 10 weeks, then 9 kg. What after those 33 weeks?", "<<5+9=14>>14\n#### 14", "no part"),
        (
            "15 trays, 5 a load of 25 minutes, 6 to change.",
            "<<15/5=3>>3 <<3*25=75>>75 <<6*6=36>>36\n#### 36",
            "two places",
        ),
        ("5 beginners and 6 others play.", "<<5+6=11>>11 <<11*13=143>>143\n#### 143", "not in the question"),
        ("He has 14 and spends 21 at 3 shops.", "<<14-21=-7>>-7\n#### -7", "not positive"),
        ("He has 14 and gets 21.", "14 + 21 = 35\n#### 35", "missing"),
        ("He has 14 and gets 21.", "<<14+21=36>>36\n#### 36", "does not compute"),
        ("He has 14 and gets 21, then all 35 are sold at 9.", "<<14+21=35>>35 <<35*9=315>>315\n#### 315", "two places"),
        ("A 14-page book costs $1.50 a page.", "<<14*1.50=21>>21\n#### 21", "fewer than two"),
    ],
)
def test_what_is_not_safe_is_refused_with_its_reason(question, solution, reason):
    problem = Problem("x", question, solution, Decimal(solution.rpartition(" ")[2]))
    with pytest.raises(renumber.Refused, match=reason):
        renumber.renumber(problem)


def test_numbers_are_replaced_at_once_and_whole():
    text = "12 of 30 pens, 120 more at $1.12 or 12,000, then 12."
    assert renumber.replace_numbers(text, {12: 30, 30: 8}) == "30 of 8 pens, 120 more at $1.12 or 12,000, then 30."
    assert renumber.replace_numbers("1,250 - 0.5", {1250: 2350, Fraction(1, 2): Fraction(3, 2)}) == "2,350 - 1.5"


def test_facts_stay():
    question = "1 gigabyte is 1,000 megabytes. A card of 64 gigabytes holds photos of 40 megabytes. How many?"
    solution = "<<64*1000=64000>>64000 <<64000/40=1600>>1600\n#### 1600"
    version = renumber.renumber(Problem("x", question, solution, Decimal(1600)))
    assert version.question.startswith("1 gigabyte is 1,000 megabytes.")


# --- sliders


@pytest.fixture
def shown(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr(show, "display", shown.append)
    return shown


def explore() -> None:
    still = [{"slope": 2, "height": 20}, {"slope": 5, "height": 20}]
    show.explore(
        lambda axes, slope, height: axes.plot([0, slope * height]), "a line", still, slope=(1, 20), height=(2, 60)
    )


def test_still_figures_come_first_and_sliders_after(shown):
    pytest.importorskip("ipywidgets", reason="the teach extra is not installed")
    explore()
    assert [figure.data.count("<img") for figure in shown[:2]] == [1, 1] and "a line, slope 2" in shown[0].data
    widget = shown[-1]
    assert [child.description for child in widget.children[:2]] == ["slope", "height"]
    before = len(shown)
    widget.children[0].value = 3  # a hand on the slider: the figure is drawn anew
    assert len(shown) == before + 1 and shown[-1].data.count("<img") == 1


def test_without_ipywidgets_the_still_figures_are_there_and_say_how_to_get_sliders(shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    explore()
    assert len(shown) == 3 and "<img" in shown[1].data and "pip install" in shown[2].data
