"""Linear layers on a CPU with their weights in the blocks that oneDNN multiplies, for as long as a text is written.

Without it every call reorders the weights again, which takes longer than the product itself when there are few rows.
How a row's products are added up depends on how many rows there are, but not among the small numbers: multiplied in
pieces of 2 to 32 rows, a row comes out the same, bit by bit, whatever stands beside it.
"""

import ctypes
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

PIECE = 32  # rows that are multiplied at once where rows shall come out the same in any company


@contextmanager
def packed(model: torch.nn.Module, in_pieces: bool) -> Iterator[None]:
    """The linear layers of ``model`` packed, where processor and torch allow it; afterwards as they were."""
    modules = list(model.modules())
    owners = Counter(id(weight) for module in modules for weight in module.parameters(recurse=False))
    done: list[tuple[torch.nn.Linear, Tensor]] = []
    try:
        for module in modules:
            if (
                type(module) is torch.nn.Linear
                and (weight := _pack(module, owners[id(module.weight)] > 1, in_pieces)) is not None
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
def _pack(module: torch.nn.Linear, shared: bool, in_pieces: bool) -> Tensor | None:
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

    def whole(x: Tensor) -> Tensor:
        return call(x, weight, module.bias, "none", [], "")

    def pieces(x: Tensor) -> Tensor:
        rows = x.shape[-2]
        if 1 < rows <= PIECE:
            return whole(x)
        x = x if rows > 1 else x.expand(*x.shape[:-2], 2, -1)
        return torch.cat([whole(piece) for piece in x.tensor_split(-(-rows // PIECE), dim=-2)], dim=-2)[..., :rows, :]

    vars(module)["forward"] = pieces if in_pieces else whole
    if not shared:
        module.weight.data = module.weight.new_empty(0)
    return weight


def _release_memory() -> None:
    """Gives what was freed back to the system: glibc keeps the gaps that the plain weights leave in its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
