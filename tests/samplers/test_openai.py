"""The openai sampler against a server that fails: nothing lost, twice or wrong for a fault, and no key told."""

import asyncio
import gc
import gzip
import json
import logging
import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections import Counter
from decimal import Decimal
from email.utils import formatdate

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")
pytest.importorskip("aiohttp", reason="the openai extra is not installed")

from gsm8k_nb import data, prompts, sampling, scoring
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, SamplerError, crew, openai, refusals, server, wire

from ..conftest import ROOT
from ..warm import python
from .stub_server import FAULTS, Reply, error, faulty, number_in, reply, serve, text_for

KEY = "sk-secret-0123456789abcdefSECRET"
NOT_OPENAI = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(openai, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(openai, "LONGEST_WAIT", 0.02)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def config_of(url: str | None, **changes) -> RunConfig:
    values = {"model": "stub-1", "sampler": "openai", "base_url": url, "concurrency": 4, "request_timeout": 60}
    return RunConfig(**values | changes)


def problem(number: int) -> Problem:
    return Problem(f"test-{number:04d}", f"How many are {number}?", f"#### {number}", Decimal(number))


def asked(n_problems: int, n_samples: int = 1, chat: bool = True) -> list[Request]:
    made = []
    for asked_of in map(problem, range(1, n_problems + 1)):
        prompt = [{"role": "user", "content": asked_of.question}] if chat else f"Question: {asked_of.question}"
        made += [Request(asked_of, index, prompt) for index in range(n_samples)]
    return made


def ask(config: RunConfig, requests: list[Request], stop=()) -> tuple[list[Sample], dict]:
    sampler = openai.OpenAISampler(config)
    got = [sample for batch in sampler.sample(iter(requests), stop) for sample in batch]
    return got, sampler.describe()


def keys(samples) -> Counter:
    return Counter((sample.problem_id, sample.sample_index) for sample in samples)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gsm8k_nb requests"]


# ---- nothing is lost, twice, or wrong for a fault


@pytest.mark.parametrize(("most", "n_problems"), [(1, 1319), (4, 300)])  # most choices in one answer
def test_a_fifth_of_all_requests_fail_in_every_way(most, n_problems):
    draw, nulls, planned = random.Random(5), Counter(), Counter()

    def answer(body, number):
        fault = draw.choice(FAULTS) if draw.random() < 0.2 else None
        planned[fault] += 1
        if fault == "null":
            nulls[f"test-{number_in(body):04d}"] += body.get("n", 1)
        if most == 1:
            body = {name: value for name, value in body.items() if name != "n"}  # as a server that does not know n
        return faulty(body, fault) if fault else reply(body)

    config = dict(concurrency=64, n_samples=4, temperature=0.7, request_timeout=1.5, max_retries=50)
    requests = asked(n_problems, 4)
    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, **config), requests)
    assert all(planned[fault] for fault in FAULTS) and sum(planned.values()) > n_problems * 4 / most
    assert keys(got) == Counter((request.problem.id, request.sample_index) for request in requests)
    assert not [sample.error for sample in got if sample.error]
    empty = [sample for sample in got if sample.text == ""]
    assert 0 < len(empty) <= sum(nulls.values()) and not keys(empty).keys() - set(keys(got))
    assert all(count <= nulls[name] for name, count in Counter(sample.problem_id for sample in empty).items())
    assert all(sample.text == text_for(int(sample.problem_id[5:])) for sample in got if sample.text)
    scores = scoring.score_all([problem(number) for number in range(1, n_problems + 1)], got, ("strict",))
    assert sum(score.correct for score in scores) == n_problems * 4 - len(empty)
    assert facts["several_choices_at_once"].startswith("yes" if most == 4 else "no")
    assert {"HTTP 429", "HTTP 500", "HTTP 503", "timeout", "broken connection", "bad JSON"} <= set(facts["retries"])


def test_a_request_that_failed_for_good_is_an_error_and_asked_again(tmp_path):
    broken = {"on": True}

    def answer(body, number):
        return error(503, "too busy") if broken["on"] and number_in(body) % 2 else reply(body)

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, max_retries=1), asked(6))
        failed = [sample for sample in got if sample.error]
        assert len(got) == 6 and {sample.problem_id for sample in failed} == {"test-0001", "test-0003", "test-0005"}
        assert failed[0].error == "HTTP 503: too busy (tried 2 times)" and failed[0].text is None
        assert facts["retries"] == {"HTTP 503": 6}
        broken["on"] = False
        assert not [sample.error for sample in ask(config_of(stub.url), asked(6))[0] if sample.error]


