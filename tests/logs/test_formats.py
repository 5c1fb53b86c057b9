"""Logs of every known kind come in right, or are refused with one sentence that says what to do.

The files are written here in the forms of the tools, on problems of the classroom set.
"""

import gzip
import json
import lzma
import os
import zipfile
from pathlib import Path

import pytest

from gsm8k_nb import data
from gsm8k_nb.__main__ import main
from gsm8k_nb.config import RunConfig
from gsm8k_nb.logs import files
from gsm8k_nb.logs.exporting import export_run
from gsm8k_nb.logs.files import LogError
from gsm8k_nb.logs.importing import Agreement, Imported, import_log
from gsm8k_nb.logs.reading import COLUMNS
from gsm8k_nb.summary import summarise

from ..conftest import ROOT, write_jsonl
from ..samplers.test_replay import evaluate

PROBLEMS = data.load("classroom")
Q = [problem.question for problem in PROBLEMS]
GOLD = [str(problem.answer) for problem in PROBLEMS]
STATED = {"protocol_label": "as told", "model": "m"}


def n_failed(done: Imported) -> int:
    return done.results.metrics["health"]["failed"]


def counts(done: Imported) -> tuple[int, int, int, int]:
    """Problems, samples of each, failed samples, completions without a problem."""
    return len(done.results.problems), done.results.config.n_samples, n_failed(done), len(done.aligned.unaligned)


def named(*places: str, **more: str) -> dict[str, str]:
    """Columns in the order question, completion, finish reason, error; others by name."""
    return dict(zip(COLUMNS, places, strict=False)) | more


PLAIN = {"columns": named("question", "response"), **STATED}


@pytest.fixture
def bring(tmp_path):
    def call(path: Path, **options) -> Imported:
        return import_log(path, dataset="classroom", outputs_dir=str(tmp_path / "outputs"), **options)

    return call


@pytest.fixture
def rows(tmp_path):
    """A file of rows, JSON lines unless another text is given."""

    def write(content: list | dict | str | bytes, name: str = "rows.jsonl") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            write_jsonl(file, content)
        else:
            text = json.dumps(content) if isinstance(content, dict) else content
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


def texts(done: Imported) -> list[str | None]:
    return [sample.text for sample in done.results.run.journal().samples.values()]


def rows_of(done: Imported, name: str) -> list[dict]:
    return [json.loads(line) for line in (done.results.run.folder / name).read_text().splitlines()]


def lm_eval_row(doc: int, resps: list, score: float, **more) -> dict:
    """A row of lm-eval: of 0.4.7 and later where ``filter`` is given."""
    settings = {"until": ["Question:"], "do_sample": False, "temperature": 0.0}
    row = {
        "doc_id": doc,
        "doc": {"question": Q[doc], "answer": PROBLEMS[doc].solution},
        "target": PROBLEMS[doc].solution,
        "arguments": {"gen_args_0": {"arg_0": f"Question: {Q[doc]}\nAnswer:", "arg_1": settings}},
        "resps": [resps],
        "filtered_resps": ["x"],
        "exact_match": score,
    }
    return row | ({"metrics": ["exact_match"]} if "filter" in more else {}) | more


# A completion that is no text is never a wrong answer


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (18, "a number"),
        (3.0, "a number"),
        (True, "true or false"),
        ({"text": "#### 18"}, "an object .*name the place of the text"),
        (
            {"choices": [{"message": {"content": "x"}}]},
            r"an object \({'choices': \[{'message': {'content': 'x' \.\.\.\), not a text",
        ),
        ([1, 2], "a number"),
        ([["#### 1"], [{"a": {"b": "c"}}]], "an object"),
    ],
)
def test_a_column_of_no_texts_is_refused_by_name(bring, rows, value, kind):
    file = rows([{"question": Q[0], "response": "#### 1"}, {"question": Q[1], "response": value}])
    with pytest.raises(LogError, match=f"row 1: 'response' holds {kind}"):
        bring(file, **PLAIN)


@pytest.mark.parametrize("row", [{"response": None}, {}, {"response": []}, {"response": [None]}, {"answer": "#### 3"}])
def test_a_completion_that_is_not_there_is_a_failed_sample(bring, rows, row, capsys):
    file = rows([{"question": Q[0], "response": f"#### {GOLD[0]}"}, {"question": Q[1]} | row])
    done = bring(file, **PLAIN)
    metrics = done.results.run.read_json("metrics.json")
    assert (n_failed(done), metrics["rules"]["strict"]["accuracy"]) == (1, 1.0)
    [failed] = [sample for sample in done.results.run.journal().samples.values() if sample.error]
    assert failed.problem_id == PROBLEMS[1].id and failed.error == "no text in 'response'"
    arguments = [
        "import",
        str(file),
        "--dataset",
        "classroom",
        "--outputs-dir",
        str(done.results.run.folder.parent / "again"),
    ]
    arguments += ["--protocol-label", "x", "--model", "m", "--question", "question", "--completion", "response"]
    assert main(arguments) == 0
    assert "1 samples failed or lacking (1 x no text in 'response')" in capsys.readouterr().out


def test_an_empty_text_is_a_wrong_answer_and_no_text_at_all_is_no_log(bring, rows):
    file = rows([{"question": Q[0], "response": ""}])
    assert n_failed(bring(file, **PLAIN)) == 0
    with pytest.raises(LogError, match="holds no completion; its first entry: no text in 'response'"):
        bring(rows([{"question": Q[0], "response": None}], "nulls.jsonl"), **PLAIN)


