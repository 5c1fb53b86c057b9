"""lm-eval's ``hf`` backend: ``HFLM.generate_until``, which its command calls, without its building of tasks."""

import torch
from common import Texts, by_prompt, work
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM


def load(job: dict) -> HFLM:
    torch.set_num_threads(job["threads"])
    return HFLM(pretrained=job["model"], dtype=job["dtype"], device="cpu", batch_size=job["batch_size"])


def generate(model: HFLM, job: dict) -> Texts:
    options = {"until": job["stop"], "max_gen_toks": job["max_new_tokens"], "do_sample": job["temperature"] > 0}
    if job["temperature"]:
        options["temperature"] = job["temperature"]
    instances = [
        Instance("generate_until", {}, (prompt, options), number)
        for number, prompt in enumerate(job["prompts"])
        for _ in range(job["n_samples"])  # as its evaluator repeats a request
    ]
    return by_prompt(model.generate_until(instances, disable_tqdm=True), job["n_samples"])


if __name__ == "__main__":
    work(load, generate, ["lm_eval", "torch", "transformers"])
