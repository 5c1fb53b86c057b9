"""What goes over the wire to an OpenAI-compatible server and comes back, without any networking.

One request and its answer, to /chat/completions (a prompt of plain text goes to /completions as ``prompt``):

    {"model": "m", "messages": [{"role": "user", "content": "Question: ..."}], "temperature": 0.0, "top_p": 1.0,
     "max_tokens": 512, "seed": 1406530441, "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_k": -1, ...}
    {"model": "m", "choices": [{"index": 0, "message": {"content": "... #### 18"}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 812, "completion_tokens": 64}}

Every sampling field is sent, so that nothing comes from a model's own generation config. What comes back is an answer
(text, cut or whole, also none: the model's own doing) or a failure with a name (the server's doing: an error, a filter,
a text taken for a tool call). Only answers are scored.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, cut_at_stop, sample_seed
from gsm8k_nb.samplers.refusals import Failure, Learnt, failure, says
from gsm8k_nb.texts import one_line

MAX_STOPS = 4  # OpenAI's limit; all of them are cut here too
_ENDS = {  # servers' words for the two ways in which a model's own text ends
    **dict.fromkeys(("eos", "eos_token", "stop_sequence", "end_turn", "endoftext"), "stop"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"),
}
_BROKEN_OFF = r"error|abort|cancel|fail|insufficient|network|overload|timeout|unavailable"  # another try may do
_TAKEN = r"filter|safety|recitation|prohibited|blocklist|sensitive|spii|tool|function_?call"


@dataclass(frozen=True)
class Choice:
    """One completion. ``error`` says why it is no answer; ``again``: another try may bring one."""

    text: str
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


def fields(config: RunConfig, learnt: Learnt, stop: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that all requests of a run have, but for what the server does not take."""
    sent: dict[str, Any] = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        learnt.token_field: config.max_new_tokens,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    if config.base_url is not None:  # OpenAI's own knows none of these; vLLM, SGLang and llama.cpp do
        sent |= {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
    if config.top_k is not None:
        sent["top_k"] = config.top_k
    if config.reasoning_effort is not None:
        sent["reasoning_effort"] = config.reasoning_effort
    if stop:
        sent["stop"] = list(stop[:MAX_STOPS])
    return {name: value for name, value in sent.items() if name not in learnt.dropped}


def request_body(config: RunConfig, learnt: Learnt, asked: Sequence[Request], stop: Sequence[str]) -> tuple[str, dict]:
    """Path and body of one request for ``asked``, samples of one problem; its seed is the first one's, in 31 bits."""
    prompt = asked[0].prompt
    path, name = ("/completions", "prompt") if isinstance(prompt, str) else ("/chat/completions", "messages")
    body = {"model": config.model, name: prompt} | fields(config, learnt, stop)
    if "seed" not in learnt.dropped:
        body["seed"] = sample_seed(config.seed, asked[0]) & 0x7FFFFFFF  # some servers keep 32 bits, signed
    if len(asked) > 1:
        body["n"] = len(asked)
    return path, body


# ---- what comes back


def read_reply(raw: bytes, hide: Callable[[str], str], clean: Callable[[str], str]) -> Reply:
    """A server's answer with status 200. Failure or Refused where it holds no choice.

    ``hide`` takes the key out of a server's words, ``clean`` out of a model's.
    """
    try:
        reply = json.loads(raw)
    except (ValueError, RecursionError):
        raise Failure("bad JSON", one_line(hide(raw.decode("utf-8", "replace")))) from None
    if not isinstance(reply, dict):
        raise Failure("bad JSON", "not an object")
    if reply.get("error"):  # some gateways send an error with status 200
        code = reply["error"].get("code") if isinstance(reply["error"], dict) else None
        raise failure(code if isinstance(code, int) and 400 <= code < 600 else 500, raw, {}, hide)
    listed = reply.get("choices")
    found = sorted(filter(_is_choice, listed), key=_index) if isinstance(listed, list) else []
    read = [_choice(value, hide, clean) for value in found]
    kept = [choice for choice in read if not choice.again]  # the others are asked for once more
    if not kept:
        blocked = bool(re.search(rb'(?i)block_?reason|"filtered":\s*true', raw))
        kind = "prompt kept back by the server's filter" if blocked else "no choices"
        words = one_line(hide(raw.decode("utf-8", "replace")))
        raise Failure("failed choice", read[0].error or "") if read else Failure(kind, words, again=not blocked)
    counts_one = "timings" in reply and len(kept) > 1  # llama.cpp's server, which adds its timings
    total = None if counts_one else _count(reply, "completion_tokens")
    model, fingerprint = (
        clean(reply[name]) if isinstance(reply.get(name), str) else None for name in ("model", "system_fingerprint")
    )
    return Reply(kept, _count(reply, "prompt_tokens"), total, model, fingerprint, counts_one)


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and bool(
        isinstance(value.get("message"), dict) or "text" in value or value.get("error")
    )


def _index(value: dict[str, Any]) -> int:
    index = str(value.get("index"))
    return int(index) if index.isdecimal() and len(index) < 9 else 0


def _choice(value: dict[str, Any], hide: Callable[[str], str], clean: Callable[[str], str]) -> Choice:
    message = value["message"] if isinstance(value.get("message"), dict) else {"content": value.get("text")}
    word = one_line(clean(str(value["finish_reason"])), 80) if value.get("finish_reason") else None
    finish = _ENDS.get((word or "").lower(), word)
    if value.get("error"):
        return Choice("", None, finish, one_line(hide(f"error in the choice: {value['error']}")), again=True)
    try:
        text, thought = _contents(message.get("content"))
    except TypeError as error:
        return Choice("", None, finish, f"no text: {error}")
    text = clean(text or str(message.get("refusal") or ""))
    said = message.get("reasoning_content") or message.get("reasoning") or thought
    reasoning = clean(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)) or None
    if says(finish, _TAKEN) or message.get("tool_calls") or message.get("function_call"):
        why = f"finish_reason {finish!r}: a filter or tool parser of the server took the text"
        return Choice(text, reasoning, finish, why)
    if says(finish, _BROKEN_OFF) or finish not in (None, "stop", "length") and not (text or reasoning):
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