def test_a_server_that_fails_for_long_ends_the_run(monkeypatch):
    monkeypatch.setattr(openai, "FAILED_IN_A_ROW", 5)
    with serve(lambda body, number: error(500, "disk full")) as stub:
        sampler = openai.OpenAISampler(config_of(stub.url, max_retries=0, concurrency=1))
        got = []
        with pytest.raises(SamplerError, match="5 requests in a row failed for good.*disk full"):
            for batch in sampler.sample(iter(asked(40)), ()):
                got += batch
    assert len(got) == 4 and all(sample.error for sample in got) and not threads()


def test_no_server_is_one_error_and_no_rows():
    with pytest.raises(SamplerError, match=r"no server answers at http://127.0.0.1:9/v1 \(base_url\)"):
        ask(config_of("http://127.0.0.1:9/v1"), asked(20))
    page = pytest.raises(SamplerError, match="web page; for most servers base_url ends in /v1")
    with serve(lambda body, number: Reply(b"<!doctype html><p>Welcome")) as stub, page:
        ask(config_of(stub.url), asked(20))


def test_waiting_as_a_server_asks():
    assert refusals.retry_after({"retry-after-ms": "1500"}) == 1.5
    assert refusals.retry_after({"retry-after": "2"}) == 2
    assert refusals.retry_after({"retry-after": "soon"}) is None and refusals.retry_after({}) is None
    assert 50 < refusals.retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)}) <= 60
    assert openai._pause(1, 7.0) == 7.0 and 0 <= openai._pause(30, None) <= openai.LONGEST_WAIT
    long = pytest.raises(SamplerError, match="asks to wait 7200 seconds")
    with serve(lambda body, number: error(429, "daily limit", {"Retry-After": "7200"})) as stub, long:
        ask(config_of(stub.url), asked(2))


def test_errors_inside_a_good_status_and_odd_answers_are_tried_again():
    odd = [
        Reply({"error": {"message": "upstream is busy", "code": 502}}), Reply([1]), Reply({"choices": [None]}),
        Reply({"choices": [{"index": 0}]}), Reply({"choices": None}), Reply(b""),
        Reply({"choices": [{"index": 0, "message": {"content": "half"}, "finish_reason": "error"}]}),
    ]  # fmt: skip
    with serve(lambda body, number: odd[number] if number < len(odd) else reply(body)) as stub:
        got, facts = ask(config_of(stub.url, concurrency=1), asked(1))
    assert [sample.text for sample in got] == [text_for(1)]
    assert facts["retries"] == {"HTTP 502": 1, "bad JSON": 2, "no choices": 3, "failed choice": 1}


# ---- what is sent


def test_every_sampling_field_is_sent(monkeypatch):
    with serve(lambda body, number: reply(body)) as stub:
        got, facts = ask(config_of(stub.url, max_new_tokens=64, reasoning_effort="low"), asked(2))
    penalties = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    sent = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 64, "reasoning_effort": "low"} | penalties | NOT_OPENAI
    for seen in stub.seen:
        assert sent.items() <= seen.body.items() and seen.path == "/chat/completions"
        assert set(seen.body) == set(sent) | {"model", "messages", "seed"}
    assert facts["sampling"]["method"] == "greedy" and sent.items() <= facts["sampling"].items()
    assert facts["model"] == ["stub-1"] and facts["system_fingerprint"] == ["fp-1"]
    assert facts["repeatable"].startswith("not claimed")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    official = wire.fields(config_of(None), openai.OpenAISampler(config_of(None)).learnt)
    assert official["max_completion_tokens"] == 512 and not {"max_tokens", *NOT_OPENAI} & set(official)


def test_seeds_belong_to_problem_and_sample(monkeypatch):
    monkeypatch.setattr(openai, "MAX_CHOICES", 1)
    with serve(lambda body, number: reply(body)) as stub:
        config = config_of(stub.url, temperature=1, n_samples=3, concurrency=1)
        ask(config, asked(4, 3))
        ask(config, asked(4, 3))
        seeds = [seen.body["seed"] for seen in stub.seen]
    assert seeds[:12] == seeds[12:] and len(set(seeds)) == 12 and all(0 <= seed < 2**31 for seed in seeds)


