"""One question, asked once: can the hub be reached? Its libraries retry for half a minute before they say no.

Where the answer is no, they are put into their own offline mode: what is in the cache still loads, and what is not
fails at once, so that the caller can say in one sentence what to do.
"""

import functools
import os
import sys
from pathlib import Path

PROBE_TIMEOUT_S = 5


@functools.cache
def reachable() -> bool:
    """Whether the hub answers within seconds; if not, the hub's libraries are set to offline mode."""
    import huggingface_hub
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PROBE_TIMEOUT_S)
        return True
    except Exception:
        # Which error depends on the HTTP library beneath and on the network (DNS, proxy, firewall): all mean no.
        _go_offline()
        return False


def _go_offline() -> None:
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries and processes that start later
    constants.HF_HUB_OFFLINE = True
    if "datasets" in sys.modules:  # it copied the constant when it was imported
        sys.modules["datasets"].config.HF_HUB_OFFLINE = True


def commit(model: str, revision: str | None) -> str | None:
    """The commit of a model's revision: as the hub says now, else as the cache has it; None where neither knows."""
    import huggingface_hub

    if reachable():
        try:
            return huggingface_hub.HfApi().model_info(model, revision=revision, timeout=PROBE_TIMEOUT_S).sha
        except Exception:  # no such model, a login is needed, the network went: loading says which
            pass
    cached = huggingface_hub.try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(cached).parent.name if isinstance(cached, str) else None
