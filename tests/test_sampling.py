"""The loop that samples: killed, resumed and extended runs hold each sample once and lose nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from gsm8k_nb import data, prompts, sampling
from gsm8k_nb.config import RunConfig
from gsm8k_nb.runs import Run

pytest.importorskip("torch", reason="the transformers extra is not installed")

SCRIPT = """
import json, sys
from gsm8k_nb import data, prompts, sampling
from gsm8k_nb.config import RunConfig
config = RunConfig(**json.loads(sys.argv[1]))
source, problems = data.load_for(config)
run = sampling.begin(config, source, problems)
sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
"""


def config_of(tiny_model, folder, **changes) -> RunConfig:
    values = {
        "model": str(tiny_model), "dataset": "classroom", "limit": 48, "batch_size": 8, "max_new_tokens": 48,
        "dtype": "float32", "device": "cpu", "outputs_dir": str(folder),
    }  # fmt: skip
    return RunConfig(**values | changes)


def fill(config: RunConfig) -> tuple[Run, sampling.Sampled]:
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    return run, sampling.fill(run, config, problems, prompts.prompt_for(config, problems))


def texts(run: Run) -> dict[tuple[str, int], str | None]:
    return {key: sample.text for key, sample in run.journal().samples.items()}


def test_a_killed_run_goes_on_where_it_was(tiny_model, tmp_path):  # traps.md 4.19, 4.21, 4.33
    config = config_of(tiny_model, tmp_path / "killed")
    undisturbed, _ = fill(config_of(tiny_model, tmp_path / "undisturbed"))
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, config.model_dump_json()], stdout=subprocess.DEVNULL)
    file = config.run_folder / "samples.jsonl"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= 16:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait()
    kept = file.read_bytes()
    run, done = fill(config)
    assert file.read_bytes().startswith(kept)  # nothing that was sampled is lost or written anew
    assert done.on_disk == kept.count(b"\n") >= 16
    assert done.generated > 0 and done.on_disk + done.generated == 48
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert set(Counter((row["problem_id"], row["sample_index"]) for row in rows).values()) == {1}
    assert texts(run) == texts(undisturbed)


def test_raising_limit_and_samples_extends(tiny_model, tmp_path):  # traps.md 4.34
    drawn = {"temperature": 0.8, "max_new_tokens": 8}
    first, _ = fill(config_of(tiny_model, tmp_path, limit=3, **drawn))
    before = texts(first)
    run, done = fill(config_of(tiny_model, tmp_path, limit=5, n_samples=2, **drawn))
    assert run.folder == first.folder
    assert (done.requested, done.on_disk, done.generated) == (10, 3, 7)
    assert before.items() <= texts(run).items() and len(texts(run)) == 10
    again, done = fill(config_of(tiny_model, tmp_path, limit=5, n_samples=2, **drawn))
    assert done.generated == 0 and texts(again) == texts(run)


def test_greedy_and_drawn_texts_never_share_a_run(tiny_model, tmp_path):  # traps.md 4.35
    greedy, _ = fill(config_of(tiny_model, tmp_path, limit=1, max_new_tokens=4))
    drawn, _ = fill(config_of(tiny_model, tmp_path, limit=1, max_new_tokens=4, temperature=0.9))
    assert greedy.folder != drawn.folder


def test_manifest_says_how_the_samples_were_made(tiny_model, tmp_path):  # traps.md 2.14, 2.17
    run, _ = fill(config_of(tiny_model, tmp_path, limit=2, max_new_tokens=4, temperature=0.5, top_p=0.9))
    manifest = run.read_json("manifest.json")
    assert manifest["status"] == "sampled" and manifest["engine"]["attention"] == "shared prefix"
    assert manifest["engine"]["batch_size"] == 8 and manifest["engine"]["dtype"] == "float32"
    assert manifest["engine"]["sampling"] == {
        "method": "sampling", "temperature": 0.5, "top_p": 0.9, "top_k": None, "seed": 0,
        "max_new_tokens": 4, "repetition_penalty": 1.0,
    }  # fmt: skip
    assert manifest["inputs"]["data_sha256"] and manifest["inputs"]["prompt_sha256"]
    assert 0 < manifest["tokens"]["completion"] <= 8
    assert manifest["environment"]["packages"]["torch"]


def test_a_template_that_is_not_there_is_refused(tiny_model, tmp_path):
    class Plain:
        has_chat_template = False

    with pytest.raises(ValueError, match="has no chat template; use chat_template: plain"):
        sampling.use_chat(config_of(tiny_model, tmp_path, chat_template="template"), Plain())
    assert sampling.use_chat(config_of(tiny_model, tmp_path), Plain()) is False
