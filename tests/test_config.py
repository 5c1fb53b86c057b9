import os
import re
import shutil
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from gsm8k_nb.config import NOT_GENERATION, ConfigError, RunConfig, read_parameters
from gsm8k_nb.config.comparison import CompareConfig
from gsm8k_nb.places import find_path
from gsm8k_nb.protocol import protocol_of
from gsm8k_nb.runs import Inputs

from .conftest import ROOT


def refused(**values) -> str:
    with pytest.raises(ConfigError) as caught:
        RunConfig.checked(values)
    return str(caught.value)


def test_misspelt_name_is_refused_with_the_nearest_right_one():
    message = refused(temprature=0.5)
    assert "temprature" in message and "'temperature'" in message
    assert "'zzz': the parameters cell" in refused(zzz=1)  # nothing is near


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("best_of", None), ("guided_json", None), ("tokenizer", None), ("logprobs", None), ("x", None),
        ("max_tokens", "max_new_tokens"), ("num_fewshot", "shots"), ("nsamples", "n_samples"), ("Limit", "limit"),
        ("do_sample", "temperature"), ("promt", "prompt"), ("backend", "sampler"),
    ],
)  # fmt: skip
def test_a_hint_is_given_only_where_a_name_is_near(name, right):
    message = refused(**{name: 1})
    assert (f"did you mean {right!r}?" in message) if right else "did you mean" not in message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_samples", "many", "whole number"),
        ("n_samples", 1.5, "whole number"),
        ("n_samples", 0, "greater than or equal to 1"),
        ("limit", -1, "greater than or equal to 1"),
        ("limit", 0, "greater than or equal to 1"),
        ("limit", [3], "whole number"),
        ("limit", (3,), "whole number"),  # no parameter is a tuple
        ("limit", {3: 4}, "whole number"),  # nor a dict
        ("limit", "1e400", "finite"),
        ("model", {"a"}, "text"),
        ("split", "train", "exemplars come from train"),
        ("prompt", "wei8shot", "did you mean 'wei_8shot'"),
        ("temperature", float("nan"), "finite"),
        ("temperature", "inf", "finite"),
        ("temperature", -0.1, "greater than or equal to 0"),
        ("top_p", 0, "greater than 0"),
        ("shuffle", "maybe", "true or false"),
        ("shuffle", 2, "true or false"),
        ("shuffle", "2", "true or false"),
        ("shuffle", 0.5, "true or false"),
        ("shuffle", None, "true or false"),
        ("n_samples", True, "a number"),  # YAML 1.1's "yes" and "on"
        ("model", False, "text"),  # an unquoted "no"
        ("model", 123, "-r"),
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


def test_text_numbers_are_read_by_the_field():
    config = RunConfig.checked({"temperature": "1e-1", "n_samples": "1E+1", "max_new_tokens": "1.5e3"})
    assert (config.temperature, config.n_samples, config.max_new_tokens) == (0.1, 10, 1500)


@pytest.mark.parametrize("config", [RunConfig, CompareConfig])
def test_a_boolean_is_read_however_it_is_spelt(config):
    name = "shuffle" if config is RunConfig else "allow_unlike"
    for spelling in ("true", "True", "TRUE", " yes", "on", "1", 1, True, np.bool_(True)):
        assert getattr(config.checked({name: spelling}), name) is True
    for spelling in ("false", "False", "no", "off", "0", 0, False, np.bool_(False)):
        assert getattr(config.checked({name: spelling}), name) is False
    for spelling in ("maybe", "2", 2, "", [True]):
        with pytest.raises(ConfigError, match=f"{name}.*true or false"):
            config.checked({name: spelling})


@pytest.mark.parametrize("spelling", ["None", "null", "", "~", None])
def test_missing_is_one_thing_however_spelt(spelling):
    assert RunConfig.checked({"limit": spelling, "revision": spelling}).limit is None


def test_numpy_scalars_are_plain_numbers():
    config = RunConfig.checked({"limit": np.int64(4), "top_p": np.float64(0.5)})
    assert type(config.limit) is int and type(config.top_p) is float


def test_text_round_trips_unchanged():
    text = 'a "b" \\ \n ü 🙂'
    assert RunConfig.checked({"protocol_label": text, "sampler": "replay", "replay_path": "x"}).protocol_label == text


