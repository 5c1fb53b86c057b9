"""A local model through Hugging Face transformers: hub id, folder, GGUF file, or a GGUF in an installed package.

What is done so that a score means what it says:
- every sampling field is sent explicitly, the model's own ``generation_config`` is replaced, so nothing is inherited;
- left padding with an attention mask, prompts sorted by length;
- a random draw depends on (seed, problem, sample) alone, not on the batch it happened to be in;
- so does all of a text, bit by bit, where the engine repeats on this machine (tried, not guessed), as on CPUs it does.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import torch
import transformers
from transformers import GenerationConfig

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, sample_seed
from gsm8k_nb.samplers.fit import fit
from gsm8k_nb.samplers.loading import load_model
from gsm8k_nb.samplers.shared_prefix import engine
from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose, stop_check, uniforms_of
from gsm8k_nb.samplers.tokens import Tokens, timed
from gsm8k_nb.texts import one_line

PROBE_TOKENS = 768  # of the text on which the engine is compared with the model; a run's prompts may be longer
HAND_ON = 8  # samples go to the run folder in groups of so many
MOST_FAILED = 3  # prompts in a row on which the model may fail, each alone

Encoded = tuple[Request, list[int]]  # a request and its prompt as token ids


class TransformersSampler:
    """The shared-prefix engine where it gives the model's own logits (tried, not guessed), else ``model.generate``."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.model, self.tokenizer = load_model(config)
        self.tokens = Tokens(self.tokenizer, self.model.config, self.model.generation_config, config)
        self.has_chat_template = self.tokens.has_template
        # generate() fills fields that the caller left unset from the model's own file; an empty one has nothing.
        self.model.generation_config = GenerationConfig()
        self.batch_size = config.batch_size
        self.fallback: str | None = "not tried yet"  # why the shared-prefix engine is not used, None where it is
        self.tried_tokens = 0  # of the text on which that was found out
        self.repeats = False  # whether a text is the same in any company
        self.memory = engine.Memory()  # of the exemplars, which are read once
        self.failed_in_a_row = 0
        self.most = config.max_new_tokens  # new tokens of the completions that are asked for

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        left = {request.key: (request, self.tokens.encode(request.prompt, request.written)) for request in requests}
        self.most = max((request.most or 0 for request, _ in left.values()), default=0) or self.config.max_new_tokens
        yield from self._take_too_long(left)
        self._try_engine(max((len(ids) for _, ids in left.values()), default=0))
        while left:
            make = self._shared_prefix if self.fallback is None else self._plain
            # the longest first: memory runs out at once or never
            todo = sorted(left.values(), key=lambda pair: -len(pair[1]))
            try:
                for samples in make(todo, self._settings(tuple(stop))):
                    for sample in samples:
                        del left[sample.problem_id, sample.sample_index]
                    yield samples
            except SamplerError:
                raise
            except Exception as error:
                self._go_on_otherwise(error)

    def describe(self) -> dict[str, Any]:
        fixed = {
            "max_new_tokens": self.config.max_new_tokens,
            "repetition_penalty": self.config.repetition_penalty or 1.0,
        }
        drawn = {name: getattr(self.config, name) for name in ("temperature", "top_p", "top_k", "min_p", "seed")}
        greedy = self.config.temperature == 0
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
            "repeatable": self.repeats or bool(self.config.repeatable),
            **self.tokens.facts(),
            "sampling": {"method": "greedy"} | fixed if greedy else {"method": "sampling"} | drawn | fixed,
        }

    def _take_too_long(self, left: dict[tuple[str, int], Encoded]) -> Iterator[list[Sample]]:
        """Failed samples for the prompts that do not fit, which leave ``left``. SamplerError where none fits."""
        reasons = {key: self.tokens.no_room(len(ids), self.most) for key, (_, ids) in left.items()}
        over = [key for key, reason in reasons.items() if reason]
        if over and len(over) == len(left):
            raise SamplerError(reasons[max(left, key=lambda key: len(left[key][1]))])
        if over:
            yield [left.pop(key)[0].failed(reasons[key]) for key in over]

    def _try_engine(self, longest: int) -> None:
        """Finds out whether the engine fits the model, once for texts of like length."""
        length = min(longest + self.config.max_new_tokens, PROBE_TOKENS)
        if self.config.repetition_penalty not in (None, 1):
            self.fallback = "repetition_penalty"
        elif length > self.tried_tokens:
            (self.fallback, repeats), self.tried_tokens = fit(self.model, length), length
            self.repeats = repeats and self.config.repeatable is not False
            if self.config.repeatable and self.fallback is None and not repeats:
                self.fallback = "its texts depend on the batch"

    def _settings(self, stop: tuple[str, ...]) -> Decoding:
        fields: dict[str, Any] = {name: getattr(self.config, name) for name in ("temperature", "top_p", "top_k")}
        fields |= {"max_new_tokens": self.most, "min_p": self.config.min_p or 0.0}
        ends: dict[str, Any] = {"stop_token_ids": self.tokens.eos_ids, "stop_strings": stop}
        return Decoding(**fields, **ends, stops_here=lambda ids: self.tokens.cut(ids, stop)[1])

    def _shared_prefix(self, todo: list[Encoded], settings: Decoding) -> Iterator[list[Sample]]:
        """Samples as they end, handed on a few at a time; of the prompts that do not begin like the first, none."""
        how: dict[str, Any] = {"batch_size": self.batch_size, "memory": self.memory}
        if self.repeats:
            how["prefix"], todo = self._alike(todo)
        groups = [list(group) for _, group in groupby(todo, key=lambda pair: (pair[0].problem.id, pair[0].written))]
        asked = [
            engine.Request(group[0][1], len(group), [sample_seed(self.config.seed, request) for request, _ in group])
            for group in groups
        ]
        ended: list[Sample] = []
        started = time.perf_counter()
        for text in engine.generate(self.model, asked, settings, tokenizer=self.tokenizer, **how):
            pair = groups[text.request][text.sample]
            ended.append(self.tokens.sample(*pair, text.token_ids, settings.stop_strings))
            if len(ended) == HAND_ON:
                yield timed(ended, started)
                ended, started = [], time.perf_counter()
        if ended:
            yield timed(ended, started)

    def _alike(self, todo: list[Encoded]) -> tuple[list[int], list[Encoded]]:
        """What the prompts of a run begin with, the same whichever of them are asked for, and those that do begin so.

        A tokenizer may break a prompt up otherwise: where the first one does not, nothing, and all that do not.
        """
        request, ids = todo[0]
        prefix = self.tokens.before(request.prompt, request.problem.question)
        fits = ids[: len(prefix)] == prefix
        return prefix if fits else [], [pair for pair in todo if (pair[1][: len(prefix)] == prefix) is fits]

    def _plain(self, todo: list[Encoded], settings: Decoding) -> Iterator[list[Sample]]:
        """``model.generate`` on batches of prompts of like length; where it fails on one, on each of them alone."""
        size = 1 if self.config.repeatable else self.batch_size
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            started = time.perf_counter()
            try:
                written = zip(batch, self._generate(batch, settings), strict=True)
                samples = [self.tokens.sample(*pair, ids, settings.stop_strings) for pair, ids in written]
                self.failed_in_a_row = 0
            except Exception as error:
                if _out_of_memory(error) and self.batch_size > 1:
                    raise
                if len(batch) > 1:
                    for pair in batch:
                        yield from self._plain([pair], settings)
                    continue
                samples = [self._failed(batch[0][0], error)]
            yield timed(samples, started)

    def _generate(self, batch: list[Encoded], settings: Decoding) -> list[list[int]]:
        """New tokens of left-padded prompts. A random draw is the engine's own ``choose``, with each row's numbers from
        its own seed: it leaves one token possible, so that decoding is greedy in name."""
        device, width = self.model.device, max(len(ids) for _, ids in batch)
        pad = self.tokens.eos_ids[0]  # the attention mask hides it
        ids = torch.tensor([[pad] * (width - len(row)) + row for _, row in batch], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for _, row in batch], device=device)
        seeds = [sample_seed(self.config.seed, request) for request, _ in batch]
        uniforms = torch.tensor([uniforms_of(seed, settings) for seed in seeds], device=device)
        completes = stop_check(settings, self.tokenizer)

        def draw(so_far: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            chosen = choose(scores, settings, uniforms[:, so_far.shape[1] - width])
            return torch.full_like(scores, -float("inf")).scatter_(1, chosen[:, None], 0.0)

        def done(so_far: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
            return torch.tensor([completes(row) for row in so_far[:, width:].tolist()], device=device)

        limits = {"max_new_tokens": settings.max_new_tokens, "eos_token_id": self.tokens.eos_ids, "pad_token_id": pad}
        limits["repetition_penalty"] = self.config.repetition_penalty or 1.0
        with torch.inference_mode():
            output = self.model.generate(
                ids,
                attention_mask=mask,
                generation_config=GenerationConfig(do_sample=False, num_beams=1, **limits),
                logits_processor=[draw] if settings.temperature else [],
                stopping_criteria=[done] if settings.stop_strings else [],
            )
        rows = output[:, width:].tolist()  # those that stop early are padded until the batch ends
        return [row[: next((n for n in range(1, len(row)) if completes(row[:n])), None)] for row in rows]

    def _go_on_otherwise(self, error: Exception) -> None:
        """Where memory ran out, with half the batch; where the engine cannot do it, with ``model.generate``."""
        if _out_of_memory(error) and self.batch_size > 1:
            self.batch_size //= 2
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
        elif self.fallback is None:
            self.fallback, self.repeats = f"shared prefix stopped with {one_line(error, 200)}", False
        else:
            raise error

    def _failed(self, request: Request, error: Exception) -> Sample:
        """A prompt on which the model fails is a failed sample, and the others go on; SamplerError where all fail."""
        reason = f"{type(error).__name__}: {one_line(error)}"
        if _out_of_memory(error):
            reason = (
                "out of memory with a batch of one: choose a smaller model, dtype: bfloat16, fewer max_new_tokens, or "
                "a device with more memory"
            )
        self.failed_in_a_row += 1
        if self.failed_in_a_row >= MOST_FAILED:
            raise SamplerError(f"the model fails on {MOST_FAILED} prompts in a row, the last with {reason}") from error
        return request.failed(reason)


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower())
