"""The metrics against brute force over every subset, against known values, and on what they must refuse."""

import json
import math
import tempfile
import time
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gsm8k_nb import metrics
from gsm8k_nb.metrics import (
    bounds,
    identical_samples,
    maj_at_k,
    maj_curve,
    pass_at_k,
    pass_curve,
    pass_hat_curve,
    pass_hat_k,
)
from gsm8k_nb.records import Sample
from gsm8k_nb.runs import Run

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "metrics.jsonl"


# ---- the shared table of cases: each row that the metrics can meet, by id


def refused(call, *args, **kwargs):
    with pytest.raises(ValueError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def problem_counts_as_sample_counts(given, expected):
    n = given["per_problem_samples"]
    correct = np.arange(given["problems"])[:, None] < given["solved"]
    assert expected is None and "k=10" in refused(pass_at_k, n, 1, 10)
    assert "needs 10" in refused(pass_curve, correct, k_max=10)
    assert pass_curve(correct).mean() == pytest.approx(0.304878, abs=1e-6)


def pass_at_k_row(given, expected):
    if expected is None:
        assert "undefined" in refused(pass_at_k, given["n"], given["c"], given["k"])
    else:
        assert pass_at_k(given["n"], given["c"], given["k"]) == pytest.approx(expected, abs=1e-15)


def unscored_before_pass_at_k(given, expected):
    correct = [[None if score is None else score == "1" for score in given["scores"]]]
    assert expected is None and "3 of 5 samples are unscored" in refused(pass_curve, correct, given["k"])
    assert pass_at_k(5, sum(score is True for score in correct[0]), given["k"]) == 0.0  # where n stays 5


def cache_returns_one_text(given, expected):
    first, again = given["first_run"], given["second_run_from_cache"]
    assert first == again and identical_samples([first]) == identical_samples([again]) == 0.0
    one_text = [first[:1] * len(first)]  # what a key without the sample index would return
    assert identical_samples(one_text) == 1.0


def server_ignores_n(given, expected):
    choices = ["18"] * given["choices_returned"]
    assert "there are 1" in refused(maj_at_k, choices, "18", given["requested_n"])
    assert f"needs {given['requested_n']}" in refused(maj_curve, [choices], ["18"], given["requested_n"])


def majority_row(given, expected):
    assert maj_at_k(given["answers"], given["gold"], int(given["metric"].removeprefix("maj@"))) == expected


def gold_and_prediction_swapped(given, expected):
    assert "list of answers" in refused(maj_at_k, answers=given["gold"], gold=[given["prediction"]])
    assert "finite number" in refused(maj_at_k, answers=[given["prediction"]], gold=given["gold"])


def every_repeat_counts(given, expected):
    correct = [answer == given["gold"] for answer in given["answers"]]
    assert pass_at_k(3, sum(correct), 3) == expected["pass@3"]
    assert maj_at_k(given["answers"], given["gold"], 3) == expected["maj@3"]
    assert pass_at_k(3, sum(correct), 1) == expected["avg@3"]


def standard_error_of_a_proportion(given, expected):
    correct = np.arange(given["n"]) < given["right"]
    per_problem = pass_curve(correct[:, None])[:, 0]  # what an interval is computed from keeps the spread
    assert per_problem.mean() == pytest.approx(expected["mean"], abs=1e-15)
    assert per_problem.std(ddof=1) / math.sqrt(given["n"]) == pytest.approx(expected["stderr"], rel=1e-9)


def errored_items_and_the_denominator(given, expected):
    right, errored = given["right"], given["errored"]
    correct = [True] * right + [None] * errored + [False] * (given["items"] - right - errored)
    (worst, best), answered = bounds(correct), right / (given["items"] - errored)
    assert (worst, answered, correct.count(None)) == tuple(expected.values())
    assert best == (right + errored) / given["items"] and "10 of 100 samples are unscored" in refused(
        pass_curve, [correct]
    )


def retried_item_counted_twice(given, expected):
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder)
        run.append(Sample(row["id"], 0, str(row["right"]), "stop") for row in given["rows"])
        samples = run.journal().samples
    assert len(samples) == expected["n"] and samples["316", 0].text == "1"


def unlike_test_sets(given, expected):
    # the part of this row that is a metric's: golds of one set never meet answers of another
    assert "align" in refused(maj_curve, [["18"]] * 1319, ["18"] * 1209)