def test_a_base_model_gets_text_and_stops():
    stop = ("\n\nQ:", "\n\nA:", "\n\nX:", "\n\nY:", "\n\nZ:")

    def answer(body, number):
        return reply(body, [text_for(number_in(body)) + "\n\nZ: more\n\nQ: and more"])

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url), asked(3, chat=False), stop)
    assert {seen.path for seen in stub.seen} == {"/completions"} and stub.seen[0].body["prompt"].startswith("Question")
    assert all(seen.body["stop"] == list(stop[:4]) for seen in stub.seen)
    assert [sample.text for sample in sorted(got, key=str)] == [text_for(number) for number in (1, 2, 3)]
    assert facts["endpoints"] == ["/completions"] and {sample.finish_reason for sample in got} == {"stop"}


def test_refused_fields_are_left_out_once_and_said(capsys):
    def answer(body, number):
        for name, words in (
            ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
            ("stop", "Unrecognized request argument supplied: stop"),
            ("presence_penalty", "no penalties"),
        ):
            if name in body:
                return error(400, words, param=name if name == "presence_penalty" else None)
        extra = [{"loc": ["body", name], "msg": "Extra inputs are not permitted", "input": body} for name in NOT_OPENAI]
        if "min_p" in body:
            return Reply({"detail": extra}, 422)
        return reply(body, [text_for(number_in(body)) + "\n\nQ: more"])

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, concurrency=1), asked(5, chat=False), ("\n\nQ:",))
    assert len(stub.seen) == 5 + 4  # each refusal once
    assert {sample.text for sample in got} == {text_for(number) for number in range(1, 6)}
    assert set(facts["dropped_fields"]) == {"max_tokens", "stop", "presence_penalty", *NOT_OPENAI}
    assert facts["sampling"]["max_completion_tokens"] == 512 and "max_tokens" not in facts["sampling"]
    assert not facts["retries"] and "does not take stop; left out" in capsys.readouterr().out


def test_a_field_that_matters_is_never_left_out():
    def only_one(body, number):
        if body.get("temperature", 1) != 1 or "temperature" in body:
            return error(400, "Unsupported value: 'temperature' is fixed at 1 for this model.", param="temperature")
        return reply(body)

    with serve(only_one) as stub:
        with pytest.raises(SamplerError, match=r"temperature: the server does not take 0.0.*\n.*set temperature to"):
            ask(config_of(stub.url), asked(2))
        got, facts = ask(config_of(stub.url, temperature=1), asked(2))
        assert len(got) == 2 and "temperature" in facts["dropped_fields"]
    refused = pytest.raises(SamplerError, match="top_k: the server does not take 20")
    with serve(lambda body, number: error(400, "unknown field `top_k`")) as stub, refused:
        ask(config_of(stub.url, temperature=1, top_k=20), asked(2))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(400, "maximum context length is 2048 tokens, reduce max_tokens"), "Lower max_new_tokens"),
        (error(400, "max_tokens=5000 cannot be greater than max_model_len=1024"), "Lower max_new_tokens"),
        (error(400, "you must provide a chat template"), "chat_template: plain"),
        (error(401, "bad key"), "OPENAI_API_KEY.*is not set, so a placeholder was sent"),
        (error(403, "no access"), "OPENAI_API_KEY"),
        (error(404, "no such model"), "no such model\n.*model and base_url.*\n.*models: stub-1"),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), "add credit"),
        (error(402, "Insufficient credits"), "add credit"),
        (error(501, "not here"), "not here"),
    ],
)
def test_a_refusal_ends_the_run_at_once_in_the_servers_words(answer, words):
    with serve(lambda body, number: answer) as stub:
        with pytest.raises(SamplerError, match=words):
            ask(config_of(stub.url, concurrency=2), asked(50))
        assert len(stub.seen) <= 4  # of each worker one, and a short question


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("words", ["your prompt has 2100 tokens, the maximum is 2048", "odd characters", ""])
@pytest.mark.parametrize("number", [1, 7])
def test_one_prompt_that_is_refused_is_one_failed_sample(status, words, number):
    with serve(
        lambda body, _: error(status, words) if body["messages"] == asked(number)[-1].prompt else reply(body)
    ) as stub:
        for requests in (asked(20), asked(number)[-1:]):  # asked for again by itself, it ends nothing either
            got, _ = ask(config_of(stub.url, concurrency=1), requests)
            [failed] = [one for one in got if one.error]
            assert failed.problem_id == f"test-{number:04d}" and len(got) == len(requests)
            assert failed.error.startswith(f"HTTP {status}") and words in failed.error
    assert len(stub.seen) <= 25  # two short questions, and the fields that do nothing left out for words that say none


# ---- what comes back


