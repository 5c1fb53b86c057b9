"""A local model through Hugging Face transformers: hub id, folder, GGUF file, or a GGUF in an installed package.

What is done so that a score means what it says:
- every sampling field is sent explicitly, the model's own ``generation_config`` is replaced, so nothing is inherited;
- exactly one BOS where the tokenizer adds one, none where it does not, template or not;
- left padding with an attention mask, prompts sorted by length;
- a random draw depends on (seed, problem, sample) alone, not on the batch it happened to be in.
"""

import hashlib
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import GenerationConfig

from gsm8k_nb.answers.passages import without_reasoning
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop, sample_seed
from gsm8k_nb.samplers.loading import load_model
from gsm8k_nb.samplers.shared_prefix import engine
from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose, stop_check, uniforms_of
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
        self.has_chat_template = bool(self.tokenizer.chat_template)
        self.eos_ids = end_token_ids(self.model, self.tokenizer)
        self.pad_id = _pad_id(self.tokenizer, self.eos_ids)
        # generate() fills fields that the caller left unset from the model's own file; an empty one has nothing.
        self.model.generation_config = GenerationConfig()
        self.batch_size = config.batch_size
        self.fallback: str | None = "not tried yet"  # why the shared-prefix engine is not used, None where it is
        self.tried_tokens = 0  # of the text on which that was found out
        self.memory = engine.Memory()  # of the exemplars, which are read once
        self.opening = ""  # the reasoning mark that the prompts end with, if they do
        self.failed_in_a_row = 0

    def sample(self, requests: Iterable[Request], stop: Sequence[str]) -> Iterator[list[Sample]]:
        left = self._encoded(requests)
        too_long = self._take_too_long(left)
        if too_long:
            yield too_long
        longest = max((len(ids) for _, ids in left.values()), default=0)
        self._try_engine(min(longest + self.config.max_new_tokens, PROBE_TOKENS))
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
        fixed = {"max_new_tokens": self.config.max_new_tokens, "repetition_penalty": 1.0}
        drawn = {name: getattr(self.config, name) for name in ("temperature", "top_p", "top_k", "seed")}
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
            "eos_token_ids": self.eos_ids,
            "chat_template_sha256": template_sha256(self.tokenizer),
            "sampling": {"method": "greedy"} | fixed if greedy else {"method": "sampling"} | drawn | fixed,
        }

    def _encoded(self, requests: Iterable[Request]) -> dict[tuple[str, int], Encoded]:
        """Requests by problem and sample, with the prompt's token ids: one list a problem, which its samples share."""
        ids: dict[str, list[int]] = {}
        encoded = {}
        for request in requests:
            name = request.problem.id
            if name not in ids:
                ids[name] = encode(self.tokenizer, request.prompt)
                self.opening = opening_of(render(self.tokenizer, request.prompt))
            encoded[name, request.sample_index] = (request, ids[name])
        return encoded

    def _take_too_long(self, left: dict[tuple[str, int], Encoded]) -> list[Sample]:
        """Failed samples for the prompts that do not fit, which leave ``left``. SamplerError where none fits."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if limit is None:
            return []
        over = [key for key, (_, ids) in left.items() if len(ids) + self.config.max_new_tokens > limit]
        if over and len(over) == len(left):
            raise SamplerError(no_room(max(len(ids) for _, ids in left.values()), self.config, limit))
        pairs = [left.pop(key) for key in over]
        return [failed_sample(request, no_room(len(ids), self.config, limit)) for request, ids in pairs]

    def _try_engine(self, length: int) -> None:
        """Finds out whether the engine fits the model, once for texts of like length: it takes seconds on a CPU."""
        if length > self.tried_tokens:
            self.fallback, self.tried_tokens = engine.supports(self.model, length=length), length

    def _settings(self, stop: tuple[str, ...]) -> Decoding:
        config = self.config
        return Decoding(
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            stop_token_ids=self.eos_ids,
            stop_strings=stop,
            stops_here=lambda ids: self._cut(ids, stop)[1],
        )

    def _shared_prefix(self, todo: list[Encoded], settings: Decoding) -> Iterator[list[Sample]]:
        """Samples as they end, handed on a few at a time."""
        problems: dict[str, list[Encoded]] = {}
        for pair in todo:
            problems.setdefault(pair[0].problem.id, []).append(pair)
        groups = list(problems.values())
        asked = [
            engine.Request(group[0][1], len(group), [sample_seed(self.config.seed, request) for request, _ in group])
            for group in groups
        ]
        ended: list[Sample] = []
        started = time.perf_counter()
        how: dict[str, Any] = {"tokenizer": self.tokenizer, "batch_size": self.batch_size, "memory": self.memory}
        for text in engine.generate(self.model, asked, settings, **how):
            ended.append(self._finish(groups[text.request][text.sample], text.token_ids, settings))
            if len(ended) == HAND_ON:
                yield timed(ended, started)
                ended, started = [], time.perf_counter()
        if ended:
            yield timed(ended, started)

    def _plain(self, todo: list[Encoded], settings: Decoding) -> Iterator[list[Sample]]:
        """``model.generate`` on batches of prompts of like length; where it fails on one, on each of them alone."""
        for start in range(0, len(todo), self.batch_size):
            batch = todo[start : start + self.batch_size]
            started = time.perf_counter()
            try:
                samples = [self._finish(pair, ids, settings) for pair, ids in self._generate(batch, settings)]
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

    def _generate(self, batch: list[Encoded], settings: Decoding) -> Iterable[tuple[Encoded, list[int]]]:
        """New tokens of left-padded prompts. A random draw is the engine's own ``choose``, with each row's numbers from
        its own seed: it leaves one token possible, so that decoding is greedy in name."""
        device, width = self.model.device, max(len(ids) for _, ids in batch)
        ids = torch.tensor([[self.pad_id] * (width - len(row)) + row for _, row in batch], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for _, row in batch], device=device)
        seeds = [sample_seed(self.config.seed, request) for request, _ in batch]
        uniforms = torch.tensor([uniforms_of(seed, settings) for seed in seeds], device=device)
        completes = stop_check(settings, self.tokenizer)

        def draw(so_far: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            chosen = choose(scores, settings, uniforms[:, so_far.shape[1] - width])
            return torch.full_like(scores, -float("inf")).scatter_(1, chosen[:, None], 0.0)

        def done(so_far: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
            return torch.tensor([completes(row) for row in so_far[:, width:].tolist()], device=device)

        with torch.inference_mode():
            output = self.model.generate(
                ids,
                attention_mask=mask,
                generation_config=GenerationConfig(
                    do_sample=False,
                    num_beams=1,
                    max_new_tokens=settings.max_new_tokens,
                    repetition_penalty=1.0,
                    eos_token_id=self.eos_ids,
                    pad_token_id=self.pad_id,
                ),
                logits_processor=[draw] if settings.temperature else [],
                stopping_criteria=[done] if settings.stop_strings else [],
            )
        return zip(batch, output[:, width:].tolist(), strict=True)

    def _cut(self, ids: Sequence[int], stop: Sequence[str]) -> tuple[str, bool]:
        return cut_at_stop(decode(self.tokenizer, ids, self.opening), stop)

    def _finish(self, pair: Encoded, ids: list[int], settings: Decoding) -> Sample:
        """A row of token ids as a sample: cut at its end token and at the first stop string."""
        (request, prompt), stop = pair, settings.stop_strings
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
        kept = ids if end is None else ids[:end]
        text, cut = self._cut(kept, stop)
        n_new = len(kept) + (end is not None)
        if cut and end is None:  # rows that stop early are padded until the batch ends; found by bisection
            n_new = 1 + bisect_left(range(1, len(kept)), True, key=lambda n: self._cut(kept[:n], stop)[1])
        finish = "stop" if cut or end is not None else "length"
        return Sample(request.problem.id, request.sample_index, text, finish, None, len(prompt), n_new)

    def _go_on_otherwise(self, error: Exception) -> None:
        """Where memory ran out, with half the batch; where the engine cannot do it, with ``model.generate``."""
        if _out_of_memory(error) and self.batch_size > 1:
            self.batch_size //= 2
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
        elif self.fallback is None:
            self.fallback = f"shared prefix stopped with {one_line(error, 200)}"
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
        return failed_sample(request, reason)


def failed_sample(request: Request, error: str) -> Sample:
    return Sample(request.problem.id, request.sample_index, None, error=error)


def no_room(length: int, config: RunConfig, limit: int) -> str:
    """Why a prompt of so many tokens cannot be answered in a context of ``limit``."""
    return (
        f"max_new_tokens: a prompt has {length} tokens and {config.max_new_tokens} new ones are allowed, but the "
        f"model's context is {limit}; lower max_new_tokens to {max(limit - length, 0)}"
    )


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower())


def render(tokenizer: Any, prompt: Prompt) -> str:
    """A prompt as text: messages by the tokenizer's chat template, SamplerError where that refuses them."""
    if isinstance(prompt, str):
        return prompt
    try:
        return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # of jinja's many kinds; templates also raise by themselves
        raise SamplerError(
            f"chat_template: the model's template fails here ({one_line(error, 200)}); use chat_template: plain"
        ) from error