HANDLERS = {
    "metric-001": problem_counts_as_sample_counts,
    "metric-002": pass_at_k_row,
    "metric-003": pass_at_k_row,
    "metric-004": pass_at_k_row,
    "metric-006": pass_at_k_row,
    "metric-007": pass_at_k_row,
    "metric-009": unscored_before_pass_at_k,
    "metric-011": cache_returns_one_text,
    "metric-013": server_ignores_n,
    "metric-016": majority_row,
    "metric-017": majority_row,
    "metric-021": majority_row,
    "metric-024": gold_and_prediction_swapped,
    "metric-025": every_repeat_counts,
    "metric-026": standard_error_of_a_proportion,
    "metric-032": errored_items_and_the_denominator,
    "metric-033": retried_item_counted_twice,
    "metric-034": unlike_test_sets,
}


def shared_cases() -> dict[str, dict]:
    if not CASES.exists():
        return {}
    return {row["id"]: row for row in map(json.loads, CASES.read_text(encoding="utf-8").splitlines())}


@pytest.mark.parametrize("case", sorted(set(HANDLERS) | set(shared_cases())))
def test_shared_case(case):
    if not CASES.exists():
        pytest.skip(f"the shared table of cases is not here: {CASES.name}")
    row = shared_cases()[case]
    HANDLERS[case](row["input"], row["expected"])


# ---- pass@k and pass^k


def subset_shares(correct: list[bool], k: int) -> tuple[Fraction, Fraction]:
    """Shares of the k-subsets with any right sample, and with all right, by listing them."""
    subsets = list(combinations(correct, k))
    return Fraction(sum(map(any, subsets)), len(subsets)), Fraction(sum(map(all, subsets)), len(subsets))


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_pass_metrics_equal_brute_force(correct, data):
    k = data.draw(st.integers(1, len(correct)))
    any_right, all_right = subset_shares(correct, k)
    assert pass_at_k(len(correct), sum(correct), k) == float(any_right)
    assert pass_hat_k(len(correct), sum(correct), k) == float(all_right)
    assert pass_curve([correct])[0, k - 1] == float(any_right)
    assert pass_hat_curve([correct])[0, k - 1] == float(all_right)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (10, 3, 5, 1 - math.comb(7, 5) / math.comb(10, 5)),
        (200, 1, 1, 0.005),
        (4, 4, 1, 1.0),
        (1, 0, 1, 0.0),
        (5, 3, 3, 1.0),
        (10**6, 1, 1, 1e-6),  # a product of floats loses digits here
        (10_000, 5_000, 9_000, 1.0),  # and 1 - C(n-c,k)/C(n,k) in floats overflows here
    ],
)
def test_pass_at_k_known_values(n, c, k, expected):
    assert pass_at_k(n, c, k) == expected


