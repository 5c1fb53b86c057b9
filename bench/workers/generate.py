"""transformers' ``generate`` on left-padded batches, plain or on a copy of the shared prefix's cache for each batch.

The second is the way of its documentation to reuse a prompt's cache: the prefix is run once, each batch starts from a
copy of its keys and values for every row. ``"reuse_prefix": true`` in the job asks for it.
"""

import copy
import os

import torch
from common import Texts, by_prompt, work
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache


def load(job: dict):
    torch.set_num_threads(job["threads"])
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=getattr(torch, job["dtype"])).eval()
    return model, AutoTokenizer.from_pretrained(job["model"])


@torch.inference_mode()
def generate(loaded, job: dict) -> Texts:
    model, tokenizer = loaded
    prompts = [ids for ids in tokenizer(job["prompts"]).input_ids for _ in range(job["n_samples"])]
    prefix = os.path.commonprefix(prompts)[: min(map(len, prompts)) - 1] if job.get("reuse_prefix") else []
    cache = model(torch.tensor([prefix]), past_key_values=DynamicCache()).past_key_values if prefix else None
    options = {"max_new_tokens": job["max_new_tokens"], "do_sample": job["temperature"] > 0}
    if job["temperature"]:
        options |= {"temperature": job["temperature"], "top_k": 0}
    texts = [""] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    for start in range(0, len(order), job["batch_size"]):
        batch = order[start : start + job["batch_size"]]
        ids, mask = padded([prompts[i][len(prefix) :] for i in batch], prefix, tokenizer.eos_token_id)
        output = model.generate(
            ids, attention_mask=mask, past_key_values=copied(cache, len(batch)), stop_strings=job["stop"],
            tokenizer=tokenizer, pad_token_id=tokenizer.eos_token_id, **options,
        )  # fmt: skip
        new = tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
        for i, text in zip(batch, new, strict=True):
            texts[i] = text
    return by_prompt(texts, job["n_samples"])


def padded(rows: list[list[int]], prefix: list[int], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both (rows, tokens): the prefix, then padding, then each row's own tokens."""
    width = max(map(len, rows))
    ids = [prefix + [pad] * (width - len(row)) + row for row in rows]
    mask = [[1] * len(prefix) + [0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def copied(cache: DynamicCache | None, rows: int) -> DynamicCache | None:
    if cache is None:
        return None
    fresh = copy.deepcopy(cache)
    fresh.batch_repeat_interleave(rows)
    return fresh


if __name__ == "__main__":
    work(load, generate, ["torch", "transformers"])
