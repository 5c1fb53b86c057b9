"""A local model through Hugging Face transformers: hub id, folder, GGUF file, or a GGUF in an installed package.

What is done so that a score means what it says:
- every sampling field is sent explicitly, the model's own ``generation_config`` is replaced, so nothing is inherited;
- exactly one BOS where the tokenizer adds one, none where it does not, template or not;
- left padding with an attention mask, prompts sorted by length;
- a random draw depends on (seed, problem, sample) alone, not on the batch it happened to be in.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, sample_seed
from gsm8k_nb.samplers.loading import load_model
from gsm8k_nb.samplers.shared_prefix import engine
from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose, stop_check, uniforms_of

PROBE_TOKENS = 768  # of the text on which the engine is compared with the model; a run's prompts may be longer
HAND_ON = 8  # samples go to the run folder in groups of so many

Encoded = tuple[Request, list[int]]  # a request and its prompt as token ids


class TransformersSampler:
    """The shared-prefix engine where it gives the model's own logits (tried, not guessed), else ``model.generate``."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.model, self.tokenizer = load_model(config)
        self.has_chat_template = bool(self.tokenizer.chat_template)
        self.eos_ids = end_token_ids(self.model, self.tokenizer)
        self.pad_id = _pad_id(self.tokenizer, self.eos_ids)
        # generate() fills fields that the caller left unset from the model's own file; an empty one has nothing.
        self.model.generation_config = GenerationConfig()
        self.batch_size = config.batch_size
        self.fallback: str | None = "not tried yet"  # why the shared-prefix engine is not used, None where it is
        self.tried_tokens = 0  # of the text on which that was found out
        self.memory = engine.Memory()  # of the exemplars, which are read once

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        left = self._encoded(requests)
        longest = max((len(ids) for _, ids in left.values()), default=0)
        self._check_context(longest)
        self._try_engine(min(longest + self.config.max_new_tokens, PROBE_TOKENS))
        make = self._shared_prefix if self.fallback is None else self._plain
        while left:
            # the longest first: memory runs out at once or never
            todo = sorted(left.values(), key=lambda pair: -len(pair[1]))
            try:
                for samples in make(todo, tuple(stop)):
                    for sample in samples:
                        del left[sample.problem_id, sample.sample_index]
                    yield samples
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                self._halve_batch(error)

    def _encoded(self, requests: Iterable[Request]) -> dict[tuple[str, int], Encoded]:
        """Requests by problem and sample, with the prompt's token ids: one list a problem, which its samples share."""
        ids: dict[str, list[int]] = {}
        found = {}
        for one in requests:
            if one.problem.id not in ids:
                ids[one.problem.id] = encode(self.tokenizer, one.prompt)
            found[one.problem.id, one.sample_index] = (one, ids[one.problem.id])
        return found

    def describe(self) -> dict[str, Any]:
        template = self.tokenizer.chat_template
        return {
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "attention": "shared prefix" if self.fallback is None else f"plain generate ({self.fallback})",
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

    def _settings(self, stop: tuple[str, ...]) -> Decoding:
        config = self.config
        return Decoding(
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            stop_token_ids=self.eos_ids,
            stop_strings=stop,
        )

    def _shared_prefix(self, todo: list[Encoded], stop: tuple[str, ...]) -> Iterator[list[Sample]]:
        """Samples as they end, handed on a few at a time."""
        groups: dict[str, list[Encoded]] = {}
        for pair in todo:
            groups.setdefault(pair[0].problem.id, []).append(pair)
        problems = list(groups.values())
        asked = [
            engine.Request(group[0][1], len(group), [sample_seed(self.config.seed, request) for request, _ in group])
            for group in problems
        ]
        ended: list[Sample] = []
        started = time.perf_counter()
        how = {"tokenizer": self.tokenizer, "batch_size": self.batch_size, "memory": self.memory}
        for one in engine.generate(self.model, asked, self._settings(stop), **how):
            request, ids = problems[one.request][one.sample]
            ended.append(self._finish(request, len(ids), one.token_ids, stop))
            if len(ended) == HAND_ON:
                yield timed(ended, started)
                ended, started = [], time.perf_counter()
        if ended:
            yield timed(ended, started)

    def _plain(self, todo: list[Encoded], stop: tuple[str, ...]) -> Iterator[list[Sample]]:
        """``model.generate`` on left-padded batches of prompts of like length."""
        for start in range(0, len(todo), self.batch_size):
            batch = todo[start : start + self.batch_size]
            started = time.perf_counter()
            width = max(len(ids) for _, ids in batch)
            ids = torch.tensor([[self.pad_id] * (width - len(row)) + row for _, row in batch])
            mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for _, row in batch])
            settings = self._settings(stop)
            seeds = [sample_seed(self.config.seed, request) for request, _ in batch]
            with torch.inference_mode():
                output = self.model.generate(
                    ids.to(self.model.device),
                    attention_mask=mask.to(self.model.device),
                    generation_config=self._generation_config(),
                    logits_processor=[SeededDraw(settings, seeds, width)] if settings.temperature else [],
                    stopping_criteria=[StopStrings(self.tokenizer, stop, width)] if stop else [],
                )
            rows = zip(batch, output[:, width:].tolist(), strict=True)
            yield timed([self._finish(request, len(row), new, stop) for (request, row), new in rows], started)

    def _generation_config(self) -> GenerationConfig:
        """Greedy in name for both: a random draw leaves one token possible, see ``SeededDraw``."""
        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=self.config.max_new_tokens,
            repetition_penalty=1.0,
            eos_token_id=self.eos_ids,
            pad_token_id=self.pad_id,
        )

    def _finish(self, request: Request, n_prompt: int, ids: list[int], stop: tuple[str, ...]) -> Sample:
        """A row of token ids as a sample: cut at its end token and at the first stop string."""
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
        kept = ids if end is None else ids[:end]
        text, cut = cut_at_stop(decode(self.tokenizer, kept), stop)
        n_new = len(kept) + (end is not None)
        if cut and end is None:  # rows that stop early are padded until the batch ends
            n_new = _tokens_until_stop(self.tokenizer, kept, stop)
        finish = "stop" if cut or end is not None else "length"
        return Sample(request.problem.id, request.sample_index, text, finish, None, n_prompt, n_new)

    def _try_engine(self, length: int) -> None:
        """Finds out whether the engine fits the model, once for texts of like length: it takes seconds on a CPU."""
        if length > self.tried_tokens:
            self.fallback, self.tried_tokens = engine.supports(self.model, length=length), length

    def _check_context(self, longest: int) -> None:
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if limit and longest + self.config.max_new_tokens > limit:
            raise SamplerError(
                f"max_new_tokens: the longest prompt has {longest} tokens and {self.config.max_new_tokens} new ones "
                f"are allowed, but the model's context is {limit}; lower max_new_tokens to {max(limit - longest, 0)}"
            )

    def _halve_batch(self, error: RuntimeError) -> None:
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
    """A random draw inside ``generate``: the engine's own ``choose``, with each row's numbers from its own seed."""

    def __init__(self, settings: Decoding, seeds: list[int], prompt_width: int) -> None:
        self.settings = settings
        self.prompt_width = prompt_width
        self.uniforms = torch.tensor([uniforms_of(seed, settings) for seed in seeds])

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        step = input_ids.shape[1] - self.prompt_width
        chosen = choose(scores, self.settings, self.uniforms[:, step].to(scores.device))
        return torch.full_like(scores, -float("inf")).scatter_(1, chosen[:, None], 0.0)


class StopStrings(StoppingCriteria):
    """Marks a row done once its newest token completes a stop string, by the engine's own ``stop_check``."""

    def __init__(self, tokenizer, stop: tuple[str, ...], prompt_width: int) -> None:
        self.completes = stop_check(stop, tokenizer)
        self.prompt_width = prompt_width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs) -> torch.Tensor:
        done = [self.completes(ids) for ids in input_ids[:, self.prompt_width :].tolist()]
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


def timed(samples: list[Sample], started: float) -> list[Sample]:
    """The samples of one batch, each with its share of the time."""
    seconds = round((time.perf_counter() - started) / len(samples), 4)
    return [replace(sample, seconds=seconds) for sample in samples]


def _tokens_until_stop(tokenizer, ids: list[int], stop: tuple[str, ...]) -> int:
    """The number of tokens up to the one that completed a stop string, by bisection."""
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cut_at_stop(decode(tokenizer, ids[:middle]), stop)[1] else (middle + 1, high)
    return low


def end_token_ids(model, tokenizer) -> list[int]:
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
