"""Helpers of lessons 1 to 3: wrong labels, prompts on a model that is counted, rules on texts whose truth is known."""

from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

from gsm8k_nb import data
from gsm8k_nb.answers import RULES
from gsm8k_nb.answers.calculator import annotations, evaluate
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons import labels, prompting, reading
from gsm8k_nb.lessons.stored import Pool
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.reporting.html import show_prompt
from gsm8k_nb.scoring import steps


@pytest.fixture(scope="module")
def classroom() -> list[Problem]:
    return data.load("classroom")


def test_the_counts_of_steps_are_gsm8ks(official):
    lengths = [steps(problem) for problem in data.load("gsm8k", path=str(official / "test.jsonl"))]
    assert {n: lengths.count(n) for n in sorted(set(lengths))} == labels.GSM8K_STEPS


def test_wrong_labels_are_as_many_as_asked_and_wrong(classroom):
    labelled = labels.with_wrong_labels(classroom, 0.25, seed=3)
    changed = [pair for pair in zip(classroom, labelled, strict=True) if pair[0].answer != pair[1].answer]
    assert len(changed) == 28
    assert all(wrong.solution == true.solution and wrong.id == true.id for true, wrong in changed)
    assert labelled == labels.with_wrong_labels(classroom, 0.25, seed=3)
    assert labelled != labels.with_wrong_labels(classroom, 0.25, seed=4)
    with pytest.raises(ValueError, match="share is a share and must be in 0..1, got 2"):
        labels.with_wrong_labels(classroom, 2)


def test_a_wrong_label_stops_one_step_early(problems):
    assert labels.one_step_early(problems[1]) == 24  # 4 * 6 = 24, then 24 * 2 = 48
    assert labels.one_step_early(problems[0]) == 6  # only one step: the answer 5 plus one
    odd = Problem("odd", "?", "<<1/2=1/2>>1/2 <<2*3=6>>6\n#### 6", Decimal(6))
    assert labels.one_step_early(odd) == Decimal("0.5")


@pytest.mark.parametrize(("wrong", "certain"), [(0, 10), (2, 5), (5, 1), (5.5, 0)])
def test_the_leaderboard_figure_counts_the_certain_pairs(wrong, certain):
    title = labels.leaderboard_figure(wrong).axes[0].get_title(loc="left")
    assert title == f"{wrong:g}% wrong labels: order certain for {certain} of 10 pairs"


def test_easy_problems_are_right():
    for problem in prompting.EASY:
        pairs = annotations(problem.solution)
        assert pairs and all(evaluate(left) == evaluate(right) for left, right in pairs)
        assert evaluate(pairs[-1][1]) == problem.answer


def test_exemplars_can_lose_their_number_and_their_reasoning():
    two = prompting.wei(2)
    assert two.shots == 2 and prompting.wei().exemplars[:2] == two.exemplars
    assert [shot.answer for shot in prompting.answers_only(two).exemplars] == ["The answer is 6.", "The answer is 5."]
    with pytest.raises(ValueError, match="shots must be 0 to 8, got 9"):
        prompting.wei(9)


