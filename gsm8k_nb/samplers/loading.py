"""Loading a model and its tokenizer for the local engines."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from gsm8k_nb import places
from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import SamplerError
from gsm8k_nb.samplers.fingerprint import local_model
from gsm8k_nb.samplers.gguf import converted_gguf
from gsm8k_nb.samplers.tokens import Tokens
from gsm8k_nb.texts import one_line


def load_model(config: RunConfig) -> tuple[Any, Any]:
    """The model in evaluation mode on its device, and its tokenizer. SamplerError says what to change."""
    transformers.utils.logging.disable_progress_bar()  # hundreds of bar updates would be kept in a notebook
    device = choose_device(config.device)
    source, revision = model_source(config.model, config.revision)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    with _explained(config.model, source):
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        check_template(config, tokenizer)
        dtype = choose_dtype(config.dtype, device)
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **options)
        model = model.to(device).eval()
    if tokenizer.eos_token_id is None and model.generation_config.eos_token_id is None:
        raise SamplerError(f"model: {config.model!r} names no end-of-text token, so its completions could not end")
    return model, tokenizer


def load_tokens(run: RunConfig, source: str, revision: str | None) -> Tokens:
    """The tokenizer alone, for an engine that loads the model itself."""
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    with _explained(run.model, source):
        tokenizer: Any = AutoTokenizer.from_pretrained(source, **options)
        check_template(run, tokenizer)
        config: Any = AutoConfig.from_pretrained(source, **options)
        try:
            generation = GenerationConfig.from_pretrained(source, revision=revision or "main")
        except OSError:  # the model has no such file
            generation = GenerationConfig.from_model_config(config)
        return Tokens(tokenizer, config, generation, run)


def check_template(config: RunConfig, tokenizer: Any) -> None:
    """SamplerError where the chat template does not know a value that it would be given, and would pass over it."""
    for name in config.chat_values:
        if not re.search(rf"\b{re.escape(name)}\b", str(tokenizer.chat_template or "")):
            what = name if name == "enable_thinking" else f"template_kwargs: {name}"
            raise SamplerError(f"{what}: the chat template of {config.model!r} does not know it; take it out")


def choose_device(name: str) -> torch.device:
    """``auto`` is cuda, then mps, then cpu. A named device that is not there is an error that says so."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    device = torch.device(next(kind for kind, available in there.items() if available) if name == "auto" else name)
    if not there[device.type] or (device.index or 0) >= max(torch.cuda.device_count(), 1):
        raise SamplerError(f"device: {name!r} is not available here; use device: auto or cpu")
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where the hardware multiplies it natively, float32 elsewhere."""
    if name != "auto":
        return getattr(torch, name)
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities: Any = torch.cpu.get_capabilities() if device.type == "cpu" else {}
        fast = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.bfloat16 if fast else torch.float32


def model_source(model: str, revision: str | None) -> tuple[str, str | None]:
    """What ``from_pretrained`` takes: a folder here, or a hub id with its revision."""
    try:
        path = local_model(model)
        if path is None:
            places.reachable()
            return model, revision
        if path.is_dir():
            return str(path), None
        if path.suffix == ".gguf":
            return str(converted_gguf(path)), None
        raise SamplerError(f"model: {model!r} is no folder, and of files only a .gguf file holds a model")
    except FileNotFoundError as error:
        raise SamplerError(f"{error}{_alike(model)}") from None
    except SamplerError:
        raise
    except Exception as error:  # a damaged file raises what its readers raise; a name that no file can have ValueError
        raise SamplerError(f"model: {model[:200]!r} cannot be read: {one_line(error, 300)}") from error


@contextmanager
def _explained(model: str, source: str) -> Iterator[None]:
    try:
        yield
    except SamplerError:
        raise
    except Exception as error:  # damaged files raise what their readers raise: SafetensorError, plain Exception, ...
        raise SamplerError(loading_failed(model, source, error)) from error


def loading_failed(model: str, source: str, error: Exception) -> str:
    """One sentence for a model that could not be loaded, with the next step in it."""
    text, folder = str(error).lower(), Path(source)
    if "out of memory" in text or "not enough memory" in text or isinstance(error, MemoryError):
        step = "memory ran out: choose a smaller model, dtype: bfloat16, or a device with more memory"
    elif "gated" in text or "401" in text or "403" in text:
        step = "it needs a login: accept its licence on its page, then run 'hf auth login'"
    elif folder.is_dir():
        lacking = [name for name in ("config.json", "tokenizer_config.json") if not (folder / name).exists()]
        lacks = f"that folder has no {' and no '.join(lacking)}: " if lacking else ""
        step = f"{lacks}it must hold a model and its tokenizer as save_pretrained writes them, or give its .gguf file"
    else:
        wrong = "; if it is a hub id, check the name (owner/name), the revision, and that transformers knows it"
        away = f", and the hub cannot be reached: give a local folder or .gguf file, or model: {RunConfig().model}"
        step = f"there is no such folder{_alike(model)}{wrong if places.reachable() else away}"
    return f"model: {model!r} could not be loaded; {step}. ({one_line(error, 300)})"


def _alike(model: str) -> str:
    """What is in the folder that ``model`` names, where that is here and only its last part is wrong."""
    folder = Path(model).expanduser().parent
    try:
        names = sorted(file.name for file in folder.iterdir() if file.is_dir() or file.suffix == ".gguf")
    except (OSError, ValueError):
        return ""
    near = get_close_matches(Path(model).name, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(str(folder / name)) for name in near)}?" if near else ""