def test_what_a_choice_may_hold():
    message = {"reasoning_content": "5 + 5 is #### 10"}
    chunks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "It is 3"}]
    answers = {
        1: lambda body: reply(body, [None], "stop"),
        2: lambda body: reply(body, ["#### 2"], **message),
        3: lambda body: reply(body, [chunks], "length"),
        4: lambda body: reply(body, [None], refusal="I will not"),
        5: lambda body: reply(body, [["It ", "is ", {"type": "text", "text": "5"}]], "eos_token"),
        6: lambda body: reply(body, [""], "max_tokens", reasoning={"steps": 2}),
        7: lambda body: reply(body, [[{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}, "7"]], "odd"),
    }
    with serve(lambda body, number: answers[number_in(body)](body)) as stub:
        got, _ = ask(config_of(stub.url), asked(7))
    choices = [
        (sample.text, sample.finish_reason, sample.reasoning)
        for sample in sorted(got, key=lambda sample: sample.problem_id)
    ]
    assert choices == [
        ("", "stop", None), ("#### 2", "stop", "5 + 5 is #### 10"), ("It is 3", "length", "hm"),
        ("I will not", "stop", None), ("It is 5", "stop", None), ("", "length", '{"steps": 2}'), ("7", "odd", "a"),
    ]  # fmt: skip
    assert not [sample.error for sample in got if sample.error]


