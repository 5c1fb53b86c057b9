"""Random damage to a run folder between its stages never leads to another ``metrics.json``: the same, or a refusal."""

import json
import random
import shutil
from pathlib import Path

import pytest

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import prompt_for
from gsm8k_nb.records import Sample
from gsm8k_nb.runs import Run, RunError
from gsm8k_nb.scoring import score_run

FILES = (
    "config.json",
    "problems.jsonl",
    "samples.jsonl",
    "scores.jsonl",
    "manifest.json",
    "metrics.json",
    "prompt.json",
)


class Engine:
    """Answers every request in a way that its problem and index decide; the first request of a run fails once."""

    has_chat_template = False
    fail = False

    def sample(self, requests, stop):
        for request in list(requests):
            name, index = request.problem.id, request.sample_index
            number = int(request.problem.answer) if (int(name[-4:]) + index) % 3 else 7
            failed = Engine.fail and (name[-4:], index) == ("0000", 0)
            yield [
                Sample(name, index, None, error="timeout")
                if failed
                else Sample(name, index, f"I say so.\n#### {number}", "stop", prompt_tokens=9, completion_tokens=5)
            ]

    def describe(self):
        return {"engine": "stub"}


@pytest.fixture
def config(tmp_path, monkeypatch) -> RunConfig:
    monkeypatch.setattr(sampling, "open_sampler", lambda config: Engine())
    monkeypatch.setattr(sampling, "model_fingerprint", lambda config: {"weights": "1"})
    return RunConfig(
        model="stub", dataset="classroom", limit=5, n_samples=2, temperature=0.7, n_resamples=100, smoke=0,
        rules="both", outputs_dir=str(tmp_path / "outputs"),
    )  # fmt: skip


def begin(config: RunConfig) -> None:
    sampling.begin(config, *data.load_for(config))


def fill(config: RunConfig) -> None:
    _, problems = data.load_for(config)
    sampling.fill(Run(config.run_folder), config, problems, prompt_for(config, problems))


def score(config: RunConfig) -> None:
    run = Run(config.run_folder)
    score_run(run, config, run.read_records("problems.jsonl", summary.Problem))


def summarise(config: RunConfig) -> None:
    summary.summarise(Run(config.run_folder), config)


STAGES = (begin, fill, fill, score, summarise)


def metrics_of(config: RunConfig) -> dict:
    values = Run(config.run_folder).read_json("metrics.json")
    values["made_from"].pop("samples_sha256")  # a sample that was asked for again may come with other seconds
    return values


def run_all(config: RunConfig) -> dict:
    for number, stage in enumerate(STAGES):
        Engine.fail = number == 1
        stage(config)
    return metrics_of(config)


def damage(folder: Path, draw: random.Random) -> str:
    """One file deleted, cut, or with lines doubled, dropped, shuffled or edited; says what was done."""
    files = [folder / name for name in FILES if (folder / name).exists()]
    if not files:
        return "nothing"
    file = draw.choice(files)
    kind = draw.choice(["delete", "cut", "double", "drop", "shuffle", "edit", "edit", "value"])
    lines = file.read_bytes().splitlines(keepends=True)
    place = draw.randrange(len(lines)) if lines else 0
    if kind == "delete":
        file.unlink()
        return f"{kind} {file.name}"
    if kind == "cut":
        raw = file.read_bytes()
        file.write_bytes(raw[: draw.randrange(len(raw) + 1)])
        return f"{kind} {file.name}"
    if kind == "double":
        lines.insert(draw.randrange(len(lines) + 1), lines[place] if lines else b"")
    elif kind == "drop" and lines:
        del lines[place]
    elif kind == "shuffle":
        draw.shuffle(lines)
    elif kind == "edit" and lines:
        line = bytearray(lines[place])
        at = [index for index, byte in enumerate(line) if chr(byte).isalnum()] or [0]
        line[draw.choice(at)] = ord(draw.choice("0123456789ae"))
        lines[place] = bytes(line)
    elif kind == "value" and lines:  # as a person edits it: the line stays whole
        changes = [(b"true", b"false"), (b"false", b"true"), (b"#### ", b"#### 1"), (b'"18', b'"19'), (b"null", b'"x"')]
        lines[place] = lines[place].replace(*draw.choice(changes))
    file.write_bytes(b"".join(lines))
    return f"{kind} {file.name}"


@pytest.mark.parametrize("seed", range(6))
def test_damage_between_stages_never_gives_another_result(config, tmp_path, seed):
    expected = run_all(config)
    assert expected["rules"]["strict"]["correct"] not in (0, 10)
    draw = random.Random(seed)
    outcomes = {"same": 0, "refused": 0}
    for _ in range(40):
        shutil.rmtree(config.run_folder)
        done = []
        try:
            for number, stage in enumerate(STAGES):
                Engine.fail = number == 1
                stage(config)
                if number < len(STAGES) - 1 and draw.random() < 0.3:
                    done.append(f"after {stage.__name__} {number}: {damage(config.run_folder, draw)}")
            done.append(f"at the end: {damage(config.run_folder, draw)}")
            summarise(config)
        except RunError:
            outcomes["refused"] += 1
            continue
        assert metrics_of(config) == expected, done
        outcomes["same"] += 1
    assert min(outcomes.values()) > 0, outcomes


