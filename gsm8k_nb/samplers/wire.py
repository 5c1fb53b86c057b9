"""What goes over the wire to an OpenAI-compatible server and comes back, without any networking.

One request and its answer, to /chat/completions (a prompt of plain text goes to /completions as ``prompt``):

    {"model": "m", "messages": [{"role": "user", "content": "Question: ..."}], "temperature": 0.0, "top_p": 1.0,
     "max_tokens": 512, "seed": 1406530441, "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_k": -1, ...}
    {"model": "m", "choices": [{"index": 0, "message": {"content": "... #### 18"}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 812, "completion_tokens": 64}}

Every sampling field is sent, so that nothing comes from a model's own generation config. A field that a server refuses
is left out only where the value asked for is the one that does nothing: no run claims what was not done.
"""

import email.utils
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop, sample_seed

MAX_STOPS = 4  # OpenAI's limit; all of them are cut here too
PASSING = {408, 409, 425, 429}  # and 5xx but for the two below: worth another try
FOR_GOOD = {501, 505}  # not implemented, HTTP version
NEUTRAL = {  # with these values a field does nothing
    "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0, "presence_penalty": 0, "frequency_penalty": 0,
    "repetition_penalty": 1, "repeat_penalty": 1,
}  # fmt: skip
FREE = {"seed", "stop", "n"}  # can be done without: draws are not seeded, stops are cut here, choices asked for singly
TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")
_NOT_FIELDS = {"model", "messages", "prompt"}
_UNKNOWN = re.compile(r"(?i)unrecogni[sz]ed|unsupported|not support|unknown|unexpected|extra|not (permitted|allowed)")
_SHOWN = 500  # characters of a server's words that are quoted