CALL = [{"id": "x", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("choice", "named", "tries"),
    [
        (dict(texts=["#### 1"], finish="insufficient_system_resource"), "insufficient_system_resource", 2),
        (dict(texts=["#### 1"], finish="abort"), "abort", 2), (dict(texts=[""], finish="error"), "error", 2),
        (dict(texts=["#### 1"], finish="network_error"), "network_error", 2), (dict(texts=[""], finish="??"), "??", 2),
        (dict(texts=["So far #### 1"], finish="content_filter"), "content_filter", 1),
        (dict(texts=[None], finish="content_filter: RECITATION"), "RECITATION", 1),
        (dict(texts=[None], finish="SAFETY"), "SAFETY", 1), (dict(texts=[None], finish="sensitive"), "sensitive", 1),
        (dict(texts=["so far"], finish="preempted"), "preempted", 2),
        (dict(texts=["so far"], finish="OTHER"), "OTHER", 2),
        (dict(texts=["so far"], finish="incomplete"), "incomplete", 2),
        (dict(texts=["so far"], finish="disconnected"), "disconnected", 2),
        (dict(texts=["#### 1"], finish="guardrail_intervened"), "guardrail_intervened", 1),
        (dict(texts=["#### 1"], finish="refusal"), "refusal", 1), (dict(texts=["a"], finish="BLOCKED"), "BLOCKED", 1),
        (dict(texts=["#### 1"], finish="tool_calls", tool_calls=CALL), "tool_calls", 1),
        (dict(texts=[None], finish="stop", tool_calls=CALL), "tool parser", 1),
        (dict(texts=[None], finish="stop", function_call=CALL[0]["function"]), "tool parser", 1),
        (dict(texts=[{"answer": 1}]), "no text: content holds a dict with answer", 1),
        (dict(texts=[18]), "no text: content holds a int", 1), (dict(texts=[True]), "holds a bool", 1),
        (dict(texts=[["It is ", {"type": "image_url"}]]), "no text: content holds a dict with type", 1),
        (dict(texts=[[["a", 5]]]), "no text: content holds a int", 1),
    ],
)  # fmt: skip
def test_a_failed_generation_is_a_failed_sample_with_a_name(choice, named, tries):
    for chat in (True, False):
        with serve(lambda body, number: reply(body, **choice) if number_in(body) == 2 else reply(body)) as stub:
            if not chat and set(choice) & {"tool_calls", "function_call"}:
                continue  # a completion has no message
            got, _ = ask(config_of(stub.url, max_retries=1, concurrency=1), asked(3, chat=chat))
        [failed] = [sample for sample in got if sample.error]
        assert failed.problem_id == "test-0002" and failed.text is None and named in failed.error
        assert len(stub.seen) == 2 + tries and not scoring.score_all([problem(2)], [failed], ("strict",))[0].correct
        assert scoring.score_all([problem(2)], [failed], ("strict",))[0].correct is None


def test_failed_choices_among_good_ones():
    def answer(body, number):
        good = reply(body)
        if number == 0:
            good.body["choices"][1] |= {"finish_reason": "abort"}
            good.body["choices"][2] |= {"finish_reason": "content_filter"}
            good.body["choices"][3] = {"index": 3, "error": {"message": "upstream is gone"}}
        return good

    with serve(answer) as stub:
        got, _ = ask(config_of(stub.url, n_samples=4, temperature=1, concurrency=1), asked(1, 4))
    assert keys(got) == keys(Sample("test-0001", index, "") for index in range(4)) and len(stub.seen) == 2
    assert [bool(sample.error) for sample in sorted(got, key=lambda sample: sample.sample_index)] == [
        False,
        True,
        False,
        False,
    ]


def test_a_server_all_of_whose_texts_are_taken_ends_the_run(monkeypatch):
    monkeypatch.setattr(openai, "FAILED_IN_A_ROW", 5)
    with serve(lambda body, number: reply(body, [None], "tool_calls")) as stub:
        with pytest.raises(SamplerError, match="5 requests in a row failed for good.*tool parser"):
            ask(config_of(stub.url), asked(50))
        assert len(stub.seen) < 10


@pytest.mark.parametrize(
    "odd",
    [
        b"[" * 100_000, b'{"choices":' * 50_000, b'{"choices": 5}', b'{"choices": "abc"}', b'{"choices": [[], 3, {}]}',
        b'{"choices": {"0": {"text": "x"}}}', b'{"error": ' + b"[" * 100_000, b'{"choices": [{"index": 0, "text"',
        b'{"x": ' + b"9" * 5000 + b"}", b'{"error": {"code": true}}', b'{"error": [1]}', b"null", b"NaN",
    ],
)  # fmt: skip
def test_an_answer_of_an_odd_shape_is_a_failed_request(odd):
    with serve(lambda body, number: Reply(odd) if number_in(body) == 2 else reply(body)) as stub:
        got, _ = ask(config_of(stub.url, max_retries=1), asked(3))
    assert [sample.problem_id for sample in got if sample.error] == ["test-0002"] and len(got) == 3


def test_indexes_of_choices_may_be_odd():
    for indexes in (["1", "0"], [None, 0], [1e400, -1], [True, {}], [10**30, "x"]):

        def answer(body, number, indexes=indexes):
            good = reply(body)
            for choice, index in zip(good.body["choices"], indexes, strict=True):
                choice["index"] = index
            return good

        with serve(answer) as stub:
            got, _ = ask(config_of(stub.url, n_samples=2, temperature=1), asked(3, 2))
        assert len(got) == 6 and {sample.text for sample in got} == {text_for(number) for number in (1, 2, 3)}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": True, "completion_tokens": True}, (None, None)), (5, (None, None)), (None, (None, None)),
        ({"prompt_tokens": 1e400, "completion_tokens": float("nan")}, (None, None)), ([], (None, None)),
        ({"prompt_tokens": -1, "completion_tokens": "7"}, (None, None)), ({"prompt_tokens": 0}, (None, None)),
        ({"prompt_tokens": 50.0, "completion_tokens": 7}, (50, 7)), ({"completion_tokens": 10**30}, (None, None)),
    ],
)  # fmt: skip
def test_usage_that_is_none_is_unknown_and_the_row_can_be_read_again(usage, tokens, tmp_path):
    def answer(body, number):
        good = reply(body)
        good.body["usage"] = usage
        return good

    with serve(answer) as stub:
        got, _ = ask(config_of(stub.url), asked(2))
    assert {(sample.prompt_tokens, sample.completion_tokens) for sample in got} == {tokens}
    Run(tmp_path).append(got)
    journal = Run(tmp_path).journal()
    assert len(journal.samples) == 2 and not journal.damaged


def test_a_packed_answer_is_read_to_a_bound_only(monkeypatch):
    monkeypatch.setattr(crew, "LONGEST_REPLY", 1 << 20)
    bomb = gzip.compress(b" " * (100 << 20))
    packed = {"Content-Encoding": "gzip"}

    def answer(body, number):
        if number_in(body) == 1:
            return Reply(gzip.compress(json.dumps(reply(body).body).encode()), headers=packed)
        return Reply(bomb, 200 if number_in(body) == 2 else 503, packed) if number_in(body) < 4 else reply(body)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, max_retries=1), asked(4))
    failed = {sample.problem_id: sample.error for sample in got if sample.error}
    assert failed == dict.fromkeys(("test-0002", "test-0003"), "too long an answer: more than 1 MiB (tried 2 times)")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10  # KiB