def test_the_marker_survives_yaml_where_it_is_quoted():
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


# A notebook as its kernel knows it: the sources of the cells that were run, the checking cell last.
CELL = 'model: str = "a/b"  # a model\nlimit: int = 4  # so many\ntemperature: float = 0.0  # 0 is greedy\n'
CHECK = "config = RunConfig.from_parameters(globals())"


def after(*cells: str) -> dict:
    """The namespace of a kernel in which these cells were run, an error ending a cell and not the rest."""
    namespace: dict = {"__name__": "__main__", "In": [""], "RunConfig": RunConfig}
    for cell in cells:
        namespace["In"].append(cell)
        try:
            exec(cell, namespace)
        except ConfigError as error:
            namespace["error"] = error
    return namespace


def checked_after(*cells: str) -> RunConfig:
    """What the last cell's check gives; its ConfigError where it refuses."""
    namespace = after(*cells, "config = None")
    return RunConfig.from_parameters(namespace)


@pytest.mark.parametrize(
    "left",
    [
        "x = 3", "for i in range(9): pass", "t0 = 12.5", "acc = 0.5", "import json\nfrom decimal import Decimal",
        "def limits(): return 3", "a, b = 1, 2", "numbers = [i for i in range(3)]", "name: str = 'left'",
        "if True:\n    x = 3", "x = y = 3", "x = 1\nx += 1", "class Config: pass", "# Notes\nx = 3", "d = {'x': 1}",
    ],
)  # fmt: skip
def test_what_a_person_left_in_the_kernel_is_passed_over(left, capsys):
    assert checked_after(CELL, CHECK, left, CELL).limit == 4  # Run All for the second time
    assert checked_after(CELL, CHECK, left).limit == 4  # the check alone, again
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wrong", ["temprature", "modle", "n_sample"])
def test_a_corrected_typo_is_accepted(wrong, capsys):
    cell = CELL + f"{wrong}: float = 1\n"
    with pytest.raises(ConfigError, match=wrong):
        checked_after(cell)
    assert checked_after(cell, CHECK, CELL).limit == 4
    injected = f"# Parameters\n{wrong} = 1\nlimit = 2\n"  # papermill's, in a notebook opened afterwards
    with pytest.raises(ConfigError, match=wrong):
        checked_after(CELL, injected)
    assert checked_after(CELL, injected, CHECK, CELL, "# Parameters\nlimit = 3\n").limit == 3
    assert checked_after(CELL, injected, CHECK, "# Parameters\nlimit = 3\n").limit == 3  # that cell alone, again
    assert checked_after(CELL, injected, CHECK, CELL).limit == 4  # the cell deleted
    assert capsys.readouterr().out == ""


def test_parameters_in_two_cells_are_all_checked():
    first, second = 'model: str = "a/b"\nlimti: int = 4\n', "temperature: float = 0.5\n"
    with pytest.raises(ConfigError, match="unknown parameter 'limti': did you mean 'limit'"):
        checked_after(first, second)
    with pytest.raises(ConfigError, match="limti"):
        checked_after(second, first)
    right = first.replace("limti", "limit")
    assert checked_after(first, second, CHECK, right, second, CHECK).limit == 4
    assert checked_after(first, second, CHECK, right).temperature == 0.5


def test_a_name_that_is_nearly_a_parameters_is_told_of(capsys):
    assert checked_after(CELL, "temprature = 0.5").temperature == 0
    assert "passed over: 'temprature'" in (said := capsys.readouterr().out) and "'temperature'" in said


def test_a_parameter_set_in_a_cell_of_its_own_counts():
    assert checked_after(CELL, "limit = 2").limit == 2
    assert checked_after(CELL, "seed = 7").seed == 7  # one that this notebook's cell leaves out


@pytest.mark.parametrize("value", ["object()", "print", "__import__('pathlib').Path('x')", "3j"])
def test_a_stated_parameter_that_is_no_plain_value_is_refused(value):
    with pytest.raises(ConfigError, match="'model': must be text"):
        checked_after(CELL + f"model = {value}\n")


