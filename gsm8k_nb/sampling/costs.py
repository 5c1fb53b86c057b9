"""What a run will ask for and what it may cost, and the budget that ends it.

    plan(...) -> Plan(samples=10552, on_disk=0, prompt_tokens=11501680, completion_tokens=5402624, spent=0.0, cost=4.97)

Money is counted from the samples on disk, so it is right after any interruption. Tokens that a server does not count
are estimated; what it bills for failed requests and hidden reasoning is unknown here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample

BYTES_PER_TOKEN = 3.5  # of English word problems, a cautious guess; of other scripts a character and more
MILLION = 1_000_000


@dataclass(frozen=True)
class Plan:
    """What is still to be asked: samples, tokens (completions in full length), and money, None without prices.

    ``uncounted`` of the samples on disk came without a count of their tokens: their part of ``spent`` is an estimate.
    """

    samples: int
    on_disk: int
    prompt_tokens: int
    completion_tokens: int
    spent: float | None
    cost: float | None
    uncounted: int


def plan(config: RunConfig, missing: Iterable[Prompt], done: Iterable[Sample], typical: Prompt) -> Plan:
    """The plan for the prompts of the missing samples, each billed, an upper bound where one request brings several;
    ``typical`` stands for the prompts of those on disk."""
    done, asked = list(done), config.sampler != "replay"  # what is stored is read, and no token of it asked for
    lengths = [estimated_tokens(prompt) * asked for prompt in missing]
    tokens = sum(lengths), len(lengths) * config.max_new_tokens * asked
    on_disk, uncounted = sum(sample.error is None for sample in done), sum(map(is_uncounted, done))
    return Plan(len(lengths), on_disk, *tokens, spent(config, done, typical), price(config, *tokens), uncounted)


def estimated_tokens(prompt: Prompt) -> int:
    texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
    return round(sum(len(text.encode(errors="replace")) for text in texts) / BYTES_PER_TOKEN) + 4 * len(texts)


def price(config: RunConfig, prompt_tokens: int, completion_tokens: int) -> float | None:
    """Money for so many tokens, or None where the prices are not given."""
    if config.price_input is None or config.price_output is None:
        return None
    return (prompt_tokens * config.price_input + completion_tokens * config.price_output) / MILLION


def is_uncounted(sample: Sample) -> bool:
    return sample.error is None and None in (sample.prompt_tokens, sample.completion_tokens)


def spent(config: RunConfig, samples: Iterable[Sample], typical: Prompt) -> float | None:
    """What these samples cost, or None without prices. Tokens that were not counted are estimated, but of a failed
    request nothing is known."""
    prompts = completions = 0
    for sample in samples:
        prompt, completion = sample.prompt_tokens, sample.completion_tokens
        if is_uncounted(sample):
            prompt = estimated_tokens(typical) if prompt is None else prompt
            written = f"{sample.text or ''}{sample.reasoning or ''}"
            completion = estimated_tokens(written) if completion is None else completion
        prompts += prompt or 0
        completions += completion or 0
    return price(config, prompts, completions)


class Purse:
    """Says whether another request may be made: spent money, and what those under way will probably cost, count.

    A request under way is taken to cost what samples did so far on average; before there are any, a full-length one.
    """

    def __init__(self, config: RunConfig, done: Iterable[Sample], typical: Prompt) -> None:
        self.config, self.typical = config, typical
        self.spent = spent(config, done, typical) or 0.0
        self.paid, self.n_paid, self.under_way, self.told = 0.0, 0, 0, False

    def affords(self, prompt: Prompt) -> bool:
        """Whether one more request fits into the budget; it then counts as under way."""
        if self.config.budget is None:
            return True
        full = price(self.config, estimated_tokens(prompt), self.config.max_new_tokens)
        each = self.paid / self.n_paid if self.n_paid else full or 0.0
        affordable = self.spent + (self.under_way + 1) * each <= self.config.budget
        self.under_way += affordable
        return affordable

    def pay(self, samples: list[Sample]) -> None:
        cost = spent(self.config, samples, self.typical) or 0.0
        self.spent += cost
        self.paid += cost
        self.n_paid += len(samples)
        self.under_way -= len(samples)
        if self.config.budget is not None and not self.told and any(map(is_uncounted, samples)):
            self.told = True
            print(f"\nbudget: the server does not count tokens; one is taken for {BYTES_PER_TOKEN} bytes of text")
