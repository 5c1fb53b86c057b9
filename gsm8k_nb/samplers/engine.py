"""Fast exact generation for prompts that share a long prefix, such as eight exemplars before each question.

One request and one result (three samples were asked for, this is the first to end):

    Request(prompt_ids=[1, 1234, ..., 57], n_samples=3, seeds=[11, 12, 13])
    Finished(request=0, sample=1, token_ids=[338, 4901, ..., 2], finish_reason="stop")

How it saves time, compared with ``model.generate`` on padded batches:

1. The tokens that all prompts begin with are run through the model once, and kept once. In every later step the
   scores of all rows against that prefix are one matrix product (Hydragen, arXiv:2402.05099, section 3: attention is
   split into a shared prefix and each row's own suffix). Hydragen takes a softmax of each part and joins them by their
   log-sum-exp (its equations 4 to 6). Here the scores of all parts are laid side by side and one softmax runs over
   them: the same value in fewer passes over memory, and with soft caps, windows and sinks at no extra cost.
2. A question's own tokens are run once and kept once for all of its samples: a second shared level (Hydragen's
   hierarchical sharing), with one slot for each question in the batch.
3. A step runs the live rows and nothing else: the batch is laid flat as one sequence with its own position ids, so the
   linear layers see no padding; a row that ends gives its place to a waiting one; logits are computed only where a
   token is chosen.

The model's own code runs unchanged. Only the attention function is exchanged, through transformers' AttentionInterface,
and it keeps the keys and values itself. Whether a model can be run like this is decided by ``supports``, which compares
logits with the model's own.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import AttentionInterface

ATTENTION = "gsm8k_nb_shared_prefix"  # the name under which transformers knows our attention function
READ_AT_ONCE = 1024  # tokens of prompts in one step: enough to keep the matrix products efficient
BLOCK = 64  # the memory of new tokens grows by so many tokens


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt as token ids, and the seeds of its samples, one each (not used when decoding is greedy)."""

    prompt_ids: Sequence[int]
    n_samples: int = 1
    seeds: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How to decode. ``temperature`` 0 is greedy; ``top_k`` None and ``top_p`` 1 are off. ``stop_token_ids`` end a text
    and stay in it, as in ``generate``; so does the token that completes one of ``stop_strings``."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    stop_token_ids: Sequence[int] = ()
    stop_strings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A completed sample: its new tokens, and ``stop`` or ``length``."""

    request: int
    sample: int
    token_ids: list[int]
    finish_reason: str


@dataclass(slots=True, eq=False)
class _Question:
    """A prompt without the shared prefix. ``fresh``: its keys and values by layer, until it has a slot in the batch."""

    request: int
    length: int
    unfinished: int  # samples
    fresh: dict[int, tuple[Tensor, Tensor]] | None = None
    slot: int | None = None


@dataclass(slots=True, eq=False)
class _Row:
    """A sample being written. ``uniforms`` (max_new_tokens,): its own random numbers, so that no row can shift another's."""

    question: _Question
    sample: int
    token_ids: list[int]
    uniforms: Tensor


# --- attention ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Layer:
    """Keys and values of one attention layer, each a pair of tensors.

    prefix (kv heads, prefix + longest question, head dim): the room at its end holds the text being read
    question (slots, kv heads, longest question, head dim); own (rows, kv heads, room, head dim)
    fresh (kv heads, tokens, head dim): of the tokens read last
    """

    prefix: tuple[Tensor, Tensor]
    question: tuple[Tensor, Tensor]
    own: tuple[Tensor, Tensor]
    fresh: tuple[Tensor, Tensor] | None = None


