"""Refusals in the words of real servers: bounded, recorded, never gone back to, and never a run other than it says."""

import json
import random
import re
import time

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")
pytest.importorskip("aiohttp", reason="the openai extra is not installed")

from gsm8k_nb import data, prompts, sampling
from gsm8k_nb.runs import RunError
from gsm8k_nb.samplers import SamplerError, model_fingerprint, openai, refusals, server

from .stub_server import Reply, error, number_in, reply, serve, text_for
from .test_openai import KEY, ask, asked, config_of, keys, quick  # noqa: F401

VLLM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 2048 tokens "
    "and your request has 900 input tokens (4096 > 2048 - 900)."
)


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def openai_says(name, value):
    more = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
    words = f"Unsupported parameter: '{name}' is not supported with this model.{more}"
    return error(400, words, type="invalid_request_error", param=name, code="unsupported_parameter")


def xai(name, value):
    return Reply({"code": "invalid-argument", "error": f"Argument not supported on this model: {camel(name)}"}, 400)


def deepseek(name, value):
    words = f"Failed to deserialize the JSON body into the target type: {name}: unknown field `{name}`"
    return error(400, "Invalid n value (currently only n = 1 is supported)" if name == "n" else words, param=None)


def gemini(name, value):
    words = f'Invalid JSON payload received. Unknown name "{camel(name)}": Cannot find field.'
    words = "Penalty is not enabled for models/gemini-2.5-flash-lite" if name.endswith("penalty") else words
    words = "Multiple candidates is not enabled for models/gemini-2.5-flash-lite" if name == "n" else words
    return Reply([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], 400)


def mistral(name, value):
    detail = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": value}
    return Reply({"object": "error", "message": {"detail": [detail]}, "type": "invalid_request_error"}, 422)


def ollama(name, value):
    return error(400, f'json: unknown field "{name}"', type="invalid_request_error", param=None, code=None)


def llama_cpp(name, value):
    if name == "n":
        return error(500, "Only one completion choice is allowed", code=500, type="server_error")
    return error(400, f"Unsupported param: {name}", code=400, type="invalid_request_error")


def vllm(name, value):
    fault = {"type": "extra_forbidden", "loc": ("body", name), "msg": "Extra inputs are not permitted", "input": value}
    return Reply(
        {"object": "error", "message": str([fault]), "type": "BadRequestError", "param": None, "code": 400}, 400
    )


def sglang(name, value):
    return Reply({"object": "error", "message": f"body.{name}: Extra inputs are not permitted", "code": 400}, 400)


def openrouter(name, value):
    raw = json.dumps({"error": {"message": f"Model x does not support parameter {camel(name)}."}})
    return error(400, "Provider returned error", code=400, metadata={"raw": raw, "provider_name": "xAI"})


SERVERS = [openai_says, xai, deepseek, gemini, mistral, ollama, llama_cpp, vllm, sglang, openrouter]


def refusing(words, last: tuple[str, ...] = ()):
    """A server that refuses a request's fields, one at a time, and ``last`` only when nothing else is left."""

    def answer(body, number):
        optional = set(body) - {"model", "messages", "prompt", "max_completion_tokens", *last}
        for name in [*sorted(optional), *last]:
            if name in body:
                return words(name, body[name])
        return reply(body, [text_for(number_in(body))])

    return answer


@pytest.mark.parametrize("words", SERVERS)
def test_a_server_that_refuses_every_field_in_turn_is_asked_a_bounded_number_of_times(words, capsys):
    changes = {"temperature": 1, "n_samples": 3}
    with serve(refusing(words)) as stub:
        got, facts = ask(config_of(stub.url, concurrency=1, **changes), asked(4, 3, chat=False), ("\n\nQ:",))
    assert len(got) == 12 and not [sample.error for sample in got if sample.error]
    assert refusals.MOST_ADAPTIONS == 12 and len(stub.seen) <= 12 + refusals.MOST_ADAPTIONS
    forms = [frozenset(seen.body) for seen in stub.seen]
    assert all(form not in forms[:place] for place, form in enumerate(forms) if place <= len(set(forms)) - 1)
    assert {"max_tokens", "n", "stop", "seed", "temperature", "top_k", "presence_penalty"} <= set(
        facts["dropped_fields"]
    )
    assert all(len(words) > 10 for words in facts["dropped_fields"].values())  # the server's words
    assert facts["sampling"].keys() >= {"max_completion_tokens"} and "max_tokens" in capsys.readouterr().out
    with serve(refusing(words)) as stub:
        got, _ = ask(config_of(stub.url, concurrency=8, **changes), asked(40, 3, chat=False), ("\n\nQ:",))
        assert len(got) == 120 and len(stub.seen) <= 120 + 8 * refusals.MOST_ADAPTIONS


