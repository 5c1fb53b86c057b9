"""Logs in and records out.

The files in data/logs come from runs of lm-eval 0.4.13 and inspect_ai 0.3.285 on problems of the classroom set, with a
scripted model: lm-eval's samples as written, with the parts of its results files that are read; inspect's logs without
their events. lighteval's and HELM's files are written by the tests, after the classes that those tools write out.
"""

import importlib.util
import json
import os
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from gsm8k_nb.__main__ import main
from gsm8k_nb.config import ConfigError, RunConfig
from gsm8k_nb.logs import reading
from gsm8k_nb.logs.aligning import normal
from gsm8k_nb.logs.exporting import export_run
from gsm8k_nb.logs.files import LogError
from gsm8k_nb.logs.importing import Agreement, Imported, import_log
from gsm8k_nb.logs.reading import COLUMNS, read_log
from gsm8k_nb.records import Sample
from gsm8k_nb.runs import Run, RunError

from ..conftest import ROOT, write_jsonl
from ..samplers.test_replay import RIGHT, evaluate

EXCERPTS = ROOT / "tests" / "data" / "logs"
COT = EXCERPTS / "samples_classroom_cot_2026-11-30T08-18-07.139923.jsonl"
REPEATS = EXCERPTS / "samples_classroom_repeats_2026-11-30T08-18-25.154273.jsonl"


@pytest.fixture
def bring(tmp_path):
    """import_log into this test's own folder, from the classroom set unless a file of problems is named."""

    def call(path: Path, **options) -> Imported:
        known = {"outputs_dir": str(tmp_path / "outputs")}
        if "data_path" not in options:
            known["dataset"] = "classroom"
        return import_log(path, **known | options)

    return call


def n_failed(done: Imported) -> int:
    return done.results.metrics["health"]["failed"]


def counts(done: Imported) -> tuple[int, int, int, int]:
    """Problems, samples of each, failed samples, completions without a problem."""
    return len(done.results.problems), done.results.config.n_samples, n_failed(done), len(done.aligned.unaligned)


def named(*places: str, **more: str) -> dict[str, str]:
    """Columns in the order question, completion, finish reason, error; others by name."""
    return dict(zip(COLUMNS, places, strict=False)) | more


def samples_of(done: Imported) -> list[Sample]:
    return list(done.results.run.journal().samples.values())


def rows_of(done: Imported, name: str) -> list[dict]:
    return [json.loads(line) for line in (done.results.run.folder / name).read_text().splitlines()]


# lm-eval


def test_lm_eval_run_keeps_its_protocol_and_gives_its_verdicts(bring):
    done = bring(COT)
    assert done.results.config.protocol_label == "lm-eval classroom_cot, test@1, 2-shot"
    assert counts(done) == (
        4,
        1,
        0,
        0,
    )
    assert done.agreement == {
        "strict-match": Agreement("lm_eval_cot_strict", 4, 4),
        "flexible-extract": Agreement("lm_eval_flexible", 4, 4),
    }
    verdicts = Counter((row["scorer"], row["correct"]) for row in rows_of(done, "source_verdicts.jsonl"))
    assert set(verdicts.values()) == {2}  # each filter is right on two: agreement is no matter of all being wrong
    protocol = done.results.run.read_json("metrics.json")["protocol"]
    assert protocol["label"] == done.results.config.protocol_label
    assert (protocol["shots"], protocol["temperature"], protocol["max_new_tokens"]) == (2, 0.0, 64)
    assert protocol["chat"] is False and protocol["stop"] == ["Q:", "</s>", "<|im_end|>"]
    assert protocol["top_p"] is None and protocol["prompt"] is None  # not stated, so not borrowed
    engine = done.results.run.read_json("manifest.json")["engine"]
    assert (engine["tool"], engine["version"], engine["model"]) == ("lm-eval", "0.4.13", "scripted")
    assert engine["source"] == COT.name and len(engine["source_sha256"]) == 64


def test_lm_eval_texts_are_taken_once_a_problem_and_unchanged(bring):
    rows = [json.loads(line) for line in COT.read_text().splitlines()]
    assert len(rows) == 8  # two filters
    texts = [row["resps"][0][0] for row in rows if row["filter"] == "strict-match"]
    assert sorted(texts) == sorted(sample.text for sample in samples_of(bring(COT)))


