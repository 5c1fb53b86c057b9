"""Every notebook keeps the house rules and runs through plain papermill."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml
from papermill import inspect_notebook

from gsm8k_nb import __main__ as main_module
from gsm8k_nb.__main__ import BOOKS as BOOKS_WRITTEN
from gsm8k_nb.__main__ import parameters_cell
from gsm8k_nb.config import NOT_GENERATION, RunConfig

from .conftest import ROOT
from .warm import python

BOOKS = sorted((ROOT / "notebooks").glob("**/*.ipynb"))
STEPS = ["01_load", "02_sample", "03_score", "04_report"]
PAPERMILL = [*python(), "-m", "papermill", "--no-progress-bar", "-k", "python3"]


def papermill(name: str, out: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    book = ROOT / "notebooks" / f"{name}.ipynb"
    return subprocess.run([*PAPERMILL, str(book), str(out), *arguments], capture_output=True, text=True, cwd=cwd)


def parameters(config: RunConfig, folder: Path) -> list[str]:
    file = folder / "params.yaml"
    changed = {name: value for name, value in config.model_dump().items() if value is not None}
    file.write_text(yaml.safe_dump(changed, sort_keys=False))
    return ["-f", str(file)]


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_house_rules(book):
    notebook = nbformat.read(book, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"  # the one that every installation has
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].metadata.get("tags") == ["parameters"]  # without it papermill injects before all code
    for before, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        if cell.cell_type != "code":
            continue
        assert cell.outputs == [] and cell.execution_count is None
        assert not re.search(r"/home/|/root/|/tmp/|C:\\|%cd|!pip|%pip|sys\.path", cell.source)
        assert not re.search(r"\b(sys\.exit|exit|quit)\(", cell.source)  # papermill would call it a success
        tags = cell.metadata.get("tags", [])
        if "parameters" in tags or "exercise" in tags:
            continue
        assert len(cell.source.splitlines()) <= 8, cell.source
        assert not re.search(r"^\s*(def|class|try|for|while)\b", cell.source, re.MULTILINE), cell.source
        assert before.cell_type == "markdown" or "report.show_examples" in cell.source, "prose comes before each cell"


@pytest.mark.parametrize(("name", "config"), [(name, config) for name, (config, _) in BOOKS_WRITTEN.items()])
def test_parameters_cell_is_the_configuration(name, config):
    """``make parameters`` wrote it, and papermill reads every line of it."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert cell.source == parameters_cell(*BOOKS_WRITTEN[name]), "run 'make parameters'"
    lines = [re.fullmatch(r"(\w+): (\w+) = (.+?)  # (.+)", line) for line in cell.source.split("\n")]
    assert all(lines)  # one literal a line: a value derived from another would keep its default
    values: dict = {}
    exec(cell.source, values)
    for line in lines:
        field = config.model_fields[line[1]]
        assert values[line[1]] == field.default and line[4] == field.description
        assert "=" not in line[3] + line[4]  # such a line vanishes from --help-notebook
    assert cell.metadata.get("jupyter", {}).get("source_hidden", False) == (len(lines) > 20)  # content within a screen


def test_loading_takes_what_names_the_run_and_its_problems():
    """With a value of any other parameter changed, ``01_load`` still writes the folder that ``02_sample`` reads."""
    others = set(RunConfig.model_fields) - set(BOOKS_WRITTEN["01_load"][1])
    changed = {
        "n_samples": 3,
        "batch_size": 2,
        "smoke": 0,
        "label": "x",
        "rules": "both",
        "confidence": 0.9,
        "n_resamples": 200,
    }
    assert set(changed) < others and others < NOT_GENERATION
    assert RunConfig(temperature=1, **changed).run_folder == RunConfig(temperature=1).run_folder


def test_writing_the_parameters_changes_nothing_that_is_up_to_date(tmp_path, monkeypatch, capsys):
    (tmp_path / "notebooks").mkdir()
    for name in BOOKS_WRITTEN:
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", tmp_path / "notebooks")
    stale = tmp_path / "notebooks" / "compare.ipynb"
    stale.write_text(stale.read_text().replace("seed of resampling", "an old line of help"))
    monkeypatch.setattr(main_module, "repository_root", lambda: tmp_path)
    assert main_module.main(["parameters"]) == 0
    assert capsys.readouterr().out == f"written: {stale}\n"
    for name in BOOKS_WRITTEN:
        assert (tmp_path / "notebooks" / f"{name}.ipynb").read_bytes() == (
            ROOT / "notebooks" / f"{name}.ipynb"
        ).read_bytes()


@pytest.mark.parametrize("name", BOOKS_WRITTEN)
def test_help_lists_every_parameter(name):
    listed = inspect_notebook(str(ROOT / "notebooks" / f"{name}.ipynb"))  # what --help-notebook prints
    assert list(listed) == list(BOOKS_WRITTEN[name][1]) and all(line["help"] for line in listed.values())


