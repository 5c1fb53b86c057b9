"""What servers say when a request goes wrong, and what a client may do about it. Patterns as data, no networking.

    {"error": {"message": "Invalid n value (currently only n = 1 is supported)", "param": null}}      HTTP 400, DeepSeek
    Refused(400, "Invalid n value ...")  ->  Learnt.adapt leaves "n" out, from now on

A field that a server refuses is left out only where the value asked for is the one that does nothing, or where the
client can do the same itself: no run claims what was not done. A form of a request, that is the set of its fields, is
never gone back to. Each adaption leaves at least one of the fields of ``NEUTRAL`` and ``FREE`` out for good, or renames
the token limit, once: a request is refused at most ``MOST_ADAPTIONS`` + 1 = 13 times, and all those of a run, as many
as are under way with each form, at most 13 times ``concurrency`` times, before there are samples or one clear error.
"""

import email.utils
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import SamplerError
from gsm8k_nb.texts import one_line

NEUTRAL = {  # with these values a field does nothing
    "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0, "presence_penalty": 0, "frequency_penalty": 0,
    "repetition_penalty": 1, "repeat_penalty": 1,
}  # fmt: skip
FREE = {"seed", "stop", "n"}  # can be done without: draws are not seeded, stops are cut here, choices asked for singly
TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")
MOST_ADAPTIONS = len(NEUTRAL) + len(FREE) + 1
PASSING = {408, 409, 425, 429}  # and 5xx but for the two below: worth another try
FOR_GOOD = {501, 505}  # not implemented, HTTP version

# How servers speak of a field besides its own name, which is known in every spelling (top_p, topP, "top p").
_ALSO = {
    "n": r"([:.] ?|(parameter|argument|field|property) )n\b(?!\.\w)|\bn\s*(value|=|>|must|should|is not|cannot)|n_cmpl|"
    r"candidate_?count|number of (choices|candidates)|"
    r"(one|1|single|multiple|several)( completion| response| output)? (choice|candidate|completion|generation)s?\b",
    "stop": r"stop[ _-]?(sequence|string|word)|stopSequence",
    "seed": r"random_?seed",
    "reasoning_effort": r"\b(thinking|reasoning)\b",
    **dict.fromkeys(TOKEN_FIELDS, r"max_?(output|new|gen|generation)_?tokens|\bn(um)?_predict"),
    **dict.fromkeys([name for name in NEUTRAL if name.endswith("penalty")], r"\bpenalt(y|ies)\b"),
}
_UNKNOWN = (
    r"unrecogni[sz]ed|unsupported|not support|unknown|unexpected|extra|invalid|disallow|implement|"
    r"not (be )?(permitted|allowed|enabled|available|accept)"
)
_TOO_MUCH = (
    r"context|max_model_len|too (long|large|big|many)|exceed|at most|m(ax|in)imum|range|(great|larg)er|limit was"
)
_SAYS_NO = r"only one completion choice|unsupported param|does(n't| not) support|unknown field"  # with status 500
_FILTERED = (
    r"content.?(filter|management|exists risk)|data.?inspection|inappropriate|high risk|usage polic|\bflagged|"
    r"prohibited_content|block_?reason"
)
_MODEL = r"model\b.*\b(not|n't|unknown)|(unknown|invalid|no such) model"
_ADVICE = (  # what a refusal speaks of, and what to change: the first that fits
    (r"chat[ _]template", "For a base model set chat_template: plain, which asks by /completions."),
    (r"chat model|support chat", "For a chat model leave chat_template at auto, for a base model set it to plain."),
    (r"limit was reached|minimum", "Raise max_new_tokens: reasoning counts against it, and some servers ask for more."),
    (_TOO_MUCH, "Lower max_new_tokens, use fewer shots, or start the server with a longer context."),
    (_MODEL, "Check model and base_url."),
)
_BY_FIELD = {
    "temperature": "A run at another temperature must not be called what these parameters call it: set temperature to "
    "what the server takes (1 for most reasoning models), so that the run states what was done.",
    "reasoning_effort": "Take reasoning_effort out of the parameters, or name one that the server takes.",
    "max_new_tokens": "Without a limit the run would not be what max_new_tokens says: use a server that has one.",
}


@dataclass(eq=False)
class Failure(Exception):
    """A request failed. ``kind`` is what is counted; ``again`` whether another try may bring more, after so long."""

    kind: str
    words: str = ""
    retry_after: float | None = None
    again: bool = True

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


@dataclass(eq=False)
class Refused(Exception):
    """The server will not do it, however often it is asked. ``words`` are its own, ``param`` the field it names."""

    status: int
    words: str
    param: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.words}"


@dataclass
class Learnt:
    """What a server turned out to want: the name of the token limit, the fields left out or renamed, each with why."""

    token_field: str
    dropped: dict[str, str] = field(default_factory=dict)

    def adapt(self, refused: Refused, body: Mapping[str, Any]) -> list[str] | None:
        """The fields left out or renamed now, so that the request can be sent again, or None where it cannot.

        The list is empty where another request has brought the change already. SamplerError where leaving a field out
        would make the run another than its parameters say.
        """
        if any(name in self.dropped for name in body):
            return []
        named = fields_named(refused, body)
        if refused.status not in (400, 422, 500) or self.token_field in named and says(refused.words, _TOO_MUCH):
            return None
        if not named and not advice(refused):  # on a guess, once: what stands for nothing, most servers do not know
            named = {name for name in body if name not in ("temperature", "top_p") and body[name] == NEUTRAL.get(name)}
        changed = {name: refused.words for name in named if name in FREE or body[name] == NEUTRAL.get(name)}
        other = TOKEN_FIELDS[1 - TOKEN_FIELDS.index(self.token_field)]
        renaming = other in refused.words or says(refused.words, _UNKNOWN)
        if self.token_field in named and renaming and other not in self.dropped:
            changed[self.token_field] = f"sent as {other}: {refused.words}"
            self.token_field = other
        if not changed and named:
            raise SamplerError(_untrue(min(named), body, refused))
        self.dropped |= changed
        return sorted(changed) or None