@dataclass(slots=True)
class _Memory:
    """What the attention function has to know in a step: the layers' keys and values, and where each text lies."""

    prefix_room: int  # tokens
    question_room: int  # tokens
    slots: int  # rows at most, and questions at most
    layers: dict[int, _Layer] = field(default_factory=dict)
    filled: int = 0  # tokens of the prefix that have been read
    masks: dict = field(default_factory=dict)  # of this step, by size and window
    spans: list[tuple[int, int]] | None = None  # reading: where each text lies in the flat batch; writing: None
    # Writing one token in each of B rows, on Q questions that have R rows at most:
    lengths: Tensor | None = None  # (B,) own tokens in memory before this step
    width: int = 0  # own tokens of the longest row after this step
    question_lengths: Tensor | None = None  # (B,) of each row's question
    question_width: int = 0  # tokens of the longest question
    n_questions: int = 0
    members: Tensor | None = None  # (Q * R,) rows of each question; None where question i is row i's alone
    place: Tensor | None = None  # (B,) where a row stands in ``members``

    def layer(self, number: int, pair: tuple[Tensor, Tensor]) -> _Layer:
        if number not in self.layers:
            def room(*shape):  # one tensor for keys, one for values; the two may differ in their last dimension
                return tuple(t.new_empty(*(t.shape[0] if n is None else n for n in shape), t.shape[2]) for t in pair)

            prefix = room(None, self.prefix_room + self.question_room)
            question = room(self.slots, None, self.question_room)
            self.layers[number] = _Layer(prefix, question, room(self.slots, None, BLOCK))
        return self.layers[number]

    def grow(self) -> None:
        """Room for one more block of new tokens, where this step needs it."""
        for layer in self.layers.values():
            if self.width > layer.own[0].shape[2]:
                larger = tuple(torch.cat((t, torch.empty_like(t[:, :, :BLOCK])), dim=2) for t in layer.own)
                layer.own = larger


def shared_prefix_attention(
    module, query, key, value, attention_mask, scaling=None, softcap=None, sliding_window=None, s_aux=None,
    position_bias=None, shared_prefix: _Memory | None = None, **_other,
):  # fmt: skip
    """Attention of T flat tokens over the memory, in the form that transformers' AttentionInterface asks for.

    query (1, heads, T, head dim), key and value (1, kv heads, T, head dim); returns (1, T, heads, value dim) and None.
    ``softcap`` bounds scores by tanh, ``sliding_window`` hides tokens that far back, ``s_aux`` are attention sinks: a
    score of each head that takes weight and gives no value.
    """
    if shared_prefix is None or position_bias is not None:
        raise NotImplementedError("attention with a position bias, or outside of the engine")
    layer = shared_prefix.layer(module.layer_idx, (key[0], value[0]))
    query = query[0] * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    attend = _read if shared_prefix.spans is not None else _write
    return attend(shared_prefix, layer, query, key[0], value[0], (softcap, sliding_window, s_aux)).unsqueeze(0), None


def _read(memory: _Memory, layer: _Layer, query, key, value, options) -> Tensor:
    """Each text of ``memory.spans`` over the prefix and, causally, itself. Returns (T, heads, value dim).

    A text is one tile: its scores, of some 100 x heads x 1000 keys, stay in the processor's cache.
    """
    (heads, total, dim), kv_heads, start = query.shape, key.shape[0], memory.filled
    out = value.new_empty(total, heads, value.shape[-1])
    layer.fresh = (key, value)
    for a, b in memory.spans:
        n, end = b - a, start + b - a
        keys, values = (kept[:, :end] for kept in layer.prefix)
        keys[:, start:], values[:, start:] = key[:, a:b], value[:, a:b]
        scores = query[:, a:b].reshape(kv_heads, -1, dim) @ keys.transpose(1, 2)
        weights = _softmax(scores.view(heads, n, end), _reading_mask(memory, n, options[1], scores), options)
        out[a:b] = (weights.view(kv_heads, -1, end) @ values).view(heads, n, -1).transpose(0, 1)
    return out


