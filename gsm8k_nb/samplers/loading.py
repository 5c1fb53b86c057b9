"""Loading a model and its tokenizer for the local engines; GGUF files are converted once and cached."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from filelock import FileLock
from platformdirs import user_cache_dir
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from gsm8k_nb import hub
from gsm8k_nb.config import RunConfig, find_path
from gsm8k_nb.prompts import asset_path
from gsm8k_nb.samplers import SamplerError


def load_model(config: RunConfig) -> tuple[Any, Any]:
    """The model in evaluation mode on its device, and its tokenizer. SamplerError says what to change."""
    transformers.utils.logging.disable_progress_bar()  # hundreds of bar updates would be kept in a notebook
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device)
    source, revision = model_source(config.model, config.revision)
    options = {"revision": revision, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **options)
    except (OSError, ValueError, KeyError) as error:
        raise SamplerError(loading_failed(config.model, source, error)) from error
    if tokenizer.eos_token_id is None and model.generation_config.eos_token_id is None:
        raise SamplerError(f"model: {config.model!r} names no end-of-text token, so its completions could not end")
    return model.to(device).eval(), tokenizer


def choose_device(name: str) -> torch.device:
    """``auto`` is cuda, then mps, then cpu. A named device that is not there is an error that says so."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available, "cpu": lambda: True}
    if not there[device.type]() or (device.index or 0) >= max(torch.cuda.device_count(), 1):
        raise SamplerError(f"device: {name!r} is not available here; use device: auto or cpu")
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where the hardware multiplies it natively, float32 elsewhere."""
    if name != "auto":
        return getattr(torch, name)
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        fast = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    else:
        fast = False
    return torch.bfloat16 if fast else torch.float32


def model_source(model: str, revision: str | None) -> tuple[str, str | None]:
    """What ``from_pretrained`` takes: a folder here, or a hub id with its revision."""
    if model.startswith("package:"):
        package, _, inside = model.removeprefix("package:").partition("/")
        return str(converted_gguf(asset_path(package, f"{package}/{inside}"))), None
    if model.endswith(".gguf"):
        return str(converted_gguf(_existing(model))), None
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        return str(_existing(model)), None
    try:
        return str(find_path(model, "model")), None  # a folder here or in the repository goes before the hub
    except FileNotFoundError:
        hub.reachable()
        return model, revision


def _existing(path: str) -> Path:
    try:
        return find_path(path, "model")
    except FileNotFoundError as error:
        raise SamplerError(str(error)) from None


def converted_gguf(file: Path) -> Path:
    """The folder of a GGUF file's model in transformers' own format, converted once (float32) and cached.

    The cache is ``GSM8K_NB_CACHE`` or the user's cache folder; its key is the file's name, size and first megabyte.
    """
    with file.open("rb") as stream:
        head = stream.read(1 << 20)
    digest = hashlib.sha256(
        f"{file.name}/{file.stat().st_size}/{transformers.__version__}/".encode() + head
    ).hexdigest()
    root = Path(os.environ.get("GSM8K_NB_CACHE") or user_cache_dir("gsm8k_nb")).expanduser() / "gguf"
    folder = root / f"{file.stem}-{digest[:12]}"
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _convert_gguf(file, folder)
    return folder


def _convert_gguf(file: Path, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    loaded = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    # A model loaded from GGUF refuses save_pretrained; a fresh one of the same config, given its weights, does not.
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    fresh = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
    fresh.load_state_dict(loaded.state_dict())
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    try:
        fresh.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def loading_failed(model: str, source: str, error: Exception) -> str:
    """One sentence for a model that could not be loaded, with the next step in it."""
    text = str(error).strip()
    first = (text.splitlines() or [type(error).__name__])[0][:300]
    if "gated" in text.lower() or "401" in text or "403" in text:
        step = "it needs a login: accept its licence on its page, then run 'hf auth login'"
    elif Path(source).is_dir():
        lacking = [name for name in ("config.json", "tokenizer_config.json") if not (Path(source) / name).exists()]
        lacks = f"that folder has no {' and no '.join(lacking)}: " if lacking else ""
        step = f"{lacks}it must hold a model and its tokenizer as save_pretrained writes them, or give its .gguf file"
    elif not hub.reachable():
        step = f"the hub cannot be reached: give a local folder or .gguf file, or model: {RunConfig().model}"
    else:
        step = "check the name (owner/name), the revision, and that transformers knows its architecture"
    return f"model: {model!r} could not be loaded; {step}. ({first})"
