"""The stored runs for the lessons: they replay, they are what they say, and the README states their accuracies."""

import json
import re

import pytest

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.lessons import stored
from gsm8k_nb.prompts import prompt_for

from .conftest import ROOT

STORED = ROOT / "outputs" / "stored"
RUNS = sorted(path.parent for path in STORED.glob("*/config.json"))
N_SAMPLES = 16


def facts(folder, name="config.json") -> dict:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def made_by(folder) -> RunConfig:
    """The parameters that the run was made with."""
    return RunConfig(**{name: value for name, value in facts(folder).items() if name in RunConfig.model_fields})


def stated() -> dict[str, tuple[int, int, str]]:
    """Run -> (right samples, samples, accuracy) as the README's table has them."""
    text = (STORED / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.-]+)` \|.*\| (\d+) of ([\d,]+) \| (\d+\.\d\d)% \|", text, re.MULTILINE)
    return {run: (int(right), int(samples.replace(",", "")), accuracy) for run, right, samples, accuracy in rows}


def test_two_prompts_and_two_temperatures():
    protocols = {(facts(run)["prompt"], facts(run)["temperature"]) for run in RUNS}
    assert protocols == {("wei_8shot", 0.7), ("wei_8shot", 1.0), ("zero_shot", 0.7)}
    assert set(stated()) == {run.name for run in RUNS} and len(RUNS) == 3
    assert stored.load()["run"].unique().tolist() == [f"{prompt} at {heat}" for prompt, heat in sorted(protocols)]


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_it_replays_to_the_stated_accuracy(folder, tmp_path):
    config = RunConfig(
        sampler="replay",
        dataset="classroom",
        replay_path=str(folder),
        n_samples=N_SAMPLES,
        limit=facts(folder)["limit"],
        headline_rule="flexible",
        rules="both",
        n_resamples=100,
        outputs_dir=str(tmp_path),
    )
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    done = sampling.fill(run, config, problems, prompt_for(config, problems))
    right, samples, accuracy = stated()[folder.name]
    assert (done.requested, done.generated, done.failed) == (len(problems) * N_SAMPLES, samples, 0)
    summary.score_run(run, config, problems)
    metrics = summary.summarise(run, config).metrics
    flexible = metrics["rules"]["flexible"]
    assert flexible["n"] == samples and flexible["correct"] == right
    assert f"{100 * flexible['accuracy']:.2f}" == accuracy
    assert metrics["protocol"]["temperature"] == facts(folder)["temperature"]  # its own, not the replay's
    assert metrics["health"]["truncated"] is not None


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_it_is_what_it_says(folder):
    config, manifest = made_by(folder), facts(folder, "manifest.json")
    problems = data.load("classroom")
    inputs = facts(folder)["inputs"]
    assert inputs["data_sha256"] == data.open_dataset("classroom").sha256
    assert inputs["prompt_sha256"] == prompt_for(config, problems).sha256
    assert manifest["inputs"] == inputs and manifest["status"] == "sampled"
    assert folder.name == facts(folder)["run_id"] == manifest["run_id"] == config.run_id
    assert (config.n_samples, config.sampler) == (N_SAMPLES, "transformers")
    assert manifest["engine"]["sampling"]["temperature"] == config.temperature
    assert facts(folder, "prompt.json")["problem_id"] in {problem.id for problem in problems}


def test_nothing_private_and_small():
    files = [path for path in STORED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    for path in files:
        if path.suffix in (".json", ".md"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"/(home|root|tmp|work|mnt|Users)\b|[A-Z]:\\\\|@\w+\.\w+|token[\"']?: ", text), path