def test_a_budget_holds_where_the_server_counts_nothing(tmp_path, capsys):
    def answer(body, number):
        good = reply(body)
        good.body.pop("usage") if number % 2 else good.body.update(usage={"prompt_tokens": 0, "completion_tokens": 0})
        return good

    with serve(answer) as stub:
        values = {"dataset": "classroom", "limit": 40, "outputs_dir": str(tmp_path), "smoke": 0, "max_new_tokens": 50}
        values |= {"price_input": 1.0, "price_output": 10.0, "budget": 0.004, "concurrency": 1}
        config = config_of(stub.url, **values)
        source, problems = data.load_for(config)
        run, form = sampling.begin(config, source, problems), prompts.prompt_for(config, problems)
        done = sampling.fill(run, config, problems, form)
        assert done.generated == len(stub.seen) and 0 < len(stub.seen) < 40 == done.not_asked + done.generated
        asked_first, plan = len(stub.seen), sampling.plan(run, config, problems, form)
        assert plan.uncounted == asked_first and 0.7 * 0.004 < plan.spent <= 0.004
        sampling.fill(run, config, problems, form)  # the budget is the run's, not the session's
        assert len(stub.seen) <= asked_first + 1
    assert "the server does not count tokens" in capsys.readouterr().out
    assert run.read_json("manifest.json")["tokens"]["samples_not_counted"] == len(stub.seen)


def test_another_model_in_the_middle_of_a_run_is_told(capsys):
    def answer(body, number):
        good = reply(body)
        good.body["model"] = "stub-1" if number < 3 else "stub-2"
        return good

    with serve(answer) as stub:
        _, facts = ask(config_of(stub.url, concurrency=1), asked(5))
    assert facts["model"] == ["stub-1", "stub-2"]
    assert capsys.readouterr().out.count("the server answers by another model now: 'stub-2', before stub-1") == 1


@pytest.mark.parametrize("tags", [None, ["<<hmm>>", "<</hmm>>"]])
def test_a_stop_inside_reasoning_cuts_nothing(tags):
    thought = "{}Like this:\n\nQ: 1 + 1?\nA: 2{}".format(*tags or ("<think>", "</think>"))

    def answer(body, number):
        whole = f"{thought}#### {number_in(body)}\n\nQ: more"
        return reply(body, [whole.split(body["stop"][0])[0] if "stop" in body else whole])

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, think_tags=tags), asked(3, chat=False), ("\n\nQ:",))
    assert sorted(sample.text for sample in got) == [f"{thought}#### {number}" for number in (1, 2, 3)]
    assert "reasoning" in facts["dropped_fields"]["stop"]


def test_tokens_add_up_to_what_is_billed():
    texts = ["#### 1", "a much longer text " * 9, "", None, "short"]
    with serve(lambda body, number: reply(body, texts)) as stub:
        got, facts = ask(config_of(stub.url, n_samples=5, temperature=1), asked(1, 5))
    got.sort(key=lambda sample: sample.sample_index)
    assert len(stub.seen) == 1 and stub.seen[0].body["n"] == 5 and facts["retries"] == {}
    assert [sample.prompt_tokens for sample in got] == [50, 0, 0, 0, 0]
    assert sum(sample.completion_tokens for sample in got) == 36
    assert max(got, key=lambda sample: sample.completion_tokens).sample_index == 1
    assert all(sample.seconds > 0 for sample in got)


def test_a_server_that_gives_one_choice_is_asked_for_one():
    one_choice = {"n": 1}
    with serve(lambda body, number: reply(body | one_choice)) as stub:
        got, facts = ask(config_of(stub.url, n_samples=8, temperature=1), asked(12, 8))
    assert keys(got) == keys(Sample(request.problem.id, request.sample_index, "") for request in asked(12, 8))
    assert len(stub.seen) == 12 * 8 and facts["several_choices_at_once"].startswith("no")
    assert sum("n" in seen.body for seen in stub.seen) < 40


def test_a_server_that_counts_one_choice_of_several_is_asked_for_one():  # as llama.cpp's does
    def answer(body, number):
        good = reply(body)
        good.body |= {"timings": {"predicted_n": 8}, "usage": {"prompt_tokens": 50, "completion_tokens": 8}}
        return good

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, n_samples=4, temperature=1, concurrency=1), asked(3, 4))
    assert len(got) == 12 and len(stub.seen) == 1 + 8 and "one choice only" in facts["dropped_fields"]["n"]
    assert Counter(sample.completion_tokens for sample in got) == {None: 4, 8: 8}


# ---- how it runs


