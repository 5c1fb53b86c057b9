"""Attention of many texts over the memory of what they have in common and of their own tokens.

The tokens that all prompts begin with are kept once, and attention over them is one matrix product for all rows, as in
Hydragen (arXiv:2402.05099). Here the scores of prefix and suffix are laid side by side, one softmax runs over them, and
its two parts are multiplied with the two sets of values apart, with soft caps, windows and sinks at no extra cost.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

TILE = 128  # tokens of one text whose attention is computed at once
BLOCK = 32  # the memory of a row grows by so many tokens
ROWS = 64  # rows of a product with the prefix are filled up to a multiple, so that they come out the same in any number

Pair = tuple[Tensor, Tensor]  # keys and values
# What a model may ask for: scores bounded by tanh, tokens hidden that far back, and attention sinks, a score of each
# head that takes weight and gives no value.
Options = tuple[float | None, int | None, Tensor | None]


def both(change: Callable[[Tensor], Tensor], pair: Pair) -> Pair:
    return change(pair[0]), change(pair[1])


@dataclass(slots=True)
class Layer:
    """Keys and values of one attention layer, each a pair of tensors. All are used whole: a slice would be copied.

    prefix (kv heads, tokens, head dim); fresh (kv heads, tokens, head dim): of the tokens that the last step read
    rows (rows at most, kv heads, room, head dim): the question and the new tokens of each row
    """

    prefix: Pair
    fresh: Pair
    rows: Pair


@dataclass(slots=True)
class Memory:
    """The layers' keys and values, and where the tokens of a step stand: all that the attention function has to know.

    ``spans``: reading, where each text lies in the flat batch; writing, none, and token i is the next one of row i.
    """

    prefix: list[int] = field(default_factory=list)  # tokens that have been read and kept
    room: int = 0  # tokens of each row
    layers: dict[int, Layer] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    positions: Tensor = field(default_factory=lambda: torch.empty(0))  # (tokens of this step,)
    masks: dict[Any, Tensor] = field(default_factory=dict)  # of this step

    def layer(self, number: int, key: Tensor, value: Tensor) -> Layer:
        if number not in self.layers:
            new = (key, value)
            self.layers[number] = Layer(both(lambda t: t[:, :0], new), new, both(lambda t: t[None, :, :0], new))
        return self.layers[number]

    def keep_only(self, prompt: list[int]) -> None:
        """Forgets all but the tokens with which ``prompt`` begins too."""
        length = len(os.path.commonprefix([self.prefix, prompt]))
        self.prefix, self.room = self.prefix[:length], 0
        for layer in self.layers.values():
            # Copied where it is cut, as a part keeps the whole alive.
            layer.prefix = both(lambda t: t[:, :length].clone() if t.shape[1] > length else t, layer.prefix)
            layer.fresh = both(lambda t: t[:, :0], layer.prefix)
            layer.rows = both(lambda t: t[None, :, :0], layer.prefix)

    def extend_prefix(self, tokens: list[int]) -> None:
        """The text just read, ``tokens``, goes on with the prefix."""
        for layer in self.layers.values():
            keys, values = (torch.cat(parts, dim=1) for parts in zip(layer.prefix, layer.fresh, strict=True))
            layer.prefix = keys, values
        self.prefix = self.prefix + tokens

    def make_room(self, rows: int, tokens: int) -> None:
        """Room for so many tokens in each of so many rows, in two or more blocks; one block too many is let be."""
        room = max(math.ceil(tokens / BLOCK), 2) * BLOCK  # a single one is multiplied in another way
        if self.room - BLOCK <= room <= self.room:
            return
        kept, self.room = min(room, self.room), room
        for layer in self.layers.values():
            larger = both(lambda t: t.new_zeros(rows, t.shape[1], room, t.shape[3]), layer.rows)
            for new, old in zip(larger, layer.rows, strict=True):
                new[: len(old), :, :kept] = old[:rows, :, :kept]
            layer.rows = larger


def shared_prefix_attention(
    module, query, key, value, attention_mask, scaling=None, softcap=None, sliding_window=None, s_aux=None,
    position_bias=None, shared_prefix: Memory | None = None, **_other,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of T flat tokens over the memory, in the form that transformers' AttentionInterface asks for.

    query (1, heads, T, head dim), key and value (1, kv heads, T, head dim); returns (1, T, heads, value dim) and None.
    """
    if shared_prefix is None or position_bias is not None:
        raise NotImplementedError("attention with a position bias, or outside of the engine")
    layer = shared_prefix.layer(module.layer_idx, key[0], value[0])
    query = query[0] * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    attend = _read if shared_prefix.spans else _write
    return attend(shared_prefix, layer, query, key[0], value[0], (softcap, sliding_window, s_aux))[None], None