class Counted:
    """A sampler that says what it was asked, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokenizer = self

    def __call__(self, text, add_special_tokens):
        return SimpleNamespace(input_ids=list("abcdefgh"))

    def decode(self, ids):
        return "".join(ids)

    def sample(self, requests, stop):
        self.asked += [request.problem.id for request in requests]
        text = "So the answer is 8.\n#### 8"
        yield [Sample(asked.problem.id, asked.sample_index, text, "stop", None, 5, 8) for asked in requests]


@pytest.fixture
def counted(monkeypatch) -> Counted:
    sampler = Counted()
    monkeypatch.setattr(prompting, "sampler", lambda config: sampler)
    return sampler


def test_completions_are_asked_for_once(counted, tmp_path):
    config = RunConfig(outputs_dir=str(tmp_path))
    first = prompting.complete(config, prompting.BARE, prompting.EASY[:2], chat=False)
    again = prompting.complete(config, prompting.BARE, prompting.EASY[:3], chat=False)
    assert [sample.problem_id for sample in again] == ["easy-0000", "easy-0001", "easy-0002"] and again[:2] == first
    assert counted.asked == ["easy-0000", "easy-0001", "easy-0002"]
    prompting.complete(config, prompting.BARE, prompting.EASY[:1], chat=True)  # another protocol, another folder
    prompting.complete(config, prompting.wei(1), prompting.EASY[:1], chat=True)
    assert len(counted.asked) == 5 and len(list(tmp_path.iterdir())) == 3
    thrice = prompting.complete(config, prompting.BARE, prompting.EASY[:1], chat=False, times=3)
    assert [sample.sample_index for sample in thrice] == [0, 1, 2] and len(counted.asked) == 7


def test_form_is_counted_and_a_limit_cuts(counted, tmp_path):
    config = RunConfig(outputs_dir=str(tmp_path))
    answers = {"bare": prompting.complete(config, prompting.BARE, prompting.EASY[:2], chat=False)}
    row = prompting.form_table(answers, prompting.EASY).loc["bare"]
    assert row.tolist() == [2, 2, 2, 0, 8, 1]  # the first of the two is 8
    cut = prompting.shorten(config, answers["bare"], 3)
    assert [(short.text, short.finish_reason, short.completion_tokens) for short in cut] == [("abc", "length", 3)] * 2
    assert prompting.shorten(config, answers["bare"], 8) == answers["bare"]
    title = prompting.limit_figure(config, answers, prompting.EASY, 3).axes[0].get_title(loc="left")
    assert title == "At most 3 new tokens"


def test_texts_are_shown_as_text():
    hostile = "<script>alert(1)</script> $x$"
    shown = [
        show_prompt(hostile),
        show_prompt([{"role": "user", "content": hostile}]),
        prompting.show_completions({hostile: [Sample("a", 0, hostile, "stop", None, 1, 1)]}),
    ]
    for html in shown:
        assert "<script>" not in html.data and "&lt;script&gt;" in html.data


def test_the_ten_completions_part_the_rules():
    missed = {rule: reading.misread(lambda text, rule=rule: RULES[rule].function(text)) for rule in reading.SHOWN_RULES}
    assert all(missed.values()), "a rule that reads all ten would leave nothing to discuss"
    assert missed["flexible"] == ["no answer"]
    assert "money" in missed["strict"] and "question again" in missed["lm_eval_flexible"]
    assert len({tuple(names) for names in missed.values()}) >= 5
    table = reading.cases_by_rule()
    assert table.loc["thousands", "opencompass"] == "200" and table.loc["thousands", "strict"] == "1200 *"


def test_a_card_survives_a_broken_extractor():
    card = reading.report_card(lambda text: 1 / 0)
    assert list(card["read"]) == ["ZeroDivisionError: division by zero"] * 10 and list(card[""]) == ["differs"] * 10
    with pytest.raises(ZeroDivisionError):
        reading.misread(lambda text: 1 / 0)
    assert reading.misread(lambda text: "18") == [case.name for case in reading.TEN]  # a text is no number


def test_a_rule_turns_the_order_of_systems_round(classroom):
    systems = reading.three_systems(classroom)
    true = {name: round(100 * pool.correct.mean(), 2) for name, pool in systems.items()}
    assert true["Tidy"] < true["Wordy"] < true["Fancy"]
    board = reading.leaderboard(systems, {name: name for name in RULES if name != "math_verify"})
    assert board["flexible"].to_dict() == true
    assert board["strict"].idxmax() == "Tidy" and board["lm_eval_flexible"].idxmax() == "Wordy"
    assert board.loc["Fancy", "lm_eval_flexible"] < 5 and board.loc["Wordy", "strict"] == 0


@pytest.fixture
def pool(problems) -> Pool:
    texts = [["#### 5", "5"], ["#### 48", "none"], ["1,200", "#### 1"], ["no", "no"]]
    samples = [
        [Sample(problem.id, index, text, "stop") for index, text in enumerate(row)]
        for problem, row in zip(problems, texts, strict=True)
    ]
    return Pool("made", problems, samples, [], np.zeros((4, 2), bool))


def test_verdicts_and_shares_by_rule_and_by_function(pool):
    strict, flexible = reading.readings(pool, "strict"), reading.readings(pool, "flexible")
    assert strict["right"].tolist() == [True, False, True, False, False, False, False, False]
    assert reading.readings(pool, RULES["strict"].function).equals(strict)
    assert flexible["right"].sum() == 4
    assert (strict["read"].notna().mean(), flexible["read"].notna().mean()) == (0.375, 0.625)
    shown = reading.show_disagreements(pool, "strict", "flexible").data
    assert shown.count("<p>") == 2 and "test-0000, sample 1: first reads no answer, second 5; gold 5" in shown
    assert "agree on every completion" in reading.show_disagreements(pool, "strict", "strict").data


def test_the_leaderboard_figure_has_a_line_for_each_run(pool):
    board = reading.leaderboard({"one": pool, "two": pool}, {"strict": "strict", "flexible": "flexible"})
    axes = reading.leaderboard_figure(board).axes[0]
    assert [line.get_label() for line in axes.lines] == ["one", "two"]
    assert [list(line.get_xdata()) for line in axes.lines] == [[25.0, 50.0]] * 2