@pytest.fixture
def finished(config) -> Run:
    run_all(config)
    return Run(config.run_folder)


def test_failed_requests_that_were_asked_again_are_scored_again(config):
    """Scores of a time when a request had failed once stood beside its later answer, and NaN was taken for right."""
    Engine.fail = True
    begin(config), fill(config), score(config), summarise(config)
    assert metrics_of(config)["health"]["failed"] == 1
    Engine.fail = False
    fill(config)
    summarise(config)  # 04_report without 03_score
    assert metrics_of(config) == run_all(config)
    assert metrics_of(config)["pass_at_k"]["1"] == metrics_of(config)["rules"]["flexible"]["accuracy"]


def _doubled(text):
    return text + text


def _shuffled(text):
    return "".join(sorted(text.splitlines(keepends=True), key=hash))


def _judged_otherwise(text):
    return text.replace('"correct": false', '"correct": true')


def _nothing(text):
    return ""


def _cut(text):
    return text[:-30]


def _nested(text):
    return text + "[" * 100_000 + "\n"


@pytest.mark.parametrize("change", [_doubled, _shuffled, _judged_otherwise, _nothing, _cut, _nested])
def test_scores_that_were_changed_are_made_anew(config, finished, change, capsys):
    expected, file = metrics_of(config), finished.folder / "scores.jsonl"
    right = file.read_text()
    file.write_text(change(right))
    capsys.readouterr()
    summarise(config)
    assert metrics_of(config) == expected and file.read_text() == right
    assert (
        change(right) == right
        or "scores.jsonl was changed after it was written: scored anew" in capsys.readouterr().out
    )


def test_scores_of_other_samples_with_the_same_keys_are_made_anew(config, finished, tmp_path):
    other = config.model_copy(update={"outputs_dir": str(tmp_path / "other"), "temperature": 0.9})
    run_all(other)
    expected = metrics_of(config)
    scores = (other.run_folder / "scores.jsonl").read_text().replace("true", "false")
    (finished.folder / "scores.jsonl").write_text(scores)
    summarise(config)
    assert metrics_of(config) == expected


def test_a_row_of_another_run_is_not_one_of_this(config, finished, tmp_path):
    other = config.model_copy(update={"outputs_dir": str(tmp_path / "other"), "temperature": 0.9})
    run_all(other)
    finished.samples_file.write_text((other.run_folder / "samples.jsonl").read_text())
    assert finished.journal().damaged == 11
    with pytest.raises(RunError, match="has lost 10 completions since they were sampled"):
        score(config)


def test_a_deleted_or_changed_completion_is_asked_for_again(config, finished):
    expected = metrics_of(config)
    lines = finished.samples_file.read_text().splitlines(keepends=True)
    finished.samples_file.write_text("".join([lines[-1].replace("####", "### "), *lines[1:-1]]))
    with pytest.raises(RunError, match="run 02_sample again"):
        summarise(config)
    for stage in (fill, score, summarise):
        stage(config)
    assert metrics_of(config) == expected


def test_scores_by_older_rules_say_so_and_are_made_anew(config, finished, capsys):
    manifest = finished.read_json("manifest.json")
    assert manifest["scored"]["rules"] == ["strict", "flexible"] and manifest["scored"]["package"]
    manifest["scored"]["rules_version"] = "00000000"
    finished.write_json("manifest.json", manifest)
    expected = metrics_of(config)
    summarise(config)
    assert "scores.jsonl was made by other versions of the rules: scored anew" in capsys.readouterr().out
    assert metrics_of(config) == expected


@pytest.mark.parametrize("name", ["numerals.py", "answers.toml", "grammar.toml", "peers.toml"])
def test_the_rules_version_follows_their_code_and_data(monkeypatch, tmp_path, name):
    from gsm8k_nb import scoring

    before = scoring.rules_version.__wrapped__()
    (tmp_path / "answers").mkdir()
    for file in (Path(scoring.__file__).parent / "answers").glob("*.*"):
        shutil.copy(file, tmp_path / "answers")
    monkeypatch.setattr(scoring.resources, "files", lambda package: tmp_path)
    assert scoring.rules_version.__wrapped__() == before
    with (tmp_path / "answers" / name).open("a") as file:
        file.write("MAX_DIGITS = 51\n")
    assert scoring.rules_version.__wrapped__() != before


@pytest.mark.parametrize("missing", [False, True])
def test_a_model_that_changed_is_refused(config, finished, monkeypatch, missing):
    monkeypatch.setattr(sampling, "model_fingerprint", lambda config: {"weights": "2"})
    wanted = config.model_copy(update={"n_samples": 3}) if missing else config
    with pytest.raises(RunError, match="model: stub is not the model that made the samples of .*: its weights changed"):
        begin(wanted), fill(wanted)
    monkeypatch.setattr(sampling, "model_fingerprint", lambda config: None)  # the folder is gone: no evidence
    begin(config), fill(config)
    assert finished.inputs().model_fingerprint == {"weights": "1"}