def _write(memory: _Memory, layer: _Layer, query, key, value, options) -> Tensor:
    """One new token of each row over the prefix, its question and its own tokens. Returns (rows, heads, value dim)."""
    (heads, rows, dim), kv_heads, start = query.shape, key.shape[0], memory.filled
    for kept, new in zip(layer.own, (key, value), strict=True):
        kept[torch.arange(rows, device=kept.device), :, memory.lengths] = new.transpose(0, 1)
    prefix_k, prefix_v = (t[:, :start] for t in layer.prefix)
    question_k, question_v = (t[: memory.n_questions, :, : memory.question_width] for t in layer.question)
    own_k, own_v = (t[:rows, :, : memory.width] for t in layer.own)
    middle, end = start + memory.question_width, start + memory.question_width + memory.width

    by_row = query.view(kv_heads, -1, rows, dim).permute(2, 0, 1, 3).contiguous()  # rows, kv heads, group, dim
    scores = query.new_empty(kv_heads, heads // kv_heads, rows, end)
    scores[..., :start] = (query.reshape(kv_heads, -1, dim) @ prefix_k.transpose(1, 2)).view(*scores.shape[:3], start)
    on_question = _to_rows(memory, _to_questions(memory, by_row) @ question_k.transpose(2, 3), scores.shape[1])
    scores[..., start:middle] = on_question.permute(1, 2, 0, 3)
    scores[..., middle:] = (by_row @ own_k.transpose(2, 3)).permute(1, 2, 0, 3)

    weights = _softmax(scores.view(heads, rows, end), _writing_mask(memory, options[1], scores), options)
    out = (weights.view(kv_heads, -1, end)[..., :start] @ prefix_v).view(heads, rows, -1).transpose(0, 1)
    by_row = weights.view(scores.shape).permute(2, 0, 1, 3)
    on_question = _to_rows(memory, _to_questions(memory, by_row[..., start:middle]) @ question_v, scores.shape[1])
    return out + (on_question + by_row[..., middle:] @ own_v).view(rows, heads, -1)


def _to_questions(memory: _Memory, by_row: Tensor) -> Tensor:
    """(rows, kv heads, group, x) to (questions, kv heads, R * group, x): the rows of a question beside each other."""
    if memory.members is None:
        return by_row
    _, kv_heads, group, last = by_row.shape
    gathered = by_row[memory.members].view(memory.n_questions, -1, kv_heads, group, last)
    return gathered.transpose(1, 2).reshape(memory.n_questions, kv_heads, -1, last)


def _to_rows(memory: _Memory, by_question: Tensor, group: int) -> Tensor:
    """The way back: (questions, kv heads, R * group, x) to (rows, kv heads, group, x)."""
    if memory.members is None:
        return by_question
    _, kv_heads, _, last = by_question.shape
    spread = by_question.view(memory.n_questions, kv_heads, -1, group, last).transpose(1, 2)
    return spread.reshape(-1, kv_heads, group, last)[memory.place]


def _reading_mask(memory: _Memory, n: int, window: int | None, like: Tensor) -> tuple[int, Tensor]:
    """From which key on to add what to the scores of n tokens that stand right after the filled prefix."""
    start = memory.filled
    window = window if window is not None and window < start + n else None
    if (n, window) not in memory.masks:
        first = start if window is None else 0  # without a window every token sees all of the prefix
        position = torch.arange(first, start + n, device=like.device)
        distance = position[start - first :, None] - position
        memory.masks[n, window] = first, _additive((distance < 0) | (distance >= (window or math.inf)), like)
    return memory.masks[n, window]


def _writing_mask(memory: _Memory, window: int | None, like: Tensor) -> tuple[int, Tensor]:
    """The same for one new token in each row, (rows, keys): hides the room behind shorter questions and shorter rows."""
    start = memory.filled
    window = window if window is not None and window < start + memory.question_width + memory.width else None
    if window not in memory.masks:
        question, own = memory.question_lengths[:, None], memory.lengths[:, None]
        at = [torch.arange(n, device=like.device) for n in (start, memory.question_width, memory.width)]
        hidden = [at[0] < own * 0, at[1] >= question, at[2] > own]
        if window is not None:
            place = (at[0], start + at[1], start + question + at[2])
            hidden = [h | (start + question + own - p >= window) for h, p in zip(hidden, place, strict=True)]
        first = start if window is None else 0
        memory.masks[window] = first, _additive(torch.cat(hidden, dim=1)[:, first:], like)
    return memory.masks[window]


def _additive(hidden: Tensor, like: Tensor) -> Tensor:
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -math.inf)


