"""Whether the shared-prefix engine fits a model here: tried once for an architecture and a machine, then remembered."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from gsm8k_nb import places
from gsm8k_nb.samplers.shared_prefix import engine


def fit(model: Any, length: int) -> tuple[str | None, bool]:
    """Why the engine does not fit texts of ``length`` tokens, or None; and whether its texts are then the same in any
    company. What fits is remembered in the cache, by all that the trial depends on; what does not is tried again."""
    known, key = places.cache_folder() / "fits", _key(model, length)
    marks = {True: known / f"{key}.repeats", False: known / f"{key}.fits"}
    for repeats, mark in marks.items():
        if mark.exists():
            return None, repeats
    if reason := engine.supports(model, length=length):
        return reason, False
    repeats = engine.repeats(model)
    known.mkdir(parents=True, exist_ok=True)
    marks[repeats].touch()
    return None, repeats


def _key(model: Any, length: int) -> str:
    settings = {name: value for name, value in model.config.to_dict().items() if name != "_name_or_path"}
    gpu = model.device.type == "cuda"
    machine = (
        torch.cuda.get_device_name(model.device) if gpu else [torch.cpu.get_capabilities(), torch.get_num_threads()]
    )
    code = [file.read_text(encoding="utf-8") for file in sorted(Path(engine.__file__).parent.glob("*.py"))]
    facts = [
        type(model).__name__, settings, model.training, length, str(model.dtype), str(model.device), machine,
        torch.__version__, transformers.__version__, code,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]