def fields_named(refused: Refused, body: Mapping[str, Any]) -> set[str]:
    """The fields of a request that a refusal names. A short name may be a word of prose, so it needs more of a sign."""
    fields = set(body) - {"model", "messages", "prompt"}
    param = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", refused.param.split(".")[-1]).lower()
    if param in fields:
        return {param}
    by_name = {name for name in fields if _names(refused.words, name)}
    return by_name or {name for name in fields & set(_ALSO) if says(refused.words, _ALSO[name])}


def _names(words: str, name: str) -> bool:
    spelt = name.replace("_", "[ _-]?")
    telling = len(name) > 4 or (len(name) > 1 and says(words, _UNKNOWN))
    quoted = rf"['\"`*‘“]{spelt}['\"`*’”]"
    return says(words, rf"{quoted}|(?<![\w-]){spelt}(?![\w-])" if telling else quoted)


def says(words: str | None, pattern: str) -> bool:
    """Whether words hold a pattern, in whatever case."""
    return bool(words and re.search(pattern, words, re.IGNORECASE))


def _untrue(name: str, body: Mapping[str, Any], refused: Refused) -> str:
    ours = "max_new_tokens" if name in TOKEN_FIELDS else name
    change = _BY_FIELD.get(ours, f"Take {ours} out of the parameters, or use a server that has it.")
    return f"{ours}: the server does not take {body[name]!r} and says: {refused.words}\n{change}"


def advice(refused: Refused) -> str:
    """What to change after a refusal, by its words, one line; empty where they say nothing known."""
    return next((change for pattern, change in _ADVICE if says(refused.words, pattern)), "")


def next_step(refused: Refused, config: RunConfig, key_set: bool) -> str:
    """What to change after a refusal, one line."""
    if refused.status in (401, 403):
        what = "holds a key that the server refuses" if key_set else "is not set, so a placeholder was sent"
        return f"The environment variable {config.api_key_env} (api_key_env) {what}: export the right key there."
    if refused.status in (402, 429):
        return "The account has nothing left: add credit, then run the same again to go on."
    if refused.status == 404 and not advice(refused):
        return "Check model and base_url, which for most servers ends in /v1."
    return advice(refused) or "Change the parameters or the server accordingly, then run the same again."


# ---- reading what went wrong


def failure(status: int, raw: bytes, headers: Mapping[str, str], hide: Callable[[str], str]) -> Failure | Refused:
    """What an HTTP error means: this request failed, worth another try or not, or the server refuses all like it."""
    words, param, code = server_words(raw, hide)
    if status in (400, 403, 422, 451) and says(f"{code} {param} {words}", _FILTERED):
        return Failure("prompt kept back by the server's filter", words, again=False)
    lasting = "insufficient_quota" in f"{code} {param} {words}" or (status == 500 and says(words, _SAYS_NO))
    if (status in PASSING or status >= 500 and status not in FOR_GOOD) and not lasting:
        return Failure(f"HTTP {status}", words, retry_after(headers))
    return Refused(status, words, param, code)


def server_words(raw: bytes, hide: Callable[[str], str]) -> tuple[str, str, str]:
    """A server's own words in one line, the field it names and its code, from an error's body in any common form."""
    text = raw.decode("utf-8", "replace")
    try:
        said = json.loads(text)
        words = _words(said)
    except (ValueError, RecursionError):
        return one_line(hide(text)), "", ""
    said = said[0] if isinstance(said, list) and said else said
    facts = said if isinstance(said, dict) else {}
    facts = facts | facts["error"] if isinstance(facts.get("error"), dict) else facts
    return one_line(hide(words)), hide(str(facts.get("param") or "")), hide(str(facts.get("code") or ""))


def _words(said: Any) -> str:
    """The words in an error: ``error.message`` (OpenAI), ``detail`` with places (FastAPI), a list of one (Gemini),
    ``message.detail`` (Mistral), ``error.metadata.raw`` of a server behind the server (OpenRouter)."""
    if isinstance(said, list):
        return "; ".join(map(_words, said))
    if isinstance(said, str) and said[:1] in ("{", "["):
        with suppress(ValueError):
            return _words(json.loads(said))
    if not isinstance(said, dict):
        return said if isinstance(said, str) else json.dumps(said)
    if "loc" in said:  # the rest repeats the whole request
        return f"{said['loc']}: {said.get('msg')}"
    inner = next((said[name] for name in ("error", "message", "detail", "errors") if said.get(name)), None)
    words = json.dumps(said, ensure_ascii=False) if inner is None else _words(inner)
    behind = said.get("metadata")
    return f"{words}: {_words(behind['raw'])}" if isinstance(behind, dict) and behind.get("raw") else words


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``retry-after`` as seconds or as a date."""
    said = headers.get("retry-after", "")
    for text, unit in ((headers.get("retry-after-ms", ""), 1000), (said, 1)):
        with suppress(ValueError):
            if not math.isnan(seconds := float(text) / unit):
                return max(seconds, 0.0)
    with suppress(ValueError, TypeError, OverflowError):
        date = email.utils.parsedate_to_datetime(said)
        return max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time.time(), 0.0)
    return None


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


def without_key(text: str, key: str) -> str:
    """A model's text without the key. A short key is no secret, and may be a word of the text."""
    return text if len(key) < 8 else text.replace(key, "[hidden]")
