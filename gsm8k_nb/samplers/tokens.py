"""Prompts as token ids, and token ids as samples: one set of rules for the engines that run a model here.

A prompt begins with exactly one BOS where the tokenizer puts one before plain text, also where its template wrote one.
A completion is cut at its end token and at the first stop string outside reasoning.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gsm8k_nb.answers.passages import without_reasoning
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop
from gsm8k_nb.texts import one_line


class Tokens:
    """A model's tokenizer, all tokens that end its texts, and the length of its context, None where it has no limit."""

    def __init__(self, tokenizer: Any, config: Any, generation_config: Any) -> None:
        self.tokenizer, config = tokenizer, config.get_text_config()
        ends = [generation_config.eos_token_id, config.eos_token_id, tokenizer.eos_token_id]
        ids = [token for end in ends for token in (end if isinstance(end, list) else [end])]
        self.eos_ids: list[int] = list(dict.fromkeys(token for token in ids if token is not None))
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        self.has_template = bool(tokenizer.chat_template)
        self.opening = ""  # the reasoning mark that the prompts end with, if they do
        self._last: tuple[Prompt | None, list[int]] = None, []

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt; messages go through the chat template, SamplerError where it refuses them."""
        if prompt is not self._last[0]:  # the samples of a problem share one prompt, and so one list
            text = self._render(prompt)
            ids, bos = self.tokenizer(text, add_special_tokens=False).input_ids, self.tokenizer.bos_token_id
            if bos is not None and self.tokenizer("a").input_ids[:1] == [bos] and ids[:1] != [bos]:
                ids = [bos, *ids]
            self.opening, self._last = opening_of(text), (prompt, ids)
        return self._last[1]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a completion behind the reasoning mark that its prompt ended with: a thought shows as one.

        Special tokens are dropped, unless they are what tells the thought from the answer (gpt-oss, Magistral).
        """
        text, whole = (
            self.opening + self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            for skip in (True, False)
        )
        unmarked = without_reasoning(text) in (text, "")
        return whole if unmarked and without_reasoning(whole) != whole else text

    def cut(self, ids: Sequence[int], stop: Sequence[str]) -> tuple[str, bool]:
        return cut_at_stop(self.decode(ids), stop)

    def sample(self, request: Request, prompt: list[int], ids: list[int], stop: Sequence[str]) -> Sample:
        """New tokens as a sample; it was stopped by its end token or a stop string, else by the limit of tokens."""
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
        text, cut = self.cut(ids[:end], stop)
        finish = "stop" if cut or end is not None else "length"
        return Sample(*request.key, text, finish, None, len(prompt), len(ids) if end is None else end + 1)

    def no_room(self, length: int, new: int) -> str:
        """Why a prompt of ``length`` tokens cannot be answered by ``new`` ones in the context, empty where it can."""
        if self.context is None or length + new <= self.context:
            return ""
        return (
            f"max_new_tokens: a prompt has {length} tokens and {new} new ones are allowed, but the model's context is "
            f"{self.context}; lower max_new_tokens to {max(self.context - length, 0)}"
        )

    def facts(self) -> dict[str, Any]:
        digest = hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()
        return {"eos_token_ids": self.eos_ids, "chat_template_sha256": digest if self.has_template else None}

    def _render(self, prompt: Prompt) -> str:
        if isinstance(prompt, str):
            return prompt
        try:
            return self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # of jinja's many kinds; templates also raise by themselves
            raise SamplerError(
                f"chat_template: the model's template fails here ({one_line(error, 200)}); use chat_template: plain"
            ) from error


def opening_of(prompt: str) -> str:
    """The mark that opens reasoning, where a prompt ends with it, as some chat templates write it for the model.

    >>> opening_of("[user]How many?[assistant]<think>\\n")
    '<think>'
    """
    line = prompt.rstrip()[-80:].rsplit("\n", 1)[-1]
    ends = (line[place:] for place in reversed(range(len(line))))
    return next((end for end in ends if not without_reasoning(f"{end} x")), "")


def timed(samples: list[Sample], started: float) -> list[Sample]:
    """The samples of one batch, each with its share of the time."""
    seconds = round((time.perf_counter() - started) / len(samples), 4)
    return [replace(sample, seconds=seconds) for sample in samples]