def _softmax(scores: Tensor, mask: tuple[int, Tensor], options) -> Tensor:
    """Weights (heads, tokens, keys) from scores, which are overwritten; sums run in float32 inside ``softmax``."""
    softcap, _, sinks = options
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    scores[..., mask[0] :] += mask[1]
    if sinks is None:
        return scores.softmax(-1)
    sinks = sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, scores.shape[1], 1)
    return torch.cat((scores, sinks), dim=-1).softmax(-1)[..., :-1].contiguous()


# --- the loop ----------------------------------------------------------------------------------------------------------


def generate(
    model, requests: Sequence[Request], settings: EngineSettings, *, tokenizer=None, batch_size: int | None = None
) -> Iterator[Finished]:
    """Every sample of every request, each as soon as it ends, in any order.

    ``model`` is a causal language model of transformers in evaluation mode; while the iterator lives its attention
    function is ours, and it must not be used for anything else. ``tokenizer`` is needed for stop strings. ``batch_size``
    is the number of samples written at the same time (None: as many as memory and arithmetic make sensible).
    """
    if settings.stop_strings and tokenizer is None:
        raise ValueError("stop_strings need a tokenizer, with which they are looked for")
    for number, request in enumerate(requests):
        if not len(request.prompt_ids) or len(request.seeds) < request.n_samples:
            raise ValueError(f"request {number} needs at least one token and a seed for each of its samples: {request}")
    if not requests:
        return
    run = _Run(model, requests, settings, _end_check(settings, tokenizer), batch_size)
    with _our_attention(model):
        run.read_prefix()
        while run.rows or run.ready or run.waiting:
            yield from run.fill()
            if run.rows:
                yield from run.write()