def test_lm_eval_repeats_are_samples(bring):
    done = bring(REPEATS)
    assert done.results.config.protocol_label == "lm-eval classroom_repeats, avg@2, T=0.7, 0-shot"
    assert Counter(sample.sample_index for sample in samples_of(done)) == {0: 3, 1: 3}
    first = json.loads(REPEATS.read_text().splitlines()[0])  # of the problem classroom-0061
    assert [sample.text for sample in samples_of(done) if sample.problem_id == "classroom-0061"] == first["resps"][0]
    assert done.agreement["strict-match"] == Agreement("lm_eval_strict", 3, 3)  # its verdicts are on the first text
    assert {row["sample_index"] for row in rows_of(done, "source_verdicts.jsonl")} == {0}
    assert done.results.run.read_json("metrics.json")["pass_at_k"].keys() == {"1", "2"}


def test_lm_eval_rows_alone_do_not_state_shots_or_model(bring, tmp_path):
    alone = tmp_path / COT.name
    alone.write_bytes(COT.read_bytes())
    with pytest.raises(LogError, match="its number of exemplars and its model; --protocol-label .* and --model"):
        bring(alone)
    done = bring(alone, protocol_label="8-shot CoT as told", model="someone/model")
    assert "(8-shot CoT as told, 4 of 112 problems" in done.results.headline
    protocol = done.results.run.read_json("metrics.json")["protocol"]
    assert protocol["shots"] is None and protocol["temperature"] == 0.0  # the rows do state the sampling


def test_lm_eval_without_a_column_of_questions_is_matched_by_its_prompt(bring, tmp_path):
    rows = [json.loads(line) for line in COT.read_text().splitlines()]
    for row in rows:
        row["doc"] = {"problem": "hidden"}
    file = tmp_path / "renamed.txt"
    write_jsonl(file, rows)
    done = bring(file, protocol_label="x", model="m")
    assert (len(done.results.problems), len(done.aligned.unaligned), done.aligned.within) == (4, 0, 4)


# The folder is a run like any other


def replay(done: Imported, tmp_path: Path, **more) -> RunConfig:
    return RunConfig(
        model=done.results.config.model,
        sampler="replay",
        dataset=done.results.config.dataset,
        data_path=done.results.config.data_path,
        prompt="as_stored",
        n_samples=done.results.config.n_samples,
        n_resamples=100,
        outputs_dir=str(tmp_path / "replays"),
        **{"replay_path": str(done.results.run.folder)} | more,
    )


def test_a_replay_of_an_import_and_its_replay_have_the_logs_protocol(bring, tmp_path):
    done = bring(COT)
    first = evaluate(replay(done, tmp_path))
    again = evaluate(replay(done, tmp_path / "again", replay_path=str(first.run.folder)))
    assert first.run.folder != again.run.folder
    imported = done.results.run.read_json("metrics.json")
    for results in (first, again):
        assert results.metrics.protocol.model_dump() == imported["protocol"]
        assert results.metrics["rules"]["flexible"]["correct"] == imported["rules"]["flexible"]["correct"]
    assert first.headline == done.results.headline


def test_a_label_given_to_the_replay_wins(bring, tmp_path):
    results = evaluate(replay(bring(COT), tmp_path, protocol_label="my own words"))
    assert "(my own words, " in results.headline


def test_importing_again_adds_nothing_and_another_log_is_another_run(bring, tmp_path):
    file = tmp_path / "rows.jsonl"
    write_jsonl(file, [{"q": "Question number 0?", "a": "#### 5"}])
    write_jsonl(tmp_path / "data.jsonl", [{"question": "Question number 0?", "answer": "5\n#### 5"}])
    options = {
        "columns": named("q", "a"), "protocol_label": "x", "model": "m", "data_path": str(tmp_path / "data.jsonl"),
    }  # fmt: skip
    first = bring(file, **options)
    before = first.results.run.samples_file.read_bytes()
    assert bring(file, **options).results.run.samples_file.read_bytes() == before
    write_jsonl(file, [{"q": "Question number 0?", "a": "#### 6"}])
    assert bring(file, **options).results.run.folder != first.results.run.folder
    assert first.results.run.samples_file.read_bytes() == before


