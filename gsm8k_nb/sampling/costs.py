"""What a run will ask for and what it may cost, and the budget that ends it.

    plan(...) -> Plan(samples=10552, on_disk=0, prompt_tokens=11501680, completion_tokens=5402624, spent=0.0, cost=4.97)

Money is counted from the samples on disk, in the currency of the prices, so it is right after any interruption. What a
server bills for requests that it then fails is unknown here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample

CHARACTERS_PER_TOKEN = 3.5  # of English word problems; a cautious guess, used only until a server has counted
MILLION = 1_000_000


@dataclass(frozen=True)
class Plan:
    """What is still to be asked: samples, tokens (completions in full length), and money, None without prices."""

    samples: int
    on_disk: int
    prompt_tokens: int
    completion_tokens: int
    spent: float | None
    cost: float | None


def plan(config: RunConfig, missing: Iterable[Prompt], done: Iterable[Sample]) -> Plan:
    """The plan for the prompts of the missing samples, with what the samples on disk have cost.

    Prompts are counted as billed one by one: an upper bound where one request brings several samples.
    """
    done = list(done)
    asked = config.sampler != "replay"  # what is stored is read, and no token of it asked for
    lengths = [estimated_tokens(prompt) * asked for prompt in missing]
    prompt_tokens, completion_tokens = sum(lengths), len(lengths) * config.max_new_tokens * asked
    return Plan(
        samples=len(lengths),
        on_disk=sum(sample.error is None for sample in done),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        spent=spent(config, done),
        cost=price(config, prompt_tokens, completion_tokens),
    )


def estimated_tokens(prompt: Prompt) -> int:
    texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
    return round(sum(len(text) for text in texts) / CHARACTERS_PER_TOKEN) + 4 * len(texts)


def price(config: RunConfig, prompt_tokens: int, completion_tokens: int) -> float | None:
    """Money for so many tokens, or None where the prices are not given."""
    if config.price_input is None or config.price_output is None:
        return None
    return (prompt_tokens * config.price_input + completion_tokens * config.price_output) / MILLION


def spent(config: RunConfig, samples: Iterable[Sample]) -> float | None:
    """What these samples cost, or None where the prices are not given."""
    tokens = [(sample.prompt_tokens or 0, sample.completion_tokens or 0) for sample in samples]
    return price(config, sum(one for one, _ in tokens), sum(one for _, one in tokens))


class Purse:
    """Says whether another request may be made: spent money, and what those under way will probably cost, count.

    A request under way is taken to cost what samples did so far on average; before there are any, a full-length one.
    """

    def __init__(self, config: RunConfig, done: Iterable[Sample]) -> None:
        self.config = config
        self.spent = spent(config, done) or 0.0
        self.paid, self.n_paid, self.under_way = 0.0, 0, 0

    def affords(self, prompt: Prompt) -> bool:
        """Whether one more request fits into the budget; it then counts as under way."""
        if self.config.budget is None:
            return True
        full = price(self.config, estimated_tokens(prompt), self.config.max_new_tokens) or 0.0
        each = self.paid / self.n_paid if self.n_paid else full
        if self.spent + (self.under_way + 1) * each > self.config.budget:
            return False
        self.under_way += 1
        return True

    def pay(self, samples: list[Sample]) -> None:
        cost = spent(self.config, samples) or 0.0
        self.spent += cost
        self.paid += cost
        self.n_paid += len(samples)
        self.under_way -= len(samples)
