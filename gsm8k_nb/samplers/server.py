"""A server's key, which is sent and never shown, and what it says by /models of the models that it serves.

>>> server_fingerprint(config)              # vLLM: another root is another model under the same name
{'root': '/checkpoints/step-200'}
"""

import http.client
import json
import os
import re
import time
import urllib.request
from typing import Any

from pydantic import SecretStr

from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import SamplerError

OPENAI_URL = "https://api.openai.com/v1"
LIST_SECONDS = 5.0  # for a server to list its models


class Key:
    """The key in the environment variable ``api_key_env``, or a placeholder for a server that may want none."""

    def __init__(self, config: RunConfig) -> None:
        name = config.api_key_env
        key = os.environ.get(name, "").strip()
        if not key and config.base_url is None:
            raise SamplerError(
                f"api_key_env: the environment variable {name} is not set; export {name}=... in the shell that starts "
                "this, or set base_url for a server of your own"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise SamplerError(f"api_key_env: what {name} holds is no key: it has blanks or odd characters in it")
        self.is_set, self._key = bool(key), SecretStr(key or "no-key")

    def reveal(self) -> str:
        return self._key.get_secret_value()

    def hide(self, text: str) -> str:
        """A server's words without headers, the key, and masked forms of it that show its beginning or end."""
        key = self.reveal()
        text = re.sub(r"(?i)\b(authorization|x-api-key|api-key)\b(['\"]?\s*[:=]\s*)\S+(\s+\S+)?", r"\1\2[hidden]", text)
        text = re.sub(r"(?i)\bbearer\s+\S+", "Bearer [hidden]", text)
        text = re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", "[hidden]", text)
        if len(key) >= 12:
            text = text.replace(key, "[hidden]")
            head, tail = re.escape(key[:4]), re.escape(key[-4:])
            text = re.sub(rf"{head}[\w*.\-…]{{4,}}|[\w*.\-…]{{4,}}{tail}(?!\w)", "[hidden]", text)
        return re.sub(r"\b(sk|gsk|hf|xai|nvapi)[-_][\w*.-]{6,}", "[hidden]", text)

    def parse(self, raw: bytes) -> Any:
        """A server's JSON without the key in any text. A short key is no secret, and may be a word of a text."""
        value, key = json.loads(raw), json.dumps(self.reveal())[1:-1]
        return value if len(key) < 8 else json.loads(json.dumps(value).replace(key, "[hidden]"))


def listed(config: RunConfig) -> list[dict[str, Any]]:
    """The entries of the server's /models; empty where it lists none in ``LIST_SECONDS``."""
    key = Key(config)
    request = urllib.request.Request(f"{(config.base_url or OPENAI_URL).rstrip('/')}/models")
    request.add_unredirected_header("Authorization", f"Bearer {key.reveal()}")
    deadline, raw = time.monotonic() + LIST_SECONDS, b""
    try:
        with urllib.request.urlopen(request, timeout=LIST_SECONDS) as reply:
            while (piece := reply.read1(1 << 16)) and time.monotonic() < deadline and len(raw) < 1 << 22:
                raw += piece
        return [entry for entry in key.parse(raw)["data"] if isinstance(entry, dict)]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, http.client.HTTPException):
        return []


def server_fingerprint(config: RunConfig) -> dict[str, str] | None:
    """What a server says of the weights behind ``model``, or None where it says nothing, or is not there.

    Only what a restart leaves as it is: where the weights were loaded from (``root`` and ``parent`` in vLLM and SGLang,
    another ``id`` than the one asked for in llama.cpp), their size (``meta``, llama.cpp), and when they were last
    changed (``created``, Ollama's alone: elsewhere it is the time of the start or of the request).
    """
    if config.base_url is None:  # a name is all that OpenAI says
        return None
    entries = listed(config)
    ours = [entry for entry in entries if entry.get("id") == config.model] or entries
    if not ours or len(ours) > 1 and ours is entries:
        return None
    entry, meta = ours[0], ours[0].get("meta")
    facts = {name: entry[name] for name in ("id", "root", "parent") if isinstance(entry.get(name), str)}
    if isinstance(meta, dict):
        facts |= {name: str(meta[name]) for name in ("n_params", "size", "n_vocab", "n_embd") if name in meta}
    if entry.get("owned_by") == "library":
        facts["created"] = str(entry.get("created"))
    return {name: value for name, value in facts.items() if value != config.model} or None
