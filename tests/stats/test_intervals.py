"""Accuracy intervals against SciPy, and their coverage: where verdicts are 0 or 1, summed over all outcomes."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gsm8k_nb import stats

from .runs import SYSTEMS, released


@pytest.mark.parametrize(("system", "correct"), list(zip(SYSTEMS, (286, 515, 458, 742), strict=True)))
def test_released_accuracies(system, correct):
    interval = stats.accuracy_interval(released()[system])
    assert interval.estimate == pytest.approx(correct / 1319)
    assert interval.low < correct / 1319 < interval.high
    assert interval.method == "percentile"
    assert interval.standard_error == pytest.approx(np.sqrt(correct * (1319 - correct) / 1319 / 1318) / np.sqrt(1319))


@pytest.mark.parametrize(("correct", "n"), [(0, 50), (1, 50), (25, 50), (515, 1319), (1319, 1319)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_binomial_intervals_match_scipy(correct, n, confidence):
    for ours, theirs in (("wilson", "wilson"), ("clopper-pearson", "exact")):
        interval = stats.accuracy_interval(np.arange(n) < correct, confidence=confidence, method=ours)
        expected = scipy_stats.binomtest(correct, n).proportion_ci(confidence, method=theirs)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert interval.estimate == correct / n and interval.confidence == confidence


@pytest.mark.parametrize("method", ["auto", "percentile", "wilson"])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("shape", [(1319,), (40, 8), (1,)])
def test_no_interval_of_width_zero(method, value, shape):
    # A bootstrap of 0 or 1319 of 1319 would be sure of itself
    interval = stats.accuracy_interval(np.full(shape, value), method=method)
    assert interval.method == "wilson"
    expected = scipy_stats.binomtest(value * shape[0], shape[0]).proportion_ci(method="wilson")
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.high - interval.low > 0.002
    assert (interval.low == 0.0) if value == 0 else (interval.high == 1.0)


def test_auto_leaves_the_bootstrap_where_it_covers_too_rarely():
    def method(correct, n):
        return stats.accuracy_interval(np.arange(n) < correct, n_resamples=100).method

    assert [method(k, 1319) for k in (14, 15, 660, 1304, 1305)] == ["wilson", *["percentile"] * 3, "wilson"]
    assert method(14, 100) == "wilson" and method(14, 99) == "clopper-pearson"
    assert method(25, 50) == "percentile"


def test_samples_of_a_problem_are_one_cluster():
    # Copies of a verdict are no new evidence: resample problems, not samples
    once = np.random.default_rng(3).random(400) < 0.6
    copies = np.repeat(once[:, None], 8, axis=1)
    for method in ("auto", "percentile", "wilson", "clopper-pearson"):
        assert stats.accuracy_interval(copies, method=method) == stats.accuracy_interval(once, method=method)
    error = stats.accuracy_interval(once).standard_error
    naive = copies.std(ddof=1) / np.sqrt(copies.size)
    assert error / naive == pytest.approx(np.sqrt(8), rel=0.01)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("n", [50, 250, 1319])
def test_coverage_of_the_default_interval(n, p):
    chance = scipy_stats.binom.pmf(np.arange(n + 1), n, p)
    coverage, by_bootstrap = 0.0, 0.0
    for k in np.flatnonzero(chance > 1e-7):
        interval = stats.accuracy_interval(np.arange(n) < k, n_resamples=5000)
        coverage += chance[k] * (interval.low <= p <= interval.high)
        by_bootstrap += chance[k] * (interval.method == "percentile")
    if n == 50 and p != 0.5:
        # With one problem expected right (wrong), an interval covers 92.2% or 98.2% and nothing between: the default
        # is Clopper-Pearson, which errs on the safe side.
        assert {round(chance[:3].sum(), 3), round(chance[-3:].sum(), 3)} & {0.922}
        assert by_bootstrap < 1e-6 and 0.98 < coverage < 0.985
    else:
        assert 0.93 <= coverage <= 0.97
    if n == 1319:
        assert by_bootstrap > 0.98


@pytest.mark.parametrize(("n", "samples", "p"), [(50, 8, 0.5), (250, 4, 0.5), (250, 8, 0.02), (250, 8, 0.98)])
def test_coverage_with_several_samples(n, samples, p):
    rng = np.random.default_rng(n + samples)
    hits = 0
    for chance in rng.beta(p, 1 - p, (1500, n)):  # two samples of a problem correlate 0.5
        run = rng.random((n, samples)) < chance[:, None]
        interval = stats.accuracy_interval(run, n_resamples=1000)
        hits += interval.low <= p <= interval.high
    assert 0.93 <= hits / 1500 <= 0.97  # standard error 0.6%


def test_few_solved_problems_count_for_what_their_samples_are_worth():
    problem, sample = np.indices((400, 8))
    apart = (problem < 9) & (sample == 0)  # nine right samples, each of another problem
    alike = problem < 9
    for run, worth in ((apart, 400 * 8), (alike, 400)):
        interval = stats.accuracy_interval(run)
        assert interval.method == "wilson"
        expected = scipy_stats.binomtest(9, worth).proportion_ci(method="wilson")
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=0.01)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1, 0, float("nan")], "1 unscored verdicts"),
        ([1, None, None], "2 unscored verdicts"),
        ([[1, 0], [None, 1]], "1 unscored verdicts"),
        ([50, 60], "from 0 to 1, got 50"),
        ([0, -1], "from 0 to 1, got -1"),
        (["1", "0"], "got text"),
        (np.array(["1", "0"]), "got text"),
        ([], "filled array"),
        (np.ones((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        ([[1, 0], [1]], "must be an array"),
    ],
)
def test_what_is_no_verdict_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        stats.accuracy_interval(bad)
    with pytest.raises(ValueError, match=message):
        stats.compare(bad, bad)


def test_unknown_settings_are_named():
    with pytest.raises(ValueError, match="unknown method 'wald'; known: auto, percentile"):
        stats.accuracy_interval([1, 0], method="wald")
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, both excluded, got 95"):
        stats.compare([1, 0], [0, 1], confidence=95)
    with pytest.raises(ValueError, match="n_resamples must be at least 1, got 0"):
        stats.accuracy_interval(np.arange(60) % 2, n_resamples=0)
    with pytest.raises(ValueError, match="unknown method 'score'; known: auto, percentile"):
        stats.compare([1, 0], [0, 1], method="score")
    with pytest.raises(ValueError, match="discordance 30 must be shares of at most 1 .not points"):
        stats.paired_power(0.1, 100, discordance=30)
