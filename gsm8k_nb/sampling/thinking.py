"""Reasoning parted from the answer, and completions that are made in two steps.

    "<think>2*9=18?</think>She sells 9 eggs.\\n#### 18"  ->  reasoning "2*9=18?", text "She sells 9 eggs.\\n#### 18"

The second step goes on with the text of the first: where ``max_thinking_tokens`` have been spent the thought is closed
and the answer follows; a prompt may also ask for the answer behind the model's text (Kojima et al. 2022).
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from gsm8k_nb.answers.passages import parted
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, Sampler, SamplerError
from gsm8k_nb.samplers.tokens import Tokens

AT_ONCE = 256  # samples whose first step is made before the second: what an interruption may lose
ANSWER_TOKENS = 64  # for the answer alone, where the prompt asks for it in a second step
THINK = ("<think>", "</think>")  # the marks of most models, for servers, which do not say

Batches = Generator[list[Sample], None, None]


def completions(sampler: Sampler, requests: Iterable[Request], stop: Sequence[str], config: RunConfig) -> Batches:
    """Samples as ``sampler`` makes them, in one step or two, with reasoning and text apart."""
    if config.sampler == "replay":  # what is stored stays as it is
        yield from sampler.sample(requests, stop)
        return
    steps, todo = _Steps(sampler, stop, config), iter(requests)
    if not config.continues:
        yield from steps.one(todo)
        return
    while chunk := list(islice(todo, AT_ONCE)):
        yield from steps.two(chunk)


class _Steps:
    """The steps of a run's completions."""

    def __init__(self, sampler: Sampler, stop: Sequence[str], config: RunConfig) -> None:
        self.sampler, self.stop, self.config = sampler, stop, config
        own = self.own = cast(Tokens | None, getattr(sampler, "tokens", None))
        self.tags = tuple(own.tags if own else config.think_tags or ())
        marks = config.think_tags or (own.marks if own else THINK)
        self.budget, self.then = config.max_thinking_tokens, config.form.then
        if self.budget is not None and marks is None:
            what = f"max_thinking_tokens: the chat template of {config.model!r} names no marks of reasoning"
            raise SamplerError(f'{what}; state them, as in think_tags: ["<think>", "</think>"]')
        self.open, self.close = marks or THINK

    def one(self, requests: Iterable[Request]) -> Batches:
        """The samples of ``requests``; an interruption is handed on to the engine, for what has arrived there."""
        with closing(self.sampler.sample(requests, self.stop)) as stream:
            for batch in stream:
                try:
                    yield self._parted(batch)
                except KeyboardInterrupt as interrupt:
                    yield self._parted(stream.throw(interrupt))
                    raise

    def two(self, requests: list[Request]) -> Batches:
        """The samples of ``requests``, those that need no second step first."""
        second = [self._asked(request, f"{self.open}\n\n{self.close}\n\n") for request in requests if self.budget == 0]
        firsts: dict[tuple[str, int], Sample] = {}
        if not second:
            asked = {request.key: request for request in requests}
            first = [replace(request, most=self.budget or self.config.max_new_tokens) for request in requests]
            for batch in self.sampler.sample(first, self.stop):
                ended = {id(s) for s in batch if s.error or not self.then and s.finish_reason != "length"}
                firsts |= {(s.problem_id, s.sample_index): s for s in batch if id(s) not in ended}
                if ended:
                    yield self._parted([sample for sample in batch if id(sample) in ended])
            second = [self._continued(asked[key], sample) for key, sample in firsts.items()]
        for batch in self.sampler.sample(second, self.stop) if second else ():
            yield self._parted([_joined(firsts.get((s.problem_id, s.sample_index)), s) for s in batch])

    def _parted(self, batch: list[Sample]) -> list[Sample]:
        return [self._part(sample) for sample in batch]

    def _part(self, sample: Sample) -> Sample:
        """A sample with its reasoning apart from its text. Of an open thought a last line with a box is the text."""
        whole = parted(sample.text or "", self.tags)
        if sample.error is not None or whole.reasoning is None:
            return sample
        reasoning = (sample.reasoning or "") + whole.reasoning
        tokens = self.own.count(reasoning) if self.own else sample.reasoning_tokens
        return replace(sample, text=whole.text + whole.forced, reasoning=reasoning, reasoning_tokens=tokens)

    def _continued(self, request: Request, sample: Sample) -> Request:
        """What the model goes on with: its text, with the thought closed where it is still open."""
        text = sample.text or ""
        if sample.reasoning:  # a server told the two apart
            text = f"{self.open}\n{sample.reasoning}" + (f"\n{self.close}\n\n{text}" if text else "")
        if parted(text, self.tags).is_open:
            text = f"{text.rstrip()}\n{self.close}\n\n"
        return self._asked(request, text)

    def _asked(self, request: Request, text: str) -> Request:
        left = self.config.max_new_tokens - (self.budget or 0)
        written = f"{text.rstrip()}{self.then}" if self.then else text
        return replace(request, written=written, most=min(left, ANSWER_TOKENS) if self.then else left)


def _joined(first: Sample | None, second: Sample) -> Sample:
    """A sample of two steps, with what both of them cost."""
    if first is None or second.error is not None:
        return second
    names = ("prompt_tokens", "completion_tokens", "seconds")  # as billed: the second prompt holds the first text too
    both = [(name, getattr(first, name), getattr(second, name)) for name in names]
    spent: dict[str, Any] = {name: None if None in (a, b) else a + b for name, a, b in both}
    return replace(second, **spent)
