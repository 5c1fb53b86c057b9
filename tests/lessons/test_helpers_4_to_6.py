"""What lessons 4 to 6 rest on: votes and their noise, published counts, equal models, and renumbered problems."""

import json
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from gsm8k_nb import data, metrics, stats
from gsm8k_nb.answers import judge
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons import better, chance, prompting, renumber, show
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.records import Problem
from gsm8k_nb.texts import p_number

COLUMNS = {
    "GPT-3 6B fine-tuned": "6b_finetuning",
    "GPT-3 175B fine-tuned": "175b_finetuning",
    "GPT-3 6B + verifier": "6b_verification",
    "GPT-3 175B + verifier": "175b_verification",
}


@pytest.fixture(scope="module")
def classroom() -> list[Problem]:
    return data.load("classroom")


@pytest.fixture(scope="module")
def twins(classroom) -> list[tuple[Problem, Problem]]:
    originals, versions, refused = renumber.renumber_all(classroom, seed=0)
    assert len(originals) == len(versions) and len(originals) + refused["problems"].sum() == len(classroom)
    return list(zip(originals, versions, strict=True))


# --- lesson 6: renumbering


def test_a_good_part_of_the_classroom_set_can_be_renumbered(twins):
    assert len(twins) >= 30


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
    "classroom-0015": lambda n: n[0] * n[1] - n[2],
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
        ("A puppy gains 4 kg in 10 weeks, then 9 kg. What after those 33 weeks?", "<<4+9=13>>13\n#### 13", "no part"),
        ("12 trays, 4 a load of 25 minutes, 5 to change.", "<<12/4=3>>3 <<3*25=75>>75 <<5*5=25>>25\n#### 25", "small"),
        ("5 beginners and 6 others play.", "<<5+6=11>>11 <<11*13=143>>143\n#### 143", "not in the question"),
        ("He has 14 and spends 21 at 3 shops.", "<<14-21=-7>>-7\n#### -7", "not a positive number"),
        ("He has 14 and gets 21.", "14 + 21 = 35\n#### 35", "missing or does not compute"),
        ("He has 14 and gets 21.", "<<14+21=36>>36\n#### 36", "missing or does not compute"),
        ("He has 14 and gets 21, then all 35 are sold at 4.", "<<14+21=35>>35 <<35*4=140>>140\n#### 140", "two places"),
        ("A 14-page book costs $1.50 a page.", "<<14*1.50=21>>21\n#### 21", "fewer than two"),
    ],
)
def test_what_is_not_safe_is_refused_with_its_reason(question, solution, reason):
    problem = Problem("x", question, solution, Decimal(solution.rpartition(" ")[2]))
    with pytest.raises(renumber.Refused, match=f"x cannot be renumbered: .*{reason}"):
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


def test_simulated_models():
    original, twin = renumber.simulate(100_000, skill=0.6, memorised=0.25, seed=1)
    assert original.mean() == pytest.approx(0.25 + 0.75 * 0.6, abs=0.01) and twin.mean() == pytest.approx(0.6, abs=0.01)
    with pytest.raises(ValueError, match="memorised is a share .* got 25"):
        renumber.simulate(10, skill=0.6, memorised=25)


def test_two_runs_in_one_row():
    row = better.versus(np.array([1, 1, 1, 0]), np.array([1, 0, 0, 0]), ("original", "renumbered"))
    assert (row["difference, points"], row["only original right"], row["p, paired"]) == ("+50.00", 2, "0.50")
    assert (row["original, %"], row["renumbered, %"], row["problems"]) == ("75.00", "25.00", 4)


def test_changed_numbers_are_marked_and_text_is_escaped(classroom):
    original = replace(classroom[31], question=classroom[31].question + " <script>$x$</script>")
    html = renumber.marked(original, renumber.renumber(original)).data
    assert "<script" not in html and "$" not in html
    assert html.count("<b>") >= 4 and html.count("<b>") % 2 == 0


def test_both_versions_are_asked_and_kept_apart(classroom, tiny_model, tmp_path):
    config = RunConfig(
        model=str(tiny_model), dataset="classroom", prompt="zero_shot", max_new_tokens=2, outputs_dir=str(tmp_path)
    )
    problems = [classroom[31], renumber.renumber(classroom[31])]
    assert renumber.ask(config, problems).tolist() == [0, 0]
    [file] = tmp_path.glob("*/samples.jsonl")
    ids = [json.loads(line)["problem_id"] for line in file.read_text().splitlines()]
    assert sorted(ids) == ["classroom-0031", "classroom-0031-r0"]
    before = file.read_bytes()
    renumber.ask(config, problems)
    assert file.read_bytes() == before


# --- lesson 4: chance


def test_asking_again_greedily_gives_the_same_text(classroom, tiny_model, tmp_path):
    asked = {"dataset": "classroom", "prompt": "zero_shot", "max_new_tokens": 8, "batch_size": 3}
    for temperature, different in ((0.0, 1), (1.0, 3)):
        config = RunConfig(model=str(tiny_model), outputs_dir=str(tmp_path), temperature=temperature, **asked)
        form = prompt_for(config, classroom[31:32])
        samples = prompting.complete(config, form, classroom[31:32], chat=True, times=3)
        assert len(samples) == 3 and len({sample.text for sample in samples}) == different