def _read(memory: Memory, layer: Layer, query: Tensor, key: Tensor, value: Tensor, options: Options) -> Tensor:
    """Each text of ``memory.spans`` over the prefix and, causally, over itself. Returns (T, heads, value dim)."""
    (heads, total, dim), kv_heads = query.shape, key.shape[0]
    out = value.new_empty(total, heads, value.shape[-1])
    layer.fresh = (key, value)
    for a, b in memory.spans:
        for c in range(a, b, TILE):  # so scores stay in the processor's cache, and later keys are not looked at
            d = min(c + TILE, b)
            tile = query[:, c:d].reshape(kv_heads, -1, dim)
            own_scores = (tile @ key[:, a:d].transpose(1, 2)).view(heads, d - c, d - a)
            on_prefix, on_own = _weights(memory, layer, tile, own_scores, (c, d), options)
            mixed = on_prefix @ layer.prefix[1] + on_own.reshape(kv_heads, -1, d - a) @ value[:, a:d]
            out[c:d] = mixed.view(heads, d - c, -1).transpose(0, 1)
    return out


def _write(memory: Memory, layer: Layer, query: Tensor, key: Tensor, value: Tensor, options: Options) -> Tensor:
    """The next token of each row over the prefix and the row's own tokens. Returns (rows, heads, value dim)."""
    (heads, rows, dim), kv_heads = query.shape, key.shape[0]
    at = (torch.arange(rows, device=key.device), slice(None), memory.positions - len(memory.prefix))
    for kept, new in zip(layer.rows, (key, value), strict=True):
        kept[at] = new.transpose(0, 1)
    keys, values = both(lambda t: t[:rows], layer.rows)
    by_row = query.view(kv_heads, -1, rows, dim).permute(2, 0, 1, 3)  # rows, kv heads, group, dim
    own_scores = (by_row @ keys.transpose(2, 3)).permute(1, 2, 0, 3).reshape(heads, rows, -1)
    flat = _filled_up(query.reshape(kv_heads, -1, dim))
    on_prefix, on_own = _weights(memory, layer, flat, own_scores, (0, rows), options)
    mixed = _filled_up(on_prefix) @ layer.prefix[1]
    mixed = mixed[:, : on_prefix.shape[1]].reshape(heads, rows, -1).transpose(0, 1)
    by_row = on_own.view(kv_heads, -1, rows, memory.room).permute(2, 0, 1, 3)
    return mixed + (by_row @ values).view(rows, heads, -1)


def _filled_up(matrices: Tensor) -> Tensor:
    return pad(matrices, (0, 0, 0, -matrices.shape[1] % ROWS))


def _weights(
    memory: Memory, layer: Layer, query: Tensor, own_scores: Tensor, span: tuple[int, int], options: Options
) -> Pair:
    """Attention weights of the tokens ``span`` on the prefix (kv heads, group * tokens, prefix) and on their own text
    (heads, tokens, keys), from one softmax over both. query (kv heads, group * tokens, dim), scaled, and perhaps rows
    to fill it up."""
    (softcap, window, sinks), start = options, len(memory.prefix)
    heads, tokens, n_own = own_scores.shape
    kv_heads, rows = len(query), heads * tokens // len(query)
    # A row's room comes first, in whole blocks: a softmax adds the same numbers in the same order in any room.
    scores = query.new_empty(heads, tokens, n_own + start)
    scores[..., :n_own] = own_scores
    scores[..., n_own:] = (query @ layer.prefix[0].transpose(1, 2))[:, :rows].reshape(heads, tokens, start)
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    mask = _mask(memory, span, n_own, window, scores)
    scores[..., : mask.shape[-1]] += mask
    if sinks is not None:
        scores = torch.cat((scores, sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, tokens, 1)), dim=-1)
    weights = scores.softmax(-1)  # in float32 inside, whatever the dtype
    return weights[..., n_own : n_own + start].reshape(kv_heads, rows, start), weights[..., :n_own]


def _mask(memory: Memory, span: tuple[int, int], n_own: int, window: int | None, like: Tensor) -> Tensor:
    """What to add to the scores of the tokens ``span``: minus infinity hides a key. A row's tokens stand right behind
    the prefix, and empty room behind a row's last token. Without a window all of the prefix, left out, is seen."""
    start = len(memory.prefix)
    window = window if window is not None and window < start + n_own else None
    if (span, window) not in memory.masks:
        places = torch.arange(start + n_own, device=like.device).roll(n_own)
        distance = memory.positions[slice(*span), None] - (places[:n_own] if window is None else places)
        hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
        memory.masks[span, window] = like.new_zeros(hidden.shape).masked_fill_(hidden, -math.inf)
    return memory.masks[span, window]
