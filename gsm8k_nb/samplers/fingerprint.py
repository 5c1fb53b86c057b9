"""What a model is made of, as a few digests: weights that were overwritten or a tokenizer exchanged show in them.

>>> model_fingerprint(RunConfig(model="checkpoints/final"))
{'config': '0c1f...', 'tokenizer': '77ab...', 'weights': '91d0...'}

Nothing is loaded, and no time of a file counts, only its content. Weights of up to ``READ_WHOLE`` bytes are read whole.
Of larger ones the sizes, the headers, the start of each tensor (safetensors) and ``PIECES`` pieces spread over all the
rest are read: a retrained model differs in every one of them. What this cannot see is a change of a large model that
lies between the pieces alone, such as a few rows of one matrix, and a change of what the hub calls an adapter's base.
"""

import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gsm8k_nb import places
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import AssetError, asset_path, find_path

READ_WHOLE = 512 << 20  # bytes of weights: less than a second
PIECES = 4096
PIECE = 4096  # bytes
LONGEST_HEADER = 100 << 20  # bytes, safetensors' own bound
PACKAGE = "package:"
_WEIGHTS = re.compile(r".*\.safetensors|(pytorch_)?model.*\.bin|.*\.index\.json")
_ADAPTER = re.compile(r"adapter_.*")
_TOKENIZER = re.compile(
    r"tokenizer.*|special_tokens_map\.json|added_tokens\.json|vocab\..*|merges\.txt|tekken\.json|.*\.model"
)
_TEMPLATE = re.compile(r"chat_template\.(jinja|json)")
_NOTES = ("transformers_version", "_name_or_path", "name_or_path")  # in files of settings: who saved them, and where


def model_fingerprint(config: RunConfig) -> dict[str, str] | None:
    """Digests by part of the model that a run's parameters name, or None where nothing is known of it.

    A run's samples come from one model: where a later fingerprint differs, it is another. None is no evidence of that:
    the folder may be gone since.
    """
    if config.sampler == "replay":  # its texts are made; the run records their sha256
        return None
    if config.sampler == "openai":
        from gsm8k_nb.samplers.server import server_fingerprint

        return server_fingerprint(config)
    try:
        path = local_model(config.model)
        return file_fingerprint(path) if path else _hub_commit(config.model, config.revision)
    except (OSError, AssetError):
        return None


def local_model(model: str) -> Path | None:
    """The folder or file here that ``model`` names, or None for a hub id. FileNotFoundError, AssetError: not there.

    A folder here or in the repository goes before the hub.
    """
    if model.startswith(PACKAGE):
        package, _, inside = model.removeprefix(PACKAGE).partition("/")
        return asset_path(package, f"{package}/{inside}")
    try:
        return find_path(model, "model")
    except FileNotFoundError:
        if is_hub_id(model):
            return None
        raise


def is_hub_id(model: str) -> bool:
    """Whether a name may be one on the hub: ``owner/name`` or ``name``, no path and no file."""
    return bool(re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", model)) and not model.endswith(".gguf")


def file_fingerprint(path: Path) -> dict[str, str]:
    """Digests by part of a model's folder, or of its one file."""
    if path.is_file():
        return {"weights": _weights([path], named=False)}
    files = sorted(file for file in path.iterdir() if file.is_file())
    templates = sorted(path.glob("additional_chat_templates/*.jinja"))
    settings = {
        file.name: _settings(file) for file in files if file.suffix == ".json" and file.stat().st_size < 1 << 20
    }
    template = [settings.get("tokenizer_config.json", {}).pop("chat_template", None)]
    end_tokens = settings.pop("generation_config.json", {}).get("eos_token_id")  # of that file nothing else is used
    parts = {
        "weights": _weights(
            [file for file in files if _WEIGHTS.fullmatch(file.name) and not _ADAPTER.match(file.name)]
        ),
        "config": _digest([_json(settings.get("config.json")), _json(end_tokens)]),
        "tokenizer": _digest(_contents(file, settings) for file in files if _TOKENIZER.fullmatch(file.name)),
        "chat_template": _digest(
            [_json(template), *(_contents(file, {}) for file in files if _TEMPLATE.fullmatch(file.name))]
            + [_contents(file, {}) for file in templates]
        ),
    }
    adapter = [file for file in files if _ADAPTER.match(file.name)]
    if adapter:
        parts["adapter"] = _weights(adapter)
        base = settings.get("adapter_config.json", {}).get("base_model_name_or_path")
        if isinstance(base, str) and Path(base).is_dir() and Path(base).resolve() != path.resolve():
            parts |= {f"base_{name}": digest for name, digest in file_fingerprint(Path(base)).items()}
    return parts


def sha256_of(file: Path) -> str:
    """The sha256 of a file's whole content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _weights(files: list[Path], *, named: bool = True) -> str:
    """One digest of files of weights, whole where they are small together, else by pieces."""
    sizes = [file.stat().st_size for file in files]
    stride = 0 if sum(sizes) <= READ_WHOLE else max(sum(sizes) // PIECES, 2 * PIECE)
    digest = hashlib.sha256()
    for file, size in zip(files, sizes, strict=True):
        digest.update(f"{file.name if named else ''}/{size}/".encode())
        with file.open("rb") as stream:
            if not stride:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
                continue
            for start, length in _pieces(stream, file.suffix, size, stride):
                stream.seek(start)
                digest.update(stream.read(length))
    return digest.hexdigest()


def _pieces(stream: BinaryIO, suffix: str, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Start and length of what is read of a large file: its first and last piece, one in each ``stride`` at a place
    that its size alone decides, and of safetensors the header and the start of each tensor."""
    yield 0, PIECE
    yield max(size - PIECE, 0), PIECE
    drawn = random.Random(size)
    yield from ((start + drawn.randrange(stride - PIECE), PIECE) for start in range(0, size, stride))
    if suffix == ".safetensors":
        stream.seek(0)
        length = int.from_bytes(stream.read(8), "little")
        if length <= min(size, LONGEST_HEADER):  # else the file is damaged, and will not load
            header = stream.read(length)
            yield 8, length
            yield from ((8 + length + start, PIECE) for start in _tensor_starts(header))


def _tensor_starts(header: bytes) -> list[int]:
    try:
        tensors = json.loads(header)
        return sorted(tensor["data_offsets"][0] for name, tensor in tensors.items() if name != "__metadata__")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _settings(file: Path) -> dict[str, Any]:
    """A small JSON file as a mapping without notes on who saved it; its text under one name where it is none."""
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = text
    return {k: v for k, v in values.items() if k not in _NOTES} if isinstance(values, dict) else {"": values}


def _contents(file: Path, settings: dict[str, dict[str, Any]]) -> bytes:
    found = settings.get(file.name)
    return file.name.encode() + (sha256_of(file).encode() if found is None else _json(found))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


def _hub_commit(model: str, revision: str | None) -> dict[str, str] | None:
    """The commit that a hub id and revision stand for: asked of the hub where it answers, else that of the cache."""
    if revision and re.fullmatch(r"[0-9a-f]{40}", revision):
        return {"commit": revision}
    commit = places.commit(model, revision)
    return {"commit": commit} if commit else None