def encode(tokenizer: Any, prompt: Prompt) -> list[int]:
    """Token ids of a prompt: rendered by the chat template where it is messages, with exactly the BOS that belongs.

    A tokenizer that puts BOS before plain text gets exactly one, also where its template wrote one already.
    """
    ids = tokenizer(render(tokenizer, prompt), add_special_tokens=False).input_ids
    bos = tokenizer.bos_token_id
    if bos is not None and tokenizer("a").input_ids[:1] == [bos] and ids[:1] != [bos]:
        return [bos, *ids]
    return ids


def opening_of(prompt: str) -> str:
    """The mark that opens reasoning, where a prompt ends with it, as some chat templates write it for the model.

    >>> opening_of("[user]How many?[assistant]<think>\\n")
    '<think>'
    """
    line = prompt.rstrip()[-80:].rsplit("\n", 1)[-1]
    ends = (line[place:] for place in reversed(range(len(line))))
    return next((end for end in ends if not without_reasoning(f"{end} x")), "")


def decode(tokenizer: Any, ids: Sequence[int], opening: str = "") -> str:
    """The text of a completion behind the reasoning mark that its prompt ended with, so that a thought shows as one.

    Special tokens are dropped, unless they are what tells the thought from the answer (gpt-oss, Magistral).
    """
    text, whole = (
        opening + tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        for skip in (True, False)
    )
    unmarked = without_reasoning(text) in (text, "")
    return whole if unmarked and without_reasoning(whole) != whole else text


def timed(samples: list[Sample], started: float) -> list[Sample]:
    """The samples of one batch, each with its share of the time."""
    seconds = round((time.perf_counter() - started) / len(samples), 4)
    return [replace(sample, seconds=seconds) for sample in samples]


def template_sha256(tokenizer: Any) -> str | None:
    template = tokenizer.chat_template
    return hashlib.sha256(str(template).encode()).hexdigest() if template else None


def end_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """All tokens that end a text: the model's, which may be several (end of turn, end of text), and the tokenizer's."""
    values = (model.generation_config.eos_token_id, model.config.get_text_config().eos_token_id, tokenizer.eos_token_id)
    tokens = [token for value in values for token in (value if isinstance(value, list) else [value])]
    return list(dict.fromkeys(token for token in tokens if token is not None))


def _pad_id(tokenizer: Any, eos_ids: list[int]) -> int:
    """A padding token that is no end token where the tokenizer has one; the attention mask hides it in any case."""
    tokens = [token for token in (tokenizer.pad_token_id, tokenizer.unk_token_id) if token is not None]
    return [*(token for token in tokens if token not in eos_ids), *eos_ids, 0][0]