def test_no_known_cell_means_that_every_name_counts():
    with pytest.raises(ConfigError, match="temprature"):
        checked_after("model = 'a/b'\ntemprature = 1")
    with pytest.raises(ConfigError, match="temprature"):
        RunConfig.from_parameters({"In": ["", "%%bash\n(", 3, "x" * 10], "temprature": 1})


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
    "model": "a/b", "revision": "main", "dataset": "classroom", "dataset_config": "socratic", "prompt": "wei_8shot",
    "chat_template": "plain", "temperature": 0.7, "top_p": 0.9, "top_k": 5, "max_new_tokens": 9, "dtype": "float32",
    "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_a_generation_field_changes_the_run(name, value):
    assert RunConfig(**{name: value}).run_id != RunConfig().run_id


def test_of_a_file_its_content_names_the_run(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text("1")
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "b.jsonl").write_text("1")
    (tmp_path / "c.jsonl").write_text("2")
    monkeypatch.chdir(tmp_path)
    for name in ("data_path", "train_path"):
        ids = [RunConfig(**{name: path}).run_id for path in ("a.jsonl", "./a.jsonl", str(tmp_path / "moved/b.jsonl"))]
        assert len(set(ids)) == 1
        assert RunConfig(**{name: "c.jsonl"}).run_id not in {ids[0], RunConfig().run_id}


def test_of_a_replayed_folder_its_samples_name_the_run(tmp_path):
    def run_id(path):
        return RunConfig(sampler="replay", replay_path=str(path), protocol_label="x").run_id

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "samples.jsonl").write_text("1")
    assert run_id(tmp_path / "a") == run_id(tmp_path / "b") == run_id(tmp_path / "b" / "samples.jsonl")
    (tmp_path / "b" / "samples.jsonl").write_text("other")
    assert run_id(tmp_path / "a") != run_id(tmp_path / "b")


def test_device_and_address_name_no_run_and_a_public_service_does():
    assert RunConfig(device="cpu").run_id == RunConfig(device="cuda:1").run_id == RunConfig().run_id
    assert RunConfig(model="./org/final/").run_id == RunConfig(model="org/final").run_id

    def at(url):
        return RunConfig(sampler="openai", model="m", base_url=url).run_id

    own = ["http://localhost:8000/v1", "http://localhost:8001/v1", "http://127.0.0.1:1/v1", "http://node17:80/v1"]
    assert len({at(url) for url in own}) == 1
    assert len({at(own[0]), at("https://api.together.xyz/v1"), at("https://openrouter.ai/api/v1")}) == 3


def test_a_folder_that_0_1_0_named_is_used(tmp_path):
    (tmp_path / "x.jsonl").write_text("1")
    values = {"model": "m", "data_path": "tests/none.jsonl", "device": "cpu", "outputs_dir": str(tmp_path)}
    earlier = tmp_path / "m-zero_shot-a148ddbb"
    assert RunConfig(**values).run_folder.name != earlier.name
    earlier.mkdir()
    assert RunConfig(**values).run_folder == earlier
    RunConfig(**values).run_folder.with_name(RunConfig(**values).run_id).mkdir()
    assert RunConfig(**values).run_folder.name == RunConfig(**values).run_id


def test_other_fields_extend_or_reread_the_same_run():
    same = {"n_samples": 8, "limit": 3, "shuffle": True, "batch_size": 2, "confidence": 0.9, "outputs_dir": "x"}
    assert set(same) < NOT_GENERATION
    base = RunConfig(temperature=0.7)
    for name, value in same.items():
        assert RunConfig(temperature=0.7, **{name: value}).run_id == base.run_id, name


def test_run_folder_is_a_safe_name():
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
    for name in ("x" * 300, "x\0y", "~no-such-person/x", "x/" * 3000):
        with pytest.raises(FileNotFoundError, match="data_path: no such file or folder") as caught:
            find_path(name, "data_path")
        assert len(str(caught.value)) < 1000