def test_it_runs_inside_a_running_event_loop_and_twice():
    with serve(lambda body, number: reply(body)) as stub:
        sampler = openai.OpenAISampler(config_of(stub.url))

        async def cell() -> int:
            return sum(len(batch) for _ in range(2) for batch in sampler.sample(iter(asked(20)), ()))

        assert asyncio.run(cell()) == 40 and not threads()


def test_requests_are_taken_as_needed_and_finished_when_they_end():
    taken = []

    def requests():
        for request in asked(500):
            taken.append(threading.current_thread())
            yield request
            if len(taken) == 300:
                return  # the budget is spent

    go = threading.Event()
    with serve(lambda body, number: reply(body)) as stub:
        answer, stub.answer = stub.answer, lambda body, number: go.wait(60) and answer(body, number)
        stream = openai.OpenAISampler(config_of(stub.url, concurrency=8)).sample(requests(), ())
        got: list[Sample] = []
        first = threading.Thread(target=lambda: got.extend(next(stream)))
        first.start()
        while not stub.seen:
            time.sleep(0.01)
        assert len(taken) <= 16  # those under way, and as many ahead
        go.set()
        first.join()
        got += [sample for batch in stream for sample in batch]
    assert len(taken) == len(stub.seen) == len(got) == 300


def test_ctrl_c_hands_on_what_arrived(recwarn, caplog):
    def answer(body, number):
        good = reply(body)
        good.fault = "hang" if number_in(body) > 10 else None
        if number_in(body) == 14:
            os.kill(os.getpid(), signal.SIGINT)
        return good

    got = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with serve(answer) as stub, pytest.raises(KeyboardInterrupt):
            for batch in openai.OpenAISampler(config_of(stub.url)).sample(iter(asked(100)), ()):
                got += batch
    finally:
        signal.signal(signal.SIGINT, before)
    assert {sample.problem_id for sample in got} == {f"test-{number:04d}" for number in range(1, 11)}
    assert len(stub.seen) == 14 and not threads()
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]
    assert not [warned for warned in recwarn if issubclass(warned.category, ResourceWarning | RuntimeWarning)]


def test_closing_early_leaves_nothing_behind(caplog):
    def answer(body, number):
        good = reply(body)
        good.fault = "hang" if number_in(body) > 10 else None
        return good

    with serve(answer) as stub:
        stream = openai.OpenAISampler(config_of(stub.url)).sample(iter(asked(100)), ())
        assert next(stream)
        assert threads()
        stream.close()
        assert not threads()
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_an_interrupt_of_the_caller_repeats_nothing():
    with serve(lambda body, number: reply(body)) as stub:
        stream = openai.OpenAISampler(config_of(stub.url)).sample(iter(asked(3)), ())
        got = next(stream)
        try:
            while True:
                got += stream.throw(KeyboardInterrupt) if len(got) < 3 else next(stream)
        except (KeyboardInterrupt, StopIteration):
            pass
    assert max(keys(got).values()) == 1 and not threads()


def test_an_error_of_the_requests_is_raised_after_what_arrived():
    def requests():
        yield from asked(3)
        time.sleep(0.2)
        raise ValueError("no prompt")

    with serve(lambda body, number: reply(body)) as stub:
        got = []
        with pytest.raises(ValueError, match="no prompt"):
            for batch in openai.OpenAISampler(config_of(stub.url, concurrency=1)).sample(requests(), ()):
                got += batch
    assert not threads()


# ---- the key


def test_a_missing_or_odd_key(monkeypatch):
    with pytest.raises(SamplerError, match="OPENAI_API_KEY is not set; export OPENAI_API_KEY"):
        openai.OpenAISampler(config_of(None))
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nmore")
    with pytest.raises(SamplerError, match="OPENAI_API_KEY holds is no key") as caught:
        openai.OpenAISampler(config_of(None))
    assert "secret" not in str(caught.value)