def _count(reply: dict[str, Any], name: str) -> int | None:
    """A number of tokens; None where there is none to believe: a text has tokens, and so has every prompt."""
    usage = reply.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count < 2**53:
        return None
    return int(count)


def samples(asked: Sequence[Request], reply: Reply, stop: Sequence[str], seconds: float) -> list[Sample]:
    """A sample for each choice, in order, for the first of ``asked``; there may be fewer choices than asked for.

    The prompt's tokens stand at the first, the completions' are divided by the length of the texts: both add up to
    what is billed. A failed choice is a sample with an error, and without text.
    """
    choices = reply.choices[: len(asked)]
    weights = [len(choice.text) + len(choice.reasoning or "") + 1 for choice in choices]  # each ends with a token too
    made: list[Sample] = []
    for place, (request, choice) in enumerate(zip(asked, choices, strict=False)):
        kept, cut = cut_at_stop(choice.text, stop)
        text, finish = None if choice.error else kept, "stop" if cut else choice.finish_reason
        tokens = 0 if place else reply.prompt_tokens, _share(reply.completion_tokens, weights, place)
        name = request.problem.id, request.sample_index
        made.append(Sample(*name, text, finish, choice.error, *tokens, round(seconds, 4), choice.reasoning))
    return made


def _share(total: int | None, weights: list[int], place: int) -> int | None:
    """The part of ``total`` in proportion to a weight, in whole numbers that add up to it."""
    if total is None:
        return None
    low, high = (round(total * sum(weights[:end]) / sum(weights)) for end in (place, place + 1))
    return high - low
