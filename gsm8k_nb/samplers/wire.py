"""What goes over the wire to an OpenAI-compatible server and comes back, without any networking.

One request and its answer, to /chat/completions (a prompt of plain text goes to /completions as ``prompt``):

    {"model": "m", "messages": [{"role": "user", "content": "Question: ..."}], "temperature": 0.0, "seed": 14, ...}
    {"model": "m", "choices": [{"index": 0, "message": {"content": "... #### 18"}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 812, "completion_tokens": 64}}

Every sampling field is sent, so that nothing comes from a model's own generation config. What comes back is an answer,
also an empty one, or a failure with a name, which is never scored.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop, refusals, sample_seed
from gsm8k_nb.samplers.refusals import NEUTRAL, SPEECH, WORDS, Failure, Learnt, failure, says
from gsm8k_nb.samplers.server import Key
from gsm8k_nb.texts import one_line

MAX_STOPS = 4  # OpenAI's limit; all of them are cut here too
SAME = (  # the fields that are called as the parameters are
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "reasoning_effort",
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """One completion. ``error`` says why it is no answer; ``again``: another try may bring one."""

    text: str = ""
    reasoning: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    again: bool = False


@dataclass(frozen=True)
class Reply:
    """A server's answer: at least one choice, and tokens as billed for all of them, None where it does not say."""

    choices: list[Choice]
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str | None
    system_fingerprint: str | None
    counts_one: bool  # the completion's tokens were those of one choice of several
    reasoning_tokens: int | None = None  # of the completion's, where the server tells them apart