# inspect


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_inspect_logs(bring, kind):
    done = bring(EXCERPTS / f"inspect_gsm8k.{kind}")
    assert done.results.config.protocol_label == "inspect gsm8k, avg@2, T=0.7, 0-shot"
    assert done.results.config.model == "mockllm/model"
    assert counts(done) == (
        3,
        2,
        1,
        0,
    )
    samples = samples_of(done)
    assert Counter(sample.finish_reason for sample in samples) == {"stop": 4, "length": 1, None: 1}
    [failed] = [sample for sample in samples if sample.error]
    assert "the server gave up" in failed.error and failed.text is None  # an error is no wrong answer
    assert all(sample.prompt_tokens == 50 for sample in samples if not sample.error)
    assert done.agreement == {"match": Agreement("inspect", 5, 5)}
    assert {row["correct"] for row in rows_of(done, "source_verdicts.jsonl")} == {True, False}
    stated = done.results.run.read_json("config.json")["inputs"]["stated"]
    assert stated == {"temperature": 0.7, "max_new_tokens": 64, "stop": ["Question:"], "shots": 0}
    assert "2 of 112 problems" in done.results.headline  # the problem with a failed sample waits


def test_a_damaged_inspect_log_is_named(bring, tmp_path):
    file = tmp_path / "cut.eval"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", '{"eval"')
    with pytest.raises(LogError, match="cut.eval: is damaged"):
        bring(file)


# lighteval


def write_parquet(file: Path, rows: list[dict]) -> Path:
    import pyarrow
    import pyarrow.parquet

    file.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file


def lighteval_row(problem, texts: list[str], metric: dict) -> dict:
    exemplar = {"query": "Question: 1 + 1?\nAnswer:", "choices": [" 2"], "gold_index": 0}
    return {
        "doc": {
            "query": f"Question: {problem.question}\nAnswer:",
            "choices": [problem.solution],
            "gold_index": 0,
            "task_name": "gsm8k|2",
            "fewshot_samples": [exemplar, exemplar],
            "generation_size": 256,
            "stop_sequences": ["Question:"],
        },
        "model_response": {
            "input": "...",
            "text": texts,
            "input_tokens": [1, 2, 3],
            "output_tokens": [[4] * len(text.split()) for text in texts],
        },
        "metric": metric,
    }


def test_lighteval_details(bring, problems, data_file, tmp_path):
    time = "2026-01-02T03-04-05.678901"
    rows = [
        lighteval_row(problems[0], ["She has 5", "She has 6"], {"extractive_match": 0.5}),
        lighteval_row(problems[1], ["48"], {"extractive_match": 1.0}),
    ]
    file = write_parquet(
        tmp_path / "out" / "details" / "org" / "small" / time / f"details_gsm8k|2_{time}.parquet", rows
    )
    general = {"model_name": "org/small", "lighteval_sha": "abc", "model_config": {"model_name": "org/small"}}
    general["model_config"]["generation_parameters"] = {"temperature": 0.6, "top_p": 0.95, "max_new_tokens": 300}
    results = tmp_path / "out" / "results" / "org" / "small" / f"results_{time}.json"
    results.parent.mkdir(parents=True)
    results.write_text(json.dumps({"config_general": general}))
    done = bring(file, data_path=str(data_file))
    assert done.results.config.protocol_label == "lighteval gsm8k|2, avg@2, T=0.6, 2-shot"
    assert done.results.config.model == "org/small"
    assert (len(done.results.problems), done.results.config.n_samples, n_failed(done)) == (2, 2, 1)
    samples = samples_of(done)
    assert [sample.text for sample in samples] == ["She has 5", "She has 6", "48", None]
    assert samples[3].error == "not in the log"
    assert (samples[0].prompt_tokens, samples[0].completion_tokens) == (3, 3)
    stated = done.results.run.read_json("config.json")["inputs"]["stated"]
    assert stated["max_new_tokens"] == 300 and stated["top_p"] == 0.95 and stated["stop"] == ["Question:"]
    assert [row["correct"] for row in rows_of(done, "source_verdicts.jsonl")] == [True]  # 0.5 is of two texts


