import sys

import numpy as np
import pytest
import yaml

from gsm8k_nb.config import NOT_GENERATION, CompareConfig, ConfigError, RunConfig
from gsm8k_nb.places import find_path

from .conftest import ROOT


def refused(**values) -> str:
    with pytest.raises(ConfigError) as caught:
        RunConfig.checked(values)
    return str(caught.value)


def test_misspelt_name_is_refused_with_the_nearest_right_one():  # traps.md 4.15
    message = refused(temprature=0.5)
    assert "temprature" in message and "'temperature'" in message
    assert "model, revision" in refused(zzz=1)  # nothing is near: all are named


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_samples", "many", "whole number"),
        ("n_samples", 1.5, "whole number"),
        ("n_samples", 0, "greater than or equal to 1"),
        ("limit", -1, "greater than or equal to 1"),
        ("limit", 0, "greater than or equal to 1"),
        ("limit", [3], "integer"),  # traps.md 4.12
        ("limit", (3,), "integer"),  # traps.md 4.7: no parameter is a tuple
        ("limit", {3: 4}, "integer"),  # traps.md 4.9: nor a dict
        ("model", {"a"}, "text"),
        ("split", "train", "exemplars come from train"),
        ("prompt", "wei8shot", "did you mean 'wei_8shot'"),
        ("temperature", float("nan"), "finite"),  # traps.md 4.10
        ("temperature", "inf", "finite"),
        ("temperature", -0.1, "greater than or equal to 0"),
        ("top_p", 0, "greater than 0"),
        ("shuffle", "true", "true or false"),  # traps.md 4.3
        ("n_samples", True, "a number"),  # traps.md 4.4: YAML 1.1's "yes" and "on"
        ("model", False, "text"),  # traps.md 4.4: an unquoted "no"
        ("model", 123, "-r"),  # traps.md 4.5
        ("model", "", "at least 1 character"),
        ("device", "gpu", "cuda:N"),
        ("sampler", "repaly", "did you mean 'replay'"),
        ("headline_rule", "strikt", "did you mean 'strict'"),
    ],
)
def test_bad_value_is_refused_by_name(name, value, said):
    message = refused(**{name: value})
    assert name in message and said in message
    assert "pydantic" not in message


def test_text_numbers_are_read_by_the_field():  # traps.md 4.1
    config = RunConfig.checked({"temperature": "1e-1", "n_samples": "1E+1", "max_new_tokens": "1.5e3"})
    assert (config.temperature, config.n_samples, config.max_new_tokens) == (0.1, 10, 1500)


@pytest.mark.parametrize("spelling", ["None", "null", "", "~", None])
def test_missing_is_one_thing_however_spelt(spelling):  # traps.md 4.2
    assert RunConfig.checked({"limit": spelling, "revision": spelling}).limit is None


def test_numpy_scalars_are_plain_numbers():  # traps.md 4.8
    config = RunConfig.checked({"limit": np.int64(4), "top_p": np.float64(0.5)})
    assert type(config.limit) is int and type(config.top_p) is float


def test_text_round_trips_unchanged():  # traps.md 4.13
    text = 'a "b" \\ \n ü 🙂'
    assert RunConfig.checked({"protocol_label": text, "sampler": "replay", "replay_path": "x"}).protocol_label == text


def test_the_marker_survives_yaml_where_it_is_quoted():  # traps.md 4.6
    asked = {"sampler": "replay", "replay_path": "x"}
    quoted = yaml.safe_load('protocol_label: "#### first, Question: kept"')
    assert RunConfig.checked(quoted | asked).protocol_label == "#### first, Question: kept"
    bare = yaml.safe_load("protocol_label: #### first")  # a comment to YAML: the label is missing, and not "####"
    assert RunConfig.checked(bare | asked).protocol_label is None
    for file in (ROOT / "params").glob("**/*.yaml"):
        for line in file.read_text().splitlines():
            assert "#" not in line.strip()[1:].split('"')[0] or line.strip().startswith("#"), line


