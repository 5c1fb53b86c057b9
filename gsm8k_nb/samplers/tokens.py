"""Prompts as token ids, and token ids as samples: one set of rules for the engines that run a model here.

A prompt begins with exactly one BOS where the tokenizer puts one before plain text, also where its template wrote one.
A completion is cut at its end token and at the first stop string outside reasoning.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gsm8k_nb.answers.passages import marks_in, parted
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import Prompt
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop
from gsm8k_nb.texts import one_line


class Tokens:
    """A model's tokenizer, all tokens that end its texts, and the length of its context, None where it has no limit."""

    def __init__(self, tokenizer: Any, config: Any, generation_config: Any, run: RunConfig | None = None) -> None:
        self.tokenizer, config = tokenizer, config.get_text_config()
        self.chat_values = run.chat_values if run else {}
        self.tags = tuple(run.think_tags or ()) if run else ()
        template = str(tokenizer.chat_template or "")
        marks = marks_in(template)
        if not self.tags and marks and parted(f"{marks[0]}x{marks[1]}y").text != "y":
            self.tags = marks  # none of those that are known
        self.marks = self.tags or marks
        ends = [generation_config.eos_token_id, config.eos_token_id, tokenizer.eos_token_id]
        ids = [token for end in ends for token in (end if isinstance(end, list) else [end])]
        self.eos_ids: list[int] = list(dict.fromkeys(token for token in ids if token is not None))
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        self.has_template = bool(tokenizer.chat_template)
        self.opening = ""  # the reasoning mark that the prompts end with, if they do
        self._last: tuple[Prompt | None, str, list[int]] = None, "", []

    def encode(self, prompt: Prompt, written: str = "") -> list[int]:
        """Token ids of a prompt and what is ``written`` behind it; messages go through the chat template, SamplerError
        where it refuses them."""
        if prompt is not self._last[0] or written != self._last[1]:  # a problem's samples share one prompt, one list
            text = self._render(prompt)
            text += written.removeprefix(opening_of(text, self.tags))
            self.opening, self._last = opening_of(text, self.tags), (prompt, written, self._ids(text))
        return self._last[2]

    def before(self, prompt: Prompt, question: str) -> list[int]:
        """Token ids of a prompt up to its question, which the prompts of other questions begin with too.

        The last of them is left out, as it may be another one in front of another letter.
        """
        text = self._render(prompt)
        return self._ids(text[: max(text.rfind(question.strip()), 0)].rstrip())[:-1]

    def _ids(self, text: str) -> list[int]:
        ids, bos = self.tokenizer(text, add_special_tokens=False).input_ids, self.tokenizer.bos_token_id
        begins = bos is not None and self.tokenizer("a").input_ids[:1] == [bos] and ids[:1] != [bos]
        return [bos, *ids] if begins else ids

    def decode(self, ids: Sequence[int], written: str = "") -> str:
        """The text of a completion behind what was ``written`` of it, or the mark of reasoning that its prompt ended
        with: a thought shows as one.

        Special tokens are dropped, unless they are what tells the thought from the answer (gpt-oss, Magistral).
        """
        text, whole = (
            (written or self.opening)
            + self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            for skip in (True, False)
        )
        unmarked = parted(text, self.tags).text in (text, "")
        return whole if unmarked and parted(whole, self.tags).text != whole else text

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self.tokenizer(text, add_special_tokens=False).input_ids)

    def cut(self, ids: Sequence[int], stop: Sequence[str], written: str = "") -> tuple[str, bool]:
        return cut_at_stop(self.decode(ids, written), stop, self.tags)

    def sample(self, request: Request, prompt: list[int], ids: list[int], stop: Sequence[str]) -> Sample:
        """New tokens as a sample; it was stopped by its end token or a stop string, else by the limit of tokens."""
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
        text, cut = self.cut(ids[:end], stop, request.written)
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
            return self.tokenizer.apply_chat_template(
                prompt, tokenize=False, add_generation_prompt=True, **self.chat_values
            )
        except Exception as error:  # of jinja's many kinds; templates also raise by themselves
            raise SamplerError(
                f"chat_template: the model's template fails here ({one_line(error, 200)}); use chat_template: plain"
            ) from error


def opening_of(prompt: str, tags: Sequence[str] = ()) -> str:
    """The mark that opens reasoning, where a prompt ends with it, as some chat templates write it for the model.

    >>> opening_of("[user]How many?[assistant]<think>\\n")
    '<think>'
    """
    line = prompt.rstrip()[-80:].rsplit("\n", 1)[-1]
    ends = (line[place:] for place in reversed(range(len(line))))
    return next((end for end in ends if not parted(f"{end} x", tags).text), "")


def timed(samples: list[Sample], started: float) -> list[Sample]:
    """The samples of one batch, each with its share of the time."""
    seconds = round((time.perf_counter() - started) / len(samples), 4)
    return [replace(sample, seconds=seconds) for sample in samples]