def test_lighteval_details_before_0_10(bring, problems, data_file, tmp_path):
    rows = [
        {
            "example": f"Question: {problems[2].question}\nAnswer:",
            "predictions": ["It earns 1,200"],
            "num_effective_few_shots": 5,
            "gold": [" 1200"],
            "metrics": {"qem": 0},
        }
    ]
    file = write_parquet(tmp_path / "old.parquet", rows)
    with pytest.raises(LogError, match="its temperature and its model"):  # they stand in the results file
        bring(file, data_path=str(data_file))
    done = bring(file, data_path=str(data_file), protocol_label="5-shot", model="m")
    assert [sample.text for sample in samples_of(done)] == ["It earns 1,200"]
    assert done.results.run.read_json("metrics.json")["protocol"]["shots"] == 5


def test_other_parquet_files_are_named(bring, tmp_path):
    with pytest.raises(LogError, match="is of no known tool and has the columns a, b; name"):
        bring(write_parquet(tmp_path / "x.parquet", [{"a": 1, "b": 2}]))
    (tmp_path / "y.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(LogError, match="y.parquet: is damaged"):
        bring(tmp_path / "y.parquet")


# HELM


def helm_state(question: str, completions: list[dict], **result) -> dict:
    return {
        "instance": {"input": {"text": question}, "references": [], "split": "test", "id": "id1"},
        "train_trial_index": 0,
        "num_train_instances": 5,
        "prompt_truncated": False,
        "request": {"prompt": "..."},
        "result": {"success": True, "completions": completions, "cached": False, "request_time": 0.5} | result,
    }


def test_helm_scenario_state(bring, problems, data_file, tmp_path):
    spec = {
        "method": "generation", "model": "openai/gpt2", "max_train_instances": 5, "temperature": 0.0,
        "max_tokens": 400, "num_outputs": 1, "stop_sequences": ["\n\n"],
    }  # fmt: skip
    good = {"text": " The answer is 5.", "logprob": -1.0, "tokens": [{"text": "a"}] * 4}
    cut = {"text": " It is", "logprob": 0, "tokens": [], "finish_reason": {"reason": "length"}}
    states = [
        helm_state(problems[0].question, [good]),
        helm_state(problems[1].question, [cut]),
        helm_state(problems[3].question, [], success=False, error="quota exceeded"),
        helm_state("Which of these is a pen?", [good]),
    ]
    file = tmp_path / "scenario_state.json"
    file.write_text(json.dumps({"adapter_spec": spec, "request_states": states}, indent=2))
    (tmp_path / "run_spec.json").write_text(json.dumps({"name": "gsm:model=openai_gpt2"}))
    done = bring(file, data_path=str(data_file))
    assert done.results.config.protocol_label == "HELM gsm, test@1, 5-shot"
    assert (len(done.results.problems), n_failed(done), len(done.aligned.unaligned)) == (3, 1, 1)
    samples = samples_of(done)
    assert [(sample.text, sample.error) for sample in samples] == [
        (" The answer is 5.", None), (" It is", None), (None, "quota exceeded"),
    ]  # fmt: skip
    assert samples[0].completion_tokens == 4 and samples[0].seconds == 0.5 and samples[1].finish_reason == "length"
    [row] = rows_of(done, "unaligned.jsonl")
    assert row["question"] == "Which of these is a pen?" and row["reason"] == "no problem has this question"
    assert row["text"] == " The answer is 5."  # nothing of it is lost
    assert done.results.config.limit is None  # the third problem is not there: no limit describes this set


# Rows without a tool, and OpenAI's released solutions


def test_plain_rows_with_named_columns(bring, problems, data_file, tmp_path):
    rows = [
        {"prompt": problems[0].question, "out": ["#### 5", "#### 4"], "why": "stop", "bad": None},
        {"prompt": problems[1].question, "out": "#### 48", "why": "max_tokens", "bad": ""},
        {"prompt": problems[2].question, "out": None, "why": None, "bad": "timeout"},
        {"prompt": "An unknown question?", "out": "#### 1", "why": "stop", "bad": None},
    ]
    columns = named("prompt", "out", "why", "bad")
    options = {"data_path": str(data_file), "protocol_label": "as told", "model": "m"}
    for name, text in {"rows.jsonl": "\n".join(map(json.dumps, rows)), "rows.json": json.dumps(rows)}.items():
        (tmp_path / name).write_text(text)
        done = bring(tmp_path / name, columns=columns, **options)
        samples = {(sample.problem_id, sample.sample_index): sample for sample in samples_of(done)}
        assert samples["test-0000", 1].text == "#### 4" and samples["test-0001", 0].finish_reason == "length"
        assert samples["test-0001", 1].error == "not in the log" and samples["test-0002", 0].error == "timeout"
        assert (
            done.results.config.n_samples,
            n_failed(done),
            len(done.aligned.unaligned),
            done.results.config.limit,
        ) == (2, 3, 1, 3)
    with pytest.raises(LogError, match="columns prompt, out, why, bad; name the one of the completion with --comp"):
        bring(tmp_path / "rows.jsonl", columns=named("prompt"), **options)
    with pytest.raises(LogError, match="finish reason with --finish-reason, got 'reason'"):
        bring(tmp_path / "rows.jsonl", columns=named("prompt", "out", "reason"), **options)


def test_released_solutions(bring, official):
    file, options = official / "example_model_solutions.jsonl", {"data_path": str(official / "test.jsonl")}
    with pytest.raises(LogError, match="6b_finetuning, 6b_verification.*--column, got None"):
        bring(file, **options)
    with pytest.raises(LogError, match="number of exemplars and its temperature; --protocol-label"):
        bring(file, column="6b_finetuning", **options)
    done = bring(file, column="6b_finetuning", protocol_label="fine-tuned, test@1", **options)
    right = RIGHT["6b_finetuning"]
    assert (
        done.results.headline == f"gsm8k acc (fine-tuned, test@1) = {right / 1319:.4f} flexible, 0.0000 strict (####)"
    )
    assert sum(row["correct"] for row in rows_of(done, "source_verdicts.jsonl")) == right
    assert len(done.aligned.unaligned) == 0 and done.results.config.limit is None


# Which problem is it


def test_alignment_is_by_the_questions_text(bring, tmp_path):
    questions = ["Ann’s  cat — all\nof “it” — weighs 4 kg?", "How many are 3 and 4?", "How many are 3 and 5?"]
    data_file = tmp_path / "data.jsonl"
    write_jsonl(data_file, [{"question": text, "answer": "#### 7"} for text in questions])
    asked = [
        'ann\'s cat - all of "it" - weighs 4 kg? ',
        "Solve this.\n\nQuestion: How many are 3 and 4?\nAnswer:",
        "How many are 3 and 6?",
        "Q: How many are 3 and 4?\nA: 7\n\nQ: How many are 3 and 5?\nA:",
    ]
    file = tmp_path / "rows.jsonl"
    write_jsonl(file, [{"q": text, "a": "7"} for text in asked])
    options = {"columns": named("q", "a"), "protocol_label": "x", "model": "m", "data_path": str(data_file)}
    done = bring(file, **options)
    assert [sample.problem_id for sample in samples_of(done)] == ["test-0000", "test-0001"]
    assert done.aligned.within == 1
    reasons = [(row["place"], row["reason"]) for row in rows_of(done, "unaligned.jsonl")]
    assert reasons == [("row 2", "no problem has this question"), ("row 3", "fits test-0001, test-0002")]
    write_jsonl(file, [{"q": "How many are 9 and 9?", "a": "18"}])
    with pytest.raises(LogError, match="none of its 1 completions is of a problem of unverified data.jsonl.*9 and 9"):
        bring(file, **options)


def test_numbers_are_never_made_alike():
    assert normal("It costs $1,000.50 - no,  –5!") == "it costs $1,000.50 - no, -5!"
    assert normal("3 and 4") != normal("3 and 5")


# What is no log


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("notes.txt", b"Some notes\n", "line 1: not JSON .*Known: lm-eval"),
        ("cut.jsonl", b'{"question": "x"}\n{"quest', "line 2: not JSON"),
        ("list.json", b"[1, 2]", "row 0: must be a JSON object, got int"),
        ("some.json", b'{"a": 1}', "is of no known tool and has the columns a"),
        ("state.json", b'{"adapter_spec": {}, "request_states": []}', "holds no samples"),
    ],
)
def test_what_is_no_log_is_said(bring, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message):
        bring(tmp_path / name)