def read(tmp_path, text: str):
    (tmp_path / "x.yaml").write_text(text)
    return read_parameters(tmp_path / "x.yaml")


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: 5\nprompt: zero_shot\nlimit: 9\n", "line 3: 'limit' stands here twice"),
        ("limit: 010", "line 1: 010 would be read as 8"),
        ("limit: -010", "-010 would be read as -8"),
        ("seed: 0_10", "0_10 would be read as 8"),
        ("temperature: 01.5", "01.5 would be read as 1.5"),
        ("\nlimit: 1:30", "line 2: 1:30 would be read as 90"),
        ("temperature: 1:30.5", "1:30.5 would be read as 90.5"),
        (BOMB, "line 2: an alias"),
        ("a: &a 1\nb: *a", "line 2: an alias"),
        ("[" * 50_000, "recursion"),
        ("- limit", "must be a mapping of parameters, got list"),
        ("? [a, b]\n: 1", "found unhashable key"),
        ("limit", "got str"),
        ("3: 4", "must be a mapping"),
        ("limit: [", "line 1"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("x" * 2_000_000, "more than 1,000,000 bytes"),
    ],
    ids=lambda text: text[:12],
)
def test_yaml_that_would_be_read_as_it_does_not_look_is_refused_at_once(tmp_path, text, said):
    started = time.monotonic()
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(tmp_path, text)
    assert time.monotonic() - started < 10


def test_yaml_reads_what_is_plain(tmp_path):
    text = "limit: 10\nseed: 0\ntop_p: 0.5\nrevision: 2024-01-01\nshuffle: yes\ntemperature: 1e-1\nmodel: '010'\n"
    values = read(tmp_path, text)
    assert values == {
        "limit": 10, "seed": 0, "top_p": 0.5, "revision": "2024-01-01", "shuffle": True, "temperature": "1e-1",
        "model": "010",
    }  # fmt: skip
    assert read(tmp_path, "") == read(tmp_path, "# nothing\n") == {}
    for infinite in (".inf", "-.inf", ".nan"):
        with pytest.raises(ConfigError, match="finite"):
            RunConfig.checked(read(tmp_path, f"temperature: {infinite}"))


LONG = {"hex": "0x" + "f" * 100_000, "plain": "9" * 100_000, "bits": "-0b" + "1" * 100_000, "sixties": "1" + ":1" * 900}


