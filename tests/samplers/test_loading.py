"""Finding a model, and the cache of converted GGUF files; no model is loaded but two tiny broken ones."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from gsm8k_nb import places
from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import SamplerError

pytest.importorskip("torch", reason="the transformers extra is not installed")
from gsm8k_nb.samplers import gguf as gguf_files  # noqa: E402
from gsm8k_nb.samplers import loading  # noqa: E402


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """A cache of its own, and in place of a conversion a copy; returns the files that were converted."""
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path / "cache"))
    done = []

    def copy(file, folder):
        done.append(file.name)
        folder.mkdir()
        shutil.copy(file, folder / "weights")

    monkeypatch.setattr(gguf_files, "_convert_gguf", copy)
    return done


def gguf(folder, tail: bytes):
    """A file whose first MiB, name and size never change."""
    folder.mkdir(exist_ok=True)
    file = folder / "model.gguf"
    file.write_bytes(bytes(1 << 20) + tail)
    return file


def test_two_files_with_other_weights_never_share_a_conversion(tmp_path, converted):
    first, second = gguf(tmp_path / "a", b"one"), gguf(tmp_path / "b", b"two")
    folders = [gguf_files.converted_gguf(file) for file in (first, second, first)]
    assert folders[0] == folders[2] != folders[1] and len(converted) == 2
    assert [(folder / "weights").read_bytes()[-3:] for folder in folders] == [b"one", b"two", b"one"]


def test_a_file_changed_in_place_is_converted_anew(tmp_path, converted):
    before = gguf_files.converted_gguf(file := gguf(tmp_path, b"one"))
    old = file.stat()
    gguf(tmp_path, b"two")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    after = gguf_files.converted_gguf(file)
    assert before != after and (after / "weights").read_bytes().endswith(b"two")


def test_another_converter_converts_anew(tmp_path, converted, monkeypatch):
    file = gguf(tmp_path, b"one")
    before = gguf_files.converted_gguf(file)
    monkeypatch.setattr(loading.transformers, "__version__", "99")
    assert gguf_files.converted_gguf(file) != before


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_conversion_that_breaks_off_is_begun_anew(tmp_path, converted, monkeypatch, error):
    file, copy = gguf(tmp_path, b"one"), gguf_files._convert_gguf

    def breaks(file, folder):
        copy(file, folder)
        (folder / "weights").write_bytes(b"half")
        raise error

    monkeypatch.setattr(gguf_files, "_convert_gguf", breaks)
    with pytest.raises(type(error)):
        gguf_files.converted_gguf(file)
    monkeypatch.setattr(gguf_files, "_convert_gguf", copy)
    assert (gguf_files.converted_gguf(file) / "weights").read_bytes() == file.read_bytes()


def test_a_conversion_that_was_killed_leaves_nothing_that_is_used(tmp_path, converted, monkeypatch):
    file = gguf(tmp_path, b"one")
    code = f"""
import os, signal
from pathlib import Path
from gsm8k_nb.samplers import gguf as gguf_files
def kill(file, folder):
    folder.mkdir()
    (folder / "weights").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
gguf_files._convert_gguf = kill
gguf_files.converted_gguf(Path({str(file)!r}))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    folder = gguf_files.converted_gguf(file)
    assert (folder / "weights").read_bytes() == file.read_bytes()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_a_file_written_to_meanwhile_is_refused(tmp_path, converted, monkeypatch):
    def copy(file, folder):
        folder.mkdir()
        gguf(tmp_path, b"two")

    monkeypatch.setattr(gguf_files, "_convert_gguf", copy)
    with pytest.raises(SamplerError, match="was written to while it was read"):
        gguf_files.converted_gguf(gguf(tmp_path, b"one"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 200, b"no model"])
def test_a_damaged_gguf_file_is_one_sentence(tmp_path, monkeypatch, content):
    monkeypatch.setenv("GSM8K_NB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(SamplerError, match="^model: .*model.gguf' cannot be read: .") as caught:
        loading.model_source(str(tmp_path / "model.gguf"), None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    ["checkpoints/step-100", "checkpoints/step-100/", "./checkpoints/step-100", "checkpoints\\step-100", "step-100/"],
)
def test_a_mistyped_folder_is_said_to_be_missing(tmp_path, monkeypatch, model):
    monkeypatch.setattr(places, "reachable", lambda: False)
    (tmp_path / "checkpoints" / "step-1000").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SamplerError, match="no such (file or )?folder") as caught:
        loading.load_model(RunConfig(model=model))
    if model.startswith(("checkpoints/", "./")):
        assert "did you mean 'checkpoints/step-1000'?" in str(caught.value)


def test_a_mistyped_folder_where_the_hub_answers(monkeypatch):
    monkeypatch.setattr(places, "reachable", lambda: True)
    text = loading.loading_failed("checkpoints/step-100", "checkpoints/step-100", OSError("404 Client Error"))
    assert "there is no such folder; if it is a hub id, check the name" in text


@pytest.mark.parametrize("name", ["a\0b/c", "x" * 5000 + "/y/z"])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(SamplerError, match="^model: ") as caught:
        loading.model_source(name, None)
    assert len(str(caught.value)) < 1000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
def test_neither_a_fifo_nor_another_file_is_opened(tmp_path):
    os.mkfifo(tmp_path / "model.gguf")
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name in ("model.gguf", "model.safetensors"):
        with pytest.raises(SamplerError, match=r"neither a file nor a folder|of files only a .gguf file holds a model"):
            loading.model_source(str(tmp_path / name), None)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\xff" * 100),
        ("model.safetensors", b""),
        ("config.json", b"{" + b'"a":{' * 100_000),
        ("config.json", b"[]"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"not JSON"),
    ],
)
def test_a_damaged_folder_is_one_sentence(tiny_model, tmp_path, file, content):
    folder = shutil.copytree(tiny_model, tmp_path / "damaged")
    (folder / file).write_bytes(content)
    with pytest.raises(SamplerError, match="^model: .* could not be loaded; it must hold a model") as caught:
        loading.load_model(RunConfig(model=str(folder), device="cpu"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory"), RuntimeError("CUDA out of memory. Tried")],
)
def test_memory_that_runs_out_while_loading(tiny_model, monkeypatch, error):
    def fails(source, **options):
        raise error

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", fails)
    with pytest.raises(SamplerError, match="could not be loaded; memory ran out: choose a smaller model"):
        loading.load_model(RunConfig(model=str(tiny_model), device="cpu"))
