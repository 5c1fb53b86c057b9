"""A server's address and key, and what it says by /models of the models that it serves, which may be nothing.

>>> server_fingerprint(config)              # vLLM: another root is another model under the same name
{'root': '/checkpoints/step-200'}
"""

import http.client
import json
import os
import time
import urllib.request
from typing import Any

from pydantic import SecretStr

from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import SamplerError
from gsm8k_nb.samplers.refusals import without_key

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no-key"  # what a local server gets that asks for none
LIST_SECONDS = 5.0  # for a server to list its models


def read_key(config: RunConfig) -> SecretStr:
    """The key in the environment variable ``api_key_env``, or a placeholder for a server that may want none."""
    name = config.api_key_env
    key = os.environ.get(name, "").strip()
    if not key and config.base_url is None:
        raise SamplerError(
            f"api_key_env: the environment variable {name} is not set; export {name}=... in the shell that starts "
            "this, or set base_url for a server of your own"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SamplerError(f"api_key_env: what {name} holds is no key: it has blanks or odd characters in it")
    return SecretStr(key or NO_KEY)


def listed(config: RunConfig) -> list[dict[str, Any]]:
    """The entries of the server's /models; empty where it lists none in ``LIST_SECONDS``."""
    request = urllib.request.Request(f"{(config.base_url or OPENAI_URL).rstrip('/')}/models")
    request.add_unredirected_header("Authorization", f"Bearer {read_key(config).get_secret_value()}")
    deadline, raw = time.monotonic() + LIST_SECONDS, b""
    try:
        with urllib.request.urlopen(request, timeout=LIST_SECONDS) as reply:
            while (piece := reply.read1(1 << 16)) and time.monotonic() < deadline and len(raw) < 1 << 22:
                raw += piece
        return [entry for entry in json.loads(raw)["data"] if isinstance(entry, dict)]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, http.client.HTTPException):
        return []


def server_fingerprint(config: RunConfig) -> dict[str, str] | None:
    """What a server says of the weights behind ``model``, or None where it says nothing, or is not there.

    Only what a restart leaves as it is: where the weights were loaded from (``root`` and ``parent`` in vLLM and SGLang,
    another ``id`` than the one asked for in llama.cpp), their size (``meta``, llama.cpp), and when they were last
    changed (``created``, Ollama's alone: elsewhere it is the time of the start or of the request). A reply's
    ``system_fingerprint`` changes with a server's version and settings: it is recorded, and is no evidence.
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
    key = read_key(config).get_secret_value()
    return {name: without_key(value, key) for name, value in facts.items() if value != config.model} or None