def test_a_row_without_its_question_is_listed(bring, rows):
    file = rows([{"question": Q[0], "response": "1"}, {"prompt": Q[1], "response": "2"}])
    done = bring(file, **PLAIN)
    assert (len(done.results.problems), len(done.aligned.unaligned)) == (1, 1)
    assert rows_of(done, "unaligned.jsonl")[0]["text"] == "2"


def test_tools_texts_that_are_none_fail_too(bring, rows):
    done = bring(rows([lm_eval_row(0, ["#### 1"], 0.0), lm_eval_row(1, [None], 0.0)]), **STATED)
    assert (n_failed(done), done.agreement["filter 1"].of) == (1, 1)  # the verdict on nothing is no verdict on a text
    with pytest.raises(LogError, match="doc_id 0: 'resps' holds an object"):
        bring(rows([lm_eval_row(0, [{"x": 1}], 0.0)], "objects.jsonl"), **STATED)


def test_another_column_of_a_file_is_another_run(bring, rows):
    file = rows([{"question": Q[0], "response": f"#### {GOLD[0]}", "other": "#### 7.25"}])
    right, wrong = (bring(file, columns=named("question", column), **STATED) for column in ("response", "other"))
    assert texts(right) != texts(wrong) and right.results.run.folder != wrong.results.run.folder


def test_texts_that_were_placed_otherwise_before_are_not_scored_again(bring, rows):
    file = rows([{"n": n + 1, "question": Q[n], "response": f"#### {GOLD[n]}"} for n in range(3)])
    bring(file, columns=named(completion="response", index="n"), **STATED)  # its rows count from 1
    with pytest.raises(LogError, match="imported with other options; choose another --outputs-dir"):
        bring(file, **PLAIN)


# Two runs in one file


@pytest.mark.parametrize("named", [{"filter": "strict-match"}, {}])
def test_two_lm_eval_runs_in_one_file_are_refused(bring, rows, named):
    runs = [lm_eval_row(0, ["#### 18"], 1.0, **named), lm_eval_row(0, ["#### 17"], 0.0, **named)]
    with pytest.raises(LogError, match="several runs or tasks, doc_id 0 stands twice under filter"):
        bring(rows(runs), **STATED)


@pytest.mark.parametrize("second", ["#### 18", "#### 17"])
@pytest.mark.parametrize("settings", [{"do_sample": False}, {"temperature": 0.0}, {"temperature": 0.7}, {}])
def test_two_lm_eval_runs_whose_numbers_are_shifted_are_refused(bring, rows, second, settings):
    runs = [lm_eval_row(0, ["#### 18"], 1.0), lm_eval_row(1, ["#### 5"], 1.0), lm_eval_row(0, [second], 0.0)]
    for doc, row in enumerate(runs):
        row |= {"doc_id": doc, "arguments": {"gen_args_0": {"arg_0": row["doc"]["question"], "arg_1": settings}}}
    words = "the same texts" if second == "#### 18" else "other texts"
    with pytest.raises(LogError, match=f"several runs, 1 problems stand in several rows with {words}.*; split it"):
        bring(rows(runs), **STATED)


def test_two_lighteval_runs_in_one_file_are_refused(bring, rows):
    row = {"doc": {"query": Q[0], "choices": [GOLD[0]]}, "model_response": {"text": ["#### 1"]}, "metric": {}}
    with pytest.raises(LogError, match="several rows with other texts"):
        bring(rows([row, row | {"model_response": {"text": ["#### 2"]}}]), **STATED)


def test_plain_rows_that_stand_twice_are_no_second_sample(bring, rows):
    once = [{"question": Q[n], "response": f"#### {n}"} for n in range(3)]
    for twice in (once + once, once + once[:1], [row for row in once for _ in range(3)]):
        with pytest.raises(LogError, match="problems stand in several rows with the same texts; .*stands there twice"):
            bring(rows(twice), **PLAIN)
    drawn = [row | {"response": f"so {row['response']}"} for row in once]
    assert counts(bring(rows(once + drawn), **PLAIN)) == (3, 2, 0, 0)  # nothing states that they were not drawn
    again = [{"question": Q[0], "response": None}, *once]  # a failed request that was repeated
    assert counts(bring(rows(again, "again.jsonl"), **PLAIN | {"model": "n"}))[:2] == (3, 2)


def test_two_tasks_in_one_lm_eval_file_are_refused(bring, rows):
    other = lm_eval_row(1, ["#### 18"], 1.0, filter="b") | {"doc_id": 0}
    with pytest.raises(LogError, match="several runs or tasks, doc_id 0"):
        bring(rows([lm_eval_row(0, ["#### 18"], 1.0, filter="a"), other]), **STATED)


@pytest.mark.parametrize("place", ["step", "data_source"])
def test_two_steps_or_sources_of_verl_in_one_file_are_refused(bring, rows, place):
    dump = [{"input": Q[n], "output": "#### 1", "gts": GOLD[n], "score": 0.0, "step": 0} | {place: n} for n in (0, 1)]
    with pytest.raises(LogError, match=f"holds several runs, of {place} 0, 1; split it"):
        bring(rows(dump), **STATED)


def test_two_models_of_evalscope_in_one_file_are_refused(bring, rows):
    with pytest.raises(LogError, match="several runs, of model a, b"):
        bring(rows([evalscope_row(0, "1", model="a"), evalscope_row(1, "2", model="b")]), protocol_label="x")


# Replays


