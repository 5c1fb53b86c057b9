"""The next token of a row of logits, and whether a text ends with it, for the engine and plain ``generate`` alike."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. ``temperature`` 0 is greedy; ``top_k`` None, ``top_p`` 1 and ``min_p`` 0 are off. A text ends with
    one of ``stop_token_ids``, which stays in it as in ``generate``, or with the token that completes one of
    ``stop_strings``, where ``stops_here``, which is asked with all of the text's tokens, says that it counts."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    stop_token_ids: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    stops_here: Callable[[Sequence[int]], bool] = lambda token_ids: True


def choose(logits: Tensor, settings: Decoding, uniforms: Tensor | None) -> Tensor:
    """One token id a row, (rows,), from logits (rows, vocabulary) and, unless greedy, a number in [0, 1) a row.

    A draw inverts the cumulative distribution, likeliest tokens first. Temperature, top-k, top-p, min-p, in the order
    of ``generate``: what each leaves is the whole to the next.
    """
    if settings.temperature == 0 or uniforms is None:
        return logits.float().argmax(-1)  # torch is several times slower at this in bfloat16
    logits, vocabulary = logits.float() / settings.temperature, logits.shape[-1]
    tokens, enough = _draw(logits, settings, uniforms, min(settings.top_k or 64, vocabulary))
    if not enough.all():  # rare: the draw lies beyond the 64 likeliest tokens, so those rows need the whole order
        tokens[~enough] = _draw(logits[~enough], settings, uniforms[~enough], vocabulary)[0]
    return tokens


def _draw(logits: Tensor, settings: Decoding, uniforms: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A draw among the k likeliest tokens, and whether k was enough to tell: both (rows,)."""
    values, ids = logits.topk(k)
    everything = values if settings.top_k else logits
    reached = (values - everything.logsumexp(-1, keepdim=True)).exp().cumsum(-1)
    last = (reached < settings.top_p).sum(-1, keepdim=True)  # the token with which the nucleus is complete
    if settings.min_p:  # a share of the likeliest, so what it leaves is the head of this order too
        likely = (values >= values[:, :1] + math.log(settings.min_p)).sum(-1, keepdim=True)
        last = torch.minimum(last if settings.top_p < 1 else likely, torch.where(likely < k, likely - 1, likely))
    cut = settings.top_p < 1 or settings.min_p > 0
    mass = reached.gather(1, last.clamp(max=k - 1)) if cut else 1.0
    place = (reached <= uniforms[:, None] * mass).sum(-1, keepdim=True)
    enough = (place < k) & (last < k) if cut else place < k
    if k == logits.shape[-1] or settings.top_k:
        enough = torch.ones_like(enough)  # there are no others; only rounding can have missed
    return ids.gather(1, place.clamp(max=k - 1))[:, 0], enough[:, 0]


def uniforms_of(seed: int, settings: Decoding) -> list[float]:
    """The random numbers of one sample, a token each, from its seed alone. None are drawn when decoding is greedy."""
    if settings.temperature == 0:
        return []
    return torch.rand(settings.max_new_tokens, generator=torch.Generator().manual_seed(seed)).tolist()


def stop_check(settings: Decoding, tokenizer: Any) -> Callable[[Sequence[int]], bool]:
    """A function that says whether the last of a text's tokens completes one of the stop strings; ask at every token.

    Only the last few tokens are decoded, and only where the newest can complete a stop string at all.
    """
    strings = settings.stop_strings
    if not strings:
        return lambda token_ids: False
    window = max(len(string.encode()) for string in strings) + 8  # a token is a byte or more, or skipped
    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    @cache
    def may_complete(token: int) -> bool:
        text = decode([token])  # alone, a token may lose its leading space, or be a part of a character
        return not text or "\ufffd" in text or any(string[-1] in text for string in strings)

    def completes(token_ids: Sequence[int]) -> bool:
        if not may_complete(token_ids[-1]):
            return False
        tail = decode(token_ids[-window:])
        return any(string in tail for string in strings) and settings.stops_here(token_ids)

    return completes


def end_check(settings: Decoding, tokenizer: Any) -> Callable[[list[int]], str | None]:
    """A function that says how a text ends with its last token: ``stop``, ``length``, or None where it goes on."""
    stop_ids, completes = set(settings.stop_token_ids), stop_check(settings, tokenizer)

    def ends(token_ids: list[int]) -> str | None:
        if token_ids[-1] in stop_ids or completes(token_ids):
            return "stop"
        return "length" if len(token_ids) >= settings.max_new_tokens else None

    return ends
