"""The local engine, on a tiny random model for the rules and on SmolLM2 for the whole path."""

from decimal import Decimal

import pytest

from gsm8k_nb.config import SMOLLM2, RunConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.samplers import Request, SamplerError, cut_at_stop, open_sampler

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")
from gsm8k_nb.samplers import transformers as sampler  # noqa: E402
from gsm8k_nb.samplers.loading import choose_device, choose_dtype, load_model  # noqa: E402
from gsm8k_nb.samplers.tokens import Tokens, opening_of  # noqa: E402

QUESTIONS = ["One pen?", "Two pens and a box of them, how many is that?", "Three?", "What about four pens then?"]


def requests(prompts=QUESTIONS, index: int = 0) -> list[Request]:
    return [
        Request(Problem(f"test-{i:04d}", text, "#### 1", Decimal(1)), index, text) for i, text in enumerate(prompts)
    ]


def options(tiny_model, **changes) -> RunConfig:
    values = {"model": str(tiny_model), "dtype": "float32", "device": "cpu", "max_new_tokens": 12}
    return RunConfig(**values | changes)


def tokens_of(tiny_model) -> Tokens:
    model, tokenizer = load_model(options(tiny_model))
    return Tokens(tokenizer, model.config, model.generation_config)


def texts(config: RunConfig, todo=None, stop=()) -> dict[tuple[str, int], str]:
    samples = [sample for batch in open_sampler(config).sample(todo or requests(), stop) for sample in batch]
    return {(sample.problem_id, sample.sample_index): sample.text for sample in samples}


def test_greedy_is_greedy_whatever_the_models_file_asks_for(tiny_model):
    opened = open_sampler(options(tiny_model))
    model, tokenizer = load_model(options(tiny_model))
    for request in requests():
        ids = [*opened.tokens.encode(request.prompt)]
        for _ in range(12):
            logits = model(torch.tensor([ids])).logits[0, -1]
            ids.append(int(logits.argmax()))
            if ids[-1] == tokenizer.eos_token_id:
                break
        [[sample]] = list(opened.sample([request], ()))
        n_prompt = sample.prompt_tokens
        assert sample.text == opened.tokens.decode(ids[n_prompt:])
        assert sample.completion_tokens == len(ids) - n_prompt
    assert opened.describe()["sampling"] == {"method": "greedy", "max_new_tokens": 12, "repetition_penalty": 1.0}


def test_padding_changes_no_answer(tiny_model):
    assert texts(options(tiny_model, batch_size=1)) == texts(options(tiny_model, batch_size=4))


def test_exactly_one_bos(tiny_model):
    tokens = tokens_of(tiny_model)
    plain = tokens.encode("Hello")
    chat = tokens.encode([{"role": "user", "content": "Hello"}])  # its template writes a BOS of its own
    for ids in (plain, chat):
        assert ids[0] == 1 and 1 not in ids[1:]
    assert tokens.decode(chat) == "[user]Hello[assistant]"


def test_a_draw_depends_on_seed_problem_and_sample_alone(tiny_model):
    config = options(tiny_model, temperature=0.9, n_samples=2)
    together = texts(config, requests() + requests(index=1))
    alone = texts(options(tiny_model, temperature=0.9, n_samples=2, batch_size=1), list(reversed(requests(index=1))))
    assert all(together[key] == text for key, text in alone.items())
    assert len(set(together.values())) > len(QUESTIONS)  # the two samples of a problem differ
    assert texts(config.model_copy(update={"seed": 1})) != texts(config)


def test_stop_strings_cut_and_are_counted(tiny_model):
    whole = texts(options(tiny_model, max_new_tokens=24))
    for (name, _), text in whole.items():
        if len(text) < 6:
            continue
        stop = text[3:5]
        request = [request for request in requests() if request.problem.id == name]
        [[sample]] = list(open_sampler(options(tiny_model, max_new_tokens=24)).sample(request, (stop,)))
        assert sample.text == text[: text.find(stop)]
        assert sample.finish_reason == "stop" and sample.completion_tokens < 24


def test_length_is_said_and_limits_new_tokens_only(tiny_model):
    [[sample]] = list(open_sampler(options(tiny_model, max_new_tokens=3)).sample(requests()[:1], ()))
    assert (sample.finish_reason, sample.completion_tokens) == ("length", 3)
    with pytest.raises(SamplerError, match=r"context is 2048; lower max_new_tokens to \d+"):
        list(open_sampler(options(tiny_model, max_new_tokens=2045)).sample(requests(), ()))