def test_from_parameters_takes_a_notebook_namespace():
    namespace = {
        "__name__": "__main__", "_i1": "x", "In": ["", "x = 1"], "Out": {}, "sys": sys, "RunConfig": RunConfig,
        "limit": 4, "prompt": "zero_shot", "problems": [object()],
    }  # fmt: skip
    assert RunConfig.from_parameters(namespace).limit == 4
    for injected in (0.5, "text", None, [1], {"a": 1}):
        with pytest.raises(ConfigError, match="temperature"):
            RunConfig.from_parameters(namespace | {"temprature": injected})


def test_names_that_look_like_the_notebooks_own_are_refused():
    for name, value in (("_limit", 3), ("In", 2), ("prompts", "x"), ("data", "classroom")):
        with pytest.raises(ConfigError, match=name):
            RunConfig.from_parameters({name: value})


def test_combinations():
    assert "copies of one text" in refused(n_samples=4)
    assert "takes 8 exemplars, got 3" in refused(prompt="wei_8shot", shots=3)
    assert "replay_path" in refused(sampler="replay")
    assert "replay_column" in refused(replay_column="x")
    assert "as_stored" in refused(prompt="as_stored")
    assert "as_stored" in refused(sampler="replay", replay_path="x", prompt="wei_8shot")
    assert RunConfig(sampler="replay", replay_path="x").prompt == "as_stored"
    assert "needs a name" in refused(model="  ")


def test_every_fault_is_named_at_once():
    message = refused(limit=-1, temprature=1, split="train")
    assert all(name in message for name in ("limit", "temprature", "split"))


OTHER = {
    "model": "a/b", "revision": "main", "dataset": "classroom", "dataset_config": "socratic", "data_path": "x.jsonl",
    "train_path": "t.jsonl", "prompt": "wei_8shot", "chat_template": "plain", "temperature": 0.7, "top_p": 0.9,
    "top_k": 5, "max_new_tokens": 9, "dtype": "float32", "device": "cpu", "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_a_generation_field_changes_the_run(name, value):  # traps.md 4.34, 4.35
    assert RunConfig(**{name: value}).run_id != RunConfig().run_id


def test_other_fields_extend_or_reread_the_same_run():
    same = {"n_samples": 8, "limit": 3, "shuffle": True, "batch_size": 2, "confidence": 0.9, "outputs_dir": "x"}
    assert set(same) < NOT_GENERATION
    base = RunConfig(temperature=0.7)
    for name, value in same.items():
        assert RunConfig(temperature=0.7, **{name: value}).run_id == base.run_id, name


def test_run_folder_is_a_safe_name():  # traps.md 4.24
    config = RunConfig(model="org/We{ird} näme:v1/")
    assert config.run_id.startswith("We-ird-n-me-v1-zero_shot-")


def test_every_parameter_file_passes():
    files = sorted((ROOT / "params").glob("*.yaml"))
    assert {file.stem for file in files} >= {
        "smollm2", "llama", "qwen", "gemma", "mistral", "cobbe-6b-finetuned", "cobbe-6b-verifier",
        "cobbe-175b-finetuned", "cobbe-175b-verifier",
    }  # fmt: skip
    for file in files:
        RunConfig.checked(yaml.safe_load(file.read_text()))
    for file in (ROOT / "params" / "paper").glob("*.yaml"):
        CompareConfig.checked(yaml.safe_load(file.read_text()))


def test_missing_file_names_parameter_and_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="data_path.*nowhere.jsonl"):
        find_path("nowhere.jsonl", "data_path")
    (tmp_path / "here.jsonl").write_text("x")
    assert find_path("here.jsonl", "data_path") == (tmp_path / "here.jsonl").resolve()
    assert find_path("pyproject.toml", "data_path") == ROOT / "pyproject.toml"  # from the repository, too
