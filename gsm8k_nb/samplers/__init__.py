"""Engines: each takes requests and yields samples, a batch at a time. One file an engine, heavy imports inside.

>>> sampler = open_sampler(config)                    # nothing is loaded before this line
>>> for batch in sampler.sample(requests, stop=()):   # list[Sample], ready to be stored
...     run.append(batch)
"""

import hashlib
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from gsm8k_nb.answers.passages import parted
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import ENGINES
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.samplers.fingerprint import model_fingerprint as model_fingerprint

PATIENCE = 10  # seconds of loading before it is told of


class SamplerError(RuntimeError):
    """An engine cannot start or go on: the message says what to change."""


@dataclass(frozen=True)
class Request:
    """One completion to make: sample ``sample_index`` of ``problem``, from its rendered prompt.

    ``written`` is what the completion begins with: the model goes on from there. ``most`` is its limit of new tokens,
    where that is not the run's.
    """

    problem: Problem
    sample_index: int
    prompt: Prompt
    written: str = ""
    most: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.problem.id, self.sample_index

    def failed(self, error: str) -> Sample:
        return Sample(*self.key, None, error=error)


class Sampler(Protocol):
    """What the sampling loop needs of an engine."""

    has_chat_template: bool

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Generator[list[Sample], None, None]:
        """Completions in batches, in any order; each request is answered once, a failed one by ``Sample.error``.

        A problem's requests come one after another. An engine that asks as it goes takes them as it needs them: the
        iterable ends early where the budget does. Interrupted, it may yield once more, what has arrived, and raises.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest: the model as loaded, device, dtype, and the sampling fields as they were sent."""
        ...


def cut_at_stop(text: str, stop: Sequence[str], tags: Sequence[str] = ()) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one. What stands inside reasoning stops nothing.

    The one rule of all engines, asked of whole texts and of texts as they are written.
    """
    answer = parted(text, tags).text if stop else text
    start = text.rfind(answer)
    places = [place for place in (answer.find(string) for string in stop) if place >= 0]
    return (text[: start + min(places)], True) if places and start >= 0 else (text, False)


def sample_seed(seed: int, request: Request) -> int:
    """The seed of one sample's random draw (63 bits), from the run's seed, the problem and the sample's index alone."""
    name = "{}/{}/{}".format(seed, *request.key) + ("/then" if request.written else "")
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1


def open_sampler(config: RunConfig) -> Sampler:
    """The engine that the parameters name, its model loaded; SamplerError where it cannot be. Long loading is told."""
    module, name = ENGINES[config.sampler][0].split(":")
    notice = threading.Timer(PATIENCE, print, [f"{config.model} is being loaded; the first time can take minutes."])
    notice.daemon = True
    notice.start()
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)(config)
    finally:
        notice.cancel()
