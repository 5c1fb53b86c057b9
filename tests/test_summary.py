import json

import numpy as np
import pytest

from gsm8k_nb import data, sampling, summary
from gsm8k_nb.answers import rules as answer_rules
from gsm8k_nb.config import RunConfig
from gsm8k_nb.protocol import protocol_of
from gsm8k_nb.records import Sample
from gsm8k_nb.reporting import page as report
from gsm8k_nb.reporting import tables
from gsm8k_nb.runs import Inputs, RunError
from gsm8k_nb.sampling import manifest
from gsm8k_nb.scoring import frame, score, score_all, steps

from .samplers.test_replay import evaluate


def results_of(problems, texts_by_problem, tmp_path, inputs=None, **options) -> summary.Results:
    """Results of given texts, N a problem, as a run on the small problems would have them."""
    n = len(texts_by_problem[0])
    config = RunConfig(n_samples=n, temperature=0.7 if n > 1 else 0, outputs_dir=str(tmp_path), **options)
    facts = {
        "data_sha256": "0", "data_label": "gsm8k", "data_source": "x.jsonl", "data_verified": True,
        "data_problems": len(problems),
    }  # fmt: skip
    run = summary.Run(config.run_folder)
    run.start(config, Inputs(**facts | (inputs or {})), problems)
    log = manifest.Session(run, {})
    run.append(
        Sample(problem.id, index, text, "stop", None if text is not None else "timeout")
        for problem, texts in zip(problems, texts_by_problem, strict=True)
        for index, text in enumerate(texts)
    )
    log.write("sampled", {})
    summary.score_run(run, config, problems)
    return summary.summarise(run, config)


def test_score_is_pure_and_errors_are_unscored(problems):
    right = Sample("test-0000", 0, "#### 5", "stop")
    assert [verdict.correct for verdict in score(problems[0], right)] == [True, True]
    assert score(problems[0], right) == score(problems[0], right)
    null = Sample("test-0000", 0, None, "content_filter")
    assert [(verdict.predicted, verdict.correct) for verdict in score(problems[0], null)] == [(None, False)] * 2
    failed = Sample("test-0000", 0, None, None, "timeout")
    assert [verdict.correct for verdict in score(problems[0], failed)] == [None, None]
    assert score_all(problems, [Sample("other-0000", 0, "#### 5")]) == []


def test_steps_are_the_solutions_lines(problems, official):
    assert [steps(problem) for problem in problems] == [1, 2, 1, 3]
    counts = [steps(problem) for problem in data.load(path=str(official / "test.jsonl"))]
    assert (min(counts), max(counts), counts.count(2)) == (2, 11, 326)


def test_several_samples_a_problem(problems, tmp_path):
    texts = [["#### 5", "#### 5", "#### 4"], ["#### 1", "#### 48", "#### 2"], ["no"] * 3, ["#### -1"] * 3]
    results = results_of(problems, texts, tmp_path)
    values = results.metrics
    assert values["rules"]["strict"]["n"] == 12 and values["rules"]["strict"]["correct"] == 6
    assert values["rules"]["strict"]["accuracy"] == pytest.approx(0.5)
    assert values["pass_at_k"]["1"] == pytest.approx(0.5)
    assert values["pass_at_k"]["3"] == pytest.approx(0.75)
    assert values["maj_at_k"]["3"] == pytest.approx((1 + 1 / 3 + 0 + 1) / 4)
    assert values["health"]["identical_problems"] == 0.5
    assert "avg@3, T=0.7, 0-shot CoT" in results.headline
    assert list(tables.at_k(results).index) == [1, 2, 3]