@pytest.mark.parametrize("words", SERVERS)
@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({"temperature": 0}, "temperature"),
        ({"top_p": 0.9}, "top_p"),
        ({"top_k": 20}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -0.5}, "frequency_penalty"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"enable_thinking": False}, "chat_template_kwargs"),
        ({"extra_body": {"thinking_budget": 64}}, "thinking_budget"),
    ],
)
def test_what_matters_is_refused_with_the_servers_words_and_the_parameter(words, changes, ours):
    with serve(refusing(words)) as stub:
        with pytest.raises(SamplerError, match=f"^{ours}: the server does not take .* and says: ") as caught:
            ask(config_of(stub.url, concurrency=1, **{"temperature": 1} | changes), asked(5))
        assert len(stub.seen) <= refusals.MOST_ADAPTIONS + 1
    refusal = json.dumps(stub.answer(stub.seen[-1].body, 0).body)
    assert any(word in str(caught.value) for word in re.findall(r"(?i)(?:support|unknown|extra|enabled)\w*", refusal))


@pytest.mark.parametrize("words", SERVERS)
def test_a_server_without_any_token_limit_is_not_used(words):
    with serve(refusing(words, ("max_completion_tokens",))) as stub:
        with pytest.raises(SamplerError, match="max_new_tokens: the server does not take 512 and says"):
            ask(config_of(stub.url, concurrency=1, temperature=1), asked(5))
        assert len(stub.seen) <= refusals.MOST_ADAPTIONS + 1


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (VLLM, "Lower max_new_tokens"),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "Lower max_new_tokens"),
        ("max_tokens is too large: 200000. At most 16384 completion tokens", "Lower max_new_tokens"),
        ("it has a maxOutputTokens value of 100000 but the supported range is from 1 to 65537", "Lower max_new_tokens"),
        ("max_completion_tokens or max_tokens must not exceed 4096", "Lower max_new_tokens"),
        ("Could not finish the message because max_tokens or model output limit was reached", "Raise max_new_tokens"),
        ("Invalid value for max_tokens: must be between 1 and 256", "Lower max_new_tokens"),
        ("max_tokens must be less than or equal to 2048", "Lower max_new_tokens"),
        ("Invalid max_tokens: this model takes up to 1024", "Lower max_new_tokens"),
        ("max_tokens should be <= 512", "Lower max_new_tokens"),
        ("", "Change the parameters"), ("Bad Request", "Change the parameters"),
    ],
)  # fmt: skip
def test_a_refused_value_is_no_refused_name(words, step):
    with serve(lambda body, number: error(400, words)) as stub:
        with pytest.raises(SamplerError, match=step) as caught:
            ask(config_of(stub.url, concurrency=4, max_new_tokens=4096), asked(50))
        assert len(stub.seen) <= 12 and words in str(caught.value)  # a short question of each worker among them
        assert all("max_completion_tokens" not in seen.body for seen in stub.seen)


def test_whatever_a_server_refuses_it_ends():
    """Refusals drawn at random, of one and of many fields, in ten servers' words, with every status."""
    for seed in range(12):
        draw = random.Random(seed)

        def answer(body, number, draw=draw):
            name = draw.choice([*body, "max_tokens", "max_completion_tokens", "foo"])
            refusal = draw.choice(SERVERS)(name, body.get(name))
            draw.random() < 0.2 and setattr(
                refusal, "body", draw.choice([VLLM, str(body), [[[]]], {"error": {}}, [], b"<p>"])
            )
            refusal.status = draw.choice([400, 422, refusal.status])
            return refusal

        with serve(answer) as stub:
            with pytest.raises(SamplerError):
                ask(config_of(stub.url, concurrency=8, temperature=1, n_samples=2), asked(99, 2), ("\n\nQ:",))
            assert len(stub.seen) <= 8 * (refusals.MOST_ADAPTIONS + 1)