def fields(config: RunConfig, learnt: Learnt, stop: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that all requests of a run have, but for what the server does not take."""
    stated = {name: getattr(config, name) for name in SAME} | {
        learnt.token_field: config.max_new_tokens,
        "chat_template_kwargs": config.chat_values or None,
        "stop": list(stop[:MAX_STOPS]) or None,
    }
    # vLLM, SGLang and llama.cpp know all of the neutral ones, OpenAI's own only these.
    known = NEUTRAL if config.base_url is not None else {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    sent = known | {name: value for name, value in stated.items() if value is not None}
    sent |= config.extra_body or {}
    return {name: value for name, value in sent.items() if name not in learnt.dropped}


def omitted(config: RunConfig, learnt: Learnt) -> dict[str, str]:
    """The fields not to send, each with why. SamplerError where these or ``extra_body`` are against the parameters."""
    stated, added = fields(config.model_copy(update={"extra_body": None}), learnt), config.extra_body or {}
    ours = {"model", "messages", "prompt", "stream", *refusals.TOKEN_FIELDS}
    taken = ours | set(refusals.FREE) | set(RunConfig.model_fields) | {name for name in stated if name not in NEUTRAL}
    if both := sorted(taken & set(added)):
        raise SamplerError(f"extra_body: {both[0]} has a parameter of its own, or is what the sampler decides")
    for name in config.omit or ():
        if name in ours or name in added or name not in refusals.FREE and stated.get(name) != NEUTRAL.get(name):
            raise SamplerError(f"omit: without {name} the run would not be what its parameters say")
    return dict.fromkeys(config.omit or (), "left out, as the parameters say (omit)")


def request_body(config: RunConfig, learnt: Learnt, asked: Sequence[Request], stop: Sequence[str]) -> tuple[str, dict]:
    """Path and body of one request for ``asked``, samples of one problem; its seed is the first one's, in 31 bits."""
    prompt, written = asked[0].prompt, asked[0].written
    path, name = ("/completions", "prompt") if isinstance(prompt, str) else ("/chat/completions", "messages")
    body = {"model": config.model, name: prompt} | fields(config, learnt, stop)
    body[learnt.token_field] = asked[0].most or config.max_new_tokens
    if written and isinstance(prompt, str):
        body[name] = prompt + written
    elif written:
        body[name] = [*prompt, {"role": "assistant", "content": written}]
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    if "seed" not in learnt.dropped:
        body["seed"] = sample_seed(config.seed, asked[0]) & 0x7FFFFFFF  # some servers keep 32 bits, signed
    if len(asked) > 1:
        body["n"] = len(asked)
    return path, body


def read_reply(raw: bytes, key: Key) -> Reply:
    """A server's answer with status 200. Failure or Refused where it holds no choice."""
    try:
        reply = key.parse(raw)
    except (ValueError, RecursionError):
        raise Failure("bad JSON", _words(raw, key)) from None
    if not isinstance(reply, dict):
        raise Failure("bad JSON", "not an object")
    if error := reply.get("error"):  # some gateways send an error with status 200
        code = error.get("code") if isinstance(error, dict) else None
        raise failure(code if isinstance(code, int) and 400 <= code < 600 else 500, raw, {}, key.hide)
    listed = reply["choices"] if isinstance(reply.get("choices"), list) else []
    choices = [
        value for value in listed
        if isinstance(value, dict) and (isinstance(value.get("message"), dict) or "text" in value or value.get("error"))
    ]  # fmt: skip
    choices.sort(key=lambda value: value["index"] if type(value.get("index")) is int else 0)
    read = [_choice(value, key) for value in choices]
    kept = [choice for choice in read if not choice.again]  # the others are asked for once more
    if read and not kept:
        raise Failure("failed choice", read[0].error or "")
    if not kept and re.search(rb'(?i)block_?reason|"filtered":\s*true', raw):
        raise Failure("prompt kept back by the server's filter", _words(raw, key), again=False)
    if not kept:
        raise Failure("no choices", _words(raw, key))
    counts_one = "timings" in reply and len(kept) > 1  # llama.cpp's server, which adds its timings
    usage = reply.get("usage")
    total = None if counts_one else _count(usage, "completion_tokens")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    thought = None if counts_one else _count(details, "reasoning_tokens")
    said = {name: value for name, value in reply.items() if isinstance(value, str)}
    served = said.get("model"), said.get("system_fingerprint")
    return Reply(kept, _count(usage, "prompt_tokens"), total, *served, counts_one, thought)


def _words(raw: bytes, key: Key) -> str:
    return one_line(key.hide(raw.decode("utf-8", "replace")))


def _choice(value: dict[str, Any], key: Key) -> Choice:
    message = value["message"] if isinstance(value.get("message"), dict) else {"content": value.get("text")}
    word = one_line(str(value["finish_reason"]), 80) if value.get("finish_reason") else None
    finish = SPEECH["ends"].get((word or "").lower(), word)
    if value.get("error"):
        return Choice("", None, finish, one_line(key.hide(f"error in the choice: {value['error']}")), again=True)
    try:
        text, thought = _contents(message.get("content"))
    except TypeError as error:
        return Choice("", None, finish, f"no text: {error}")
    text = text or str(message.get("refusal") or "")
    thought = message.get("reasoning_content") or message.get("reasoning") or thought
    reasoning = (thought if isinstance(thought, str) else json.dumps(thought, ensure_ascii=False)) or None
    if says(finish, WORDS["taken"]) or message.get("tool_calls") or message.get("function_call"):
        why = f"finish_reason {finish!r}: a filter or tool parser of the server took the text"
        return Choice(text, reasoning, finish, why)
    if says(finish, WORDS["broken_off"]) or finish not in (None, "stop", "length") and not (text or reasoning):
        return Choice(text, reasoning, finish, f"finish_reason {finish!r}: the server broke off", again=True)
    return Choice(text, reasoning, finish)


def _contents(content: Any) -> tuple[str, str]:
    """Text and reasoning of a content: a text, or a list of texts and parts. TypeError where it is neither."""
    if content is None or isinstance(content, str):
        return content or "", ""
    if isinstance(content, list):
        pairs = [_contents(part) for part in content]
        return "".join(text for text, _ in pairs), "".join(thought for _, thought in pairs)
    if isinstance(content, dict) and "thinking" in content:
        return "", "".join(_contents(content["thinking"]))
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return content["text"], ""
    parts = f" with {', '.join(content)[:80]}" if isinstance(content, dict) else ""
    raise TypeError(f"content holds a {type(content).__name__}{parts}")


def _count(usage: Any, name: str) -> int | None:
    """A number of tokens; None where there is none to believe: a text has tokens, and so has every prompt."""
    count = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count < 2**53:
        return None
    return int(count)


def samples(
    asked: Sequence[Request], reply: Reply, stop: Sequence[str], seconds: float, tags: Sequence[str] = ()
) -> list[Sample]:
    """A sample for each choice, in order, for the first of ``asked``; a failed choice has an error and no text.

    The prompt's tokens stand at the first, the completions' are divided by the length of the texts: both add up to
    what is billed.
    """
    choices = reply.choices[: len(asked)]
    weights = [len(choice.text) + len(choice.reasoning or "") + 1 for choice in choices]  # each ends with a token too
    thoughts = [len(choice.reasoning or "") for choice in choices]
    made: list[Sample] = []
    for place, (request, choice) in enumerate(zip(asked, choices, strict=False)):
        kept, cut = cut_at_stop(choice.text if choice.reasoning else request.written + choice.text, stop, tags)
        text, finish = None if choice.error else kept, "stop" if cut else choice.finish_reason
        tokens = 0 if place else reply.prompt_tokens, _share(reply.completion_tokens, weights, place)
        of_thought = _share(reply.reasoning_tokens, thoughts, place)
        apart = choice.reasoning, of_thought if choice.reasoning else None
        made.append(Sample(*request.key, text, finish, choice.error, *tokens, round(seconds, 4), *apart))
    return made


def _share(total: int | None, weights: list[int], place: int) -> int | None:
    """The part of ``total`` in proportion to a weight, in whole numbers that add up to it."""
    if total is None or not sum(weights):
        return None
    low, high = (round(total * sum(weights[:end]) / sum(weights)) for end in (place, place + 1))
    return high - low