@pytest.mark.parametrize("metric", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize(
    ("n", "c", "k", "reason"),
    [
        (2, 0, 5, "there are 2 samples"),
        (2, 2, 3, "k=3"),
        (5, 6, 1, "0..5"),
        (5, -1, 1, "c=-1"),
        (5, 1, 0, "k=0"),
        (5, 1, -2, "k=-2"),
        (0, 0, 1, "there are 0"),
        (5, 1, 2.0, "k=2.0"),
        (5, 1.0, 2, "c must be a whole number"),
        (True, 0, 1, "n must be a whole number"),
    ],
)
def test_pass_metrics_refuse_the_undefined(metric, n, c, k, reason):
    assert reason in refused(metric, n, c, k)


def test_pass_curve_rows_are_problems_and_rise_with_k():
    correct = np.array([[True, False, False, False], [True, True, False, True], [False] * 4])
    curve = pass_curve(correct)
    assert curve.shape == (3, 4)
    np.testing.assert_array_equal(curve[:, 0], correct.mean(axis=1))
    np.testing.assert_array_equal(curve[:, -1], correct.any(axis=1))
    assert (np.diff(curve, axis=1) >= 0).all() and (np.diff(pass_hat_curve(correct), axis=1) <= 0).all()
    resampled = curve[[0, 0, 2]].mean(axis=0)  # an interval resamples the rows
    np.testing.assert_allclose(resampled, 2 / 3 * curve[0])


def test_curves_refuse_fewer_samples_than_asked_for_and_name_the_problem():
    correct = [[True, False, True], [True, False], [True, False, True]]
    assert "problem 1 has 2 samples where k=3" in refused(pass_curve, correct)
    np.testing.assert_array_equal(pass_curve(correct, k_max=2)[1], [0.5, 1.0])
    assert "problem 0 has 3 samples where k=8" in refused(pass_hat_curve, correct, k_max=8)
    assert "no problem" in refused(pass_curve, [])
    assert "k=0" in refused(pass_curve, [[True]], k_max=0)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_unscored_samples_are_refused(missing):
    assert "1 of 6 samples are unscored" in refused(pass_curve, [[True, missing, False], [False, False, False]])
    assert "1 of 1 samples are unscored" in refused(pass_hat_curve, [[missing]])


@pytest.mark.parametrize("verdicts", [[[True, 2]], [[0.5, 1.0]], [["yes"]], [[-1]], [[[True]]]])
def test_verdicts_must_be_verdicts(verdicts):
    assert "verdicts must be" in refused(pass_curve, verdicts)


# ---- maj@k


def plurality(answers: tuple, gold: str) -> Fraction:
    votes = [answer for answer in answers if answer is not None]
    if not votes:
        return Fraction(0)
    top = max(votes.count(vote) for vote in votes)
    winners = {vote for vote in votes if votes.count(vote) == top}
    return Fraction(gold in winners, len(winners))


def majority_by_listing(answers: list, gold: str, k: int) -> float:
    subsets = list(combinations(answers, k))
    return float(sum(plurality(subset, gold) for subset in subsets) / len(subsets))


pools = st.lists(st.sampled_from(["18", "18", "20", "22", "5", None]), min_size=1, max_size=9)


@settings(deadline=None)
@given(pools, st.data())
@example(["18", "20", "22", "5"], None)
@example(["18", "18", "20", "20", None], None)
def test_maj_at_k_equals_brute_force(answers, data):
    for k in range(1, len(answers) + 1) if data is None else [data.draw(st.integers(1, len(answers)))]:
        expected = majority_by_listing(answers, "18", k)
        assert maj_at_k(answers, "18", k) == pytest.approx(expected, abs=1e-12)
        assert maj_curve([answers], ["18"])[0, k - 1] == pytest.approx(expected, abs=1e-12)
        assert maj_curve([answers], ["18"], k)[0, k - 1] == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(pools)
def test_exact_integers_and_floats_agree(answers):
    votes = metrics._votes(answers, "18")
    floats = metrics._vote_curve.__wrapped__(votes, len(answers))
    limit = metrics._LARGEST_FLOAT_COUNT
    try:
        metrics._LARGEST_FLOAT_COUNT = 0
        exact = metrics._vote_curve.__wrapped__(votes, len(answers))
    finally:
        metrics._LARGEST_FLOAT_COUNT = limit
    np.testing.assert_allclose(floats, exact, rtol=1e-13, atol=0)


@settings(deadline=None)
@given(pools, st.permutations(range(9)))
def test_order_of_the_samples_does_not_matter(answers, order):
    shuffled = [answers[index] for index in order if index < len(answers)]
    np.testing.assert_array_equal(maj_curve([answers], ["18"]), maj_curve([shuffled], ["18"]))


def test_two_groups_have_a_closed_form():
    # gold against one rival, 64 samples: gold has the majority by a hypergeometric tail, and half of the ties
    gold, rival, k = 40, 24, 8
    ways = [math.comb(gold, j) * math.comb(rival, k - j) for j in range(k + 1)]
    expected = (sum(ways[5:]) + ways[4] / 2) / math.comb(64, k)
    assert maj_at_k(["18"] * gold + ["20"] * rival, "18", k) == pytest.approx(expected, rel=1e-13)


def test_all_answers_differ_is_a_draw_by_lot():
    answers = [str(number) for number in range(64)]
    np.testing.assert_allclose(maj_curve([answers], ["7"])[0], 1 / 64, rtol=1e-12)


def test_maj_at_1_is_the_average_and_maj_of_all_is_one_vote():
    answers = ["18", "18", "20", None, "20"]
    assert maj_at_k(answers, 18, 1) == pytest.approx(2 / 5)
    assert maj_at_k(answers, 18) == 0.5 == maj_at_k(answers, 18, 5)
    assert maj_curve([answers], [18])[0, -1] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("answers", "gold", "expected"),
    [
        (["18", Decimal("18.0"), 18.0, 20, "20"], "18", 1.0),
        (["1,800", "1800", "20", "20", "1800.00"], Decimal(1800), 1.0),
        (["-18", "18", "-18"], 18, 0.0),
        (["0", "-0", "5"], 0, 1.0),
        ([0, 0, 0, "5"], "0", 1.0),  # a falsy answer is an answer
        (["0.3333333", "0.33333335", "5"], "0.33333331", 1.0),
        (["18.000001", "20"], "18", 0.0),  # not closer than 1e-6: another number
        (["18.0000009", "20", "18"], "18", 1.0),
        ([Fraction(1, 3), "0.33333333", 2], Fraction(1, 3), 1.0),
        ([np.int64(18), np.float64(18), 20], 18, 1.0),
        (["123456", "123457", "123457"], "123456", 0.0),  # no rounding to five digits
        ([None, None, None], "18", 0.0),
        ([None, math.nan, "18"], "18", 1.0),
        ([None, None, "18", "20"], "18", 0.5),
        ([None, None, None, "20"], "18", 0.0),
        (["20", "20", "30", "30", "18", "18"], "18", 1 / 3),
        (["7.0000001", "7.0000002", "18", None], "18", 0.0),  # two spellings of one wrong number stand together
        (["1e999999999", "18"], "18", 0.5),
        (["9" * 5000, "18", "18"], "18", 1.0),
    ],
)
def test_votes_are_numbers(answers, gold, expected):
    assert maj_at_k(answers, gold) == pytest.approx(expected)