@pytest.fixture
def plain_only(monkeypatch):
    """As for a model that the shared-prefix engine does not support."""
    monkeypatch.setattr(sampler, "fit", lambda model, length: ("not tried", False))


def test_the_fallback_gives_the_same_texts(tiny_model, monkeypatch):
    greedy, drawn = options(tiny_model), options(tiny_model, temperature=0.8, n_samples=2, top_k=20)
    both = requests() + requests(index=1)
    shared = texts(greedy), texts(drawn, both)
    text = shared[0]["test-0001", 0]
    stop = text[2:4]
    cut = texts(greedy, stop=(stop,))
    monkeypatch.setattr(sampler, "fit", lambda model, length: ("a reason", False))
    assert (texts(greedy), texts(drawn, both)) == shared
    assert texts(greedy, stop=(stop,)) == cut and cut["test-0001", 0] == text[: text.find(stop)]
    opened = open_sampler(greedy)
    list(opened.sample(requests(), ()))
    assert opened.describe()["attention"] == "plain generate (a reason)"


def test_out_of_memory_halves_the_batch_and_goes_on(tiny_model, monkeypatch):
    generate, sizes = sampler.engine.generate, []

    def limited(*args, batch_size, **rest):
        sizes.append(batch_size)
        if batch_size > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        yield from generate(*args, batch_size=batch_size, **rest)

    monkeypatch.setattr(sampler.engine, "generate", limited)
    opened = open_sampler(options(tiny_model, batch_size=4))
    done = [sample for batch in opened.sample(requests(), ()) for sample in batch]
    assert sizes == [4, 2, 1] and opened.describe()["batch_size"] == 1
    assert sorted(sample.problem_id for sample in done) == [request.problem.id for request in requests()]


@pytest.mark.usefixtures("plain_only")
def test_out_of_memory_in_plain_generate(tiny_model, monkeypatch):
    opened = open_sampler(options(tiny_model, batch_size=4))
    generate, sizes = opened.model.generate, []

    def limited(ids, **rest):
        sizes.append(len(ids))
        if len(ids) > 2:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")
        return generate(ids, **rest)

    monkeypatch.setattr(opened.model, "generate", limited)
    assert len([sample for batch in opened.sample(requests(), ()) for sample in batch]) == 4
    assert sizes == [4, 2, 2]

    def never(ids, **rest):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(opened.model, "generate", never)
    with pytest.raises(SamplerError, match="batch of one"):
        list(opened.sample(requests(), ()))

    def broken(ids, **rest):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(opened.model, "generate", broken)
    with pytest.raises(SamplerError, match="fails on 3 prompts in a row, the last with RuntimeError: shapes"):
        list(opened.sample(requests(), ()))


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.usefixtures("plain_only")
def test_a_prompt_on_which_the_model_fails_is_one_failed_sample(tiny_model, monkeypatch, size):
    right = texts(options(tiny_model))
    opened = open_sampler(options(tiny_model, batch_size=size))
    generate, bad = opened.model.generate, len("Three?") + 1

    def fails(ids, attention_mask, **rest):
        if bad in attention_mask.sum(-1).tolist():
            raise IndexError("index out of\nrange")
        return generate(ids, attention_mask=attention_mask, **rest)

    monkeypatch.setattr(opened.model, "generate", fails)
    done = {sample.problem_id: sample for batch in opened.sample(requests(), ()) for sample in batch}
    assert done["test-0002"].error == "IndexError: index out of range" and done["test-0002"].text is None
    assert {name: sample.text for name, sample in done.items() if not sample.error} == {
        name: text for (name, _), text in right.items() if name != "test-0002"
    }


def test_where_the_engine_stops_generate_goes_on(tiny_model, monkeypatch):
    right, generate = texts(options(tiny_model)), sampler.engine.generate
    opened = open_sampler(options(tiny_model))
    monkeypatch.setattr(sampler, "HAND_ON", 1)

    def breaks(*args, **rest):
        yield next(generate(*args, **rest))
        raise IndexError("no such layer")

    monkeypatch.setattr(sampler.engine, "generate", breaks)
    done = [sample for batch in opened.sample(requests(), ()) for sample in batch]
    assert {(sample.problem_id, 0): sample.text for sample in done} == right and len(done) == len(right)
    assert "stopped with no such layer" in opened.describe()["attention"]


