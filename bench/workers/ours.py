"""This package's own sampler, as a run uses it. Like a server it answers other problems before the clock starts.

Before its first prompt it checks that its engine fits the model, which takes some seconds, and it reads the exemplars:
both are kept for the next call.
"""

from decimal import Decimal

import torch
from common import Texts, work

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.samplers import Request, open_sampler


def load(job: dict):
    torch.set_num_threads(job["threads"])
    fields = ("model", "dtype", "n_samples", "temperature", "max_new_tokens", "batch_size", "repeatable")
    sampler = open_sampler(RunConfig(device="cpu", **{name: job[name] for name in fields}))
    generate(sampler, job | {"prompts": job["warm_up"], "n_samples": 1})
    return sampler


def generate(sampler, job: dict) -> Texts:
    requests = [
        Request(Problem(f"test-{number:04d}", prompt.rpartition("Q: ")[2], "#### 0", Decimal(0)), sample, prompt)
        for number, prompt in enumerate(job["prompts"])
        for sample in range(job["n_samples"])
    ]
    texts: Texts = [[""] * job["n_samples"] for _ in job["prompts"]]
    for batch in sampler.sample(requests, job["stop"]):
        for one in batch:
            texts[int(one.problem_id.removeprefix("test-"))][one.sample_index] = one.text
    if sampler.fallback:
        raise SystemExit(f"the shared-prefix engine was not used: {sampler.fallback}")
    return texts


if __name__ == "__main__":
    work(load, generate, ["gsm8k_nb", "torch", "transformers"])
