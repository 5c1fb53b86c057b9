"""Fast exact generation for prompts that share a long prefix, such as eight exemplars before each question.

What all prompts begin with is run through the model once and kept, also for the next call; a question's own tokens are
run once for all of its samples. A step runs the live rows and nothing else: the batch is laid flat as one sequence with
its own position ids, so the linear layers see no padding, and a row that ends gives its place to a waiting one. Only
the attention function is exchanged; it keeps the keys and values itself. ``supports`` says whether a model fits.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from gsm8k_nb.samplers.shared_prefix.attention import Memory, Pair, both, shared_prefix_attention
from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose, end_check, uniforms_of
from gsm8k_nb.samplers.shared_prefix.packing import FEW, packed

ATTENTION = "gsm8k_nb_shared_prefix"  # the name under which transformers knows our attention function
READ_AT_ONCE = 1024  # tokens of prompts in one step: enough to keep the matrix products efficient


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt as token ids, and the seeds of its samples, one each (not used when decoding is greedy)."""

    prompt_ids: Sequence[int]
    n_samples: int = 1
    seeds: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class Finished:
    """A completed sample: its new tokens, and ``stop`` or ``length``."""

    request: int
    sample: int
    token_ids: list[int]
    finish_reason: str


def generate(
    model: Any, requests: Sequence[Request], settings: Decoding, *, tokenizer: Any = None,
    batch_size: int = 32, memory: Memory | None = None, prefix: Sequence[int] | None = None,
) -> Iterator[Finished]:  # fmt: skip
    """Every sample of every request, each as soon as it ends, in any order; ``batch_size`` are written at once.

    ``model`` is a causal language model of transformers in evaluation mode; while the iterator lives its attention
    function is ours, and it must not be used for anything else. ``tokenizer`` is needed for stop strings. With the
    same ``memory`` the next call with this model need not read the prefix again.

    With a ``prefix``, with which all prompts must begin, a text is on a CPU a function of its own prompt and seed, bit
    by bit, whatever else is asked for, in any order or number. Without one it is what the prompts happen to share.
    """
    if settings.stop_strings and tokenizer is None:
        raise ValueError("stop_strings need a tokenizer, with which they are looked for")
    for number, request in enumerate(requests):
        if not len(request.prompt_ids) or len(request.seeds) < request.n_samples:
            raise ValueError(f"request {number} needs at least one token and a seed for each of its samples: {request}")
        if prefix is not None and not _goes_on(request.prompt_ids, prefix):
            raise ValueError(f"request {number} does not go on with the prefix of {len(prefix)} tokens: {request}")
    if requests:
        yield from _Run(model, requests, settings, batch_size, memory or Memory(), tokenizer, prefix).run()


@dataclass(slots=True, eq=False)
class _Row:
    """A sample being written."""

    request: int
    sample: int
    length: int  # tokens of the question
    fresh: list[Pair]  # their keys and values by layer, which the samples of a request share until each has a copy
    uniforms: list[float]  # random numbers, one a token
    token_ids: list[int] = field(default_factory=list)
    ended: str | None = None  # the finish reason

    def needs(self) -> int:
        """Tokens in memory once the last token has been run."""
        return self.length + len(self.token_ids)