def test_a_prompt_too_long_is_one_failed_sample(tiny_model):
    opened = open_sampler(options(tiny_model))
    asked = requests(["pens " * 1000, *QUESTIONS])
    done = [sample for batch in opened.sample(asked, ()) for sample in batch]
    assert [sample.problem_id for sample in done if sample.error] == ["test-0000"] and len(done) == 5
    assert "a prompt has 5001 tokens" in done[0].error and "context is 2048" in done[0].error


STOP = "\n\nQ:"
THOUGHT, ANSWER = f"Hm.{STOP} what?</think>", "It is 5."
THOUGHTS = {  # what the prompt ends with, what the model writes, what is kept
    "none": ("", f"{ANSWER}{STOP} And then?", ANSWER),
    "opened and closed": ("", f"<think>{THOUGHT}{ANSWER}{STOP} next", f"<think>{THOUGHT}{ANSWER}"),
    "opened by the prompt": ("<think>\n", f"{THOUGHT}{ANSWER}{STOP} next", f"<think>{THOUGHT}{ANSWER}"),
    "closed by the prompt": ("<think>\n\n</think>\n\n", f"{ANSWER}{STOP} next", ANSWER),
    "never closed": ("", f"<think>Hm.{STOP} what? 7{STOP}", f"<think>Hm.{STOP} what? 7{STOP}"),
    "opened by the prompt, never closed": ("<think>", f"Hm.{STOP} what? 7", f"<think>Hm.{STOP} what? 7"),
    "thought after the answer": ("", f"{ANSWER}{STOP} <think>So", ANSWER),
    "two thoughts": ("", f"<think>a</think>b<think>{STOP}</think>c{STOP}d", f"<think>a</think>b<think>{STOP}</think>c"),
    "square brackets": ("", f"[THINK]a{STOP}[/THINK]c{STOP}d", f"[THINK]a{STOP}[/THINK]c"),
}


@pytest.mark.parametrize("way", ["shared prefix", "plain"])
@pytest.mark.parametrize("case", THOUGHTS)
def test_a_stop_string_inside_reasoning_stops_nothing(tiny_model, monkeypatch, case, way):
    ending, written, kept = THOUGHTS[case]
    opened = open_sampler(options(tiny_model, max_new_tokens=90, temperature=1.0))
    opened.fallback, opened.tried_tokens = None if way == "shared prefix" else "not wanted", 1000
    script = opened.tokenizer(written, add_special_tokens=False).input_ids + [2]

    def scripted(logits, settings, uniforms):  # a draw is the number of its token, see below
        return torch.tensor([script[min(round(float(draw) * 1000), len(script) - 1)] for draw in uniforms])

    for module in (sampler, sampler.engine):
        monkeypatch.setattr(module, "choose", scripted)
        monkeypatch.setattr(module, "uniforms_of", lambda seed, settings: [n / 1000 for n in range(90)])
    done = [
        sample
        for batch in opened.sample(requests(["One pen? " + ending, "Two? " + ending]), (STOP,))
        for sample in batch
    ]
    assert [sample.text for sample in done] == [kept, kept]
    assert {sample.finish_reason for sample in done} == {"stop"}
    assert opened.describe()["attention"].startswith(way)


def test_one_rule_for_whole_texts_and_for_texts_as_they_are_written():
    for ending, written, kept in THOUGHTS.values():
        assert cut_at_stop(opening_of(ending) + written, (STOP,))[0] == kept


def test_special_tokens_that_mark_a_thought_stay(tiny_model):
    from gsm8k_nb.answers import extract

    tokens = tokens_of(tiny_model)
    tokenizer = tokens.tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]", "<|im_end|>"]})
    thought = tokenizer("[THINK]7 or 8?[/THINK]It is 5.<|im_end|>", add_special_tokens=False).input_ids
    assert extract(tokens.decode(thought), "flexible") == 5
    cut = tokenizer("[THINK]7 or 8", add_special_tokens=False).input_ids
    assert extract(tokens.decode(cut), "flexible") is None
    plain = tokenizer("It is 5.<|im_end|>", add_special_tokens=False).input_ids
    assert tokens.decode(plain) == "It is 5."
    closed = tokenizer("7 or 8?[/THINK]It is 5.", add_special_tokens=False).input_ids
    tokens.opening = "[THINK]"
    assert extract(tokens.decode(closed), "flexible") == 5


def test_device_and_dtype_choices():
    assert choose_device("cpu").type == "cpu"
    assert choose_dtype("float16", torch.device("cpu")) is torch.float16
    assert choose_dtype("auto", torch.device("cpu")) in (torch.float32, torch.bfloat16)
    if not torch.cuda.is_available():
        with pytest.raises(SamplerError, match="'cuda' is not available here; use device: auto or cpu"):
            choose_device("cuda")