def test_a_failed_request_leaves_its_problem_out(problems, tmp_path):
    texts = [["#### 5", None], ["#### 48", "#### 48"], ["#### 1", "#### 2"], ["#### -1", "#### -1"]]
    results = results_of(problems, texts, tmp_path)
    values = results.metrics
    assert values["health"]["failed"] == 1
    assert "Over all 8 samples the accuracy is between 62.50% and 75.00%" in "\n".join(tables.warnings(results))
    assert values["rules"]["strict"]["n_problems"] == 3
    assert values["rules"]["strict"]["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("n_samples", [1, 3])
def test_all_failed_is_undefined_and_not_zero(problems, tmp_path, n_samples):
    results = results_of(problems, [[None] * n_samples] * 4, tmp_path)
    assert results.metrics["rules"]["strict"]["accuracy"] is None
    assert results.headline.endswith("= undefined flexible, undefined strict (####)")
    assert report.save(results).exists()


def test_all_right_has_an_interval_of_some_width(problems, tmp_path):
    texts = [["#### 5"], ["#### 48"], ["#### 1,200"], ["#### -1"]]
    strict = results_of(problems, texts, tmp_path).metrics["rules"]["strict"]
    assert strict["accuracy"] == 1 and strict["ci_low"] < 0.7 and strict["ci_high"] == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "gsm8k acc (test@1, 8-shot CoT) = 0.5"),
        (
            {"complete": False, "n_scored": 40},
            "gsm8k subset acc (test@1, 8-shot CoT, 40 of 1319 problems) = 0.5",
        ),
        (
            {"complete": False, "name": "classroom", "n_scored": 112, "n_total": 112},
            "classroom acc (test@1, 8-shot CoT, 112 of 112 problems, the bundled teaching set, not GSM8K) = 0.5",
        ),
    ],
)
def test_headline_states_protocol_and_what_it_is(changes, expected):
    dataset = {
        "name": "gsm8k", "config": "main", "split": "test", "source": "x", "revision": None, "sha256": "0",
        "n_problems": 1319, "complete": True, "n_scored": 1319, "n_total": 1319,
    }  # fmt: skip
    assert summary.headline(summary.DatasetFacts(**dataset | changes), "test@1, 8-shot CoT", "0.5") == expected
    assert ("gsm8k acc" in expected) == dataset["complete"] if not changes else "gsm8k acc" not in expected


@pytest.mark.parametrize(
    ("first", "numbers"),
    [
        ("flexible", "0.5417 flexible, 0.0208 strict (####)"),
        ("strict", "0.0208 strict (####), 0.5417 flexible"),
        ("official", "undefined official, 0.5417 flexible, 0.0208 strict (####)"),
    ],
)
def test_a_headline_names_both_readings_the_ranked_one_first(first, numbers):
    shares = {"strict": 0.0208333, "flexible": 0.5416667, "official": None}
    rules = {
        name: summary.RuleScore(n=48, n_problems=48, correct=1, no_answer=0, accuracy=share)
        for name, share in shares.items()
    }
    assert summary.by_each_rule(rules, first) == numbers


def test_the_headlines_first_number_is_a_key_of_its_own(problems, tmp_path):
    texts = [["so \\boxed{5}"], ["so \\boxed{48}"], ["#### 1,200"], ["no idea"]]
    results = results_of(problems, texts, tmp_path)
    assert results.headline.endswith(" = 0.7500 flexible, 0.2500 strict (####)")
    assert (results.metrics.accuracy, results.headline_rule) == (0.75, "flexible")


@pytest.mark.parametrize(
    ("options", "label", "rule"),
    [
        ({}, "test@1, 0-shot CoT", "flexible"),
        ({"headline_rule": "auto"}, "test@1, 0-shot CoT", "strict"),
        ({"prompt": "wei_8shot", "headline_rule": "auto"}, "test@1, 8-shot CoT", "flexible"),
        ({"prompt": "train_kshot", "shots": 4}, "test@1, 4-shot CoT", "flexible"),
        ({"prompt": "wei_8shot", "headline_rule": "strict"}, "test@1, 8-shot CoT", "strict"),
        ({"temperature": 0.7, "n_samples": 8}, "avg@8, T=0.7, 0-shot CoT", "flexible"),
        ({"temperature": 0.7}, "avg@1, T=0.7, 0-shot CoT", "flexible"),  # one draw is not greedy
    ],
)
def test_protocol_label_and_rule(options, label, rule):
    config = RunConfig(**options)
    made = protocol_of(config, Inputs(chat=False))
    assert made.label == label and made.headline_rule == rule


def test_metrics_come_from_the_files_alone(replay_config):
    first = evaluate(replay_config)
    text = (first.run.folder / "metrics.json").read_text()
    again = summary.summarise(first.run, replay_config)
    assert again.metrics == first.metrics and (first.run.folder / "metrics.json").read_text() == text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in metrics.json"))


def test_missing_samples_are_said(replay_config):
    results = evaluate(replay_config)
    (results.run.folder / "samples.jsonl").write_text("")
    with pytest.raises(RunError, match="has lost 4 completions since they were sampled.*run 02_sample again"):
        summary.score_run(results.run, replay_config, results.problems)


def test_null_text_is_a_wrong_answer_all_the_way(problems, tmp_path):
    results = results_of(problems, [["#### 5"]] * 4, tmp_path)
    row = {"problem_id": "test-0001", "sample_index": 0, "text": None, "finish_reason": "content_filter"}
    with results.run.samples_file.open("a") as file:
        file.write(json.dumps(row) + "\n")
    summary.score_run(results.run, results.config, problems)
    again = summary.summarise(results.run, results.config)
    assert again.metrics["rules"]["strict"]["n"] == 4 and report.save(again).exists()