def test_the_slow_road_shares_no_cell_with_the_quick_one():
    def cells(name: str) -> list[str]:
        notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        return [cell.source for cell in notebook.cells if cell.cell_type == "code"][1:]  # after the parameters

    assert not set(cells("eval")) & {source for name in STEPS for source in cells(name)}


def test_the_four_steps_give_what_eval_gives(replay_config, tmp_path):
    """With numbers as YAML leaves them, as text, in a second file of parameters; and with an empty third one."""
    (tmp_path / "numbers.yaml").write_text("temperature: 1e-1\nconfidence: 9e-1\n")
    (tmp_path / "empty.yaml").write_text("")
    arguments = parameters(replay_config, tmp_path)
    arguments += ["-f", str(tmp_path / "numbers.yaml"), "-f", str(tmp_path / "empty.yaml")]
    folder = replay_config.model_copy(update={"temperature": 0.1}).run_folder
    for name in ("eval", *STEPS):
        done = papermill(name, tmp_path / f"{name}.ipynb", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        if name == "eval":
            expected, aside = (folder / "metrics.json").read_bytes(), folder.rename(tmp_path / "aside")
    assert (folder / "metrics.json").read_bytes() == expected
    assert json.loads((folder / "config.json").read_text())["confidence"] == 0.9
    assert (folder / "report.html").exists() and (aside / "report.html").exists()
    exported_is_sound(tmp_path / "eval.ipynb")


def exported_is_sound(book: Path) -> None:
    """An executed notebook ran to its last cell, holds every figure, and exports to HTML."""
    from nbconvert import HTMLExporter

    notebook = nbformat.read(book, as_version=4)
    assert notebook.metadata.papermill.exception is None
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    html, _ = HTMLExporter().from_notebook_node(notebook)
    assert len(re.findall(r"<img[^>]+src=\"data:image/png", html)) == 3
    sampling = next(cell for cell in notebook.cells if "sampling.fill" in cell.source)
    assert len(json.dumps(sampling.outputs)) < 100_000  # a progress bar must not fill the file


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["-p", "temprature", "0.5", "-p", "prompts", "wei_8shot", "-y", "n_samples: many", "-p", "split", "train",
             "-p", "limit", "-1", "-p", "prompt", "wei"],
            [
                "unknown parameter 'temprature': did you mean 'temperature'?",
                "unknown parameter 'prompts': did you mean 'prompt'?",  # a name that the notebook's imports use too
                "parameter 'n_samples': must be a whole number, got 'many'",
                "parameter 'split': only 'test' is scored",
                "parameter 'limit': ",
                "parameter 'prompt': ",
            ],
        ),
        (["-p", "dataset", "gsm8k", "-p", "data_path", "nowhere.jsonl"], ["nowhere.jsonl"]),
        (["-p", "dataset", "gsm8k", "-p", "data_path", "{broken}"], ["broken.jsonl, line 2"]),
    ],
    ids=["parameters", "file", "line"],
)  # fmt: skip
def test_bad_input_stops_plain_papermill(tmp_path, arguments, lines):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"question": "a?", "answer": "#### 1"}\n{"question": "b?", \n')
    arguments = [argument.format(broken=broken) for argument in arguments]
    done = papermill("eval", tmp_path / "out.ipynb", *arguments, "-p", "outputs_dir", str(tmp_path / "outputs"))
    assert done.returncode != 0
    message = re.search(r"^(?:ConfigError|DataError|FileNotFoundError): (.+)", done.stderr, re.MULTILINE | re.DOTALL)
    told = message[1].strip().splitlines() if message else []
    assert len(told) == len(lines) and all(any(line in each for each in told) for line in lines), done.stderr[-2000:]
    assert not (tmp_path / "outputs").exists()  # nothing was begun


def test_a_real_model_end_to_end(tmp_path):
    """SmolLM2 from its package, through the front door, resumed without loading it again."""
    arguments = [
        "-f", "params/smollm2.yaml", "-p", "limit", "2", "-p", "max_new_tokens", "16",
        "-p", "outputs_dir", str(tmp_path),
    ]  # fmt: skip
    done = papermill("eval", tmp_path / "out.ipynb", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["headline"].startswith("classroom acc (avg@2, T=0.7, 8-shot CoT, 2 of 112 problems")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "complete" and manifest["engine"]["parameters"] == 134_515_008
    assert manifest["tokens"]["completion"] > 0 and manifest["inputs"]["chat"] is False
    samples = (folder / "samples.jsonl").read_bytes()
    assert papermill("eval", tmp_path / "out.ipynb", *arguments).returncode == 0
    assert (folder / "samples.jsonl").read_bytes() == samples
    assert len(json.loads((folder / "manifest.json").read_text())["sessions"]) == 1
