"""The engine on a GPU against ``generate``: one script that needs torch, transformers and this folder, no data.

    python bench/gpu.py              # random weights of a 1B Llama shape in bfloat16, under 8 minutes
    python bench/gpu.py --tiny       # a tiny shape, to try the script on any machine

Weights and prompts are random: they decide no text worth reading, but take the same time as real ones. One printed row:

    | engine, batch 256 | 256 x 1 | 9.8 | 26.1 | 3343 | 9120 |
"""

import argparse
import importlib
import random
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig

PACKAGE = Path(__file__).resolve().parents[1] / "gsm8k_nb"
LLAMA_1B = {
    "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True,
}  # fmt: skip
TINY = {
    "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True,
}  # fmt: skip
LAST_START = 390  # seconds after which no further measurement begins
PREFIX, QUESTION = 727, (40, 160)  # tokens: Wei's eight exemplars, and GSM8K's questions about


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny model and few tokens")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    engine, started = load(), time.perf_counter()
    model = build(TINY if options.tiny else LLAMA_1B, options.device)
    problems, new, prefix = (6, 8, 20) if options.tiny else (256, 128, PREFIX)
    prompts = random_prompts(problems, prefix, model.config.vocab_size)
    print(f"{name_of(options.device)}, torch {torch.__version__}, transformers {transformers.__version__}")
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters, {model.dtype}, {new} new tokens each")
    print(f"does the engine fit: {engine.supports(model, length=len(prompts[0]) + new) or 'yes'}")
    equal, n = agreement(engine, model, prompts[:4], new)
    print(f"greedy texts in float32 equal to generate's: {equal} of {n}\n")
    print("| what | problems x N | seconds | completions/s | tokens/s | peak MB |\n|" + "---|" * 6)
    for name, run, count, n_samples in plan(engine, model, prompts, new):
        if time.perf_counter() - started > LAST_START:
            print(f"| {name} | {count} x {n_samples} | not run, out of time | | | |")
            continue
        seconds, peak = measured(run, options.device)
        total = count * n_samples
        row = f"{seconds:.2f} | {total / seconds:.1f} | {total * new / seconds:.0f} | {peak:.0f}"
        print(f"| {name} | {count} x {n_samples} | {row} |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s in all")
    return 0


def plan(engine, model, prompts: list[list[int]], new: int) -> list[tuple[str, Callable[[], object], int, int]]:
    """(name, what to run, problems, samples a problem): batch sizes, then samples a problem; all sizes scale along."""
    n, found = len(prompts), []
    for batch in (n // 4, n // 2, n):
        found.append((f"engine, batch {batch}", lambda b=batch: ours(engine, model, prompts, new, 1, b), n, 1))
        found.append((f"generate, batch {batch}", lambda b=batch: plain(model, prompts, new, b), n, 1))
    few = prompts[: max(n // 8, 2)]
    for n_samples in (1, 8, 64):
        run = lambda k=n_samples: ours(engine, model, few, new, k, 512)  # noqa: E731
        found.append((f"engine, N = {n_samples}", run, len(few), n_samples))
    return found


def ours(engine, model, prompts, new: int, n_samples: int, batch: int) -> list:
    """Greedy for one sample, else at temperature 1; every text runs to its full length."""
    settings = engine.Decoding(new, temperature=0.0 if n_samples == 1 else 1.0)
    requests = [engine.Request(prompt, n_samples, range(n_samples)) for prompt in prompts]
    return list(engine.generate(model, requests, settings, batch_size=batch))


def plain(model, prompts, new: int, batch: int) -> list[list[int]]:
    """``generate`` on left-padded batches, prompts sorted by length; the new tokens, in the order of the prompts."""
    found: dict[int, list[int]] = {}
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    config = GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0)
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        width = len(prompts[some[0]])
        ids = torch.tensor([[0] * (width - len(prompts[i])) + prompts[i] for i in some], device=model.device)
        mask = torch.tensor([[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in some], device=ids.device)
        output = model.generate(ids, attention_mask=mask, generation_config=config)[:, width:].tolist()
        found |= zip(some, output, strict=True)
    return [found[i] for i in range(len(prompts))]


def agreement(engine, model, prompts, new: int) -> tuple[int, int]:
    """Equal greedy texts of both, one prompt at a time, in float32."""
    exact = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32).to(model.device).eval()
    exact.load_state_dict(model.state_dict())
    exact.generation_config = GenerationConfig()
    by_request = {one.request: one.token_ids for one in ours(engine, exact, prompts, new, 1, len(prompts))}
    reference = [plain(exact, [prompt], new, 1)[0] for prompt in prompts]
    return sum(by_request[i] == tokens for i, tokens in enumerate(reference)), len(prompts)


def measured(run: Callable[[], object], device: str) -> tuple[float, float]:
    """Seconds, and the peak of the GPU's memory in MB (0 on a CPU)."""
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - started, torch.cuda.max_memory_allocated() / 2**20 if on_gpu else 0.0


def build(shape: dict, device: str):
    torch.manual_seed(0)
    config = LlamaConfig(**shape, max_position_embeddings=2048, bos_token_id=1, eos_token_id=None)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model.generation_config = GenerationConfig()
    return model


def random_prompts(n: int, prefix: int, vocabulary: int) -> list[list[int]]:
    draw = random.Random(0)
    shared = [draw.randrange(3, vocabulary) for _ in range(prefix)]
    return [shared + [draw.randrange(3, vocabulary) for _ in range(draw.randint(*QUESTION))] for _ in range(n)]


def name_of(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU, {torch.get_num_threads()} threads"


def load():
    """The engine and the two modules that it imports, without the rest of the package and what that needs."""
    for name, folder in (("gsm8k_nb", PACKAGE), ("gsm8k_nb.samplers", PACKAGE / "samplers")):
        sys.modules.setdefault(name, types.ModuleType(name)).__path__ = [str(folder)]
    return importlib.import_module("gsm8k_nb.samplers.shared_prefix.engine")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