class Passing(Exception):
    """A request failed in a way that may pass. ``kind`` is what is counted; ``retry_after`` in seconds, or None."""

    def __init__(self, kind: str, words: str = "", retry_after: float | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.words = words
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


class Refused(Exception):
    """The server will not do it, however often it is asked. ``words`` are its own, ``param`` the field it names."""

    def __init__(self, status: int, words: str, param: str = "", code: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.words = words
        self.param = param
        self.code = code

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.words}"


@dataclass
class Learnt:
    """What a server turned out to want: the name of the token limit, and fields left out with its words."""

    token_field: str
    dropped: dict[str, str] = field(default_factory=dict)

    def adapt(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """Whether the request can be sent again without what was refused. SamplerError where that would be untrue."""
        if refused.status not in (400, 422):
            return False
        named = _named(refused, body)
        other = TOKEN_FIELDS[1 - TOKEN_FIELDS.index(self.token_field)]
        for name in named & set(TOKEN_FIELDS):
            if name != self.token_field:  # changed for another request already
                return True
            if other in refused.words or (other == "max_tokens" and _UNKNOWN.search(refused.words)):
                self.dropped[name] = f"sent as {other}: {refused.words}"
                self.token_field = other
                return True
        free = {name for name in named if name in FREE or body[name] == NEUTRAL.get(name)}
        for name in free:
            self.dropped.setdefault(name, refused.words)
        asked = sorted((named - free) & {*NEUTRAL, "reasoning_effort"})
        if asked and not free:
            raise SamplerError(_untrue(asked[0], body[asked[0]], refused))
        return bool(free)


def fields(config: RunConfig, learnt: Learnt, stop: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that all requests of a run have, but for what the server does not take."""
    sent = {
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
    return {name: value for name, value in sent.items() if name not in learnt.dropped or name == learnt.token_field}


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


def read_reply(raw: bytes) -> dict[str, Any]:
    """The JSON object of an answer with at least one choice. Passing or Refused where it is none."""
    try:
        reply = json.loads(raw)
    except ValueError:
        raise Passing("bad JSON", _first_line(raw.decode("utf-8", "replace"))) from None
    if not isinstance(reply, dict):
        raise Passing("bad JSON", "not an object")
    reply["choices"] = [one for one in reply.get("choices") or [] if _is_choice(one)]
    if reply["choices"]:
        return reply
    if reply.get("error"):  # some gateways send an error with status 200
        code = reply["error"].get("code") if isinstance(reply["error"], dict) else None
        raise failure(code if isinstance(code, int) and 400 <= code < 600 else 500, raw, {})
    raise Passing("no choices")


def _is_choice(one: Any) -> bool:
    whole = isinstance(one, dict) and (isinstance(one.get("message"), dict) or "text" in one)
    return whole and one.get("finish_reason") != "error"


def samples(asked: Sequence[Request], reply: dict[str, Any], stop: Sequence[str], seconds: float) -> list[Sample]:
    """A sample for each choice, in order, for the first of ``asked``; there may be fewer choices than asked for.

    The prompt's tokens stand at the first, the completions' are divided by the length of the texts: both add up to
    what is billed; they are None where a server counts one choice only. A null content is an empty text.
    """
    choices = sorted(reply["choices"], key=lambda one: one.get("index") or 0)[: len(asked)]
    parts = [contents(choice) for choice in choices]
    prompt_tokens = [_tokens(reply, "prompt_tokens")] + [0] * (len(choices) - 1)
    total = None if counts_one(reply) else _tokens(reply, "completion_tokens")
    shares = _shares(total, [len(text) + len(thought or "") for text, thought in parts])
    made = []
    for request, choice, (text, thought), *tokens in zip(asked, choices, parts, prompt_tokens, shares, strict=False):
        kept, cut = cut_at_stop(text, stop)
        finish = "stop" if cut else choice.get("finish_reason") and str(choice["finish_reason"])
        made.append(
            Sample(request.problem.id, request.sample_index, kept, finish, None, *tokens, round(seconds, 4), thought)
        )
    return made


def counts_one(reply: dict[str, Any]) -> bool:
    """Whether the usage is that of one choice of several: so in llama.cpp's server, which adds its timings."""
    return "timings" in reply and len(reply["choices"]) > 1


def contents(choice: dict[str, Any]) -> tuple[str, str | None]:
    """Text and reasoning of a choice. Some servers send content as a list of parts."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return _text(choice["text"] or ""), None
    content = message.get("content")
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(content, list):
        whole = [part for part in content if isinstance(part, dict)]
        content = "".join(part["text"] for part in whole if isinstance(part.get("text"), str))
        thought = thought or "".join(_text(part["thinking"]) for part in whole if "thinking" in part) or None
    return _text(content or message.get("refusal") or ""), _text(thought) if thought else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tokens(reply: dict[str, Any], name: str) -> int | None:
    usage = reply.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) else None


def _shares(total: int | None, weights: list[int]) -> list[int | None]:
    """``total`` in proportion to ``weights``, in whole numbers that add up to it."""
    if total is None:
        return [None] * len(weights)
    weights = [weight + 1 for weight in weights]  # an empty text ends with a token too
    bounds = [round(total * sum(weights[:place]) / sum(weights)) for place in range(len(weights) + 1)]
    return [high - low for low, high in zip(bounds, bounds[1:], strict=False)]


# ---- what goes wrong


def failure(status: int, raw: bytes, headers: Mapping[str, str]) -> Passing | Refused:
    """What an HTTP error status means: worth another try, or not."""
    words, param, code = server_words(raw)
    lasting = "insufficient_quota" in (code, param) or "insufficient_quota" in words
    if (status in PASSING or status >= 500 and status not in FOR_GOOD) and not lasting:
        return Passing(f"HTTP {status}", words, retry_after(headers))
    return Refused(status, words, param, code)


def server_words(raw: bytes) -> tuple[str, str, str]:
    """A server's own words in one line, the field it names and its code, from an error's body in any common form."""
    text = raw.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        return _first_line(text), "", ""
    found = found.get("error") or found if isinstance(found, dict) else found
    if not isinstance(found, dict):
        return _first_line(_text(found)), "", ""
    words = found.get("message") or found.get("detail") or found
    if isinstance(words, list):  # FastAPI's: where and what; the rest repeats the whole request
        words = "; ".join(f"{one.get('loc')}: {one.get('msg')}" if isinstance(one, dict) else str(one) for one in words)
    return _first_line(_text(words)), str(found.get("param") or ""), str(found.get("code") or "")


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``retry-after`` as seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(float(headers[name]) / unit, 0.0)
        except (KeyError, ValueError):
            continue
    try:
        return max(email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time(), 0.0)
    except (KeyError, ValueError, TypeError):
        return None


def _named(refused: Refused, body: Mapping[str, Any]) -> set[str]:
    """The fields of a request that a refusal names. A short name may be a word of prose, so it needs more of a sign."""
    found = set()
    for name in set(body) - _NOT_FIELDS:
        bare = re.search(rf"(?<![\w-]){name}(?![\w-])", refused.words)
        quoted = re.search(rf"['\"`]{name}['\"`]", refused.words)
        told = len(name) > 1 and (len(name) > 4 or _UNKNOWN.search(refused.words))
        if refused.param == name or quoted or (bare and told):
            found.add(name)
    return found


def _untrue(name: str, value: Any, refused: Refused) -> str:
    message = f"{name}: the server does not take {value!r} and says: {refused.words}"
    if name == "temperature":
        message += (
            "\nA run at another temperature must not be called what these parameters call it: set temperature to what "
            "the server takes (1 for most reasoning models), so that the run states what was done."
        )
    elif name == "reasoning_effort":
        message += "\nTake reasoning_effort out of the parameters, or name one that the server takes."
    else:
        message += f"\nTake {name} out of the parameters, or use a server that has it."
    return message


def next_step(refused: Refused, config: RunConfig, key_set: bool) -> str:
    """What to change after a refusal, one line."""
    words = refused.words.lower()
    if refused.status in (401, 403):
        what = "holds a key that the server refuses" if key_set else "is not set, so a placeholder was sent"
        return f"The environment variable {config.api_key_env} (api_key_env) {what}: export the right key there."
    if "chat template" in words or "chat_template" in words:
        return "For a base model set chat_template: plain, which asks by /completions."
    if "chat model" in words or ("completions" in words and refused.status == 404 and "chat" in words):
        return "For a chat model leave chat_template at auto, for a base model set it to plain."
    if any(sign in words for sign in ("context", "max_model_len", "too long", "too large")):
        return "Lower max_new_tokens, use fewer shots, or start the server with a longer context."
    if refused.status == 404:
        return "Check model and base_url, which for most servers ends in /v1."
    if refused.status in (402, 429):
        return "The account has nothing left: add credit, then run the same again to go on."
    return "Change the parameters or the server accordingly, then run the same again."


# ---- keeping the key out


def redacted(text: str, key: str) -> str:
    """``text`` without the key, without a masked form of it that shows its beginning or end, and without headers."""
    text = re.sub(r"(?i)\b(authorization|x-api-key|api-key)\b(['\"]?\s*[:=]\s*)\S+(\s+\S+)?", r"\1\2[hidden]", text)
    text = re.sub(r"(?i)\bbearer\s+\S+", "Bearer [hidden]", text)
    text = re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", "[hidden]", text)
    if len(key) >= 12:
        text = text.replace(key, "[hidden]")
        head, tail = re.escape(key[:4]), re.escape(key[-4:])
        text = re.sub(rf"{head}[\w*.\-…]{{4,}}|[\w*.\-…]{{4,}}{tail}(?!\w)", "[hidden]", text)
    return re.sub(r"\b(sk|gsk|hf|xai|nvapi)[-_][\w*.-]{6,}", "[hidden]", text)