def test_imagined_pools():
    pool = chance.imagined(skill=0.5, same_mistake=0.8, seed=2)
    right = [[answer == gold for answer in row] for row, gold in zip(pool.answers, pool.golds, strict=True)]
    assert (np.array(right) == pool.correct).all()
    assert pool.correct.mean() == pytest.approx(0.5, abs=0.07)  # 112 problems of uniform difficulty: SE 0.03
    alike = metrics.maj_curve(pool.answers, pool.golds)[:, -1].mean()
    different = chance.imagined(skill=0.5, same_mistake=0.0, seed=2)
    assert metrics.maj_curve(different.answers, different.golds)[:, -1].mean() > alike + 0.1
    weak = chance.imagined(skill=0.2, same_mistake=0.8, seed=2)
    assert metrics.maj_curve(weak.answers, weak.golds)[:, -1].mean() < weak.correct.mean()
    assert chance.imagined(1, 0).correct.mean() > 0.99
    with pytest.raises(ValueError, match="skill is a share"):
        chance.imagined(50, 0)


def test_the_estimator_is_unbiased_and_more_samples_calm_it():
    table = chance.noise(chance.imagined(0.3, 0.5), k=4, sizes=(4, 16)).astype(float)
    assert table["unbiased, off by"].abs().max() < 0.5
    assert (table["plug-in, off by"] < -1).all()  # 1 - (1 - c/n)^k is too low
    assert table.loc[16, "unbiased, standard deviation"] < 0.75 * table.loc[4, "unbiased, standard deviation"]


def test_figures_of_the_lessons():
    for figure in (
        chance.curves(chance.imagined(0.5, 0.5), 8),
        chance.curves(chance.imagined(0.0, 1.0), 16),
        better.power_figure(difference=20, discordance=2),  # raised to what the difference implies
        better.luck_figure(n_models=1, n_problems=112),
    ):
        figure.canvas.draw()
        assert figure.axes[0].get_title(loc="left")


# --- lesson 5: A and B


def test_counts_of_the_published_systems_are_those_of_the_released_solutions(official):
    problems = data.load("gsm8k", path=str(official / "test.jsonl"))
    lines = (official / "example_model_solutions.jsonl").read_text(encoding="utf-8").split("\n")
    rows = {row["question"]: row for row in map(json.loads, filter(None, lines))}
    right = {
        name: np.array([judge(rows[row.question][column]["solution"], row.answer, "flexible")[1] for row in problems])
        for name, column in COLUMNS.items()
    }
    assert {name: int(verdicts.sum()) for name, verdicts in right.items()} == better.RIGHT_OF
    for (first, second), counts in better.DISCORDANT.items():
        a, b = right[first], right[second]
        assert ((a & ~b).sum(), (b & ~a).sum()) == counts


def test_a_pair_is_rebuilt_from_its_counts():
    for (first, second), (only_first, only_second) in better.DISCORDANT.items():
        a, b = better.pair(first, second)
        assert len(a) == len(b) == 1319
        assert (a.sum(), b.sum()) == (better.RIGHT_OF[first], better.RIGHT_OF[second])
        assert ((a > b).sum(), (b > a).sum()) == (only_first, only_second)
    with pytest.raises(ValueError, match="no counts for the pair 'x', 'y'; known: GPT-3"):
        better.pair("x", "y")


def test_pairing_decides_one_pair():
    verdicts = better.pair("GPT-3 6B + verifier", "GPT-3 175B fine-tuned")
    assert p_number(stats.Paired.of(*verdicts).unpaired_p()) == "0.021"
    assert better.versus(*verdicts)["p, paired"] == "0.0032"


def test_samples_counted_as_independent_make_the_interval_too_narrow():
    a, b = chance.imagined(0.5, 0.5, seed=1), chance.imagined(0.45, 0.5, seed=2)
    widths = better.counted_three_ways(a, b)["width"].astype(float).tolist()
    assert widths[0] > widths[1] > 1.5 * widths[2]


def test_equal_models_are_found_different_too_often_without_correction():
    table = better.contest(n_models=10, n_problems=500, seed=1)
    assert len(table) == 45 and table["p"].is_monotonic_increasing and (table["p, Holm"] >= table["p"]).all()
    contests = [better.contest(n_models=10, n_problems=500, seed=seed) for seed in range(1, 101)]
    assert np.mean([(table["p"] <= 0.05).any() for table in contests]) > 0.30
    assert np.mean([(table["p, Holm"] <= 0.05).any() for table in contests]) <= 0.10
    assert np.mean([(table["p"] <= 0.001).sum() for table in contests]) < 1
    assert np.mean([(table["p"] <= 0.5).sum() for table in contests]) > 10


def test_a_contest_gives_p_that_is_not_rounded(monkeypatch):
    """0.05004 is no alarm at 5%, and 0.04996 is one, though four digits of both are 0.0500."""
    values = [0.05004, 0.04996, 0.010004, 0.009996, 0.00100004, 0.1000004]
    p = iter(values)
    monkeypatch.setattr(better.stats, "mcnemar_p", lambda a, b: next(p))
    assert [better.contest(n_models=2, n_problems=50)["p"].item() for _ in values] == values


# --- sliders


@pytest.fixture
def shown(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr(show, "display", shown.append)
    return shown


def explore() -> None:
    still = [{"difference": 2, "discordance": 20}, {"difference": 5, "discordance": 20}]
    show.explore(better.power_figure, "power", still, difference=(1, 20), discordance=(2, 60))


def test_still_figures_come_first_and_sliders_after(shown):
    pytest.importorskip("ipywidgets", reason="the teach extra is not installed")
    explore()
    assert [figure.data.count("<img") for figure in shown[:2]] == [1, 1] and "difference 2" in shown[0].data
    widget = shown[-1]
    assert [child.description for child in widget.children[:2]] == ["difference", "discordance"]
    before = len(shown)
    widget.children[0].value = 3  # a hand on the slider: the figure is drawn anew
    assert len(shown) == before + 1 and shown[-1].data.count("<img") == 1


def test_without_ipywidgets_the_still_figures_are_there_and_say_how_to_get_sliders(shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    explore()
    assert len(shown) == 3 and "<img" in shown[1].data and "pip install" in shown[2].data
