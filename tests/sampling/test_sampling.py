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
from tests.warm import python

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


def test_a_killed_run_goes_on_where_it_was(tiny_model, tmp_path):
    config = config_of(tiny_model, tmp_path / "killed")
    undisturbed, _ = fill(config_of(tiny_model, tmp_path / "undisturbed"))
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, config.model_dump_json()], stdout=subprocess.DEVNULL)
    file = config.run_folder / "samples.jsonl"
    wait_for_rows(config, process, 16)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = file.read_bytes()
    run, done = fill(config)
    assert file.read_bytes().startswith(kept)  # nothing that was sampled is lost or written anew
    assert done.on_disk == kept.count(b"\n") >= 16
    assert done.generated > 0 and done.on_disk + done.generated == 48
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert set(Counter((row["problem_id"], row["sample_index"]) for row in rows).values()) == {1}
    assert texts(run) == texts(undisturbed)


KILLS = """
import json, os, random, signal, sys, time
import torch, transformers
from gsm8k_nb import data, prompts, sampling
from gsm8k_nb.config import RunConfig
from gsm8k_nb.samplers import transformers as loaded
torch.set_num_threads(1)
config = RunConfig(**json.loads(sys.argv[1]))
source, problems = data.load_for(config)
draw = random.Random(5)
for kill in range(20):
    child = os.fork()  # cheaper than 20 imports of torch; nothing has run in this process yet
    if not child:
        sys.stdout = open(os.devnull, "w")
        run = sampling.begin(config, source, problems)
        sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
        os._exit(0)
    time.sleep(draw.uniform(0, float(sys.argv[2])))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    file = config.run_folder / "samples.jsonl"
    print(file.read_bytes().count(b"\\n") if file.exists() else 0)
"""


def test_twenty_kills_lose_and_double_nothing(tiny_model, tmp_path):
    started = time.monotonic()
    undisturbed, _ = fill(config_of(tiny_model, tmp_path / "undisturbed"))
    seconds = time.monotonic() - started
    config = config_of(tiny_model, tmp_path / "killed")
    command = [*python(), "-c", KILLS, config.model_dump_json(), str(seconds)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = [int(line) for line in out.split()]
    assert len(counts) == 20 and counts == sorted(counts)  # rows are only ever added
    run, done = fill(config)
    rows = [json.loads(line) for line in run.samples_file.read_text().splitlines()]
    assert Counter((row["problem_id"], row["sample_index"]) for row in rows) == Counter(texts(undisturbed).keys())
    assert texts(run) == texts(undisturbed)
    assert done.damaged_rows == 0 and done.requested == 48


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_says_how_to_go_on(tiny_model, tmp_path, number):
    config = config_of(tiny_model, tmp_path, max_new_tokens=400)
    process = subprocess.Popen(
        [*python(), "-c", SCRIPT, config.model_dump_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_rows(config, process, 8)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode != 0 and "KeyboardInterrupt" in err
    assert f"Interrupted. What was finished is in {config.run_id}/samples.jsonl" in out
    manifest = Run(config.run_folder).read_json("manifest.json")
    assert manifest["status"] == manifest["sessions"][-1]["status"] == "interrupted"
    raw = config.run_folder.joinpath("samples.jsonl").read_bytes()
    assert raw.endswith(b"\n") and raw.count(b"\n") < 48


def wait_for_rows(config: RunConfig, process: subprocess.Popen, n: int) -> None:
    file = config.run_folder / "samples.jsonl"
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_bytes().count(b"\n") >= n):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.RLIM_INFINITY))
sampling.fill"""


def test_a_full_disk_is_a_clear_error_and_resumes(tiny_model, tmp_path):
    config = config_of(tiny_model, tmp_path)
    command = [*python(), "-c", SCRIPT.replace("sampling.fill", FULL_DISK), config.model_dump_json()]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert "RunError: cannot write to" in last and "What was sampled before is safe; make room there" in last
    kept = config.run_folder.joinpath("samples.jsonl").read_bytes()
    assert 0 < len(kept) <= 8000 and kept.endswith(b"\n")
    run, done = fill(config)
    assert done.on_disk == kept.count(b"\n") and done.on_disk + done.generated == 48
    assert run.samples_file.read_bytes().startswith(kept)


def test_a_dry_run_asks_for_nothing(tiny_model, tmp_path):
    config = config_of(tiny_model, tmp_path, limit=3, dry_run=True, model=str(tmp_path / "not there"))
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    form = prompts.prompt_for(config, problems)
    plan = sampling.plan(run, config, problems, form)
    assert (plan.samples, plan.on_disk, plan.completion_tokens) == (3, 0, 3 * 48)
    done = sampling.fill(run, config, problems, form)
    assert (done.requested, done.generated, done.not_asked) == (3, 0, 3)
    assert not run.samples_file.exists()


def test_first_samples_are_looked_at_and_kept(tiny_model, tmp_path, capsys):
    config = config_of(tiny_model, tmp_path, limit=16, smoke=2, max_new_tokens=6)
    run, done = fill(config)
    out = capsys.readouterr().out
    assert "Look before you wait: 2 of the first 2 completions" in out  # random weights answer nothing
    findings = run.read_json("smoke.json")["findings"]
    assert {"cut", "no_form"} <= {finding["name"] for finding in findings}
    first = [json.loads(line)["text"] for line in run.samples_file.read_text().splitlines()[:2]]
    assert sorted(findings[0]["texts"]) == sorted(first)  # the probe's samples are the run's: nothing is asked twice
    assert done.generated == 16 == len(texts(run))


def test_raising_limit_and_samples_extends(tiny_model, tmp_path):
    drawn = {"temperature": 0.8, "max_new_tokens": 8}
    first, _ = fill(config_of(tiny_model, tmp_path, limit=3, **drawn))
    before = texts(first)
    run, done = fill(config_of(tiny_model, tmp_path, limit=5, n_samples=2, **drawn))
    assert run.folder == first.folder
    assert (done.requested, done.on_disk, done.generated) == (10, 3, 7)
    assert before.items() <= texts(run).items() and len(texts(run)) == 10
    again, done = fill(config_of(tiny_model, tmp_path, limit=5, n_samples=2, **drawn))
    assert done.generated == 0 and texts(again) == texts(run)


def test_greedy_and_drawn_texts_never_share_a_run(tiny_model, tmp_path):
    greedy, _ = fill(config_of(tiny_model, tmp_path, limit=1, max_new_tokens=4))
    drawn, _ = fill(config_of(tiny_model, tmp_path, limit=1, max_new_tokens=4, temperature=0.9))
    assert greedy.folder != drawn.folder


def test_manifest_says_how_the_samples_were_made(tiny_model, tmp_path):
    run, _ = fill(config_of(tiny_model, tmp_path, limit=2, max_new_tokens=4, temperature=0.5, top_p=0.9))
    manifest = run.read_json("manifest.json")
    assert manifest["status"] == "sampled" and manifest["engine"]["attention"] == "shared prefix"
    assert manifest["engine"]["batch_size"] == 8 and manifest["engine"]["dtype"] == "float32"
    assert manifest["engine"]["sampling"] == {
        "method": "sampling", "temperature": 0.5, "top_p": 0.9, "top_k": None, "min_p": None, "seed": 0,
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
