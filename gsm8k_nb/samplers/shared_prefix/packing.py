"""Linear layers on a CPU with their weights in the blocks that oneDNN multiplies, for as long as a text is written.

Without it every call reorders the weights again, which takes longer than the product itself when there are few rows.
"""

import ctypes
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def packed(model: torch.nn.Module) -> Iterator[None]:
    """The linear layers of ``model`` packed, where processor and torch allow it; afterwards as they were."""
    modules = list(model.modules())
    owners = Counter(id(weight) for module in modules for weight in module.parameters(recurse=False))
    done: list[tuple[torch.nn.Linear, Tensor]] = []
    try:
        for module in modules:
            if type(module) is torch.nn.Linear and (weight := _pack(module, owners[id(module.weight)] > 1)) is not None:
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
def _pack(module: torch.nn.Linear, shared: bool) -> Tensor | None:
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
    vars(module)["forward"] = lambda x: call(x, weight, module.bias, "none", [], "")
    if not shared:
        module.weight.data = module.weight.new_empty(0)
    return weight


def _release_memory() -> None:
    """Gives what was freed back to the system: glibc keeps the gaps that the plain weights leave in its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