@contextmanager
def _our_attention(model) -> Iterator[None]:
    before = model.config._attn_implementation
    AttentionInterface.register(ATTENTION, shared_prefix_attention)
    model.set_attn_implementation(ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


class _Run:
    """The state of one ``generate``: questions waiting to be read, samples ready to be written, rows being written."""

    def __init__(self, model, requests, settings, ends, batch_size) -> None:
        self.model, self.requests, self.settings, self.ends = model, requests, settings, ends
        prompts = [request.prompt_ids for request in requests]
        self.prefix = _common_prefix(prompts)
        longest = max(map(len, prompts)) - len(self.prefix)
        # Questions of like length go together; the longest first, so that memory runs out at once or never.
        self.waiting = deque(sorted(range(len(requests)), key=lambda i: -len(prompts[i])))
        self.ready: deque[_Row] = deque()
        self.rows: list[_Row] = []
        self.questions: list[_Question] = []  # those of ``rows``, by slot
        self.batch_size = min(batch_size or 64, sum(request.n_samples for request in requests))
        self.memory = _Memory(len(self.prefix), longest, self.batch_size)

    def read_prefix(self) -> None:
        """Runs the shared prefix through the model, in chunks of bounded size."""
        for start in range(0, len(self.prefix), READ_AT_ONCE):
            chunk = self.prefix[start : start + READ_AT_ONCE]
            self.memory.spans = [(0, len(chunk))]
            self._forward(chunk, list(range(start, start + len(chunk))), keep=[0])
            self.memory.filled += len(chunk)

    def fill(self) -> Iterator[Finished]:
        """Fills the batch with waiting samples. A sample may end with its first token, before it has a row."""
        while len(self.rows) < self.batch_size and (self.ready or self.waiting):
            if self.ready:
                self._place(self.ready.popleft())
            else:
                rows = self._read_questions()
                yield from self._finish(rows)
                self.ready.extend(row for row in rows if row.ended is None)

    @torch.inference_mode()
    def _read_questions(self) -> list[_Row]:
        """Runs some waiting questions through the model together; their samples, each with its first token."""
        questions, ids, positions, spans = [], [], [], []
        while self.waiting and (not ids or len(ids) + self._suffix_length(self.waiting[0]) <= READ_AT_ONCE):
            request = self.waiting.popleft()
            suffix = self.requests[request].prompt_ids[len(self.prefix) :]
            spans.append((len(ids), len(ids) + len(suffix)))
            ids += suffix
            positions += range(len(self.prefix), len(self.prefix) + len(suffix))
            questions.append(_Question(request, len(suffix), self.requests[request].n_samples))
        self.memory.spans = spans
        logits = self._forward(ids, positions, keep=[b - 1 for _, b in spans])
        for question, (a, b) in zip(questions, spans, strict=True):
            layers = self.memory.layers.values()
            question.fresh = [tuple(t[:, a:b] for t in layer.fresh) for layer in layers]
        rows = [
            _Row(question, sample, [], _uniforms(self.requests[question.request].seeds[sample], self.settings))
            for question in questions
            for sample in range(question.unfinished)
        ]
        source = [number for number, question in enumerate(questions) for _ in range(question.unfinished)]
        for start in range(0, len(rows), self.batch_size):
            some = slice(start, start + self.batch_size)
            self._append(rows[some], logits[source[some]])
        return rows

    def _place(self, row: _Row) -> None:
        """Gives a sample a row, and its question a slot where it has none yet."""
        question = row.question
        if question.slot is None:
            question.slot = len(self.questions)
            self.questions.append(question)
            for layer, fresh in zip(self.memory.layers.values(), question.fresh, strict=True):
                for kept, new in zip(layer.question, fresh, strict=True):
                    kept[question.slot, :, : question.length] = new
            question.fresh = None
        self.rows.append(row)

    @torch.inference_mode()
    def write(self) -> list[Finished]:
        """Writes one token in every row; rows that end with it leave the batch."""
        self._append(self.rows, self._next_logits())
        finished = list(self._finish(self.rows))
        if finished:
            self._close_gaps(self.rows, {i for i, row in enumerate(self.rows) if row.ended}, "own")
            self._close_gaps(self.questions, {i for i, q in enumerate(self.questions) if not q.unfinished}, "question")
            for slot, question in enumerate(self.questions):
                question.slot = slot
        return finished

    def _next_logits(self) -> Tensor:
        """Runs the last token of every row through the model. Returns (rows, vocabulary)."""
        memory, slots = self.memory, [row.question.slot for row in self.rows]
        own = [len(row.token_ids) - 1 for row in self.rows]
        questions = [row.question.length for row in self.rows]
        as_tensor = partial(torch.tensor, device=self.model.device)
        memory.spans, memory.lengths, memory.width = None, as_tensor(own), max(own) + 1
        memory.question_lengths, memory.n_questions = as_tensor(questions), len(self.questions)
        memory.question_width = max(question.length for question in self.questions)
        memory.members = memory.place = None
        if slots != list(range(len(self.questions))):
            members = [[] for _ in self.questions]
            for row, slot in enumerate(slots):
                members[slot].append(row)
            most = max(map(len, members))
            place = [slot * most + members[slot].index(row) for row, slot in enumerate(slots)]
            memory.members = as_tensor([row for rows in members for row in rows + [0] * (most - len(rows))])
            memory.place = as_tensor(place)
        memory.grow()
        positions = [len(self.prefix) + q + n for q, n in zip(questions, own, strict=True)]
        return self._forward([row.token_ids[-1] for row in self.rows], positions, keep=None)

    def _forward(self, ids: list[int], positions: list[int], keep: list[int] | None) -> Tensor:
        """The model on a flat batch: logits (kept places, vocabulary)."""
        self.memory.masks.clear()
        ids, positions = (torch.tensor([values], device=self.model.device) for values in (ids, positions))
        keep = 0 if keep is None else torch.tensor(keep, device=self.model.device)
        with torch.inference_mode():
            return self.model(
                input_ids=ids, position_ids=positions, use_cache=False, logits_to_keep=keep, shared_prefix=self.memory
            ).logits[0]

    def _append(self, rows: list[_Row], logits: Tensor) -> None:
        """Chooses the next token of each row, and sees whether the row ends with it."""
        uniforms = None
        if self.settings.temperature:
            uniforms = torch.tensor([row.uniforms[len(row.token_ids)] for row in rows], device=logits.device)
        for row, token in zip(rows, choose(logits, self.settings, uniforms).tolist(), strict=True):
            row.token_ids.append(token)
            row.ended = self.ends(row.token_ids)

    def _finish(self, rows: list[_Row]) -> Iterator[Finished]:
        for row in rows:
            if row.ended:
                row.question.unfinished -= 1
                yield Finished(row.question.request, row.sample, row.token_ids, row.ended)

    def _close_gaps(self, items: list, gone: set[int], name: str) -> None:
        """Moves the last rows (or questions) into the places of those that are gone, in the list and in memory."""
        kept = len(items) - len(gone)
        holes = [i for i in sorted(gone) if i < kept]
        movers = [i for i in range(kept, len(items)) if i not in gone]
        for hole, mover in zip(holes, movers, strict=True):
            items[hole] = items[mover]
        del items[kept:]
        if holes:
            for layer in self.memory.layers.values():
                for t in getattr(layer, name):
                    t[holes] = t[movers]

    def _suffix_length(self, request: int) -> int:
        return len(self.requests[request].prompt_ids) - len(self.prefix)


def _common_prefix(prompts: Sequence[Sequence[int]]) -> list[int]:
    """What all prompts begin with, less one token of the shortest: a question needs a token to be read."""
    first, last = list(min(prompts)), list(max(prompts))  # all others lie between these two
    limit = min(map(len, prompts)) - 1
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), limit)
    return first[: min(same, limit)]