@pytest.mark.parametrize(
    "words",
    [
        "Invalid n value (currently only n = 1 is supported)", "n must be 1", "n > 1 is not supported",
        "Only one completion choice is allowed", "this model gives a single choice", "n_cmpl cannot be greater than 1",
        "candidateCount must be 1", "Multiple completions are not available", "`n` is not implemented",
        "number of choices: 1",
    ],
)  # fmt: skip
def test_refusals_of_several_choices_that_do_not_quote_it(words):
    def answer(body, number):
        return error(400, words) if body.get("n", 1) > 1 else reply(body)

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, n_samples=4, temperature=1, concurrency=1), asked(2, 4))
    assert len(got) == 8 and len(stub.seen) == 9 and facts["several_choices_at_once"] == "no, asked for singly"
    assert facts["dropped_fields"] == {"n": words}


@pytest.mark.parametrize(
    "words",
    [
        "Rewrite this question: it must stop here", "a prompt of nine words", "The seed of doubt", "unsupported nation",
        "You supplied 16384 completion tokens", "one completion of many", "penalties may apply", "top model kept busy",
    ],
)  # fmt: skip
def test_prose_names_no_field(words):
    body = {"n": 4, "stop": ["x"], "seed": 1, "top_k": -1, "temperature": 0}
    named = refusals.fields_named(refusals.Refused(400, words), body)
    assert named <= ({"n"} if words.startswith("one") else set())


def test_refusals_without_a_name_cost_what_stands_for_nothing_once(capsys):
    def answer(body, number):
        return Reply(b"", 400) if "repeat_penalty" in body else reply(body)

    with serve(answer) as stub:
        got, facts = ask(config_of(stub.url, concurrency=1), asked(3))
    assert len(got) == 3 and len(stub.seen) == 4 and {"temperature", "top_p"} <= set(stub.seen[-1].body)
    assert set(facts["dropped_fields"]) == {
        "top_k", "min_p", "repetition_penalty", "repeat_penalty", "presence_penalty", "frequency_penalty",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([{"error": {"code": 400, "message": "Penalty is off", "status": "X"}}], "Penalty is off"),
        ({"message": {"detail": [{"loc": ["body", "n"], "msg": "no"}]}}, "['body', 'n']: no"),
        ({"error": "one word", "code": 3}, "one word"), ({"errors": [{"message": "a"}, {"message": "b"}]}, "a; b"),
        ({"error": {"message": "behind", "metadata": {"raw": "it"}}}, "behind: it"), ("plain", "plain"),
        ({"detail": "not here"}, "not here"), ([], ""), ({"error": {}}, '{"error": {}}'),
    ],
)  # fmt: skip
def test_a_servers_words_wherever_they_stand(raw, words):
    assert refusals.server_words(json.dumps(raw).encode(), str)[0] == words


def test_words_nested_without_end_are_still_words():
    for raw in (b"[" * 100_000, b'{"error":' * 50_000, b"\xff\xfe", b""):
        words, param, code = refusals.server_words(raw, str)
        assert len(words) < 600 and param == code == ""


# ---- prompts that a filter keeps back are failed samples, not the end of the run and not wrong answers


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "The response was filtered due to Azure's content management policy", code="content_filter"),
        error(400, "Content Exists Risk", type="invalid_request_error"),
        error(400, "Input data may contain inappropriate content.", code="data_inspection_failed"),
        error(403, "your prompt was flagged as potentially violating our usage policy", code="invalid_prompt"),
        Reply({"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        Reply({"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}]}),
    ],
)
def test_a_prompt_that_is_kept_back_is_one_failed_sample(answer):
    with serve(lambda body, number: answer if number_in(body) == 2 else reply(body)) as stub:
        got, facts = ask(config_of(stub.url, concurrency=1), asked(3))
    [failed] = [sample for sample in got if sample.error]
    assert failed.problem_id == "test-0002" and failed.text is None and len(stub.seen) == 3 == len(got)
    assert failed.error.startswith("prompt kept back by the server's filter") and "tried" not in failed.error