def test_a_replay_of_a_partial_log_is_of_its_problems(bring, rows, tmp_path, capsys):
    some = (3, 5, 8)  # no first so many: no limit describes them
    file = rows([{"question": Q[n], "response": f"#### {GOLD[n]}"} for n in some])
    arguments = ["import", str(file), "--dataset", "classroom", "--outputs-dir", str(tmp_path / "out")]
    assert (
        main(
            [*arguments, "--protocol-label", "x", "--model", "m", "--question", "question", "--completion", "response"]
        )
        == 0
    )
    words = capsys.readouterr().out.rpartition("next: papermill ")[2].split()
    parameters = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word in ("-p", "-r")}
    results = evaluate(RunConfig(**parameters, outputs_dir=str(tmp_path / "replays"), n_resamples=100))
    assert [problem.id for problem in results.problems] == [PROBLEMS[n].id for n in some]
    assert results.metrics["health"]["failed"] == 0 and results.metrics["dataset"]["n_scored"] == 3
    assert "3 of 112 problems" in results.headline and "= 1.0000 flexible" in results.headline


# The log's own gold and number of problems


def test_another_gold_answer_is_said(bring, rows, capsys, tmp_path):
    other = lm_eval_row(1, ["#### 4"], 1.0) | {"target": "#### 4"}
    file = rows([lm_eval_row(0, [f"#### {GOLD[0]}"], 1.0), other])
    done = bring(file, **STATED)
    assert rows_of(done, "other_gold.jsonl") == [{"problem_id": PROBLEMS[1].id, "theirs": "4", "ours": GOLD[1]}]
    assert len(done.other_gold) == 1 and done.results.run.read_json("metrics.json")["rules"]["flexible"]["correct"] == 1
    [apart] = [verdict for verdict in done.verdicts if verdict.correct != verdict.ours]
    assert (apart.problem_id, apart.correct, apart.ours) == (PROBLEMS[1].id, True, False)
    main(
        [
            "import",
            str(file),
            "--dataset",
            "classroom",
            "--outputs-dir",
            str(tmp_path),
            "--protocol-label",
            "x",
            "--model",
            "m",
        ]
    )
    printed = capsys.readouterr().out
    assert "1 problems have another gold answer in the log" in printed
    assert f"{PROBLEMS[1].id}, sample 0, filter 1: right there, wrong here" in printed


@pytest.mark.parametrize("gold", ["{}", "some steps\n#### {}", " {} ", "${}", "{}.0"])
def test_gold_answers_are_compared_as_numbers(bring, rows, gold):
    columns = named("question", "response", gold="gold")
    file = rows([{"question": Q[n], "response": "1", "gold": gold.format(GOLD[n])} for n in range(3)])
    assert bring(file, columns=columns, **STATED).other_gold == []


def test_most_golds_other_than_ours_is_another_data_set(bring, rows):
    columns = named(completion="response", index="n", gold="gold")
    shifted = rows([{"n": n + 1, "response": "1", "gold": GOLD[n]} for n in range(9)])
    with pytest.raises(LogError, match="8 of 9 gold answers are not those of classroom|9 of 9 gold answers"):
        bring(shifted, columns=columns, **STATED)


def test_a_number_of_problems_that_the_file_does_not_have_is_said(rows, tmp_path, capsys):
    time = "2024-10-01T00-00-00.000000"
    file = rows([lm_eval_row(0, ["#### 1"], 0.0)], f"samples_gsm8k_{time}.jsonl")
    rows(
        {"n-shot": {"gsm8k": 5}, "model_name": "a/b", "n-samples": {"gsm8k": {"effective": 100}}},
        f"results_{time}.json",
    )
    assert main(["import", str(file), "--dataset", "classroom", "--outputs-dir", str(tmp_path)]) == 0
    assert "the log says that it has 100 problems, the file has 1" in capsys.readouterr().out


# Verdicts


def test_self_consistency_verdicts_are_of_the_vote(bring, rows):
    time = "2026-10-01T00-00-00.000000"
    pattern = {"function": "regex", "regex_pattern": r"The answer is (\-?[0-9\.\,]*[0-9]+)"}
    vote = [pattern, {"function": "majority_vote"}, {"function": "take_first"}]
    filters = [
        {"name": "score-first", "filter": [pattern, {"function": "take_first"}]},
        {"name": "maj@64", "filter": vote},
        {"name": "maj@3", "filter": [{"function": "take_first_k", "k": 3}, *vote]},
    ]
    answers = [f"The answer is {number}." for number in (GOLD[0], "20.5", GOLD[0], "20.5", "20.5")]
    verdicts = {"score-first": 1.0, "maj@64": 0.0, "maj@3": 1.0}
    file = rows(
        [lm_eval_row(0, answers, score, filter=name) for name, score in verdicts.items()], f"samples_t_{time}.jsonl"
    )
    rows({"configs": {"t": {"filter_list": filters}}, "n-shot": {"t": 8}, "model_name": "a/b"}, f"results_{time}.json")
    done = bring(file, protocol_label="x")
    stored = {
        (row["scorer"], row["sample_index"], row["samples"]): row["correct"]
        for row in rows_of(done, "source_verdicts.jsonl")
    }
    assert stored == {("score-first", 0, 1): True, ("maj@64", None, 5): False, ("maj@3", None, 3): True}
    assert {agreement.rule for agreement in done.agreement.values()} == {"flexible"}
    assert all(agreement == Agreement("flexible", 1, 1, exact=False) for agreement in done.agreement.values())
    file.with_name(f"results_{time}.json").unlink()  # its name alone says that it is a vote
    alone = bring(file, protocol_label="x", model="n")
    assert {row["sample_index"] for row in rows_of(alone, "source_verdicts.jsonl")} == {0, None}