class _Run:
    """One ``generate``: questions (prompts without what all share) to be read, samples ready to be written, rows."""

    def __init__(
        self, model: Any, requests: Sequence[Request], settings: Decoding, batch_size: int, memory: Memory,
        tokenizer: Any = None, prefix: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.requests, self.settings, self.memory = model, requests, settings, memory
        self.batch_size = max(min(batch_size, sum(request.n_samples for request in requests)), 1)
        self.ends = end_check(settings, tokenizer)
        prompts = [list(request.prompt_ids) for request in requests]
        self.fixed = prefix is not None
        # A question needs a token to be read, so one token of the shortest prompt is left.
        shared = min(len(os.path.commonprefix(prompts)), min(map(len, prompts)) - 1)
        self.prefix = prompts[0][:shared] if prefix is None else list(prefix)
        self.questions = [prompt[len(self.prefix) :] for prompt in prompts]
        # Questions of like length go together; the longest first, so that memory runs out at once or never.
        self.waiting = deque(sorted(range(len(requests)), key=lambda i: -len(prompts[i])))
        self.read_at_once = READ_AT_ONCE if model.device.type == "cpu" else 8 * READ_AT_ONCE
        self.ready: deque[_Row] = deque()
        self.rows: list[_Row] = []

    def run(self) -> Iterator[Finished]:
        """The model has our attention function and, on a CPU, packed linear layers; afterwards it is as it was."""
        before = self.model.config._attn_implementation
        AttentionInterface.register(ATTENTION, shared_prefix_attention)
        try:
            self.model.set_attn_implementation(ATTENTION)
            with packed(self.model, (lambda: bool(self.memory.spans)) if self.fixed else None):
                self._read_prefix()
                while self.rows or self.ready or self.waiting:
                    yield from self._fill()
                    if self.rows:
                        yield from self._write()
        finally:
            self.model.set_attn_implementation(before)
            self.memory.keep_only(self.prefix)

    @torch.inference_mode()
    def _read_prefix(self) -> None:
        """Runs what is not in memory of the shared prefix through the model, in chunks of bounded size."""
        if self.fixed and self.memory.prefix != self.prefix:
            self.memory.keep_only([])  # the chunks are to be the same ones
        self.memory.keep_only(self.prefix)
        for start in range(len(self.memory.prefix), len(self.prefix), self.read_at_once):
            chunk = self.prefix[start : start + self.read_at_once]
            self.memory.spans = [(0, len(chunk))]
            self._forward(chunk, list(range(start, start + len(chunk))), keep=[0])
            self.memory.extend_prefix(chunk)

    def _fill(self) -> Iterator[Finished]:
        """Fills the batch with waiting samples. A sample may end with its first token, before it has a row."""
        while len(self.rows) < self.batch_size and (self.ready or self.waiting):
            if self.ready:
                self._place(self.ready.popleft())
            else:
                rows = self._read_questions()
                self.ready.extend(row for row in rows if row.ended is None)
                yield from _finished(rows)

    @torch.inference_mode()
    def _read_questions(self) -> list[_Row]:
        """Runs some waiting questions through the model together; their samples, each with its first token."""
        read: list[int] = []
        ids: list[int] = []
        while self.waiting and (not ids or len(ids) + len(self.questions[self.waiting[0]]) <= self.read_at_once):
            read.append(self.waiting.popleft())
            ids += self.questions[read[-1]]
        spans = list(pairwise(accumulate((len(self.questions[request]) for request in read), initial=0)))
        self.memory.spans = spans
        positions = [len(self.prefix) + place for a, b in spans for place in range(b - a)]
        logits = self._forward(ids, positions, keep=[b - 1 for _, b in spans])
        rows, sources = [], []
        for number, (request, (a, b)) in enumerate(zip(read, spans, strict=True)):
            part = itemgetter((slice(None), slice(a, b)))
            fresh = [both(part, layer.fresh) for layer in self.memory.layers.values()]
            for sample in range(self.requests[request].n_samples):
                uniforms = uniforms_of(self.requests[request].seeds[sample], self.settings)
                rows.append(_Row(request, sample, b - a, fresh, uniforms))
                sources.append(number)
        for first in range(0, len(rows), self.batch_size):
            some = slice(first, first + self.batch_size)
            self._append(rows[some], logits[sources[some]])
        return rows

    @torch.inference_mode()
    def _place(self, row: _Row) -> None:
        """Gives a sample the next row of the batch and a copy of its question's keys and values."""
        if row.needs() > self.memory.room:
            self.memory.make_room(self.batch_size, row.needs())
        for layer, fresh in zip(self.memory.layers.values(), row.fresh, strict=True):
            for kept, new in zip(layer.rows, fresh, strict=True):
                kept[len(self.rows), :, : row.length] = new
        row.fresh = []
        self.rows.append(row)

    @torch.inference_mode()
    def _write(self) -> list[Finished]:
        """Writes one token in every row; rows that end with it leave the batch."""
        self.memory.spans = []
        rows = self.batch_size if self.ready or self.waiting else len(self.rows)  # no more will come
        self.memory.make_room(rows, max(row.needs() for row in self.rows))
        positions = [len(self.prefix) + row.needs() - 1 for row in self.rows]
        self._append(self.rows, self._forward([row.token_ids[-1] for row in self.rows], positions, keep=None))
        finished = _finished(self.rows)
        if finished:
            self._close_gaps()
        return finished

    def _forward(self, ids: list[int], positions: list[int], keep: list[int] | None) -> Tensor:
        """The model on a flat batch: logits (kept places, vocabulary); ``keep`` None is all places."""
        as_tensor = partial(torch.tensor, device=self.model.device)
        self.memory.masks.clear()
        self.memory.positions = as_tensor(positions)
        return self.model(
            input_ids=as_tensor([ids]), position_ids=self.memory.positions[None], use_cache=False,
            logits_to_keep=0 if keep is None else as_tensor(keep), shared_prefix=self.memory,
        ).logits[0]  # fmt: skip

    def _append(self, rows: list[_Row], logits: Tensor) -> None:
        """Gives each row its next token, and sees whether the row ends with it."""
        for row, token in zip(rows, self._choose(rows, logits), strict=True):
            row.token_ids.append(token)
            row.ended = self.ends(row.token_ids)

    def _choose(self, rows: list[_Row], logits: Tensor) -> list[int]:
        uniforms = None
        if self.settings.temperature:
            uniforms = torch.tensor([row.uniforms[len(row.token_ids)] for row in rows], device=logits.device)
        return choose(logits, self.settings, uniforms).tolist()

    def _close_gaps(self) -> None:
        """Moves the last rows into the places of those that have ended, in the list and in memory."""
        kept = sum(row.ended is None for row in self.rows)
        holes = [i for i in range(kept) if self.rows[i].ended]
        movers = [i for i in range(kept, len(self.rows)) if self.rows[i].ended is None]
        for hole, mover in zip(holes, movers, strict=True):
            self.rows[hole] = self.rows[mover]
        del self.rows[kept:]
        if holes:
            for layer in self.memory.layers.values():
                for t in layer.rows:
                    t[holes] = t[movers]


def _goes_on(prompt_ids: Sequence[int], prefix: Sequence[int]) -> bool:
    """Whether a prompt begins with the prefix and has at least one token behind it."""
    return len(prompt_ids) > len(prefix) and list(prompt_ids[: len(prefix)]) == list(prefix)


def _finished(rows: list[_Row]) -> list[Finished]:
    return [Finished(row.request, row.sample, row.token_ids, row.ended) for row in rows if row.ended]


# --- does it fit ---


def supports(model: Any, *, length: int = 64) -> str | None:
    """None where the engine computes the model's own logits on texts of ``length`` tokens, else the reason why not.

    Random tokens are run both ways: in one piece by the model, read in pieces and written one by one by the engine. A
    window or a change of rotary scaling shows only in texts that reach it.
    """
    if model.training:
        return "the model is in training mode"
    text = _random_text(model, length)
    try:
        with torch.inference_mode():
            ids = torch.tensor([text], device=model.device)
            own = model(input_ids=ids, use_cache=False, logits_to_keep=4).logits[0]
        ours, n_layers = _probe(model, text)
    except Exception as error:  # whatever a model does that was not foreseen means that it is not supported
        return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
    if n_layers != model.config.get_text_config().num_hidden_layers:
        return f"only {n_layers} of its layers ask transformers for an attention function"
    if own.shape != ours.shape:
        return f"logits of shape {tuple(ours.shape)} where the model gives {tuple(own.shape)}"
    own, ours = own.float(), ours.float()
    off = ((own - ours).norm() / (own - own.mean(-1, keepdim=True)).norm()).item()
    # In half precision two correct ways differ by 0.05 to 0.1 (SmolLM2-135M in bfloat16), as each does from float32.
    allowed = 1e-3 if model.dtype == torch.float32 else 0.2
    return None if off <= allowed else f"its logits differ from the model's own by {off:.2g} (allowed: {allowed})"


def repeats(model: Any) -> bool:
    """Whether a text's logits are the same, bit by bit, alone and among others, for a model that the engine supports.

    Tried with rows in several pieces and a longer room. Only on a CPU is so small a trial enough to tell.
    """
    if model.device.type != "cpu":
        return False
    text = _random_text(model, 64)
    alone, crowded = (_probe(model, text, company)[0] for company in (0, FEW[1] + 1))
    return torch.equal(alone, crowded)


def _random_text(model: Any, length: int) -> list[int]:
    vocabulary = model.get_input_embeddings().num_embeddings
    return torch.randint(vocabulary, (length,), generator=torch.Generator().manual_seed(0)).tolist()


def _probe(model: Any, text: list[int], company: int = 1) -> tuple[Tensor, int]:
    """Our logits (4, vocabulary) of the last tokens of ``text``, the end of a question and three written ones, among so
    many other texts, longer and shorter; and the number of attention layers."""
    prompt, new = text[:-3], text[-3:] + [0]
    logits: list[Tensor] = []
    prefix = prompt[:-24]  # all but the end is shared, so prefix, question and own tokens all count
    others = [prefix + (text * 2)[: 7 if number % 8 else 60] for number in range(company)]

    class Forced(_Run):
        def _choose(self, rows: list[_Row], values: Tensor) -> list[int]:
            logits.extend(value for row, value in zip(rows, values, strict=True) if row.request == 0)
            return [new[len(row.token_ids)] for row in rows]

    memory = Memory()
    requests = [Request(ids) for ids in (prompt, *others)]
    for _ in Forced(model, requests, Decoding(max_new_tokens=4), len(requests), memory, prefix=prefix).run():
        pass
    return torch.stack(logits), len(memory.layers)