# ---- waits


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "-5"}, 0), ({"retry-after": "nan"}, None), ({"retry-after": "inf"}, float("inf")),
        ({"retry-after-ms": "nan", "retry-after": "3"}, 3), ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 -0000"}, 0), ({"retry-after": "Fri, 99 Foo 9999"}, None),
        ({"retry-after": ""}, None), ({"retry-after": "1e1"}, 10), ({"retry-after-ms": "-1"}, 0),
    ],
)  # fmt: skip
def test_what_a_server_may_say_of_waiting(headers, seconds):
    assert refusals.retry_after(headers) == seconds


def test_a_date_without_a_zone_is_in_utc():
    date = time.strftime("%a, %d %b %Y %H:%M:%S -0000", time.gmtime(time.time() + 100))
    assert 95 < refusals.retry_after({"retry-after": date}) <= 100


def test_waits_are_told_once_recorded_and_bounded(monkeypatch, capsys):
    monkeypatch.setattr(openai, "TOLD_WAIT", 0.05)
    busy = error(429, "slow down", {"Retry-After": "0.2"})
    with serve(lambda body, number: busy if number < 4 else reply(body)) as stub:
        got, facts = ask(config_of(stub.url, concurrency=4), asked(8))
    printed = capsys.readouterr().out
    assert len(got) == 8 and printed.count("waiting 0 seconds before asking again (HTTP 429: slow down)") == 1
    assert facts["waits_over_10_s"] == {"count": 4, "longest_s": 0.2}
    for after in ("601", "inf", "9999999999", "Fri, 31 Dec 9999 23:59:59 GMT"):
        too_long = error(429, "slow down", {"Retry-After": after})
        with (
            serve(lambda body, number, answer=too_long: answer) as stub,
            pytest.raises(SamplerError, match="asks to wait"),
        ):
            ask(config_of(stub.url), asked(8))


def test_a_server_that_says_nothing_for_long_is_told(monkeypatch, capsys):
    monkeypatch.setattr(openai, "TOLD_SILENCE", 0.6)
    with serve(lambda body, number: Reply({}, fault="hang") if number < 2 else reply(body)) as stub:
        got, _ = ask(config_of(stub.url, request_timeout=3, concurrency=2), asked(2))
    assert len(got) == 2 and 1 <= capsys.readouterr().out.count("2 samples are under way") <= 3


# ---- the key


def test_a_key_that_a_server_echoes_is_stored_nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def answer(body, number):
        good = reply(body, [f"key {KEY}\n#### 1"], f"stop {KEY}", reasoning_content=f"I know {KEY}")
        good.body |= {"model": f"m-{KEY}", "system_fingerprint": KEY}
        good.headers = {"x-echo": KEY}
        odd = {2: error(401, f"bad {KEY}", param=KEY, code=KEY), 3: Reply({"choices": [], "note": KEY})}
        odd[4] = Reply({"choices": [{"index": 0, "message": {"content": None}, "finish_reason": f"error {KEY}"}]})
        odd[5] = Reply({"choices": [{"index": 0, "error": {"message": KEY}}]})
        odd[6] = Reply(f"no JSON {KEY}".encode())
        odd[7] = error(400, "x" * 490 + f" {KEY}", code="content_filter")  # cut in the middle of the key
        odd[8] = Reply(b'{"error": {"message": "\\u0073k-secret-0123456789abcdefSECRET"}}', 503)
        return odd.get(number_in(body), good)

    with serve(answer) as stub:
        requests = [request for request in asked(8) if request.problem.id != "test-0002"]
        got, facts = ask(config_of(stub.url, max_retries=0), requests)
        with pytest.raises(SamplerError) as caught:
            ask(config_of(stub.url, max_retries=0), asked(2))
    shown = [repr(got), repr(facts), str(caught.value)]
    assert len(got) == 7 and all("[hidden]" in text for text in shown)
    for text in shown:
        assert "sk-s" not in text and "0123456789" not in text and "SECRET" not in text


def test_a_word_that_is_no_secret_stays_in_the_text(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "apples")
    with serve(lambda body, number: reply(body, ["5 apples\n#### 5"])) as stub:
        assert ask(config_of(stub.url), asked(1))[0][0].text == "5 apples\n#### 5"