def test_the_key_is_hidden_in_what_servers_say(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    key = server.Key(config_of(None))
    for text in (
        f"Incorrect API key provided: {KEY}.", "Incorrect API key provided: sk-s****************CRET.",
        f"{{'Authorization': 'Bearer {KEY}'}}", f"x-api-key: {KEY}", f"bearer {KEY[:10]}", "key sk-proj-abcdefgh",
    ):  # fmt: skip
        hidden = key.hide(text)
        assert "[hidden]" in hidden and not any(part in hidden for part in ("secret", "CRET", "sk-s", "abcdefgh"))
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert (
        server.Key(config_of(None)).hide("the key is no-key, not nokeyed") == "the [hidden] is no-[hidden], not nokeyed"
    )


def test_the_key_is_in_no_file_log_or_exception(tmp_path, monkeypatch, caplog, capsys):
    monkeypatch.setenv("STUB_KEY", KEY)
    caplog.set_level(logging.DEBUG)

    def answer(body, number):
        assert stub.seen[number].headers["Authorization"] == f"Bearer {KEY}"
        if number % 3 == 0:
            return error(503, f"echo {dict(stub.seen[number].headers)}")
        return reply(body)

    with serve(answer) as stub:
        values = {"api_key_env": "STUB_KEY", "dataset": "classroom", "limit": 12, "outputs_dir": str(tmp_path)}
        config = config_of(stub.url, max_retries=0, **values)
        source, problems = data.load_for(config)
        run = sampling.begin(config, source, problems)
        done = sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
        assert done.failed and done.generated
        stub.answer = lambda body, number: error(401, f"wrong key: {KEY}, sent as Bearer {KEY}")
        with pytest.raises(SamplerError, match="STUB_KEY.*holds a key that the server refuses") as caught:
            sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
        notebook = papermill(tmp_path, config)
    assert "[hidden]" in (run.folder / "samples.jsonl").read_text()
    assert "SamplerError" in notebook and "holds a key that the server refuses" in notebook
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    shown = [capsys.readouterr().out, str(caught.value), repr(caught.value), caplog.text, notebook]
    shown += [repr(vars(openai.OpenAISampler(config)))]
    assert len(files) > 5 and any(record.name.startswith(("openai", "httpx")) for record in caplog.records)
    for text in [*files, *(text.encode() for text in shown)]:
        assert b"0123456789" not in text and b"sk-secret" not in text


def papermill(folder, config: RunConfig) -> str:
    """What papermill, the executed notebook and its HTML show of a run whose key is refused."""
    file = folder / "out.ipynb"
    (folder / "run.yaml").write_text(json.dumps(config.model_dump(exclude_defaults=True)))
    command = [*python(), "-m", "papermill", "--no-progress-bar", "-k", "python3", "--log-output", "-f"]
    notebook = str(ROOT / "notebooks/02_sample.ipynb")
    with_logs = os.environ | {"OPENAI_LOG": "debug"}
    ran = subprocess.run(
        [*command, str(folder / "run.yaml"), notebook, str(file)], env=with_logs, capture_output=True, text=True
    )
    assert ran.returncode != 0
    from nbconvert import HTMLExporter

    (folder / "out.html").write_text(HTMLExporter().from_filename(str(file))[0])
    return ran.stdout + ran.stderr + file.read_text()


def test_what_a_card_asks_for_is_sent_and_what_is_omitted_is_not():
    stated = {
        "min_p": 0.05, "presence_penalty": 0.5, "repetition_penalty": 1.1, "extra_body": {"chat_id": 7, "top_n": [1]},
        "enable_thinking": False, "template_kwargs": {"level": "high"}, "omit": ["top_k", "seed", "top_p"],
    }  # fmt: skip
    with serve(lambda body, number: reply(body)) as stub:
        _, facts = ask(config_of(stub.url, **stated), asked(1))
    body = stub.seen[0].body
    assert {name: body[name] for name in ("min_p", "presence_penalty", "repetition_penalty", "chat_id", "top_n")} == {
        "min_p": 0.05, "presence_penalty": 0.5, "repetition_penalty": 1.1, "chat_id": 7, "top_n": [1]
    }  # fmt: skip
    assert body["chat_template_kwargs"] == {"level": "high", "enable_thinking": False}
    assert not {"top_k", "seed", "top_p"} & set(body) and "top_p" in facts["dropped_fields"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"omit": ["temperature"]}, "omit: without temperature the run would not be what"),
        ({"omit": ["max_tokens"]}, "omit: without max_tokens"),
        ({"omit": ["messages"]}, "omit: without messages"),
        ({"omit": ["a"], "extra_body": {"a": 1}}, "omit: without a"),
        ({"extra_body": {"temperature": 1}}, "extra_body: temperature has a parameter of its own"),
        ({"extra_body": {"stream": True}}, "extra_body: stream"),
        ({"extra_body": {"n": 4}}, "extra_body: n"),
        ({"extra_body": {"max_completion_tokens": 4}}, "extra_body: max_completion_tokens"),
    ],
)
def test_a_field_is_neither_added_nor_left_out_against_the_parameters(values, said):
    with pytest.raises(SamplerError, match=said):
        openai.OpenAISampler(config_of("http://127.0.0.1:9/v1", **values))