def test_archives_folders_and_missing_files_are_said(bring, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as archive:
        archive.writestr("readme.txt", "x")
    for path, message in (
        (tmp_path / "x.eval", "not a log of inspect"),
        (tmp_path, "is a folder"),
        ("gone", "no such file"),
    ):
        with pytest.raises(LogError, match=message):
            bring(path)


def test_a_mixed_file_is_refused(bring, tmp_path):
    (tmp_path / "mixed.jsonl").write_text(COT.read_text() + '{"other": 1}\n')
    with pytest.raises(LogError, match="no sample of lm-eval, it has the keys other"):
        bring(tmp_path / "mixed.jsonl")


@pytest.mark.parametrize(
    ("settings", "stated"),
    [
        ({"do_sample": False}, {"temperature": 0.0}),  # greedy, whatever temperature stands there
        ({"do_sample": False, "temperature": 0.7}, {"temperature": 0.0}),
        ({"temperature": 0.7, "top_k": -1, "top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9}),
        ({"max_gen_toks": 256, "top_k": None, "top_k_per_token": 1}, {"max_new_tokens": 256, "top_k": 1}),
        ({"max_length": 2048}, {}),  # it counts the prompt too
        ({}, {}),
    ],
)
def test_stated_sampling_fields(settings, stated):
    assert reading.sampling_fields(settings) == stated


def test_verdicts_are_right_wrong_or_nothing():
    values = {"a": 1, "b": True, "c": "C", "d": 0.0, "e": "I", "f": 0.5, "g": "P", "h": None, "i": [1]}
    assert reading.verdicts(values) == {"a": True, "b": True, "c": True, "d": False, "e": False}


# The command line


def test_command_line_imports_and_says_what_is_next(tmp_path, capsys):
    arguments = ["import", str(COT), str(REPEATS), "--dataset", "classroom", "--outputs-dir", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "verdicts of strict-match: rule lm_eval_cot_strict agrees on 4 of 4" in printed
    assert "0 completions without a problem" in printed and "-p n_samples 2" in printed
    assert sorted(Run(folder).read_json("manifest.json")["status"] for folder in tmp_path.iterdir()) == ["sampled"] * 2


def test_command_line_names_faults_in_one_line(tmp_path, capsys):
    for arguments, message in (
        (["import", str(tmp_path / "gone.jsonl")], "no such file"),
        (["import", str(COT), "--data-path", "gone.jsonl"], "data_path"),
        (["export", str(tmp_path), "--organisation", "x"], "is no run folder"),
    ):
        assert main(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ") and message in error and error.count("\n") == 1


def test_unknown_data_sets_are_refused(bring):
    with pytest.raises(ConfigError, match="dataset.*gsm9k"):
        bring(COT, dataset="gsm9k")


# Export


@pytest.fixture
def exported(bring, tmp_path):
    """A run of two samples a problem, one of them failed, as records: (results, rows, the folder they are in)."""
    rows = [json.loads(line) for line in REPEATS.read_text().splitlines()]
    for row in rows:
        if row["doc_id"] == rows[0]["doc_id"]:
            row["resps"] = [row["resps"][0][:1]]  # its second text is lost
    file = tmp_path / "repeats.jsonl"
    write_jsonl(file, rows)
    done = bring(file, protocol_label="0-shot, T=0.7", model="local folder")
    files = export_run(done.results.run.folder, organisation="Us", model_id="org/small", output=tmp_path)
    lines = files.samples.read_text().splitlines()
    return json.loads(files.results.read_text()), [json.loads(line) for line in lines], tmp_path, done


def test_export_holds_every_score(exported):
    results, rows, _, done = exported
    metrics = done.results.run.read_json("metrics.json")
    by_rule = {result["evaluation_result_id"]: result for result in results["evaluation_results"]}
    assert set(by_rule) == {"flexible", "strict"}
    for rule, result in by_rule.items():
        ours, score = metrics["rules"][rule], result["score_details"]
        assert score["score"] == ours["accuracy"]
        interval = score["uncertainty"]["confidence_interval"]
        assert (interval["lower"], interval["upper"]) == (ours["ci_low"], ours["ci_high"])
        whole = [row for row in rows if row["evaluation_result_id"] == rule and row["sample_id"] != failed_id(rows)]
        assert sum(row["evaluation"]["is_correct"] for row in whole) == ours["correct"]
        assert score["details"]["failed"] == "1"
    assert len(rows) == 2 * 6
    assert results["evaluation_results"][0]["generation_config"]["generation_args"] == {
        "temperature": 0.7, "max_tokens": 64,
    }  # fmt: skip
    assert results["eval_library"]["additional_details"]["completions_from"].startswith('{"tool": "lm-eval"')


def failed_id(rows: list[dict]) -> str:
    return next(row["sample_id"] for row in rows if "error" in row)


def test_export_marks_a_failed_request(exported):
    failed = [row for row in exported[1] if "error" in row]
    assert len(failed) == 2 and all(row["output"]["raw"] == [] for row in failed)  # under two rules
    assert all(row["error"] == "not in the log" and not row["evaluation"]["is_correct"] for row in failed)


def test_export_is_filed_and_linked_as_the_schema_asks(exported):
    results, rows, folder, _ = exported
    [samples] = folder.glob("data/gsm8k_nb-classroom/org/small/*_samples.jsonl")
    detail = results["detailed_evaluation_results"]
    assert detail["file_path"] == samples.relative_to(folder).as_posix() and detail["total_rows"] == len(rows)
    assert {row["evaluation_id"] for row in rows} == {results["evaluation_id"]}
    assert {row["model_id"] for row in rows} == {results["model_info"]["id"]} == {"org/small"}
    assert (samples.parent / samples.name.replace("_samples.jsonl", ".json")).exists()
    assert list(details_of(results)) and all(isinstance(value, str) for value in details_of(results))


def details_of(value) -> list:
    """The values of every additional_details, which the schema wants as texts."""
    if isinstance(value, list):
        return [text for item in value for text in details_of(item)]
    if not isinstance(value, dict):
        return []
    inner = [text for key, item in value.items() if key != "additional_details" for text in details_of(item)]
    return inner + list(value.get("additional_details", {}).values())


def test_export_again_replaces_the_same_files(exported):
    _, _, folder, done = exported
    export_run(done.results.run.folder, organisation="Us", model_id="org/small", output=folder)
    assert len(list(folder.glob("data/*/*/*/*"))) == 2


def test_export_validates_against_the_schema(exported):
    """Against the JSON schemas of the package every-eval-ever, installed or in the folder EVERY_EVAL_EVER_SCHEMAS."""
    jsonschema = pytest.importorskip("jsonschema")
    package = importlib.util.find_spec("every_eval_ever")
    folder = os.environ.get("EVERY_EVAL_EVER_SCHEMAS") or (package and Path(package.origin).parent / "schemas")
    if not folder:
        pytest.skip("every-eval-ever (Python 3.12) is not installed, and EVERY_EVAL_EVER_SCHEMAS names no folder")
    results, rows, _, _ = exported
    whole = json.loads((Path(folder) / "eval.schema.json").read_text())
    single = json.loads((Path(folder) / "instance_level_eval.schema.json").read_text())
    assert results["schema_version"] == whole["version"]
    jsonschema.validate(results, whole)
    for row in rows:
        jsonschema.validate(row, single)


def test_export_refuses_what_it_cannot_state(bring, tmp_path):
    folder = bring(COT).results.run.folder
    for options, message in (
        ({}, "--model-id"),
        ({"model_id": "small"}, "'small' is no organisation/name"),
        ({"model_id": "a/b", "relationship": "friend"}, "must be one of first_party"),
        ({"model_id": "a/b", "rules": ["mine"]}, "not scored under 'mine'; it has strict"),
    ):
        with pytest.raises(LogError, match=message):
            export_run(folder, organisation="Us", output=tmp_path, **options)
    (folder / "scores.jsonl").unlink()
    with pytest.raises(RunError, match="03_score"):
        export_run(folder, organisation="Us", model_id="a/b", output=tmp_path)


def test_reading_tells_the_tool_by_content_not_by_name(tmp_path):
    other = tmp_path / "scenario_state.json"
    other.write_bytes(REPEATS.read_bytes())
    assert read_log(other).tool == "lm-eval"