def test_what_an_engine_says_of_its_model_is_compared_too(config, monkeypatch):
    monkeypatch.setattr(sampling, "model_fingerprint", lambda config: None)
    monkeypatch.setattr(Engine, "describe", lambda self: {"fingerprint": {"root": "a"}})
    begin(config), fill(config)
    monkeypatch.setattr(Engine, "describe", lambda self: {"fingerprint": {"root": "b"}})
    more = config.model_copy(update={"n_samples": 3})
    begin(more)
    with pytest.raises(RunError, match="its root changed since"):
        fill(more)


def test_sessions_of_one_second_stay_apart(config, monkeypatch):
    monkeypatch.setattr(sampling.manifest, "now", lambda: "2026-12-01T00:00:00+00:00")
    for n in (1, 2, 3):
        wanted = config.model_copy(update={"n_samples": n})
        begin(wanted), fill(wanted)
    assert len(Run(config.run_folder).read_json("manifest.json")["sessions"]) == 3


@pytest.mark.parametrize(
    "field", [{"completion_tokens": True}, {"seconds": float("nan")}, {"text": 3}, {"prompt_tokens": 1.5}]
)
def test_a_sample_that_could_not_be_read_again_is_a_failed_one(config, finished, field):
    finished.append([Sample(**{"problem_id": "classroom-0000", "sample_index": 9, "text": "x"} | field)])
    sample = finished.journal().samples["classroom-0000", 9]
    assert finished.journal().damaged == 0 and sample.text is None
    assert f"what came cannot be stored: field {next(iter(field))!r}" in sample.error


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '"x"', "\xff"])
def test_a_damaged_json_file_is_one_sentence(config, finished, name, text):
    (finished.folder / name).write_text(text)
    with pytest.raises(RunError, match=f"{name} is damaged"):
        summarise(config)


def test_an_edited_fact_is_refused(config, finished):
    file = finished.folder / "config.json"
    file.write_text(file.read_text().replace('"data_problems": 112', '"data_problems": 5'))
    with pytest.raises(RunError, match="config.json is damaged .it was changed after it was written"):
        summarise(config)


def test_a_folder_without_config_is_sent_back(config, finished):
    (finished.folder / "config.json").unlink()
    with pytest.raises(RunError, match="no config.json: run 01_load first"):
        score(config)


def test_problems_that_were_changed_are_refused(config, finished):
    file = finished.folder / "problems.jsonl"
    file.write_text(file.read_text().replace('"answer": "1', '"answer": "2'))
    with pytest.raises(RunError, match="does not hold the problems that 01_load put there"):
        score(config)


def test_problems_drawn_otherwise_are_refused(config, finished):
    with pytest.raises(RunError, match="drawn at random: run 01_load"):
        summarise(config.model_copy(update={"shuffle": True}))


def test_a_folder_that_cannot_be_written_is_one_sentence(config, finished, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(RunError, match="cannot write to .*: Read-only file system"):
        score(config)


def test_samples_that_are_a_link_are_not_added_to(config, finished, tmp_path):
    finished.samples_file.rename(tmp_path / "mine.jsonl")
    finished.samples_file.symlink_to(tmp_path / "mine.jsonl")
    with pytest.raises(RunError, match="is a link"):
        fill(config.model_copy(update={"n_samples": 3}))


def test_a_folder_of_version_0_1_0_is_read_and_scored_anew(config, finished):
    """It has no checks, no hashes and no word on what scored it."""
    expected = metrics_of(config)
    for name in ("config.json", "manifest.json", "metrics.json"):
        values = finished.read_json(name)
        for key in ("scored", "samples", "made_from"):
            values.pop(key, None)
        (values.get("inputs") or {}).pop("problems_sha256", None)
        (values.get("inputs") or {}).pop("model_fingerprint", None)
        (finished.folder / name).write_text(json.dumps(values))
    rows = [json.loads(line) for line in finished.samples_file.read_text().splitlines()]
    finished.samples_file.write_text(
        "".join(json.dumps({**row, "check": None}).replace(', "check": null', "") + "\n" for row in rows)
    )
    summarise(config)
    assert metrics_of(config) == expected
    begin(config), fill(config)
    assert finished.inputs().model_fingerprint == {"weights": "1"}


def _more_samples(config, run):
    wanted = config.model_copy(update={"n_samples": 3})
    begin(wanted), fill(wanted)


def _edited(name):
    def edit(config, run):
        file = run.folder / name
        file.write_text(file.read_text().replace('"correct": true', '"correct": false').replace("?", "!"))

    return edit


@pytest.mark.parametrize("change", [_more_samples, _edited("scores.jsonl"), _edited("problems.jsonl")])
def test_a_comparison_reads_no_metrics_of_other_scores(config, finished, change):
    finished.check_scored()
    change(config, finished)
    with pytest.raises(RunError, match="metrics.json was made from other samples or scores"):
        finished.check_scored()