@pytest.mark.parametrize("form", ["0.4.0", "0.4.3", "memory"])
def test_lm_eval_before_0_4_7_keeps_verdicts_and_settings(bring, rows, form):
    time = "2024-10-01T00-00-00.000000"
    right = lm_eval_row(0, [f"Yes.\n#### {GOLD[0]}"], 1.0)
    wrong = lm_eval_row(1, ["No.\n#### 7.25"], 0.0)
    two_filters = [right, wrong, right, wrong]
    if form != "0.4.3":
        for row in (right, wrong):
            row["arguments"] = [list(row["arguments"]["gen_args_0"].values())]
    if form == "memory":
        two_filters = [row | {"filter": "flexible-extract", "metrics": ["exact_match"]} for row in (right, wrong)]
    file = rows(json.dumps(two_filters) if form == "0.4.0" else two_filters, f"samples_gsm8k_{time}.jsonl")
    strict = {"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"}
    last = {"function": "regex", "group_select": -1, "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)"}
    filters = [{"name": "strict-match", "filter": [strict]}, {"name": "flexible-extract", "filter": [last]}]
    results = {"configs": {"gsm8k": {"filter_list": filters}}, "n-shot": {"gsm8k": 5}, "model_name": "org/small"}
    rows(results | {"chat_template": None, "fewshot_as_multiturn": True}, f"results_{time}.json")
    done = bring(file)
    names = ("flexible-extract",) if form == "memory" else ("strict-match", "flexible-extract")
    rules = {"strict-match": "lm_eval_strict", "flexible-extract": "lm_eval_flexible"}
    assert done.agreement == {name: Agreement(rules[name], 2, 2) for name in names}
    protocol = done.results.run.read_json("metrics.json")["protocol"]
    assert (protocol["shots"], protocol["temperature"], protocol["stop"]) == (5, 0.0, ["Question:"])
    assert protocol["chat"] is True and protocol["exemplars_as"] == "turns"


@pytest.mark.parametrize(
    ("results", "chat"),
    [
        ({"chat_template": None}, False),
        ({"chat_template": "{{ messages }}"}, True),
        ({"chat_template": None, "model_source": "local-chat-completions"}, True),
        ({"chat_template": None, "fewshot_as_multiturn": True, "lm_eval_version": "0.4.13"}, None),
        ({}, None),
    ],
)
def test_chat_is_what_the_results_say(bring, rows, results, chat):
    time = "2026-10-01T00-00-00.000000"
    file = rows([lm_eval_row(0, ["#### 1"], 0.0)], f"samples_gsm8k_{time}.jsonl")
    rows({"n-shot": {"gsm8k": 5}, "model_name": "a/b"} | results, f"results_{time}.json")
    assert bring(file).results.run.read_json("metrics.json")["protocol"]["chat"] is chat


def test_results_that_do_not_lie_beside_are_named(bring, rows):
    file = rows([lm_eval_row(0, ["#### 1"], 0.0)], "here/mine.jsonl")
    results = rows({"configs": {"gsm8k": {}}, "n-shot": {"gsm8k": 3}, "model_name": "a/b"}, "there/r.json")
    assert bring(file, results=str(results)).results.config.protocol_label == "lm-eval gsm8k, test@1, 3-shot"


# lighteval


