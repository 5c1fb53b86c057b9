"""A local model through Hugging Face transformers: hub id, folder, GGUF file, or a GGUF in an installed package.

What is done so that a score means what it says:
- every sampling field is sent explicitly, the model's own ``generation_config`` is replaced, so nothing is inherited;
- exactly one BOS where the tokenizer adds one, none where it does not, template or not;
- left padding with an attention mask, prompts sorted by length;
- a random draw depends on (seed, problem, sample) alone, not on the batch it happened to be in.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError
from gsm8k_nb.samplers.loading import load_model


class TransformersSampler:
    """``model.generate`` in batches sorted by length."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.model, self.tokenizer = load_model(config)
        self.has_chat_template = bool(self.tokenizer.chat_template)
        self.eos_ids = _eos_ids(self.model, self.tokenizer)
        self.pad_id = _pad_id(self.tokenizer, self.eos_ids)
        # generate() fills fields that the caller left unset from the model's own file; an empty one has nothing.
        self.model.generation_config = GenerationConfig()
        self.batch_size = config.batch_size

    def sample(self, requests: Sequence[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        encoded = [(request, encode(self.tokenizer, request.prompt)) for request in requests]
        self._check_context(max((len(ids) for _, ids in encoded), default=0))
        encoded.sort(key=lambda pair: len(pair[1]), reverse=True)  # the longest first: memory runs out at once or never
        start = 0
        while start < len(encoded):
            batch = encoded[start : start + self.batch_size]
            try:
                samples = self._batch(batch, tuple(stop))
            except (torch.OutOfMemoryError, RuntimeError) as error:
                self._halve_batch(error)
                continue
            start += len(batch)
            yield samples

    def describe(self) -> dict[str, Any]:
        template = self.tokenizer.chat_template
        return {
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "model_class": type(self.model).__name__,
            "model_commit": getattr(self.model.config, "_commit_hash", None),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "batch_size": self.batch_size,
            "eos_token_ids": self.eos_ids,
            "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest() if template else None,
            "sampling": self._sampling(),
        }

    def _sampling(self) -> dict[str, Any]:
        """The fields in force, as they are recorded; greedy decoding has no others."""
        fixed = {"max_new_tokens": self.config.max_new_tokens, "repetition_penalty": 1.0}
        if self.config.temperature == 0:
            return {"method": "greedy"} | fixed
        drawn = {name: getattr(self.config, name) for name in ("temperature", "top_p", "top_k", "seed")}
        return {"method": "sampling"} | drawn | fixed

    def _batch(self, batch: list[tuple[Request, list[int]]], stop: tuple[str, ...]) -> list[Sample]:
        started = time.perf_counter()
        width = max(len(ids) for _, ids in batch)
        ids = torch.tensor([[self.pad_id] * (width - len(row)) + row for _, row in batch])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for _, row in batch])
        processors, criteria = LogitsProcessorList(), StoppingCriteriaList()
        if self.config.temperature > 0:
            seeds = [sample_seed(self.config.seed, request) for request, _ in batch]
            processors.append(SeededDraw(self.config, seeds, self.model.device))
        if stop:
            criteria.append(StopStrings(self.tokenizer, stop, width))
        with torch.inference_mode():
            output = self.model.generate(
                ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                generation_config=self._generation_config(),
                logits_processor=processors,
                stopping_criteria=criteria,
            )
        texts = output[:, width:].tolist()
        seconds = (time.perf_counter() - started) / len(batch)
        return [
            self._finish(request, len(row), text, stop, seconds)
            for (request, row), text in zip(batch, texts, strict=True)
        ]

    def _generation_config(self) -> GenerationConfig:
        """Greedy in name for both: a random draw is Gumbel noise on the logits, see ``SeededDraw``."""
        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=self.config.max_new_tokens,
            repetition_penalty=1.0,
            eos_token_id=self.eos_ids,
            pad_token_id=self.pad_id,
        )

    def _finish(self, request: Request, n_prompt: int, ids: list[int], stop: tuple[str, ...], seconds: float) -> Sample:
        """A row of token ids as a sample: cut at its end token and at the first stop string."""
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
        kept = ids if end is None else ids[:end]
        text, cut = cut_at_stop(decode(self.tokenizer, kept), stop)
        n_new = len(kept) + (end is not None)
        if cut and end is None:  # rows that stop early are padded until the batch ends
            n_new = _tokens_until_stop(self.tokenizer, kept, stop)
        finish = "stop" if cut or end is not None else "length"
        return Sample(
            request.problem.id, request.sample_index, text, finish, None, n_prompt, n_new, round(seconds, 4)
        )  # fmt: skip

    def _check_context(self, longest: int) -> None:
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if limit and longest + self.config.max_new_tokens > limit:
            raise SamplerError(
                f"max_new_tokens: the longest prompt has {longest} tokens and {self.config.max_new_tokens} new ones "
                f"are allowed, but the model's context is {limit}; lower max_new_tokens to {max(limit - longest, 0)}"
            )

    def _halve_batch(self, error: Exception) -> None:
        """Where memory ran out, go on with half the batch; any other error, or a batch of one, is raised."""
        message = str(error).lower()
        if not isinstance(error, torch.OutOfMemoryError) and "memory" not in message:
            raise error
        if self.batch_size == 1:
            raise SamplerError(
                "out of memory with a batch of one: choose a smaller model, dtype: bfloat16, fewer max_new_tokens, or "
                "a device with more memory"
            ) from error
        self.batch_size //= 2
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()


