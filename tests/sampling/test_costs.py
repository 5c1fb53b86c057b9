"""Plans and budgets: money counted from what is on disk, and no request that the budget does not cover."""

from dataclasses import replace

import pytest

from gsm8k_nb.config import ConfigError, RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.sampling import costs


def config(**changes) -> RunConfig:
    values = {"sampler": "openai", "model": "m", "max_new_tokens": 100, "price_input": 2.0, "price_output": 10.0}
    return RunConfig.checked(values | changes)


def sample(prompt: int | None, completion: int | None, error: str | None = None) -> Sample:
    return Sample("test-0000", 0, None if error else "x", "stop", error, prompt, completion)


def test_plan_states_samples_tokens_and_money():
    plan = costs.plan(config(), ["a" * 350, [{"role": "user", "content": "a" * 700}]], [sample(1_000_000, 50_000)], "a")
    assert (plan.samples, plan.on_disk) == (2, 1)
    assert (plan.prompt_tokens, plan.completion_tokens) == (104 + 204, 200)
    assert plan.spent == pytest.approx(2.5)
    assert plan.cost == pytest.approx((308 * 2 + 200 * 10) / 1e6)


def test_without_prices_there_is_no_money():
    plan = costs.plan(config(price_input=None, price_output=None), ["a"], [], "a")
    assert plan.cost is None and plan.spent is None


def test_failed_requests_that_were_billed_count():
    assert costs.spent(config(), [sample(10, 0, error="content"), sample(10, 10)], "a") == pytest.approx(140 / 1e6)


def test_a_purse_counts_what_is_under_way():
    each = costs.price(config(), costs.estimated_tokens("a" * 350), 100)
    purse = costs.Purse(config(budget=3.5 * each), [], "a")
    assert [purse.affords("a" * 350) for _ in range(4)] == [True, True, True, False]
    purse.pay([sample(104, 10)])  # far shorter than the limit: the others will be, too
    assert purse.affords("a" * 350)


def test_a_purse_knows_what_earlier_sessions_spent():
    purse = costs.Purse(config(budget=1.0), [sample(500_000, 0)], "a")
    assert not purse.affords("a")


def test_without_a_budget_everything_is_affordable():
    purse = costs.Purse(config(), [sample(10**12, 0)], "a")
    assert all(purse.affords("a") for _ in range(5))


def test_a_budget_needs_prices():
    with pytest.raises(ConfigError, match="budget: 5.0 needs price_input and price_output"):
        config(budget=5, price_output=None)


LONG = Sample("test-0000", 0, "x" * 700, "stop", None, None, None, None, "y" * 350)  # 304 tokens, about


def test_tokens_that_a_server_does_not_count_are_estimated(capsys):
    assert costs.spent(config(), [LONG], "a" * 350) == pytest.approx((104 * 2 + 304 * 10) / 1e6)
    assert costs.spent(config(), [replace(LONG, prompt_tokens=7)], "a" * 350) == pytest.approx((14 + 3040) / 1e6)
    assert costs.spent(config(), [replace(LONG, completion_tokens=7)], "a" * 350) == pytest.approx((208 + 70) / 1e6)
    assert costs.spent(config(), [sample(None, None, error="HTTP 500")], "a" * 350) == 0
    chinese = replace(LONG, text="\u7b54" * 700, reasoning=None)  # a character is about a token
    assert costs.spent(config(), [chinese], "a") > 600 * 10 / 1e6
    assert costs.spent(config(), [replace(LONG, text="\ud800")], "a")  # half of a pair, which a model can write
    plan = costs.plan(config(), ["a"], [LONG, LONG, sample(1, 1), sample(None, None, error="x")], "a" * 350)
    assert plan.uncounted == 2 and plan.spent == pytest.approx((2 * (104 * 2 + 304 * 10) + 12) / 1e6)


def test_a_budget_ends_where_no_usage_is_reported(capsys):
    each = costs.spent(config(), [LONG], "a" * 350)
    purse = costs.Purse(config(budget=10.5 * each, max_new_tokens=300), [LONG] * 5, "a" * 350)
    asked = 0
    while purse.affords("a" * 350):
        purse.pay([LONG])
        asked += 1
    assert asked == 5 and capsys.readouterr().out.count("the server does not count tokens") == 1
