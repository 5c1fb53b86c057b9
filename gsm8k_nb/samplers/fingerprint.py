"""What a model is made of, as a few digests: weights that were overwritten or a tokenizer exchanged show in them.

>>> model_fingerprint(RunConfig(model="checkpoints/final"))
{'chat_template': '5d2a...', 'config': '0c1f...', 'tokenizer': '77ab...', 'weights': '91d0...'}

Only what files hold counts. Weights of up to ``READ_WHOLE`` bytes are read whole; of larger ones the sizes, headers,
the start of each tensor and ``PIECES`` pieces: a change between these alone is not seen, nor one of a base on the hub.
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

READ_WHOLE = 512 << 20  # bytes of weights: less than a second
PIECES = 4096
PIECE = 4096  # bytes
LONGEST_HEADER = 100 << 20  # bytes, safetensors' own bound
LONGEST_SETTINGS = 1 << 20  # bytes of a JSON file that is read as settings
LOCAL = ("transformers", "vllm", "ray")  # samplers whose ``model`` is a folder, a file or a hub id
PACKAGE = "package:"
PARTS = {part: re.compile(names) for part, names in places.own_table("model_files.toml").items()}
NOTES = ("transformers_version", "_name_or_path", "name_or_path")  # in settings: who saved them, and where


def model_fingerprint(config: RunConfig) -> dict[str, str] | None:
    """Digests by part of the model that a run's parameters name, or None where nothing is known of it.

    A run's samples come from one model: where a later fingerprint differs, it is another. None is no evidence of that.
    """
    if config.sampler == "openai":
        from gsm8k_nb.samplers.server import server_fingerprint

        return server_fingerprint(config)
    if config.sampler not in LOCAL:  # a replay's texts are made; another engine describes its own model
        return None
    try:
        path = local_model(config.model)
        if path is None:
            commit = places.commit(config.model, config.revision)
            return {"commit": commit} if commit else None
        return {"weights": _weights([path], named=False)} if path.is_file() else _folder(path)
    except (OSError, ValueError):  # not there, not installed, no name that a file can have
        return None


def local_model(model: str) -> Path | None:
    """The folder or file here that ``model`` names, before a hub id, which is None. FileNotFoundError where it can be
    neither, AssetError where its package is not installed."""
    if model.startswith(PACKAGE):
        package, _, inside = model.removeprefix(PACKAGE).partition("/")
        return places.asset_path(package, f"{package}/{inside}")
    try:
        return places.find_path(model, "model")
    except FileNotFoundError:
        if re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", model) and not model.endswith(".gguf"):
            return None
        raise


def _folder(folder: Path) -> dict[str, str]:
    """Digests of a folder by part. Of generation_config.json the end tokens count, all else in it is never used."""
    files: dict[str, list[Path]] = {part: [] for part in [*PARTS, ""]}
    for file in sorted(file for file in folder.iterdir() if file.is_file()):
        files[next((part for part, names in PARTS.items() if names.fullmatch(file.name)), "")].append(file)
    tokenizer = _settings(folder / "tokenizer_config.json")
    template = tokenizer.pop("chat_template", None)
    ends = _settings(folder / "generation_config.json").get("eos_token_id")
    templates = files["chat_template"] + sorted(folder.glob("additional_chat_templates/*.jinja"))
    vocabulary = [file for file in files["tokenizer"] if file.name != "tokenizer_config.json"]
    parts = {
        "weights": _weights(files["weights"]),
        "config": _digest([_settings(folder / "config.json"), ends]),
        "chat_template": _digest([template], templates),
        "tokenizer": _digest([tokenizer], vocabulary),
    }
    if files["adapter"]:
        base = _settings(folder / "adapter_config.json").get("base_model_name_or_path")
        parts["adapter"] = _weights(files["adapter"])
        if isinstance(base, str) and Path(base).is_dir() and Path(base).resolve() != folder.resolve():
            parts |= {f"base_{name}": digest for name, digest in _folder(Path(base)).items()}
    return parts


def _settings(file: Path) -> dict[str, Any]:
    """A JSON file as a mapping without notes on who saved it; where it is none, its digest under an empty name."""
    try:
        if file.stat().st_size > LONGEST_SETTINGS:
            raise ValueError("too long to be settings")
        return {name: value for name, value in json.loads(file.read_bytes()).items() if name not in NOTES}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, RecursionError):  # damaged, or no mapping
        return {"": places.file_sha256(file)}


def _weights(files: list[Path], *, named: bool = True) -> str:
    """One digest of files of weights, whole where they are small together, else by pieces."""
    sizes = [file.stat().st_size for file in files]
    stride = 0 if sum(sizes) <= READ_WHOLE else max(sum(sizes) // PIECES, 2 * PIECE)
    digest = hashlib.sha256()
    for file, size in zip(files, sizes, strict=True):
        digest.update(f"{file.name if named else ''}/{size}/".encode())
        if not stride:
            digest.update(places.file_sha256(file).encode())
            continue
        with file.open("rb") as stream:
            for start, length in _pieces(stream, file.suffix, size, stride):
                stream.seek(start)
                digest.update(stream.read(length))
    return digest.hexdigest()


def _pieces(stream: BinaryIO, suffix: str, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Start and length of what is read of a large file; its size alone decides where the pieces lie."""
    length = int.from_bytes(stream.read(8), "little")
    header = stream.read(length) if suffix == ".safetensors" and length <= min(size, LONGEST_HEADER) else b""
    drawn = random.Random(size)
    yield from ((0, PIECE), (max(size - PIECE, 0), PIECE), (8, len(header)))
    yield from ((start + drawn.randrange(stride - PIECE), PIECE) for start in range(0, size, stride))
    try:
        tensors = [tensor for name, tensor in json.loads(header).items() if name != "__metadata__"]
        yield from ((8 + length + int(tensor["data_offsets"][0]), PIECE) for tensor in tensors)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return  # damaged, and will not load


def _digest(values: list[Any], files: Iterable[Path] = ()) -> str:
    parts = values + [(file.name, places.file_sha256(file)) for file in files]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
