import numpy as np
import pytest
from scipy import stats as scipy_stats

from gsm8k_nb import stats

from .runs import released, sampled_runs


def power_by_definition(difference, n, discordance, alpha=0.05):
    """Over all numbers of discordant problems and all ways to split them, by the p-value of each split."""
    power = 0.0
    for m, chance in enumerate(scipy_stats.binom.pmf(np.arange(n + 1), n, discordance)):
        if chance > 1e-9:
            losses = np.arange(m // 2 + 1)
            rejected = np.array([stats.mcnemar_p(m - k, k) <= alpha for k in losses])
            share = (1 - difference / discordance) / 2
            power += chance * (scipy_stats.binom.pmf(losses, m, share) @ rejected)
    return power


@pytest.mark.parametrize(
    ("difference", "discordance"), [(0.1, 0.3), (0.1, 0.2), (0.05, 0.05), (0.2, 0.2), (0.05, 0.2), (0.15, 0.16)]
)
def test_problems_needed_have_the_stated_power(difference, discordance):
    n = stats.problems_needed(difference, discordance=discordance)
    assert power_by_definition(difference, n, discordance) >= 0.8 > power_by_definition(difference, n - 1, discordance)
    assert stats.paired_power(difference, n, discordance=discordance) == pytest.approx(
        power_by_definition(difference, n, discordance), abs=1e-6
    )
    connor = (1.959964 * discordance**0.5 + 0.841621 * (discordance - difference**2) ** 0.5) ** 2 / difference**2
    assert connor < n < 1.12 * connor + 3


def test_power_at_other_levels_and_sizes():
    assert stats.problems_needed(0.02, discordance=0.2) == 4016
    assert stats.paired_power(-0.05, 658, discordance=0.2) == stats.paired_power(0.05, 658, discordance=0.2)
    assert stats.paired_power(0.1, 300, discordance=0.3, alpha=0.01) < stats.paired_power(0.1, 300, discordance=0.3)
    assert stats.paired_power(0.0, 300, discordance=0.3) < 0.025
    assert stats.paired_power(1.0, 5, discordance=1.0) == 0.0 and stats.paired_power(1.0, 6, discordance=0.2) == 1.0
    assert stats.paired_power(0.2, 50, discordance=0.0) == stats.paired_power(0.2, 50, discordance=0.2)
    with pytest.raises(ValueError, match="must not be 0"):
        stats.problems_needed(0, discordance=0.2)
    for difference, discordance in ((np.nan, 0.2), (0.1, np.nan), (5, 0.3), (0.1, 1.2), (np.inf, 0.2), (0.1, -0.1)):
        with pytest.raises(ValueError, match="must be shares of at most 1"):
            stats.problems_needed(difference, discordance=discordance)
    with pytest.raises(ValueError, match="n_problems at least 1, got 0"):
        stats.paired_power(0.1, 0, discordance=0.2)


def test_power_of_a_run_is_reached_at_its_difference():
    a, b = released()["6b_verification"], released()["175b_finetuning"]
    result = stats.power_of_run(stats.Paired.of(a, b))
    assert result.discordance == pytest.approx(361 / 1319) and result.within is None
    assert power_by_definition(result.difference, 1319, 361 / 1319) == pytest.approx(0.8, abs=1e-4)
    assert stats.power_of_run(stats.Paired.of(a[:3], b[:3])).difference == np.inf


def test_power_of_run_with_samples():
    a, b = sampled_runs(1319, 8, 8)
    result = stats.power_of_run(stats.Paired.of(a, b))
    assert 0 < result.within < result.discordance
    assert stats.power_of_run(stats.Paired.of(a[:, :1], b)).within is None
    assert stats.power_of_run(stats.Paired.of(a[:, 0], b[:, 0])).difference > result.difference
    # a shift of that size is found in about 80% of runs drawn like these
    rng, d = np.random.default_rng(0), a.mean(axis=1) - b.mean(axis=1)
    drawn = rng.choice(d - d.mean() + result.difference, (2000, 1319))
    rejected = stats.mean_p(drawn.sum(axis=1), (drawn**2).sum(axis=1)) <= 0.05
    assert rejected.mean() == pytest.approx(0.8, abs=0.03)