# --- choosing and ending -----------------------------------------------------------------------------------------------


def choose(logits: Tensor, settings: EngineSettings, uniforms: Tensor | None) -> Tensor:
    """One token id a row, (rows,), from logits (rows, vocabulary) and, unless greedy, a number in [0, 1) a row.

    A draw inverts the cumulative distribution, tokens ordered from the likeliest on: it depends on the row's logits and
    its own number alone. Temperature, then top-k, then top-p, as in ``generate``.
    """
    if settings.temperature == 0:
        return logits.argmax(-1)
    logits, vocabulary = logits.float() / settings.temperature, logits.shape[-1]
    tokens, found = _draw(logits, settings, uniforms, min(settings.top_k or 64, vocabulary))
    if not found.all():  # rare: the draw lies beyond the 64 likeliest tokens, so those rows need the whole order
        tokens[~found] = _draw(logits[~found], settings, uniforms[~found], vocabulary)[0]
    return tokens


def _draw(logits: Tensor, settings: EngineSettings, uniforms: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A draw among the k likeliest tokens, and whether k was enough to tell: both (rows,)."""
    values, ids = logits.topk(k)
    everything = values if settings.top_k else logits
    reached = (values - everything.logsumexp(-1, keepdim=True)).exp().cumsum(-1)
    last = (reached < settings.top_p).sum(-1, keepdim=True)  # the token with which the nucleus is complete
    mass = reached.gather(1, last.clamp(max=k - 1)) if settings.top_p < 1 else 1.0
    place = (reached <= uniforms[:, None] * mass).sum(-1, keepdim=True)
    found = (place < k) & (last < k) if settings.top_p < 1 else place < k
    if k == logits.shape[-1] or settings.top_k:
        found = torch.ones_like(found)  # there are no others; only rounding can have missed
    return ids.gather(1, place.clamp(max=k - 1))[:, 0], found[:, 0]


def _uniforms(seed: int, settings: EngineSettings) -> list[float]:
    """The random numbers of one sample, a token each, from its seed alone. None are drawn when decoding is greedy."""
    if settings.temperature == 0:
        return []
    return torch.rand(settings.max_new_tokens, generator=torch.Generator().manual_seed(seed)).tolist()


def _end_check(settings: EngineSettings, tokenizer) -> Callable[[list[int]], str | None]:
    """A function that says how a text ends with its last token: ``stop``, ``length``, or None where it goes on.

    Only the last few tokens are decoded, and only where the newest can complete a stop string at all.
    """
    stops, strings = set(settings.stop_token_ids), tuple(settings.stop_strings)
    finals = {string[-1] for string in strings}
    window = max((len(string.encode()) for string in strings), default=0) + 8  # a token is a byte or more, or is skipped
    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False) if strings else None

    @cache
    def may_complete(token: int) -> bool:
        text = decode([token])  # alone, a token may lose its leading space, or be a part of a character
        return not text or "\ufffd" in text or any(final in text for final in finals)

    def ends(token_ids: list[int]) -> str | None:
        if token_ids[-1] in stops:
            return "stop"
        if strings and may_complete(token_ids[-1]):
            tail = decode(token_ids[-window:])
            if any(string in tail for string in strings):
                return "stop"
        return "length" if len(token_ids) >= settings.max_new_tokens else None

    return ends


# --- does it fit -------------------------------------------------------------------------------------------------------


def supports(model, *, length: int = 64) -> str | None:
    """None where the engine computes the model's own logits on texts of ``length`` tokens, else the reason.

    Random tokens are run both ways: read in three pieces and written one by one here, in one piece by the model. Give the
    longest prompt plus the new tokens as ``length``, so that a window or a change of rotary scaling shows.
    """
    if model.training:
        return "the model is in training mode"
    vocabulary = model.get_input_embeddings().num_embeddings
    text = torch.randint(vocabulary, (length,), generator=torch.Generator().manual_seed(0)).tolist()
    try:
        with torch.inference_mode():
            own = model(input_ids=torch.tensor([text], device=model.device), use_cache=False, logits_to_keep=4).logits[0]
            ours = _probe(model, text)
    except Exception as error:  # whatever a model does that we do not foresee means that it is not supported
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    if own.shape != ours.shape:
        return f"logits of shape {tuple(ours.shape)} where the model gives {tuple(own.shape)}"
    own, ours = own.float(), ours.float()
    error = ((own - ours).norm() / (own - own.mean(-1, keepdim=True)).norm()).item()
    allowed = 1e-3 if model.dtype == torch.float32 else 0.05
    return None if error <= allowed else f"logits differ from the model's own by {error:.2g} (allowed: {allowed})"


def _probe(model, text: list[int]) -> Tensor:
    """Our logits of the last four tokens of ``text``: of the end of a question, then of three written tokens."""
    prompt, new = text[:-3], text[-3:]
    neighbour = prompt[: len(prompt) // 2] + prompt[:7]  # shares half, so that prefix, question and own tokens all count
    requests = [Request(prompt), Request(neighbour)]
    run = _Run(model, requests, EngineSettings(max_new_tokens=4), lambda token_ids: None, None)
    logits = []
    run.choose = lambda rows, values: logits.append(values[0])
    with _our_attention(model):
        ...
    return torch.stack(logits)
