"""GGUF files as models: the same weights as transformers reads from them, whatever the quantisation."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from gsm8k_nb.config import SMOLLM2
from gsm8k_nb.samplers import SamplerError
from gsm8k_nb.samplers.fingerprint import local_model

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")
gguf = pytest.importorskip("gguf", reason="the transformers extra is not installed")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from gsm8k_nb.samplers.gguf import converted_gguf  # noqa: E402

BLOCKS = 2


@pytest.fixture(scope="module")
def bundled():
    return gguf.GGUFReader(str(local_model(SMOLLM2)))


def write(folder: Path, reader, kind: str, without: str = "") -> Path:
    """The first blocks of the bundled model, quantised anew."""
    quantisation = gguf.GGMLQuantizationType[kind]
    file = folder / f"small.{kind}.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = BLOCKS if name == "llama.block_count" else field.contents()
        writer.add_key_value(name, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        if tensor.name.startswith("blk.") and int(tensor.name.split(".")[1]) >= BLOCKS or tensor.name == without:
            continue
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        kept = quantisation if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, gguf.quantize(values, kept), raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_weights_are_those_that_transformers_reads(kind, bundled, tmp_path):
    file = write(tmp_path, bundled, kind)
    folder = converted_gguf(file)
    ours = AutoModelForCausalLM.from_pretrained(folder)
    theirs = AutoModelForCausalLM.from_pretrained(str(tmp_path), gguf_file=file.name, dtype=torch.bfloat16)
    assert ours.dtype == torch.bfloat16 and ours.config.num_hidden_layers == BLOCKS
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, values in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], values), name
    assert ours.generation_config.eos_token_id == theirs.generation_config.eos_token_id
    text = "Natalia sold 48 clips."
    tokenizers = [AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)]
    assert tokenizers[0](text).input_ids == tokenizers[1](text).input_ids
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]


def test_a_file_is_checked_against_the_sha256_beside_it(bundled, tmp_path):
    file = write(tmp_path, bundled, "Q8_0")
    beside = tmp_path / f"{file.name}.sha256"
    beside.write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    whole = converted_gguf(file)
    shutil.rmtree(whole)
    beside.write_text(f"{'0' * 64}  {file.name}\n")
    with pytest.raises(SamplerError, match=f"model: sha256 of .*, {beside.name} states 0000"):
        converted_gguf(file)
    assert not whole.exists()


def test_a_file_that_lacks_a_tensor_is_refused_by_its_name(bundled, tmp_path):
    file = write(tmp_path, bundled, "Q8_0", without="blk.1.ffn_up.weight")
    with pytest.raises(
        SamplerError, match="lacks 1 of the model's tensors, the first is .*layers.1.mlp.up_proj.weight"
    ):
        converted_gguf(file)