@pytest.mark.parametrize("number", LONG.values(), ids=LONG)
def test_a_number_of_thousands_of_digits_is_refused_by_name(tmp_path, number):
    for name, said in (("limit", "a finite number"), ("temperature", "a finite number"), ("model", "must be text")):
        with pytest.raises(ConfigError, match=f"^parameter '{name}': .*{said}.*, got -?inf$"):
            RunConfig.checked(read(tmp_path, f"{name}: {number}"))
    for cls, name, value in (
        (RunConfig, "limit", 10**5000), (RunConfig, "temperature", -(10**5000)), (RunConfig, "model", 16**5000),
        (RunConfig, "dry_run", 10**5000), (CompareConfig, "runs", [10**5000]),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^parameter '{name}': .*, got a number of thousands of digits$"):
            cls.checked({name: value})


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.parametrize("make", [pipe, unix_socket, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    make(Path("odd"))
    with pytest.raises(ConfigError, match="a pipe or a device"):
        read_parameters("odd")
    for name in ("replay_path", "data_path", "train_path"):
        with pytest.raises(FileNotFoundError, match=f"{name}: 'odd' is neither"):
            find_path("odd", name)


def test_folders_with_blanks_and_commas_in_their_names_are_listed_whole(tmp_path, monkeypatch):
    from gsm8k_nb.comparing import find_runs

    names = ["my run", "a, b", "plain", "[1]", "what?", "100%*"]
    for name in names:
        (tmp_path / name).mkdir()
        for file in ("config.json", "problems.jsonl", "scores.jsonl", "metrics.json"):
            (tmp_path / name / file).write_text("{}")
    runs = [str(tmp_path / name) for name in names]
    assert [folder.name for folder in find_runs(CompareConfig.checked({"runs": runs}).runs)[0]] == names
    assert [folder.name for folder in find_runs(CompareConfig.checked({"runs": runs[:1]}).runs)[0]] == ["my run"]
    both = find_runs(CompareConfig.checked({"runs": [f"{tmp_path}/my *"]}).runs)[0]
    assert [folder.name for folder in both] == ["my run"]
    monkeypatch.chdir(tmp_path)
    many = [f"{'long' * 15}{n}" for n in range(6)]  # as one name, longer than any file's
    for name in many:
        (tmp_path / "plain").rename(tmp_path / name) if name == many[0] else shutil.copytree(many[0], name)
    for separator in (",", " ", ", "):
        assert [folder.name for folder in find_runs(separator.join(many))[0]] == many


@pytest.mark.parametrize(
    "url",
    [
        "https://h/v1?key=sk-abcdef123456", "https://user:sk-abcdef123456@h/v1", "https://h/v1#sk-abcdef123456",
        "sk-abcdef123456", "https://sk-abcdef123456 h/v1", "h/abcdef123456abcdef123456abcdef",
    ],
)  # fmt: skip
def test_an_address_that_may_hold_a_key_is_refused_without_it(url):
    with pytest.raises(ConfigError, match="parameter 'base_url': must be .*http://localhost:8000/v1") as caught:
        RunConfig.checked({"sampler": "openai", "model": "m", "base_url": url})
    assert "abcdef" not in str(caught.value)
    with pytest.raises(ConfigError, match="got 'localhost:8000/v1'"):
        RunConfig.checked({"sampler": "openai", "model": "m", "base_url": "localhost:8000/v1"})


@pytest.mark.parametrize(("one", "other"), [("price_input", "price_output"), ("price_output", "price_input")])
def test_one_price_alone_is_refused(one, other):
    with pytest.raises(ConfigError, match=f"{other}: where one price is given both are needed"):
        RunConfig.checked({"sampler": "openai", "model": "m", one: 2.5})
    with pytest.raises(ConfigError, match=f"{other}: where one price"):
        RunConfig.checked({"sampler": "openai", "model": "m", one: 0, other: None})
    assert RunConfig.checked({"sampler": "openai", "model": "m", one: 2.5, other: 0})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"presence_penalty": 0.5}, "presence_penalty: only sampler 'vllm' or 'openai' takes it, got 0.5"),
        ({"sampler": "ray", "frequency_penalty": 1}, "frequency_penalty: only sampler 'vllm' or 'openai' takes it"),
        ({"extra_body": {"a": 1}}, "extra_body: only sampler 'openai' takes it"),
        ({"omit": ["seed"]}, "omit: only sampler 'openai' takes it"),
        ({"enable_thinking": True, "chat_template": "plain"}, "enable_thinking: it is for the chat template"),
        ({"template_kwargs": {"a": 1}, "sampler": "openai", "model": "m"}, "takes reasoning_effort instead"),
        ({"max_thinking_tokens": 512}, "max_thinking_tokens: it must leave tokens for the answer, got 512 of"),
        ({"max_thinking_tokens": 5, "sampler": "openai", "model": "m"}, "needs an engine that continues a text"),
        ({"prompt": "kojima_2stage", "sampler": "openai", "model": "m"}, "prompt: needs an engine that continues"),
        ({"think_tags": ["<a>"]}, "think_tags"),
        ({"stop": ["="]}, "stop string '='"),
        ({"stop": "END"}, "stop"),
        ({"min_p": 1.5}, "min_p"),
        ({"answer_from": "thought"}, "answer_from"),
    ],
)
def test_settings_of_models_of_today_are_refused_where_they_would_do_nothing(values, said):
    assert said in refused(**values)


def test_settings_of_models_of_today_name_the_run_and_stand_in_its_protocol():
    plain = RunConfig(temperature=1.0)
    stated = {
        "min_p": 0.05, "repetition_penalty": 1.1, "stop": ["END"], "system_prompt": "Think.", "enable_thinking": False,
        "template_kwargs": {"level": "high"}, "max_thinking_tokens": 64, "think_tags": ["<a>", "</a>"],
    }  # fmt: skip
    ids = {RunConfig(temperature=1.0, **{name: value}).run_id for name, value in stated.items()}
    assert len(ids | {plain.run_id}) == len(stated) + 1
    assert RunConfig(temperature=1.0, answer_from="reasoning").run_id == plain.run_id  # it changes no text
    protocol = protocol_of(RunConfig(temperature=1.0, **stated), Inputs())
    assert protocol.settings == {name: value for name, value in stated.items() if name != "stop"}
    assert protocol.label == "avg@1, T=1, 0-shot CoT, no thinking, at most 64 tokens of thinking"
    assert protocol_of(plain, Inputs()).settings == {}


def test_lists_and_mappings_may_come_as_the_text_of_a_command_line():
    config = RunConfig.checked(
        {"stop": '["END", "STOP"]', "template_kwargs": "{level: high}", "enable_thinking": "yes"}
    )
    assert (config.stop, config.template_kwargs, config.enable_thinking) == (["END", "STOP"], {"level": "high"}, True)