def write_parquet(file: Path, rows: list[dict]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file


@pytest.mark.parametrize("metrics", [True, False])
def test_lighteval_that_wrote_columns_as_text(bring, tmp_path, metrics):
    rows = [
        {
            "example": f"Question: {Q[n]}\nAnswer:",
            "predictions": [f"It's\n#### {GOLD[n] if n else 'none'}"],
            "gold": [f" {GOLD[n]}"],
            "num_effective_few_shots": 5,
        }
        | ({"metrics": {"qem": float(n > 0)}} if metrics else {})
        for n in range(3)
    ]
    as_text = [{name: str(value) for name, value in row.items()} for row in rows]
    done = bring(write_parquet(tmp_path / "details_leaderboard|gsm8k|5.parquet", as_text), **STATED)
    assert texts(done) == [row["predictions"][0] for row in rows]
    assert done.results.config.n_samples == 1 and len(done.other_gold) == 0
    assert done.results.run.read_json("metrics.json")["protocol"]["shots"] == 5
    assert done.agreement == ({"qem": Agreement("flexible", 3, 3, exact=False)} if metrics else {})
    as_text[1]["predictions"] = "['cut"
    with pytest.raises(LogError, match="row 1: 'predictions' is no list of texts"):
        bring(write_parquet(tmp_path / "cut.parquet", as_text), **STATED)


@pytest.mark.parametrize(
    ("column", "read"),
    [
        ("['#### 1', \"It's\\n#### 2\"]", ["#### 1", "It's\n#### 2"]), ("('#### 1', '#### 2')", "is a tuple|tuple"),
        ("'#### 1'", ["#### 1"]), ("[18]", "holds a number .*not a text"), ("{'text': 'a'}", "holds an object"),
        ("#### 1", "'predictions' is no list of texts"), ("['#### 1', None]", ["#### 1", None]), ("[", "is no list"),
    ],
)  # fmt: skip
def test_what_lightevals_columns_of_text_may_hold(bring, tmp_path, column, read):
    row = {"example": Q[0], "predictions": column, "gold": GOLD[0], "metrics": "{}"}
    file = write_parquet(tmp_path / "x.parquet", [row])
    if isinstance(read, list):
        assert texts(bring(file, **STATED)) == read
    else:
        with pytest.raises(LogError, match=read):
            bring(file, **STATED)


# OpenCompass, evalscope, Qwen2.5-Math, verl, Meta


def evalscope_row(n: int, text: str | list, **more) -> dict:
    user = {"role": "user", "content": f"Solve this step by step.\n\n{Q[n]}"}
    choice = {"message": {"content": text, "role": "assistant"}, "stop_reason": "stop"}
    output = {"choices": [choice], "usage": {"input_tokens": 9, "output_tokens": 4}, "time": 1.5, "error": None}
    return {"index": n, "model": "a/b", "model_output": output, "messages": [user]} | more


def opencompass(n: int, prompt) -> dict:
    return {"origin_prompt": prompt, "prediction": f"The answer is {GOLD[n]}", "gold": PROBLEMS[n].solution}


FORMS = {
    "opencompass, turns": {
        str(n): opencompass(n, [{"role": "HUMAN", "prompt": "Question: 1 + 1?"}, {"role": "BOT", "prompt": "2"},
                                {"role": "HUMAN", "prompt": f"Question: {Q[n]}\nAnswer:"}]) for n in range(3)
    },
    "opencompass, text": {str(n): opencompass(n, f"Question: {Q[n]}") for n in range(3)},
    "opencompass, lines": [{"idx": n} | opencompass(n, f"Question: {Q[n]}") for n in range(3)],
    "evalscope 1": [evalscope_row(n, f"ANSWER: {GOLD[n]}") for n in range(3)],
    "evalscope 1, reasoning": [
        evalscope_row(n, [{"type": "reasoning", "reasoning": "7777"}, {"type": "text", "text": f"ANSWER: {GOLD[n]}"}])
        for n in range(3)
    ],
    "evalscope 1, reviews": [
        {"index": n, "input": f"Solve: {Q[n]}", "target": GOLD[n],
         "sample_score": {"score": {"value": {"acc": 1.0}, "prediction": f"ANSWER: {GOLD[n]}"}, "sample_id": n}}
        for n in range(3)
    ],
    "evalscope 0": [
        {"index": n, "model": "b", "model_spec": {"model_id": "a/b"},
         "raw_input": {"question": Q[n], "answer": PROBLEMS[n].solution},
         "choices": [{"message": {"content": GOLD[n]}, "review": {"gold": GOLD[n], "pred": GOLD[n], "result": True}}]}
        for n in range(3)
    ],
    "llmuses": [
        {"answer_id": f"answer-{n}", "subset_name": "main",
         "raw_input": {"question": Q[n], "answer": PROBLEMS[n].solution},
         "choices": [{"message": {"content": GOLD[n]}, "finish_reason": "stop"}], "model": "a/b"}
        for n in range(3)
    ],
    "Qwen2.5-Math": [
        {"idx": n, "question": Q[n], "gt_cot": "x", "gt": GOLD[n], "code": [f"So \\boxed{{{GOLD[n]}}}", "7.25"],
         "pred": [GOLD[n], "7.25"], "report": [None, None], "score": [True, False]}
        for n in range(3)
    ],
    "verl": [
        {"input": f"user\n{Q[n]} Let's think step by step.\nassistant\n", "output": f"#### {GOLD[n]}", "gts": GOLD[n],
         "score": 1.0, "step": 7}
        for n in range(3)
    ],
    "Meta": [
        {"task_name": "gsm8k", "input_question": Q[n], "output_prediction_text": [f"The final answer is {GOLD[n]}"],
         "input_correct_responses": [GOLD[n]], "is_correct": True}
        for n in range(3)
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_each_tools_file_comes_in_right(bring, rows, form):
    done = bring(rows(FORMS[form]), **STATED)
    several = 2 if form == "Qwen2.5-Math" else 1
    assert counts(done) == (3, several, 0, 0) and done.other_gold == []
    assert done.results.run.read_json("metrics.json")["rules"]["flexible"]["correct"] == 3
    judged = form not in ("opencompass, turns", "opencompass, text", "opencompass, lines", "llmuses")
    judged &= form not in ("evalscope 1", "evalscope 1, reasoning")
    assert [(each.alike, each.of) for each in done.agreement.values()] == [(3 * several, 3 * several)] * judged
    assert form != "verl" or done.agreement == {"score": Agreement("verl_strict", 3, 3)}


def test_evalscope_states_its_model_tokens_and_time(bring, rows):
    done = bring(rows(FORMS["evalscope 1"]), protocol_label="x")
    sample = next(iter(done.results.run.journal().samples.values()))
    assert done.results.config.model == "a/b" and (sample.prompt_tokens, sample.completion_tokens, sample.seconds) == (
        9,
        4,
        1.5,
    )


# HELM's statistics, inspect's versions


def test_helm_verdicts_stand_in_a_file_of_their_own(bring, rows):
    spec = {"model": "a/b", "max_train_instances": 5, "temperature": 0.0}
    states = [
        {"instance": {"id": f"id{n}", "input": {"text": Q[n]}}, "train_trial_index": trial,
         "result": {"success": True, "completions": [{"text": f"It is {GOLD[n] if trial == 0 else '7.25'}"}]}}
        for trial in (0, 1) for n in range(2)
    ]  # fmt: skip
    name = {"name": "final_number_exact_match", "split": "test"}
    blocks = [
        {"instance_id": f"id{n}", "train_trial_index": trial,
         "stats": [{"name": name, "mean": 1.0 - trial}, {"name": {"name": "num_bytes"}, "mean": 1.0}]}
        for trial in (0, 1) for n in range(2)
    ]  # fmt: skip
    file = rows({"adapter_spec": spec, "request_states": states}, "scenario_state.json")
    rows(json.dumps(blocks), "per_instance_stats.json")
    done = bring(file)
    assert done.agreement == {"final_number_exact_match": Agreement("helm", 4, 4)}
    assert (done.results.config.n_samples, n_failed(done)) == (2, 0)


def inspect_log(version: str, texts: list[str]) -> dict:
    spec = {
        "task": "gsm8k", "model": "a/b", "task_args": {"fewshot": 0}, "packages": {"inspect_ai": version},
        "scorers": [{"name": "match", "options": {"numeric": True}}], "created": "2026-03-06T19:02:02+00:00",
        "dataset": {"samples": 2},
    }  # fmt: skip
    samples = [
        {"id": n, "epoch": 1, "input": Q[n], "target": GOLD[n], "scores": {"match": {"value": "C"}},
         "output": {"choices": [{"message": {"content": text, "role": "assistant"}, "stop_reason": "stop"}]}}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    plan = {"config": {"temperature": 0.0}}
    return {"version": 2, "status": "success", "eval": spec, "plan": plan, "samples": samples}


def test_inspects_own_time_packages_and_source_are_kept_and_never_ours(bring, rows):
    done = bring(rows(inspect_log("0.3.250", [GOLD[0], GOLD[1]]), "x.json"))
    manifest = done.results.run.read_json("manifest.json")
    log = done.results.run.read_json("config.json")["inputs"]["log"]
    assert log["packages"] == {"inspect_ai": "0.3.250"} and log["time"] == "2026-03-06T19:02:02+00:00"
    assert (log["model"], log["source"]) == ("a/b", "x.json")
    assert manifest["environment"] == {} and manifest["sessions"] == []  # this machine sampled nothing
    assert done.agreement == {"match": Agreement("inspect", 2, 2)}


@pytest.mark.parametrize(
    ("version", "rule", "alike"),
    [
        ("0.3.180", "inspect_endswith", 1),
        ("0.3.220", "inspect_endswith", 1),
        ("0.3.221", "inspect", 0),
        ("1.0.0", "inspect", 0),
    ],
)
def test_inspects_rule_is_that_of_its_version(bring, rows, version, rule, alike):
    done = bring(rows(inspect_log(version, [f"ANSWER: 1{GOLD[0]}"]), "x.json"))  # 118 for 18: right until 0.3.220
    assert done.agreement == {"match": Agreement(rule, alike, 1)}


# Containers


def test_packed_and_joined_rows_are_rows(bring, rows, tmp_path):
    lines = [{"question": Q[n], "response": f"#### {GOLD[n]}"} for n in range(3)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    table = "question\tresponse\n" + "".join(f'"{Q[n]}"\t#### {GOLD[n]}\n' for n in range(3))
    forms = {
        "a.jsonl.gz": gzip.compress(text.encode()),
        "b": lzma.compress(text.encode()),
        "c.json": json.dumps(lines, indent=1),
        "joined.jsonl": "".join(map(json.dumps, lines)),
        "pretty.jsonl": "\n".join(json.dumps(line, indent=2) for line in lines),
        "bom.jsonl": "\ufeff" + text,
        "d.tsv": table,
        "e.csv": table.replace("\t", ","),
    }
    for name, content in forms.items():
        done = bring(rows(content, name), **PLAIN)
        assert "= 1.0000 flexible" in done.results.headline and len(done.results.problems) == 3, name
    done = bring(write_parquet(tmp_path / "rows.parquet", lines), **PLAIN)
    assert "= 1.0000 flexible" in done.results.headline


def test_dotted_names_reach_into_rows_and_a_name_with_dots_is_a_name(bring, rows):
    file = rows([{"in": {"q": Q[0]}, "out": [{"t": "#### 1"}, {"t": "#### 2"}], "fin.al": f"#### {GOLD[0]}"}])
    assert texts(bring(file, columns=named("in.q", "out.*.t"), **STATED)) == ["#### 1", "#### 2"]
    assert texts(bring(file, columns=named("in.q", "fin.al"), **STATED | {"model": "n"})) == [f"#### {GOLD[0]}"]


def test_rows_may_be_placed_by_index_and_judged_by_a_column(bring, rows):
    file = rows(
        [{"id": index, "response": f"#### {GOLD[n]}", "ok": "true"} for n, index in enumerate([0, "1", "test-0002"])]
    )
    done = bring(file, columns=named(completion="response", index="id", verdict="ok"), **STATED)
    assert (len(done.results.problems), done.aligned.unchecked) == (3, 3)
    assert done.agreement == {"ok": Agreement("flexible", 3, 3, exact=False)}
    moved = rows(
        [
            {"id": 0, "response": "1", "q": Q[1]},
            {"id": 900, "response": "1", "q": Q[1]},
            {"id": 1, "response": "1", "q": Q[1]},
        ]
    )
    done = bring(moved, columns=named("q", "response", index="id"), **STATED | {"model": "n"})
    reasons = [row["reason"] for row in rows_of(done, "unaligned.jsonl")]
    assert reasons == [f"row {row} of the data set has not this question" for row in (0, 900)]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("verdict", 0.5, "row 1: 'v' holds 0.5, no verdict"),
        ("verdict", "partly", "'partly', no verdict"),
        ("gold", "eighteen", "'eighteen', no gold"),
        ("gold", ["18"], r"\['18'\], no gold"),
        ("index", -1, "holds -1, no index"),
        ("index", "gsm8k/0", "'gsm8k/0', no index"),
    ],
)
def test_a_named_column_that_cannot_be_read_is_refused(bring, rows, column, value, message):
    lines = [{"question": Q[n], "response": f"#### {GOLD[n]}", "v": None} for n in range(2)]
    lines[1]["v"] = value
    with pytest.raises(LogError, match=message):
        bring(rows(lines), columns=named("question", "response", **{column: "v"}), **STATED)


def test_verdicts_may_be_words_and_rows_may_be_decimals(bring, rows):
    words = ["Correct", "incorrect", "yes", "fail"]
    lines = [{"n": float(n), "response": f"#### {GOLD[n]}", "v": word} for n, word in enumerate(words)]
    done = bring(rows(lines), columns=named(completion="response", index="n", verdict="v"), **STATED)
    assert done.agreement == {"v": Agreement("flexible", 2, 4, exact=False)}
    assert [problem.id for problem in done.results.problems] == [problem.id for problem in PROBLEMS[:4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("lfs.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 4\n", "git lfs pull"),
        ("deep.json", "[" * 100_000 + "]" * 100_000, "is damaged .*recursion"),
        ("deep.jsonl", '{"a":' * 100_000, "recursion|not JSON"),
        ("cut.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-9], "cut.jsonl.gz: is damaged"),
        ("latin.jsonl", b'{"a": "\xe9"}', "latin.jsonl: is damaged .*utf-8"),
        ("torn.jsonl", '{"a": 1}\n{"a": 2}\n{"a', "line 3: not JSON"),
        ("digits.json", '{"a": ' + "1" * 5000 + "}", "digits.json, line 1: not JSON"),
        ("odd.csv", "a,b\n1,2,3\n", "row 0: has not as many cells"),
        ("wide.jsonl", json.dumps({f"c{n}": n for n in range(1319)}), r"columns c0, .*, c11 and 1307 more; name"),
        ("bad.eval", b"PK\x03\x04 and no archive", "bad.eval: is damaged"),
        ("bad.xz", b"\xfd7zXZ\x00 and no more", "bad.xz: is damaged"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(bring, rows, name, content, message):
    with pytest.raises(LogError, match=message) as error:
        bring(rows(content, name), **PLAIN if "rows" in name else STATED)
    assert "\n" not in str(error.value) and len(str(error.value)) < 700


@pytest.mark.parametrize(
    "damage",
    [
        {"eval": {"task": "t", "packages": [1], "scorers": [None]}},
        {"samples": [3]},
        {"samples": {"a": 1}},
        {"plan": [], "eval": {"task": "t", "scorers": 5}},
    ],
)
def test_a_log_of_odd_parts_is_said(bring, rows, damage):
    with pytest.raises(LogError, match="odd.json"):
        bring(rows(inspect_log("0.3.250", ["1", "2"]) | damage, "odd.json"))
    with pytest.raises(LogError, match="no whole log of lm-eval"):
        bring(rows([lm_eval_row(0, ["1"], 1.0) | {"resps": {"a": 1}}], "odd.jsonl"), **STATED)


def test_a_bad_eval_is_said(bring, rows, tmp_path):
    whole = tmp_path / "deep.eval"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}, "status": "success", "version": 2}))
        archive.writestr("samples/1_epoch_1.json", "[" * 100_000)
    with pytest.raises(LogError, match="deep.eval: is damaged .*recursion"):
        bring(whole)
    excerpt = ROOT / "tests" / "data" / "logs" / "inspect_gsm8k.eval"
    with zipfile.ZipFile(excerpt) as archive:
        at = archive.getinfo("samples/1_epoch_1.json").header_offset + 100
    raw = bytearray(excerpt.read_bytes())
    raw[at : at + 9] = b"\0" * 9
    with pytest.raises(LogError, match="broken.eval: is damaged"):
        bring(rows(bytes(raw), "broken.eval"))


def test_a_fifo_never_hangs_and_a_bomb_never_fills_the_memory(bring, rows, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="pipe: is no regular file"):
        bring(tmp_path / "pipe")
    monkeypatch.setattr(files, "MOST_BYTES", 2**20)
    with pytest.raises(LogError, match="bomb.gz: unpacks to more than 1 MiB"):
        bring(rows(gzip.compress(b" " * 2**22), "bomb.gz"))
    with zipfile.ZipFile(tmp_path / "bomb.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1.json", b" " * 2**22)
    with pytest.raises(LogError, match="bomb.eval: unpacks to more than 1 MiB"):
        bring(tmp_path / "bomb.eval")


# Prompts


def test_an_exemplar_in_every_prompt_is_no_second_problem(bring, rows):
    """A template that holds a test problem: it is the one asked about only where it stands alone."""
    asked = [f"Q: {Q[0]}\nA: {GOLD[0]}\n\nQ: {Q[n]}\nA:" for n in range(6)]
    done = bring(rows([{"question": text, "response": f"#### {GOLD[n]}"} for n, text in enumerate(asked)]), **PLAIN)
    assert (len(done.results.problems), len(done.aligned.unaligned)) == (6, 0)
    assert "= 1.0000 flexible" in done.results.headline


# The files that showed the faults, where they are at hand: questions in them are GSM8K's, which no clone of this has

CASES = ROOT.parent / "shared" / "cases" / "logs"
SHARED = {  # file -> (options, what it is refused with or None, right under the flexible rule)
    "details_leaderboard_gsm8k_5.parquet": ({}, None, 1),
    "lighteval_str_no_metrics.parquet": ({}, None, 1),
    "samples_two_runs.jsonl": ({}, "several runs", 0),
    "objects.jsonl": ({"columns": named("question", "model_output")}, "holds an object", 0),
    "numbers.jsonl": ({"columns": named("question", "pred")}, "holds a number", 0),
    "nulls.jsonl": ({"columns": named("question", "response")}, None, 1),
    "ragged.jsonl": ({"columns": named("question", "response")}, None, 1),
    "samples_gsm8k_cot_self_consistency_2026-10-01T00-00-00.000000.jsonl": ({}, None, 3),
    "pretrained__m_gsm8k.jsonl": ({}, None, 1),
    "samples_gsm8k_5shot.jsonl": ({}, None, 2),
    "samples_gsm8k_2024-10-01T00-00-00.000000.jsonl": ({}, None, 1),
    "samples_other_gold.jsonl": ({}, None, 1),
    "samples_gsm8k_concatenated.jsonl": ({}, None, 1),
    "opencompass_gsm8k.json": ({}, None, 2),
    "opencompass_long_gsm8k.json": ({}, None, 8),
    "meta_evals.parquet": ({}, None, 1),
    "rows.csv": ({}, "columns id, question, answer", 0),
    "rows.jsonl.gz": ({"columns": named("question", "response")}, None, 1),
    "lfs_pointer.parquet": ({}, "git lfs pull", 0),
    "verl_0.jsonl": ({}, None, 1),
    "inspect_0.3.180_endswith.json": ({}, None, 1),
}


if CASES.is_dir():

    @pytest.mark.parametrize("name", SHARED)
    def test_the_files_that_showed_the_faults(name, official, tmp_path):
        options, refused, right = SHARED[name]
        call = {"data_path": str(official / "test.jsonl"), "outputs_dir": str(tmp_path)} | STATED | options
        if refused:
            with pytest.raises(LogError, match=refused):
                import_log(CASES / name, **call)
            return
        done = import_log(CASES / name, **call)
        assert done.results.run.read_json("metrics.json")["rules"]["flexible"]["correct"] == right


# Records for other tools


def test_a_record_states_the_texts_own_time_and_names_nothing_of_this_machine(bring, rows, tmp_path):
    log = inspect_log("0.3.250", [GOLD[n] if n % 2 else "7.25" for n in range(60)])
    done = bring(rows(log, "x.json"), model=str(tmp_path / "weights" / "final.gguf"))
    folder = done.results.run.folder
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    exported = export_run(folder, organisation="Us", model_id="org/small", output=tmp_path / "out")
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()} == before
    record = json.loads(exported.results.read_text())
    assert record["evaluation_timestamp"] == "2026-03-06T19:02:02+00:00"
    uncertainty = record["evaluation_results"][0]["score_details"]["uncertainty"]
    assert uncertainty["standard_error"]["method"] == "analytic, clustered by problem"
    assert (
        uncertainty["confidence_interval"]["method"] == "percentile" and uncertainty["num_bootstrap_samples"] == 10_000
    )
    assert str(tmp_path) not in exported.results.read_text() + exported.samples.read_text()
    assert record["model_info"]["name"] == "org/small"


def test_a_record_of_a_replayed_import_says_where_its_completions_come_from(bring, rows, tmp_path):
    done = bring(rows(inspect_log("0.3.250", ["1", "2"]), "x.json"))
    config = RunConfig(
        model="m",
        sampler="replay",
        dataset="classroom",
        replay_path=str(done.results.run.folder),
        outputs_dir=str(tmp_path / "replays"),
        n_resamples=100,
    )
    exported = export_run(evaluate(config).run.folder, organisation="Us", model_id="org/small", output=tmp_path / "out")
    record = json.loads(exported.results.read_text())
    assert '"tool": "inspect"' in record["eval_library"]["additional_details"]["completions_from"]
    assert record["evaluation_timestamp"] == "2026-03-06T19:02:02+00:00"  # of the texts, not of the replay
    interval = record["evaluation_results"][0]["score_details"]["uncertainty"]
    assert "num_bootstrap_samples" not in interval  # two problems are not resampled


@pytest.mark.parametrize(("sampler", "engine"), [("ray", "transformers"), ("vllm", "vllm"), ("openai", None)])
def test_a_record_names_the_engine_and_rays_workers(bring, rows, tmp_path, sampler, engine):
    run = bring(rows([{"question": Q[0], "response": "#### 1"}]), **PLAIN).results.run
    config = run.read_json("config.json")
    del config["inputs"]["log"]
    made = {"sampler": sampler, "prompt": "zero_shot", "replay_path": None, "replay_column": None}
    made["protocol_label"] = None
    run.write_json("config.json", config | made)
    session = {"started": "2026-01-01T00:00:00+00:00", "ended": None, "status": "interrupted"}  # killed
    run.update_manifest(sessions=[session])
    summarise(
        run, RunConfig(**{name: value for name, value in (config | made).items() if name in RunConfig.model_fields})
    )
    record = json.loads(export_run(run.folder, organisation="Us", model_id="a/b", output=tmp_path).results.read_text())
    model = record["model_info"]
    assert model.get("inference_engine") == ({"name": engine} if engine else None)
    assert model["additional_details"].get("workers") == ("ray" if sampler == "ray" else None)
    assert record["evaluation_timestamp"] == session["started"]
