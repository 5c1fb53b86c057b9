"""GGUF files as models in transformers' own format: converted once, tensor by tensor, and kept in the cache."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers
from filelock import FileLock
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers import modeling_gguf_pytorch_utils as gguf_names

from gsm8k_nb import places
from gsm8k_nb.samplers import SamplerError

DTYPE = torch.bfloat16  # half the disk and memory of float32, and finer than the blocks of common quantisations
SHARD = 64 << 20  # bytes of weights after which a file is closed
TABLES = ("token_embd.weight", "output.weight")  # of tokens: by far the largest tensors, and used as they are
ROWS = 16_384  # of a table that are unpacked at once


def converted_gguf(file: Path) -> Path:
    """The folder of a GGUF file's model in transformers' own format, converted once (bfloat16) and cached.

    The key is the file's whole content and what converts it. A folder under its name is whole: it was moved there.
    SamplerError where the file is not the one whose sha256 stands in ``FILE.sha256`` beside it.
    """
    digest = places.file_sha256(file)
    beside = file.with_name(f"{file.name}.sha256")
    if beside.exists() and (stated := beside.read_text(encoding="utf-8").split()[:1]) != [digest]:
        raise SamplerError(f"model: sha256 of {file} is {digest}, {beside.name} states {''.join(stated) or 'nothing'}")
    versions = f"{transformers.__version__}/{metadata.version('gguf')}/{DTYPE}"
    key = hashlib.sha256(f"{digest}/{versions}".encode()).hexdigest()
    folder = places.cache_folder() / "gguf" / f"{file.stem}-{key[:16]}"
    unfinished = folder.with_name(f".unfinished-{folder.name}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
        if folder.exists():
            return folder
        try:
            _convert_gguf(file, unfinished)
            if places.file_sha256(file) != digest:
                raise SamplerError(f"model: {file} was written to while it was read; try again once it is whole")
            return unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _convert_gguf(file: Path, folder: Path) -> None:
    import gguf

    # transformers parses the file three times and maps the names of its tensors once a module: here each is done once.
    # The file is read in a million slices, which take a third of the time where the array is a plain one.
    once: Any = {name: cache(getattr(gguf, name)) for name in ("GGUFReader", "get_tensor_name_map")}
    with patch.multiple(gguf, **once), patch.object(np, "memmap", partial(_plain_memmap, np.memmap)):
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        config = AutoConfig.from_pretrained(str(file.parent), gguf_file=file.name)
        with torch.device("meta"):  # its names and shapes alone
            model = AutoModelForCausalLM.from_config(config, dtype=DTYPE)
        config.architectures = [type(model).__name__]
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        weights = _save(_tensors(gguf.GGUFReader(str(file)), model), folder)
    lacking = sorted(model.state_dict().keys() - weights - model.all_tied_weights_keys.keys())
    if lacking:
        raise SamplerError(f"model: {file} lacks {len(lacking)} of the model's tensors, the first is {lacking[0]}")


def _plain_memmap(memmap: Any, *args: Any, **options: Any) -> np.ndarray:
    return memmap(*args, **options).view(np.ndarray)


def _save(tensors: Iterator[tuple[str, torch.Tensor]], folder: Path) -> set[str]:
    """Writes weights to files of about ``SHARD`` bytes, so that few are in memory at once, and returns their names."""
    files: dict[str, str] = {}
    shard: dict[str, torch.Tensor] = {}
    total = 0

    def close() -> None:
        name = f"model-{len(set(files.values())) + 1:05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        files.update(dict.fromkeys(shard, name))
        shard.clear()

    for name, tensor in tensors:
        shard[name] = tensor
        total += tensor.nbytes
        if sum(kept.nbytes for kept in shard.values()) >= SHARD:
            close()
    if shard:
        close()
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return set(files)


def _tensors(reader: Any, model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The names that transformers gives a file's tensors, and their values, unpacked one by one."""
    from gguf import dequantize

    architecture = gguf_names.read_field(reader, "general.architecture")[0]
    kind = gguf_names.TENSOR_PROCESSORS.get(architecture, gguf_names.TensorProcessor)
    processor = kind(config=model.config.to_dict())
    names = gguf_names.get_gguf_hf_weights_map(model, processor)
    parsed: dict[str, dict[str, torch.Tensor]] = {"tensors": {}}  # of experts, which a processor puts together
    for tensor in reader.tensors:
        if tensor.name in TABLES:
            pieces = (tensor.data[start : start + ROWS] for start in range(0, len(tensor.data), ROWS))
            yield names[tensor.name], torch.cat([_tensor(dequantize(piece, tensor.tensor_type)) for piece in pieces])
            continue
        weights = dequantize(tensor.data, tensor.tensor_type)
        made = processor.process(weights=weights, name=tensor.name, tensor_key_mapping=names, parsed_parameters=parsed)
        if made.name in names:
            yield names[made.name], _tensor(made.weights)
    for name, values in parsed["tensors"].items():
        yield name, values.to(DTYPE)


def _tensor(weights: np.ndarray) -> torch.Tensor:
    return torch.tensor(weights, dtype=DTYPE)