class SeededDraw(LogitsProcessor):
    """A random draw as an arg-max: logits / T, cut by top-k and top-p, plus Gumbel noise of each row's own generator.

    ``argmax(logits / T + G)`` with standard Gumbel ``G`` is a draw from ``softmax(logits / T)`` (Gumbel 1954; the
    "Gumbel-max trick"). Each row's noise comes from its own seed, so a sample does not depend on its batch.
    """

    def __init__(self, config: RunConfig, seeds: list[int], device: torch.device) -> None:
        self.warpers = LogitsProcessorList([transformers.TemperatureLogitsWarper(config.temperature)])
        if config.top_k is not None:
            self.warpers.append(transformers.TopKLogitsWarper(config.top_k))
        if config.top_p < 1:
            self.warpers.append(transformers.TopPLogitsWarper(config.top_p))
        # On the CPU whatever the device is, so that the same seed draws the same noise everywhere.
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.device = device

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        warped = self.warpers(input_ids, scores.float())
        noise = torch.empty(warped.shape, dtype=torch.float32)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return warped - noise.log().to(self.device)  # -log(Exponential) is Gumbel


class StopStrings(StoppingCriteria):
    """Marks a row done once a stop string stands in its new text; only the last few tokens are decoded each step."""

    def __init__(self, tokenizer, stop: tuple[str, ...], prompt_width: int) -> None:
        self.tokenizer = tokenizer
        self.stop = stop
        self.prompt_width = prompt_width
        self.window = max(len(text.encode()) for text in stop) + 8  # a token is at least a byte, or is skipped

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs) -> torch.Tensor:
        start = max(self.prompt_width, input_ids.shape[1] - self.window)
        tails = self.tokenizer.batch_decode(input_ids[:, start:], clean_up_tokenization_spaces=False)
        done = [any(text in tail for text in self.stop) for tail in tails]
        return torch.tensor(done, dtype=torch.bool, device=input_ids.device)


def encode(tokenizer, prompt: Prompt) -> list[int]:
    """Token ids of a prompt: rendered by the chat template where it is messages, with exactly the BOS that belongs.

    A tokenizer that puts BOS before plain text gets exactly one, also where its template wrote one already.
    """
    if isinstance(prompt, str):
        text = prompt
    else:
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    bos = tokenizer.bos_token_id
    if bos is not None and tokenizer("a").input_ids[:1] == [bos] and ids[:1] != [bos]:
        return [bos, *ids]
    return ids


def decode(tokenizer, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one."""
    places = [place for place in (text.find(string) for string in stop) if place >= 0]
    return (text[: min(places)], True) if places else (text, False)


def sample_seed(seed: int, request: Request) -> int:
    """The seed of one sample's random draw, from the run's seed, the problem and the sample's index alone."""
    name = f"{seed}/{request.problem.id}/{request.sample_index}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8]) >> 1


def _tokens_until_stop(tokenizer, ids: list[int], stop: tuple[str, ...]) -> int:
    """The number of tokens up to the one that completed a stop string, by bisection."""
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cut_at_stop(decode(tokenizer, ids[:middle]), stop)[1] else (middle + 1, high)
    return low


def _eos_ids(model, tokenizer) -> list[int]:
    """All tokens that end a text: the model's, which may be several (end of turn, end of text), and the tokenizer's."""
    found: list[int] = []
    for value in (model.generation_config.eos_token_id, model.config.get_text_config().eos_token_id):
        found += value if isinstance(value, list) else [value]
    found.append(tokenizer.eos_token_id)
    return list(dict.fromkeys(token for token in found if token is not None))


def _pad_id(tokenizer, eos_ids: list[int]) -> int:
    """A padding token that is no end token where the tokenizer has one; the attention mask hides it in any case."""
    for token in (tokenizer.pad_token_id, tokenizer.unk_token_id):
        if token is not None and token not in eos_ids:
            return token
    return eos_ids[0] if eos_ids else 0
