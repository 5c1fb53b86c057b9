"""Engines: each takes requests and yields samples, a batch at a time. One file an engine, heavy imports inside.

>>> sampler = open_sampler(config)                    # nothing is loaded before this line
>>> for batch in sampler.sample(requests, stop=()):   # list[Sample], ready to be stored
...     run.append(batch)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Problem, Sample


class SamplerError(RuntimeError):
    """An engine cannot start or go on: the message says what to change."""


@dataclass(frozen=True)
class Request:
    """One completion to make: sample ``sample_index`` of ``problem``, from its rendered prompt."""

    problem: Problem
    sample_index: int
    prompt: Prompt


class Sampler(Protocol):
    """What the sampling loop needs of an engine."""

    has_chat_template: bool

    def sample(self, requests: Sequence[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        """Completions in batches, in any order; each request is answered once, a failed one by ``Sample.error``."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest: the model as loaded, device, dtype, and the sampling fields as they were sent."""
        ...


def open_sampler(config: RunConfig) -> Sampler:
    """The engine that the parameters name, its model loaded. SamplerError says what to change where it cannot be."""
    if config.sampler == "replay":
        from gsm8k_nb.samplers.replay import ReplaySampler

        return ReplaySampler(config)
    from gsm8k_nb.samplers.transformers import TransformersSampler

    return TransformersSampler(config)