def test_a_rule_that_fails_on_a_text_is_counted_listed_and_ends_nothing(problems, tmp_path, monkeypatch):
    def breaks(text):
        return int("9" * 5000) if "loop" in text else None

    broken = answer_rules.RULES["official"].__class__("official", "fails on a loop", "here", breaks)
    monkeypatch.setattr(answer_rules, "RULES", answer_rules.RULES | {"official": broken})
    texts = [["#### 5"], ["a loop #### 48"], ["a loop"], ["no"]]
    results = results_of(problems, texts, tmp_path, headline_rule="official", rules="both")
    rules = results.metrics["rules"]
    assert {name: rules[name]["rule_failed"] for name in rules} == {"strict": 0, "flexible": 0, "official": 2}
    assert (rules["official"]["n"], rules["official"]["correct"], rules["official"]["no_answer"]) == (4, 0, 4)
    assert rules["strict"]["correct"] == 2
    warnings = [line for line in tables.warnings(results) if "The rule official failed on 2 samples" in line]
    assert len(warnings) == 1 and "test-0001, sample 0: ValueError: Exceeds the limit (4300" in warnings[0]


@pytest.mark.parametrize("spelt", ["{}.00", "{}.", "0{}", "{}.0 exactly", "1{}"])
def test_the_right_number_in_a_spelling_that_official_misses_ends_nothing(problems, tmp_path, spelt):
    texts = [[f"#### {spelt.format(problem.answer)}"] for problem in problems]
    results = results_of(problems, texts, tmp_path, headline_rule="official", n_resamples=100)
    kinds = tables.error_kinds(results)
    assert results.metrics["rules"]["official"]["correct"] == 0 and len(kinds) > 0
    assert (results.metrics["rules"]["strict"]["correct"] > 0) == (spelt != "1{}")


def test_steps_with_other_parameters_are_sent_back_or_made_anew(problems, tmp_path, capsys):
    results = results_of(problems, [["#### 5"]] * 4, tmp_path, rules="both")
    run, config = results.run, results.config
    with pytest.raises(RunError, match="has 4 problems, these parameters ask for 3: run 01_load"):
        summary.summarise(run, config.model_copy(update={"limit": 3}))
    again = summary.summarise(run, config.model_copy(update={"headline_rule": "official"}))
    assert "scores.jsonl was made by other rules: scored anew" in capsys.readouterr().out
    assert again.headline_rule == "official"


def test_lost_or_damaged_files_are_named(replay_config):
    results = evaluate(replay_config)
    source, problems = data.load_for(replay_config)
    config = results.run.folder / "config.json"
    kept = config.read_text()
    for text, fault in (("{", "config.json is damaged"), ("[]", "must be a JSON object")):
        config.write_text(text)
        with pytest.raises(RunError, match=fault):
            sampling.begin(replay_config, source, problems)
    config.unlink()
    with pytest.raises(RunError, match="no config.json that says how"):
        sampling.begin(replay_config, source, problems)
    config.write_text(kept)
    sampling.begin(replay_config, source, problems)


def test_intervals_are_named_by_their_level(problems, tmp_path):
    results = results_of(problems, [["#### 5"]] * 4, tmp_path, confidence=0.975)
    assert "97.5% interval" in tables.accuracy(results)


def test_frame_is_tidy(problems):
    samples = [Sample(problem.id, 0, "#### 5", "stop") for problem in problems]
    table = frame(problems, samples, score_all(problems, samples), "a run")
    assert len(table) == 8 and list(table["rule"].unique()) == ["strict", "flexible"]
    matrix = summary.verdicts(table[table["rule"] == "strict"], 1)
    assert np.array_equal(matrix[:, 0], [1, 0, 0, 0])


def test_resuming_asks_for_what_is_missing_only(replay_config, monkeypatch):
    evaluate(replay_config)
    source, problems = data.load_for(replay_config)
    run = sampling.begin(replay_config, source, problems)
    monkeypatch.setattr(sampling._Session, "generate", lambda *all: pytest.fail("something was asked for again"))
    form = sampling.PromptFormat("as_stored", "{question}", (), "x", "x")
    monkeypatch.setattr(type(form), "sha256", run.read_json("config.json")["inputs"]["prompt_sha256"])
    done = sampling.fill(run, replay_config, problems, form)
    assert (done.requested, done.on_disk, done.generated) == (4, 4, 0)