def test_a_model_that_cannot_be_had_says_what_to_do(tmp_path):
    with pytest.raises(SamplerError, match="no such file or folder"):
        load_model(RunConfig(model=str(tmp_path / "nothing")))
    with pytest.raises(SamplerError, match="hub cannot be reached: give a local folder"):
        load_model(RunConfig(model="nobody/no-such-model"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SamplerError, match="could not be loaded"):
        load_model(RunConfig(model=str(tmp_path / "empty")))


def test_smollm2_answers_from_its_gguf_file():
    """The real model by the real path: package, GGUF, conversion cache, chat template, generation."""
    config = RunConfig(model=SMOLLM2, max_new_tokens=24, dtype="float32")  # in bfloat16 the answer is a near tie
    opened = open_sampler(config)
    assert opened.has_chat_template and opened.describe()["parameters"] == 134_515_008
    prompt = [{"role": "user", "content": "What is the capital of France?"}]
    problem = Problem("test-0000", "x", "#### 1", Decimal(1))
    [[sample]] = list(opened.sample([Request(problem, 0, prompt)], ()))
    assert "Paris" in sample.text
    ids = opened.tokens.encode(prompt)
    assert ids[0] == opened.tokenizer.bos_token_id and ids[1] != ids[0]


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('No system role') }}", "{{ messages[9].content }}", "{% if %}"]
)
def test_a_chat_template_that_fails_is_one_sentence(tiny_model, template):
    opened = open_sampler(options(tiny_model))
    opened.tokenizer.chat_template = template
    messages = [{"role": "user", "content": "How many?"}]
    with pytest.raises(SamplerError, match="^chat_template: the model's template fails .*; use chat_template: plain$"):
        list(opened.sample([Request(Problem("test-0000", "x", "#### 1", Decimal(1)), 0, messages)], ()))


@pytest.mark.parametrize(
    ("min_p", "top_p", "top_k"), [(0.02, 1.0, None), (0.3, 0.9, None), (0.1, 0.95, 7), (1.0, 1.0, None)]
)
def test_min_p_leaves_what_generate_leaves(min_p, top_p, top_k):
    """The tokens that can be drawn, and their shares, are those of transformers' own processors."""
    from transformers.generation.logits_process import (
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )  # fmt: skip

    from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose

    torch.manual_seed(0)
    logits, n = 3 * torch.randn(1, 200), 20_000
    left = TemperatureLogitsWarper(0.7)(None, logits)
    left = TopKLogitsWarper(top_k)(None, left) if top_k else left
    left = TopPLogitsWarper(top_p)(None, left) if top_p < 1 else left
    shares = MinPLogitsWarper(min_p)(None, left).softmax(-1)[0]
    settings = Decoding(8, temperature=0.7, top_p=top_p, top_k=top_k, min_p=min_p)
    drawn = choose(logits.expand(n, -1), settings, (torch.arange(n) + 0.5) / n).bincount(minlength=200) / n
    assert (drawn - shares).abs().max() < 2 / n and (shares > 0).sum() < 200


def test_a_repetition_penalty_is_generates_own(tiny_model):
    opened = open_sampler(options(tiny_model, repetition_penalty=1.3))
    [[sample]] = opened.sample(requests()[:1], ())
    ids = torch.tensor([opened.tokens.encode(QUESTIONS[0])])
    settings = {"do_sample": False, "max_new_tokens": 12, "repetition_penalty": 1.3, "eos_token_id": 2}
    own = opened.model.generate(ids, **settings, pad_token_id=0)[0, ids.shape[1] :]
    assert sample.text == opened.tokens.decode([token for token in own.tolist() if token != 2])
    assert sample.text != texts(options(tiny_model))[sample.problem_id, 0]
    facts = opened.describe()
    assert facts["sampling"]["repetition_penalty"] == 1.3 and "repetition_penalty" in facts["attention"]


@pytest.mark.parametrize(
    ("values", "name"),
    [({"enable_thinking": True}, "enable_thinking"), ({"template_kwargs": {"level": 1}}, "template_kwargs: level")],
)
def test_a_value_that_the_template_does_not_know_is_refused_by_name(tiny_model, values, name):
    with pytest.raises(SamplerError, match=f"{name}: the chat template of"):
        open_sampler(options(tiny_model, **values))
