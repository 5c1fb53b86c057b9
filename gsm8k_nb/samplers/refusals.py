"""What servers say when a request goes wrong, and what a client may do about it; their words are data, servers.toml.

    {"error": {"message": "Invalid n value (currently only n = 1 is supported)", "param": null}}      HTTP 400, DeepSeek
    Refused(400, "Invalid n value ...")  ->  Learnt.adapt leaves "n" out, from now on

A field is left out only where its value does nothing, or where the client can do the same itself: no run claims what
was not done. Each adaption leaves at least one field out for good, or renames the token limit, once: a request is
refused at most ``MOST_ADAPTIONS`` + 1 = 13 times, and all those of a run at most 13 times ``concurrency`` times,
and a short question each.
"""

import email.utils
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from gsm8k_nb.places import own_table
from gsm8k_nb.samplers import SamplerError
from gsm8k_nb.texts import one_line

SPEECH = own_table("servers.toml")
WORDS, NEUTRAL, FREE = SPEECH["words"], SPEECH["neutral"], SPEECH["free"]
TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")
MOST_ADAPTIONS = len(NEUTRAL) + len(FREE) + 1
PASSING = {408, 409, 425, 429}  # and 5xx but for the two below: worth another try
FOR_GOOD = {501, 505}  # not implemented, HTTP version


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

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.words}"

    @property
    def advice(self) -> str:
        """What to change, one line; empty where the words say nothing known."""
        return next((change for pattern, change in SPEECH["advice"] if says(str(self), [pattern])), "")


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
        if (
            refused.status not in (400, 422, 500)
            or self.token_field in named
            and says(refused.words, WORDS["too_much"])
        ):
            return None
        if not named and not refused.advice:  # on a guess, once: what stands for nothing, most servers do not know
            named = {name for name in body if name not in ("temperature", "top_p") and body[name] == NEUTRAL.get(name)}
        changed = {name: refused.words for name in named if name in FREE or body[name] == NEUTRAL.get(name)}
        other = TOKEN_FIELDS[1 - TOKEN_FIELDS.index(self.token_field)]
        renaming = other in refused.words or says(refused.words, WORDS["unknown"])
        if self.token_field in named and renaming and other not in self.dropped:
            changed[self.token_field] = f"sent as {other}: {refused.words}"
            self.token_field = other
        if named and not changed:
            name = min(named)
            ours = "max_new_tokens" if name in TOKEN_FIELDS else name
            change = SPEECH["unlike"].get(ours, f"Take {ours} out of the parameters, or use a server that has it.")
            raise SamplerError(f"{ours}: the server does not take {body[name]!r} and says: {refused.words}\n{change}")
        self.dropped |= changed
        return sorted(changed) or None


def fields_named(refused: Refused, body: Mapping[str, Any]) -> set[str]:
    """The fields of a request that a refusal names. A short name may be a word of prose, so it needs more of a sign."""
    fields = set(body) - {"model", "messages", "prompt"}
    param = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", refused.param.split(".")[-1]).lower()
    if param in fields:
        return {param}
    by_name = {name for name in fields if _names(refused.words, name)}
    return by_name or {name for name in fields if says(refused.words, SPEECH["fields"].get(name, []))}


def _names(words: str, name: str) -> bool:
    spelt = name.replace("_", "[ _-]?")
    telling = len(name) > 4 or (len(name) > 1 and says(words, WORDS["unknown"]))
    quoted = rf"['\"`*‘“]{spelt}['\"`*’”]"
    return says(words, [quoted, rf"(?<![\w-]){spelt}(?![\w-])"] if telling else [quoted])


def says(words: str | None, patterns: Iterable[str]) -> bool:
    """Whether words hold one of the patterns, in whatever case."""
    return any(re.search(pattern, words or "", re.IGNORECASE) for pattern in patterns)


# ---- reading what went wrong


def failure(status: int, raw: bytes, headers: Mapping[str, str], hide: Callable[[str], str]) -> Failure | Refused:
    """What an HTTP error means: this request failed, worth another try or not, or the server refuses all like it."""
    words, param, code = server_words(raw, hide)
    everything = f"{code} {param} {words}"
    if status in (400, 403, 422, 451) and says(everything, WORDS["filtered"]):
        return Failure("prompt kept back by the server's filter", words, again=False)
    lasting = "insufficient_quota" in everything or (status == 500 and says(words, WORDS["never"]))
    if (status in PASSING or status >= 500 and status not in FOR_GOOD) and not lasting:
        return Failure(f"HTTP {status}", words, retry_after(headers))
    return Refused(status, words, param)


def server_words(raw: bytes, hide: Callable[[str], str]) -> tuple[str, str, str]:
    """A server's own words in one line, the field it names and its code, from an error's body in any common form."""
    text = raw.decode("utf-8", "replace")
    try:
        body = json.loads(text)
        words = _words(body)
    except (ValueError, RecursionError):
        return one_line(hide(text)), "", ""
    body = body[0] if isinstance(body, list) and body else body
    facts = body if isinstance(body, dict) else {}
    facts = facts | facts["error"] if isinstance(facts.get("error"), dict) else facts
    return one_line(hide(words)), str(facts.get("param") or ""), str(facts.get("code") or "")


def _words(body: Any) -> str:
    """The words in an error: ``error.message`` (OpenAI), ``detail`` with places (FastAPI), a list of one (Gemini),
    ``message.detail`` (Mistral), ``error.metadata.raw`` of a server behind the server (OpenRouter)."""
    if isinstance(body, list):
        return "; ".join(map(_words, body))
    if isinstance(body, str) and body[:1] in ("{", "["):
        with suppress(ValueError):
            return _words(json.loads(body))
    if not isinstance(body, dict):
        return body if isinstance(body, str) else json.dumps(body)
    if "loc" in body:  # the rest repeats the whole request
        return f"{body['loc']}: {body.get('msg')}"
    inner = next((body[name] for name in ("error", "message", "detail", "errors") if body.get(name)), None)
    words = json.dumps(body, ensure_ascii=False) if inner is None else _words(inner)
    behind = body.get("metadata")
    return f"{words}: {_words(behind['raw'])}" if isinstance(behind, dict) and behind.get("raw") else words


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``retry-after`` as seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            if not math.isnan(seconds := float(headers.get(name, "")) / unit):
                return max(seconds, 0.0)
    with suppress(ValueError, TypeError, OverflowError):
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time.time(), 0.0)
    return None