# ---- which model a server serves


VLLM_CARD = {"id": "stub-1", "object": "model", "created": 1, "owned_by": "vllm", "root": "/ckpt/a", "parent": None}
LLAMA_META = {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576, "n_params": 134515008, "size": 97}
OLLAMA = {"id": "stub-1", "object": "model", "created": 1700000000, "owned_by": "library"}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (VLLM_CARD, VLLM_CARD | {"created": 2, "max_model_len": 4096, "permission": [{"id": "x"}]}, True),  # a restart
        (VLLM_CARD, VLLM_CARD | {"root": "/ckpt/b"}, False),
        (VLLM_CARD, VLLM_CARD | {"parent": "base"}, False),
        ({"id": "a.gguf", "meta": LLAMA_META}, {"id": "a.gguf", "meta": LLAMA_META, "created": 5}, True),
        ({"id": "a.gguf", "meta": LLAMA_META}, {"id": "b.gguf", "meta": LLAMA_META}, False),
        ({"id": "stub-1", "meta": LLAMA_META}, {"id": "stub-1", "meta": LLAMA_META | {"size": 98}}, False),
        (OLLAMA, OLLAMA | {"created": 1700000001}, False),
        (OLLAMA, OLLAMA, True),
    ],
)
def test_other_weights_under_the_same_name_show_and_a_restart_does_not(before, after, same):
    with serve(lambda body, number: reply(body), Reply({"data": [before]})) as stub:
        first = model_fingerprint(config_of(stub.url))
        stub.models = Reply({"data": [after]})
        assert first and (model_fingerprint(config_of(stub.url)) == first) is same


def test_a_key_in_a_listing_is_hidden_and_the_weights_still_told_apart(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    card = VLLM_CARD | {"root": f"/{KEY}/a"}
    with serve(lambda body, number: reply(body), Reply({"data": [card]})) as stub:
        assert model_fingerprint(config_of(stub.url)) == {"root": "/[hidden]/a"}


@pytest.mark.parametrize(
    "listing",
    [
        Reply({"data": [{"id": "stub-1", "created": 3, "owned_by": "me"}]}), Reply({"data": [{"id": "x"}] * 2}),
        Reply({"data": 5}), Reply([1]), Reply(b"["), Reply(b"[" * 100_000), Reply({"data": []}), Reply({}, 404),
        Reply({"data": [None, 3]}), Reply({"data": []}, fault="reset"),
    ],
)  # fmt: skip
def test_a_server_that_says_nothing_of_its_weights(listing):
    with serve(lambda body, number: reply(body), listing) as stub:
        assert model_fingerprint(config_of(stub.url)) is None


def test_a_server_is_given_little_time_to_say_it(monkeypatch):
    monkeypatch.setattr(server, "LIST_SECONDS", 0.2)
    started = time.monotonic()
    assert model_fingerprint(config_of("http://127.0.0.1:9/v1")) is None
    with serve(lambda body, number: reply(body), Reply({}, fault="hang")) as stub:
        assert model_fingerprint(config_of(stub.url)) is None
    with serve(lambda body, number: reply(body), Reply({"data": [VLLM_CARD]}, fault="trickle")) as stub:
        assert model_fingerprint(config_of(stub.url)) is None
    assert time.monotonic() - started < 3


def test_a_run_goes_on_after_a_restart_and_not_with_other_weights(tmp_path):
    card = VLLM_CARD.copy()
    with serve(lambda body, number: reply(body), Reply({"data": [card]})) as stub:
        config = config_of(stub.url, dataset="classroom", limit=2, outputs_dir=str(tmp_path))
        run, problems, form = begun(config)
        assert sampling.fill(run, config, problems, form).generated == 2
        card |= {"created": 2}
        more = config.model_copy(update={"limit": 3})
        run, problems, form = begun(more)
        assert sampling.fill(run, more, problems, form).generated == 1
        card |= {"root": "/ckpt/b"}
        with pytest.raises(RunError, match="stub-1 is not the model that made the samples .*its root changed"):
            sampling.fill(run, more, problems, form)
    assert len(stub.seen) == 3


def begun(config):
    source, problems = data.load_for(config)
    return sampling.begin(config, source, problems), problems, prompts.prompt_for(config, problems)
