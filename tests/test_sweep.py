"""The sweep, on replays of stored completions: a failing run in the middle, and the comparison at the end."""

import json
import re

import nbformat
import pytest
import yaml

from gsm8k_nb import sweep
from gsm8k_nb.__main__ import main
from gsm8k_nb.config import ConfigError, RunConfig

from .conftest import write_jsonl


@pytest.fixture
def files(tmp_path, replay_config, problems):
    """Parameter files of three replays: two that work, and between them one whose completions are not there."""
    better = tmp_path / "better.jsonl"
    rows = [
        {"problem_id": problem.id, "sample_index": 0, "text": problem.solution, "finish_reason": "stop"}
        for problem in problems
    ]
    write_jsonl(better, rows)
    made = []
    for name, source in {"a": replay_config.replay_path, "b": str(tmp_path / "gone.jsonl"), "c": str(better)}.items():
        values = replay_config.model_dump(exclude_defaults=True, exclude_none=True)
        made.append(tmp_path / f"{name}.yaml")
        made[-1].write_text(yaml.safe_dump(values | {"model": f"stored-{name}", "replay_path": source}))
    return [str(file) for file in made]


def test_a_failing_run_stops_no_other_and_the_rest_are_compared(files, tmp_path, capsys):
    out = tmp_path / "sw{ee}p"
    assert main(["sweep", *files, "--set", "n_resamples=200", "--out-dir", str(out)]) == 1
    printed = capsys.readouterr().out
    assert [line[:5] for line in printed.splitlines()[:3]] == ["[1/3]", "[2/3]", "[3/3]"]
    rows = printed[printed.index("\nfile ") :].splitlines()[2:5]
    assert re.search(r"a\.yaml +\S+stored-a\S+ +unverified .* = 0\.5000 flexible, 0\.2500 strict \(####\)$", rows[0])
    assert re.search(r"b\.yaml +\S+b\.ipynb +failed: FileNotFoundError: replay_path: .*gone\.jsonl", rows[1])
    assert re.search(r"c\.yaml +\S+stored-c\S+ +unverified .* = 1\.0000 flexible, 1\.0000 strict \(####\)$", rows[2])
    for name in ("a", "b", "c", "compare"):  # the failed one's notebook is kept, with its error
        book = nbformat.read(out / f"{name}.ipynb", as_version=4)
        assert bool(book.metadata.papermill.exception) is (name == "b")
    assert "stored-c" in (out / "compared" / "conclusions.md").read_text()
    [config] = [json.loads(file.read_text()) for file in (tmp_path / "outputs").glob("stored-a*/config.json")]
    assert config["n_resamples"] == 200  # an override reached the run


def test_on_ray_it_does_the_same(files, tmp_path, capsys):
    sampler = pytest.importorskip("gsm8k_nb.samplers.ray")
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    sampler.connect(None)
    try:
        assert main(["sweep", files[1], files[2], "--ray", "--out-dir", str(tmp_path / "sweep")]) == 1
    finally:
        ray.shutdown()
    printed = capsys.readouterr().out
    assert "failed: FileNotFoundError: replay_path" in printed and "= 1.0000" in printed and "compared" not in printed


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (["n_sample=8"], "unknown parameter 'n_sample': did you mean 'n_samples'?"),
        (["limit"], "--set limit: must be NAME=VALUE"),
        (["limit=-1"], "a.yaml: parameter 'limit'"),
        (["prompt={"], "is no YAML value"),
    ],
)
def test_nothing_is_run_where_a_parameter_is_at_fault(files, tmp_path, monkeypatch, capsys, settings, fault):
    monkeypatch.setattr(sweep, "execute", never)
    arguments = [word for text in settings for word in ("--set", text)]
    assert main(["sweep", *files, *arguments, "--out-dir", str(tmp_path / "sweep")]) == 2
    assert fault in capsys.readouterr().err and not (tmp_path / "sweep").exists()


def test_faults_of_all_files_are_said_at_once(files, tmp_path):
    for name, text in {"no-mapping": "- 1", "broken": "a: [", "misspelt": "temprature: 1"}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    bad = [str(tmp_path / f"{name}.yaml") for name in ("no-mapping", "broken", "misspelt", "missing")]
    with pytest.raises(ConfigError) as raised:
        sweep.plan([*files, files[0], *bad], [], tmp_path)
    lines = str(raised.value).splitlines()
    assert len(lines) == 5 and all(name in line for name, line in zip([files[0], *bad], lines, strict=True))
    assert "the same run as" in lines[0] and "did you mean 'temperature'" in lines[3]


def test_overrides_are_yaml_scalars():
    settings = ["limit=50", "temperature=1e-1", "shuffle=true", "model=org/name", "top_k=null"]
    values = sweep.overrides(settings)
    assert values == {"limit": 50, "temperature": "1e-1", "shuffle": True, "model": "org/name", "top_k": None}
    assert RunConfig.checked(values).temperature == 0.1


def test_notebooks_of_files_of_one_name_are_kept_apart(tmp_path):
    for place, limit in (("x", 1), ("y", 2)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "same.yaml").write_text(f"model: org/{place}\nlimit: {limit}\n")
    jobs = sweep.plan([str(tmp_path / place / "same.yaml") for place in "xy"], [], tmp_path)
    assert jobs[0].notebook.name == "same.ipynb" and jobs[1].notebook.name == f"same-{jobs[1].config.run_id[-8:]}.ipynb"


def test_a_ray_sweep_of_ray_runs_is_refused(tmp_path, capsys):
    (tmp_path / "ray.yaml").write_text("sampler: ray\nmodel: org/name\n")
    assert main(["sweep", str(tmp_path / "ray.yaml"), "--ray"]) == 2
    assert "has workers of its own; run it without --ray" in capsys.readouterr().err


def test_an_interrupt_says_how_to_go_on(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "execute", interrupted)
    assert main(["sweep", *files[:2], "--out-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "goes on where it was" in printed.err and printed.out.count("failed: not run: interrupted") == 2


def never(*arguments):
    raise AssertionError("a notebook was run")


def interrupted(*arguments):
    raise KeyboardInterrupt
