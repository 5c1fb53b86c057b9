"""The bench of levels, in small: its cases have no difference, and a few draws find the level held."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from bench import levels
from gsm8k_nb import stats


@pytest.mark.parametrize("case", levels.cases()[::37], ids=str)
def test_both_systems_of_a_case_have_the_same_mean(case):
    values, chance = levels.differences(case)
    assert chance.sum() == pytest.approx(1) and values @ chance == pytest.approx(0, abs=1e-7)
    for profile in case.profiles[:2]:
        chances = levels.chances(profile, case.rate)
        assert chances.mean() == pytest.approx(case.rate, abs=1e-7) and (chances >= 0).all() and (chances <= 1).all()


def test_one_draw_is_tested_as_a_comparison_is():
    for case in levels.cases()[:4]:
        total, squares = levels.drawn(case, 5, (20,), np.random.default_rng(0))
        for p, d, q in zip(levels.p_values(case, total, squares)[:, 0], total[:, 0], squares[:, 0], strict=True):
            if case.samples == (1, 1):
                a, b = np.zeros(20), np.zeros(20)
                a[: round((q + d) / 2)], b[20 - round((q - d) / 2) :] = 1, 1
                assert p == pytest.approx(stats.compare(a, b, n_resamples=1).p)
            else:
                assert p == pytest.approx(stats.mean_p(d, q))


def test_levels_are_bounded_by_clopper_and_pearson():
    expected = scipy_stats.binomtest(50, 1000).proportion_ci(method="exact")
    assert levels.bounded(50, 1000) == f"5.0% ({expected.low:.1%} to {expected.high:.1%})"
    assert levels.bounded(0, 100).startswith("0.0% (0.0% to 3.6%")


@pytest.mark.parametrize("pair", [(1, 4), (4, 64), (32, 32)])
def test_no_case_errs_more_often_than_its_level(pair):
    rng = np.random.default_rng(pair[0])
    for case in levels.cases():
        if case.samples == pair and case.rate in (0.03, 0.5):
            rate = (levels.p_values(case, *levels.drawn(case, 1500, (100,), rng)) <= levels.LEVEL).mean()
            assert rate <= 0.055 + 3 * 0.0056, case  # three standard errors
