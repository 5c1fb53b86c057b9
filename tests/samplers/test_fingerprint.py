"""A model's fingerprint: the same for the same content, another for every change that could move a score."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gsm8k_nb import data, sampling
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.runs import RunError
from gsm8k_nb.samplers import fingerprint, model_fingerprint

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write_shard(file, seed: int, changed: str | None = None) -> None:
    """Twelve tensors of 2 to 24 KiB; ``changed`` names one that is another."""
    draws = {f"layer.{n}": np.random.default_rng((seed, n)).normal(size=512 * (n + 1)) for n in range(12)}
    if changed:
        draws[changed] = draws[changed] + 0.01
    save_file({name: draw.astype(np.float32) for name, draw in draws.items()}, str(file))


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "final"
    folder.mkdir()
    for seed, shard in enumerate(SHARDS):
        write_shard(folder / shard, seed)
    files = {
        "model.safetensors.index.json": {"weight_map": {}},
        "config.json": {"hidden_size": 8, "transformers_version": "5.0"},
        "generation_config.json": {"eos_token_id": 2, "temperature": 0.3},
        "tokenizer.json": {"vocab": {"a": 0}},
        "tokenizer_config.json": {"bos_token": "<s>", "chat_template": "{{ messages }}"},
        "trainer_state.json": {"epoch": 1},
    }
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values))
    return folder


def of(path) -> dict[str, str] | None:
    return model_fingerprint(RunConfig(model=str(path)))


def changed_parts(before, after) -> set[str]:
    return {name for name in before | after if before.get(name) != after.get(name)}


def edit(file, **values) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("read_whole", [fingerprint.READ_WHOLE, 0], ids=["whole", "pieces"])
@pytest.mark.parametrize("tensor", ["layer.0", "layer.5", "layer.11"])
@pytest.mark.parametrize("shard", [0, 1])
def test_one_changed_tensor_is_seen_though_size_and_time_stay(checkpoint, monkeypatch, read_whole, tensor, shard):
    monkeypatch.setattr(fingerprint, "READ_WHOLE", read_whole)
    monkeypatch.setattr(fingerprint, "PIECES", 4)  # few, so that the small tensors lie between them
    before, file = of(checkpoint), checkpoint / SHARDS[shard]
    old = file.stat()
    write_shard(file, shard, changed=tensor)
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert file.stat().st_size == old.st_size
    assert changed_parts(before, of(checkpoint)) == {"weights"}
    write_shard(file, shard)
    assert of(checkpoint) == before


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.gguf"])
def test_weights_that_are_not_safetensors(tmp_path, monkeypatch, name):
    monkeypatch.setattr(fingerprint, "READ_WHOLE", 0)
    content = bytearray(np.random.default_rng(0).bytes(3_000_000))
    (tmp_path / name).write_bytes(content)
    model = tmp_path / name if name.endswith("gguf") else tmp_path
    before = of(model)
    content[1_000_000:1_020_000] = bytes(20_000)  # in the middle: the first MiB's beginning and the end stay
    (tmp_path / name).write_bytes(content)
    assert changed_parts(before, of(model)) == {"weights"}


@pytest.mark.parametrize(
    ("file", "values", "parts"),
    [
        ("config.json", {"rope_theta": 1e6}, {"config"}),
        ("generation_config.json", {"eos_token_id": [2, 7]}, {"config"}),
        ("tokenizer.json", {"vocab": {"b": 0}}, {"tokenizer"}),
        ("tokenizer_config.json", {"bos_token": "<b>"}, {"tokenizer"}),
        ("tokenizer_config.json", {"chat_template": "{{ bos }}"}, {"chat_template"}),
        # No text depends on these.
        ("generation_config.json", {"temperature": 1.0}, set()),
        ("config.json", {"transformers_version": "6.0", "_name_or_path": "elsewhere"}, set()),
        ("trainer_state.json", {"epoch": 2}, set()),
    ],
)
def test_settings_tokenizer_and_template(checkpoint, file, values, parts):
    before = of(checkpoint)
    edit(checkpoint / file, **values)
    assert changed_parts(before, of(checkpoint)) == parts


def test_files_that_come_and_go(checkpoint):
    before = of(checkpoint)
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}!")
    assert changed_parts(before, of(checkpoint)) == {"chat_template"}
    (checkpoint / "chat_template.jinja").unlink()
    (checkpoint / "adapter_model.safetensors").write_bytes(b"one")
    first = of(checkpoint)
    (checkpoint / "adapter_model.safetensors").write_bytes(b"two")
    assert changed_parts(before, first) == changed_parts(first, of(checkpoint)) == {"adapter"}
    (checkpoint / "adapter_model.safetensors").unlink()
    (checkpoint / SHARDS[1]).unlink()
    assert changed_parts(before, of(checkpoint)) == {"weights"}


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("model.pt", {"weights"}), ("consolidated.00.pth", {"weights"}), ("params.json", {"weights"}),
        ("quantize_config.json", {"weights"}), ("training_args.bin", set()), ("optimizer.pt", set()),
    ],
)  # fmt: skip
def test_what_some_engine_loads_counts_and_what_a_trainer_keeps_does_not(checkpoint, file, parts):
    before = of(checkpoint)
    (checkpoint / file).write_bytes(b"one")
    first = of(checkpoint)
    (checkpoint / file).write_bytes(b"two")
    assert changed_parts(before, first) == changed_parts(first, of(checkpoint)) == parts


def test_a_half_written_or_damaged_checkpoint_is_another_one(checkpoint, monkeypatch):
    for read_whole in (fingerprint.READ_WHOLE, 0):
        monkeypatch.setattr(fingerprint, "READ_WHOLE", read_whole)
        before, file = of(checkpoint), checkpoint / SHARDS[0]
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[:9000], b"\xff" * len(whole), b""):
            file.write_bytes(damaged)
            assert changed_parts(before, of(checkpoint)) == {"weights"}
        file.write_bytes(whole)
    (checkpoint / "config.json").write_text("[" * 100_000)
    assert changed_parts(before, of(checkpoint)) == {"config"}


def test_an_adapters_base_counts_where_it_is_a_folder_here(checkpoint, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"delta")
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(checkpoint)}))
    before = of(adapter)
    write_shard(checkpoint / SHARDS[0], 9)
    assert changed_parts(before, of(adapter)) == {"base_weights"}


def test_a_copy_elsewhere_and_another_spelling_are_the_same(checkpoint, tmp_path, monkeypatch):
    before = of(checkpoint)
    assert of(shutil.copytree(checkpoint, tmp_path / "copied")) == before
    assert of(f"{checkpoint}/") == before
    monkeypatch.chdir(tmp_path)
    assert of("final") == of("./final/") == before
    assert model_fingerprint(RunConfig(model=str(checkpoint), sampler="vllm")) == before


def test_what_is_not_known_is_none(tmp_path):
    assert of(tmp_path / "gone") is None and of("nobody/no-such-model") is None
    assert model_fingerprint(RunConfig(model="package:no_such_package/a.gguf")) is None
    assert model_fingerprint(RunConfig(sampler="replay", replay_path="x", prompt="as_stored")) is None


def test_a_hub_id_is_its_commit(tmp_path, monkeypatch):
    from huggingface_hub import constants

    commit = "a" * 40
    snapshot = tmp_path / "models--owner--name" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    for ref in ("main", "v1"):
        (tmp_path / "models--owner--name" / "refs").mkdir(exist_ok=True)
        (tmp_path / "models--owner--name" / "refs" / ref).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert of("owner/name") == {"commit": commit}
    assert model_fingerprint(RunConfig(model="owner/name", revision="v1")) == {"commit": commit}
    assert model_fingerprint(RunConfig(model="owner/name", revision="b" * 40)) == {"commit": "b" * 40}


def test_no_engine_is_imported(checkpoint):
    import subprocess

    code = (
        "import sys; from gsm8k_nb.samplers import model_fingerprint; from gsm8k_nb.config import RunConfig;"
        f"assert model_fingerprint(RunConfig(model={str(checkpoint)!r}));"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_retrained_checkpoint_in_the_same_folder_does_not_get_the_old_score(tiny_model, data_file, tmp_path):
    """The whole path: nothing is left to be sampled, and the run is refused all the same."""
    folder = shutil.copytree(tiny_model, tmp_path / "final")
    config = RunConfig(
        model=str(folder), data_path=str(data_file), device="cpu", max_new_tokens=4, limit=2,
        outputs_dir=str(tmp_path / "outputs"), chat_template="plain",
    )  # fmt: skip

    def sample():
        source, problems = data.load_for(config)
        run = sampling.begin(config, source, problems)
        return sampling.fill(run, config, problems, prompt_for(config, problems))

    assert sample().generated == 2 and sample().on_disk == 2
    weights = load_file(str(folder / "model.safetensors"))
    name = max(weights, key=lambda name: weights[name].size)
    save_file(weights | {name: weights[name] + 0.01}, str(folder / "model.safetensors"), metadata={"format": "pt"})
    with pytest.raises(RunError, match="is not the model that made the samples of .*: its weights changed since"):
        sample()
