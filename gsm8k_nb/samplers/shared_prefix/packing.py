"""Linear layers on a CPU with their weights in the blocks that oneDNN multiplies, for as long as a text is written.

Without it every call reorders the weights again, which takes longer than the product itself when there are few rows.
How a row's products are added up may depend on how many rows there are. Where it does, rows are multiplied in pieces of
sizes among which it does not, so that a row comes out the same, bit by bit, whatever stands beside it.
"""

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

Sizes = tuple[int, int]  # of rows that are multiplied at once: the least, the most
# Two or more at any rate, as one alone is another product. Where sizes are not alike, one size is for all.
MANY, FEW, ONE_SIZE, PROMPT = (2, 64), (2, 32), (32, 32), (128, 128)
WIDE = 16_384  # outputs from which on a trial takes too long


@contextmanager
def packed(model: torch.nn.Module, is_reading: Callable[[], bool] | None) -> Iterator[None]:
    """The linear layers of ``model`` packed, where processor and torch allow it; afterwards as they were.

    With ``is_reading``, which says whether rows are of prompts or of new tokens, rows are the same in any company.
    """
    modules = list(model.modules())
    owners = Counter(id(weight) for module in modules for weight in module.parameters(recurse=False))
    done: list[tuple[torch.nn.Linear, Tensor]] = []
    try:
        for module in modules:
            if (
                type(module) is torch.nn.Linear
                and (weight := _pack(module, owners[id(module.weight)] > 1, is_reading)) is not None
            ):
                done.append((module, weight))
        _release_memory()
        yield
    finally:
        with torch.inference_mode(False):
            while done:
                module, weight = done.pop()
                del module.forward
                if not module.weight.numel():
                    module.weight.data = weight.to_dense()  # bit by bit what it was
        _release_memory()


@torch.inference_mode(False)
def _pack(module: torch.nn.Linear, shared: bool, is_reading: Callable[[], bool] | None) -> Tensor | None:
    """Gives a linear layer its packed weights and returns these, or None where it cannot have them.

    The plain ones are let go meanwhile, unless they are shared, or a model would need twice its memory.
    """
    if module.weight.device.type != "cpu" or "forward" in vars(module):
        return None
    try:
        weight = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach())
    except (RuntimeError, AttributeError):  # a dtype that this processor does not multiply, or a build without oneDNN
        return None
    call = torch.ops.mkldnn._linear_pointwise

    def forward(x: Tensor) -> Tensor:
        return call(x, weight, module.bias, "none", [], "")

    if is_reading is None:
        vars(module)["forward"] = forward
    else:
        writing, reading = _sizes(module.in_features, module.out_features, module.bias is not None, module.weight.dtype)
        vars(module)["forward"] = lambda x: _in_pieces(forward, x, reading if is_reading() else writing)
    if not shared:
        module.weight.data = module.weight.new_empty(0)
    return weight


def _in_pieces(forward: Callable[[Tensor], Tensor], x: Tensor, sizes: Sizes) -> Tensor:
    (least, most), rows = sizes, x.shape[-2]
    if least <= rows <= most:
        return forward(x)
    pieces = [pad(piece, (0, 0, 0, max(least - piece.shape[-2], 0))) for piece in x.split(most, dim=-2)]
    return torch.cat([forward(piece) for piece in pieces], dim=-2)[..., :rows, :]


@cache
def _sizes(inputs: int, outputs: int, has_bias: bool, dtype: torch.dtype) -> tuple[Sizes, Sizes]:
    """How many rows of new tokens and of prompts to multiply at once: sizes among which they come out the same, tried
    on random numbers with one thread and with as many as there are cores."""
    if outputs > WIDE:
        return FEW, FEW
    generator, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    x, weight = (torch.randn(n, inputs, generator=generator).to(dtype) for n in (PROMPT[1], outputs))
    weight, bias = torch.ops.mkldnn._reorder_linear_weight(weight), weight[:, 0].clone() if has_bias else None

    def product(rows: int, n_threads: int) -> Tensor:
        torch.set_num_threads(n_threads)
        return torch.ops.mkldnn._linear_pointwise(x[:rows], weight, bias, "none", [], "")

    def alike(sizes: Sizes) -> bool:
        least, most = sizes
        right, threads_tried = product(most, 1), (1, os.cpu_count() or 1)  # whatever this process has: a worker has few
        tried = ((rows, number) for number in threads_tried for rows in range(least, most + 1))
        return all(torch.equal(product(rows, number), right[:rows]) for rows, number in tried)

    try:
        writing = next((sizes for sizes in (MANY, FEW) if alike(sizes)), ONE_SIZE)
        return writing, PROMPT if alike(PROMPT) else writing
    finally:
        torch.set_num_threads(threads)


def _release_memory() -> None:
    """Gives what was freed back to the system: glibc keeps the gaps that the plain weights leave in its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
