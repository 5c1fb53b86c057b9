"""Plans and budgets: money counted from what is on disk, and no request that the budget does not cover."""

import pytest

from gsm8k_nb.config import ConfigError, RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.sampling import costs


def config(**changes) -> RunConfig:
    values = {"sampler": "openai", "model": "m", "max_new_tokens": 100, "price_input": 2.0, "price_output": 10.0}
    return RunConfig.checked(values | changes)


def sample(prompt: int, completion: int, error: str | None = None) -> Sample:
    return Sample("test-0000", 0, None if error else "x", "stop", error, prompt, completion)


def test_plan_states_samples_tokens_and_money():
    plan = costs.plan(config(), ["a" * 350, [{"role": "user", "content": "a" * 700}]], [sample(1_000_000, 50_000)])
    assert (plan.samples, plan.on_disk) == (2, 1)
    assert (plan.prompt_tokens, plan.completion_tokens) == (104 + 204, 200)
    assert plan.spent == pytest.approx(2.5)
    assert plan.cost == pytest.approx((308 * 2 + 200 * 10) / 1e6)


def test_without_prices_there_is_no_money():
    plan = costs.plan(config(price_input=None, price_output=None), ["a"], [])
    assert plan.cost is None and plan.spent is None


def test_failed_requests_that_were_billed_count():
    assert costs.spent(config(), [sample(10, 0, error="content"), sample(10, 10)]) == pytest.approx(140 / 1e6)


def test_a_purse_counts_what_is_under_way():
    each = costs.price(config(), costs.estimated_tokens("a" * 350), 100)
    purse = costs.Purse(config(budget=3.5 * each), [])
    assert [purse.affords("a" * 350) for _ in range(4)] == [True, True, True, False]
    purse.pay([sample(104, 10)])  # far shorter than the limit: the others will be, too
    assert purse.affords("a" * 350)


def test_a_purse_knows_what_earlier_sessions_spent():
    purse = costs.Purse(config(budget=1.0), [sample(500_000, 0)])
    assert not purse.affords("a")


def test_without_a_budget_everything_is_affordable():
    purse = costs.Purse(config(), [sample(10**12, 0)])
    assert all(purse.affords("a") for _ in range(5))


def test_a_budget_needs_prices():
    with pytest.raises(ConfigError, match="budget: 5.0 needs price_input and price_output"):
        config(budget=5, price_output=None)