@pytest.mark.parametrize("answer", ["[invalid]", "", "18 apples", math.inf, "-Infinity", True, ["18"], {}, "5 or -5"])
def test_an_answer_that_is_no_number_is_refused_not_voted_on(answer):
    assert "an answer must be" in refused(maj_at_k, ["18", answer], "18")


@pytest.mark.parametrize("gold", [None, math.nan])
def test_gold_must_be_a_number(gold):
    assert "gold answer must be a number" in refused(maj_at_k, ["18"], gold)


@pytest.mark.parametrize(
    ("answers", "k", "reason"),
    [(["18"], 2, "k=2"), (["18"], 0, "k=0"), ([], None, "no answer"), ("18", 1, "list"), (None, 1, "list")],
)
def test_maj_at_k_refuses_the_undefined(answers, k, reason):
    assert reason in refused(maj_at_k, answers, "18", k)


def test_maj_curve_refuses_fewer_samples_than_asked_for():
    assert "problem 1 has 1 samples where k=2" in refused(maj_curve, [["18", "20"], ["18"]], ["18", "18"])


def test_large_pools_neither_overflow_nor_take_long():
    answers = ["18"] * 700 + ["20"] * 650 + [str(number) for number in range(100, 800)] + [None] * 200
    draws = np.random.default_rng(0).multivariate_hypergeometric([700, 650, 900], 150, size=4000)
    simulated = ((draws[:, 0] > draws[:, 1]) + (draws[:, 0] == draws[:, 1]) / 2).mean()
    assert maj_at_k(answers, "18", 150) == pytest.approx(simulated, abs=0.03)  # C(2250, 150) fits a float
    big = ["18"] * 60 + ["20"] * 40 + [None] * 1000
    draws = np.random.default_rng(0).multivariate_hypergeometric([60, 40, 1000], 550, size=4000)
    simulated = ((draws[:, 0] > draws[:, 1]) + (draws[:, 0] == draws[:, 1]) / 2).mean()
    assert maj_at_k(big, "18", 550) == pytest.approx(simulated, abs=0.01)  # C(1100, 550) does not


def test_large_pool_agrees_with_drawing_subsets():
    rng = np.random.default_rng(0)
    answers = np.array([18] * 26 + [20] * 24 + [22] * 8 + [7] * 6)
    draws = [rng.choice(answers, 16, replace=False) for _ in range(4000)]
    simulated = np.mean([float(plurality(tuple(draw.tolist()), 18)) for draw in draws])
    assert maj_at_k(answers.tolist(), 18, 16) == pytest.approx(simulated, abs=4 * 0.5 / math.sqrt(4000))


def test_every_k_of_64_samples_over_1319_problems_takes_seconds():
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 12, 1319)
    answers = np.floor(rng.exponential(spread[:, None], (1319, 64)))
    metrics._vote_curve.cache_clear()
    start = time.process_time()
    curve = maj_curve(answers.tolist(), [0] * 1319)
    pass_curve(answers == 0)
    pass_hat_curve(answers == 0)
    assert time.process_time() - start < 5  # about 0.7 s; five for a slow machine
    np.testing.assert_allclose(curve[:, 0], (answers == 0).mean(axis=1))


# ---- failed samples, copies


def test_bounds_count_failures_both_ways():
    assert bounds([[True, None, False, False], [True, True, None, None]]) == (3 / 8, 6 / 8)
    assert bounds([True, False]) == (0.5, 0.5) and bounds([None]) == (0.0, 1.0)
    assert "undefined" in refused(bounds, [])


def test_identical_samples_count_bytes():
    assert identical_samples([["a", "a", "a"], ["a", "a ", "a"], ["b", None, "b"]]) == 2 / 3
    assert identical_samples([["a"], ["a", "b"], []]) == 0.0  # one sample has nothing to equal
    assert identical_samples([["a"], ["b", None]]) is identical_samples([]) is None
