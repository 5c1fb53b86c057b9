import json
import subprocess
import sys

import pytest

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem, Sample, Score, from_row, to_row
from gsm8k_nb.runs import Inputs, Run, RunError, sha256_of


def sample(name: str = "test-0000", index: int = 0, text: str | None = "#### 1", error: str | None = None) -> Sample:
    return Sample(name, index, text, "stop" if error is None else None, error)


@pytest.fixture
def run(tmp_path) -> Run:
    run = Run(tmp_path / "run")
    run.start(RunConfig(), Inputs(data_sha256="a"))
    return run


def test_records_round_trip(problems):
    score = Score("test-0000", 1, "strict", problems[2].answer, True)
    for record in (*problems, sample(), score, Score("test-0000", 1, "strict", None, None)):
        assert from_row(type(record), json.loads(json.dumps(to_row(record)))) == record


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"problem_id": "a", "sample_index": 0, "text": "x", "tokens": 3}, "unknown field 'tokens'"),
        ({"problem_id": "a"}, "lacks a field"),
        ([1], "must be a JSON object"),
    ],
)
def test_malformed_rows_are_named(row, said):
    with pytest.raises(ValueError, match=said):
        from_row(Sample, row)
    with pytest.raises(ValueError, match="field 'answer'.* valid decimal, got 'many'"):
        from_row(Problem, {"id": "a", "question": "q", "solution": "s", "answer": "many"})


def test_samples_survive_in_order(run):
    with run.writing():
        run.append([sample(index=0), sample(index=1)])
        run.append([sample("test-0001", text=None)])  # a null answer is stored
    journal = run.journal()
    assert list(journal.samples) == [("test-0000", 0), ("test-0000", 1), ("test-0001", 0)]
    assert journal.damaged == 0 and journal.completed == 3


def test_torn_last_line_is_set_aside(run):
    with run.writing():
        run.append([sample(index=0)])
    with run.samples_file.open("a") as file:
        file.write('{"problem_id": "test-0000", "sample_ind')
    with run.writing():
        run.append([sample(index=1)])
    journal = run.journal()
    assert [index for _, index in journal.samples] == [0, 1]
    assert journal.damaged == 0
    assert "sample_ind" in (run.folder / "samples.torn").read_text()


def test_damaged_lines_are_counted_not_fatal(run):
    run.append([sample(index=0)])
    with run.samples_file.open("ab") as file:
        file.write(b'not json\n{"problem_id": 3}\n\xff\xfe\n\n')
    run.append([sample(index=1)])
    assert run.journal().damaged == 3
    assert len(run.journal().samples) == 2


def test_a_retried_sample_counts_once_and_a_failure_hides_nothing(run):
    run.append([sample(text=None, error="timeout"), sample(text="#### 2")])
    run.append([sample(text=None, error="timeout")])
    assert [sample.text for sample in run.journal().samples.values()] == ["#### 2"]


def test_one_writer_at_a_time(run):
    code = (
        "import sys; from gsm8k_nb.runs import Run, RunError\n"
        "try:\n    with Run(sys.argv[1]).writing(): print('wrote')\n"
        "except RunError as error: print(error)"
    )
    with run.writing():
        out = subprocess.run([sys.executable, "-c", code, run.folder], capture_output=True, text=True).stdout
    assert "being written by another process" in out
    assert subprocess.run([sys.executable, "-c", code, run.folder], capture_output=True, text=True).stdout == "wrote\n"


def test_other_inputs_are_refused(run):
    run.start(RunConfig(limit=3), Inputs(data_sha256="a", prompt_sha256="p"))  # extends, adds a fact
    assert run.read_json("config.json")["inputs"] == {"data_sha256": "a", "prompt_sha256": "p"}
    with pytest.raises(RunError, match="another data_sha256"):
        run.start(RunConfig(), Inputs(data_sha256="b"))
    with pytest.raises(RunError, match="another temperature"):
        run.start(RunConfig(temperature=0.5), Inputs())


def test_a_folder_that_cannot_be_written_is_said_first(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="outputs_dir: cannot write"):
        Run(tmp_path / "file" / "run").start(RunConfig(), Inputs())


def test_whole_files_are_replaced_in_one_step(run):
    run.write_json("metrics.json", {"a": 1})
    with pytest.raises(ValueError):  # NaN is no JSON
        run.write_json("metrics.json", {"a": float("nan")})
    assert run.read_json("metrics.json") == {"a": 1}
    assert not list(run.folder.glob(".*unfinished"))


def test_a_missing_step_is_named(run):
    with pytest.raises(RunError, match="run 03_score first"):
        run.read_records("scores.jsonl", Score)


@pytest.mark.parametrize("name", ["metrics.json", "tables/accuracy.csv", "figures/accuracy.png"])
def test_a_link_is_replaced_and_never_followed(run, tmp_path, name):
    target = tmp_path / "mine"
    target.write_text("mine")
    (run.folder / name).parent.mkdir(exist_ok=True)
    (run.folder / name).symlink_to(target)
    run.write_bytes(name, b"ours")
    assert target.read_text() == "mine" and (run.folder / name).read_bytes() == b"ours"
    assert not (run.folder / name).is_symlink()


def test_a_linked_folder_is_not_written_into(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (run.folder / "tables").symlink_to(tmp_path / "mine")
    with pytest.raises(RunError, match="tables is a link"):
        run.write_text("tables/accuracy.csv", "ours")
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize("name", ["problems.jsonl", "samples.jsonl", "scores.jsonl"])
def test_a_folder_in_the_place_of_a_file_is_one_sentence(run, name):
    (run.folder / name).mkdir()
    with pytest.raises(RunError, match=f"{name} cannot be read: Is a directory"):
        run.read_records(name, Score)
    with pytest.raises(RunError, match="cannot be read"):
        sha256_of(run.folder / name)


KILLED_WRITER = """
import os, sys
from gsm8k_nb.runs import Run
run, real = Run(sys.argv[1]), os.fsync
os.fsync = lambda file: os.kill(os.getpid(), 9)  # all is written, nothing is in its place yet
run.write_text("report.html", "new" * 100_000)
"""


def test_a_kill_while_a_file_is_written_leaves_the_old_one(run):
    run.write_text("report.html", "old")
    ended = subprocess.run([sys.executable, "-c", KILLED_WRITER, run.folder])
    assert ended.returncode == -9
    assert (run.folder / "report.html").read_text() == "old"


def test_a_full_disk_leaves_the_old_file_and_says_so(run, monkeypatch):
    run.write_text("report.html", "old")

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="cannot write to .*No space left on device"):
        run.write_bytes("report.html", b"new")
    assert (run.folder / "report.html").read_text() == "old"
    assert [file.name for file in run.folder.iterdir() if "unfinished" in file.name] == []


def test_a_place_that_cannot_be_written_is_one_sentence(run):
    (run.folder / "tables").write_text("a file in the way of a folder")
    with pytest.raises(RunError, match="cannot write to"):
        run.write_text("tables/accuracy.csv", "x")
