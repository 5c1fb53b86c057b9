"""How fast could this machine be? Two figures of the machine, measured, and the least work that the texts need.

A step can be no faster than its arithmetic at the measured peak of a large matrix product, nor than reading the weights
once from memory (the roofline of Williams, Waterman and Patterson 2009). ``python -m bench.roofline`` prints, as JSON,

    {"read_gb_s": 41.7, "gflops": {"float32": 218.4, "bfloat16": 429.4}}
"""

import heapq
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Model:
    """The sizes that count. ``layer_weights`` are those of all layers, ``head_weights`` of the output layer."""

    layers: int
    heads: int
    head_dim: int
    layer_weights: int
    head_weights: int

    @classmethod
    def of(cls, folder: str) -> "Model":
        """From the ``config.json`` of a Llama-type model."""
        c = json.loads((Path(folder) / "config.json").read_text())
        dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        attention = c["hidden_size"] * dim * 2 * (c["num_attention_heads"] + c["num_key_value_heads"])
        weights = c["num_hidden_layers"] * (attention + 3 * c["hidden_size"] * c["intermediate_size"])
        head = c["hidden_size"] * c["vocab_size"]
        return cls(c["num_hidden_layers"], c["num_attention_heads"], dim, weights, head)


def least_seconds(
    model: Model, prefix: int, questions: Sequence[int], written: Sequence[Sequence[int]], batch: int, dtype: str,
    machine: dict,
) -> float:  # fmt: skip
    """The least time for a shared prefix, questions of so many tokens, and the tokens written in each sample.

    Every shared token is read once; each written token is computed once, in steps of at most ``batch`` rows.
    """
    peak, bandwidth = machine["gflops"][dtype] * 1e9, machine["read_gb_s"] * 1e9
    weights = (model.layer_weights + model.head_weights) * BYTES[dtype]
    per_key = 4 * model.layers * model.heads * model.head_dim  # two products with each key of attention
    read = prefix + sum(questions)
    keys = prefix * (prefix / 2) + sum(n * (prefix + n / 2) for n in questions)
    seconds = (2 * read * model.layer_weights + per_key * keys) / peak
    contexts = [prefix + n for n, samples in zip(questions, written, strict=True) for _ in samples]
    lengths = [n for samples in written for n in samples]
    mean_keys = sum(c * n + n * n / 2 for c, n in zip(contexts, lengths, strict=True)) / max(sum(lengths), 1)
    for rows in live_rows(lengths, batch):
        flops = rows * (2 * (model.layer_weights + model.head_weights) + per_key * mean_keys)
        seconds += max(flops / peak, weights / bandwidth)
    return seconds


def live_rows(lengths: Sequence[int], batch: int) -> list[int]:
    """Rows that are written in each step, when a waiting sample takes the place of one that ends."""
    running: list[int] = []  # the steps in which rows end
    starts = []
    for n in sorted(lengths, reverse=True):
        starts.append(heapq.heappop(running) if len(running) == batch else 0)
        heapq.heappush(running, starts[-1] + n)
    rows = [0] * max(running, default=0)
    for start, n in zip(starts, sorted(lengths, reverse=True), strict=True):
        for step in range(start, start + n):
            rows[step] += 1
    return rows


def probe() -> dict:
    """Memory bandwidth (reading, GB/s) and the peak of matrix products (GFLOP/s) of this machine, best of five."""
    import torch

    big = torch.ones(1 << 27)
    machine = {"read_gb_s": big.nbytes / best(big.sum) / 1e9, "gflops": {}}
    for dtype in BYTES:
        layer = torch.nn.Linear(2048, 2048, bias=False, dtype=getattr(torch, dtype)).requires_grad_(False)
        try:  # the form that oneDNN multiplies without reordering, as our engine keeps its weights
            weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight)
            product = lambda x, w=weight: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")  # noqa: E731
        except (RuntimeError, AttributeError):
            product = layer
        x = torch.randn(2048, 2048, dtype=layer.weight.dtype)
        machine["gflops"][dtype] = 2 * 2048**3 / best(lambda x=x, product=product: product(x)) / 1e9
    return machine


def best(action: Callable[[], object], times: int = 5) -> float:
    """The shortest of a few runs, in seconds, after one to warm up."""
    seconds = []
    for _ in range(times + 1):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


if __name__ == "__main__":
    print(json.dumps(probe()))
