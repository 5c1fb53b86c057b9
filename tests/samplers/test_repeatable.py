"""A text is the same, bit by bit, in any batch, any order, after any interruption, and in any number of workers."""

import random

import pytest

from gsm8k_nb.config import SMOLLM2, RunConfig
from gsm8k_nb.config.parameters import ConfigError
from gsm8k_nb.data import load
from gsm8k_nb.prompts import prompt_for, render
from gsm8k_nb.records import Sample
from gsm8k_nb.samplers import Request, open_sampler

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")

from gsm8k_nb.samplers import transformers as sampler  # noqa: E402
from gsm8k_nb.samplers.shared_prefix import engine, packing  # noqa: E402

from .test_engine import CONFIGS, EOS, SIZES, Decoding, build, hf  # noqa: E402

# As large as the heads of real models are: torch computes what is left of a vector in another way.
LARGE = SIZES | {"hidden_size": 128, "head_dim": 64}
COMPANIES = {
    "grouped heads": lambda: hf.LlamaConfig(**LARGE),
    "single heads": lambda: hf.LlamaConfig(**LARGE | {"num_key_value_heads": 4}),
    "norms of heads": lambda: hf.Qwen3Config(**LARGE),
    "windows and soft caps": lambda: hf.Gemma2Config(**LARGE, sliding_window=16, attn_logit_softcapping=3.0),
}

PROBLEMS = load("classroom")


def requests_of(config: RunConfig, n_problems: int) -> list[Request]:
    problems = PROBLEMS[:n_problems]
    form = prompt_for(config, problems)
    prompts = {problem.id: render(form, problem.question, chat=True) for problem in problems}
    return [Request(problem, index, prompts[problem.id]) for problem in problems for index in range(config.n_samples)]


def texts(config: RunConfig, requests: list[Request], opened=None) -> dict[tuple[str, int], str | None]:
    samples: list[Sample] = [
        sample for batch in (opened or open_sampler(config)).sample(requests, ()) for sample in batch
    ]
    return {(sample.problem_id, sample.sample_index): sample.text for sample in samples}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", COMPANIES)
def test_tokens_are_the_same_in_any_company(name, dtype, monkeypatch):
    monkeypatch.setitem(CONFIGS, name, COMPANIES[name])
    model = build(name).to(getattr(torch, dtype))
    if not engine.repeats(model):  # in float32, on some processors; such a run is repeatable one text at a time
        assert dtype == "float32"
        return
    draw = random.Random(0)
    prefix = [1, *(draw.randrange(3, 97) for _ in range(40))]
    prompts = [prefix + [draw.randrange(3, 97) for _ in range(draw.randrange(1, 60))] for _ in range(70)]

    def run(chosen: list[int], batch_size: int) -> dict[int, list[int]]:
        asked = [engine.Request(prompts[i], 1, (i,)) for i in chosen]
        settings = Decoding(30, temperature=0.7, stop_token_ids=[EOS])
        ended = engine.generate(model, asked, settings, batch_size=batch_size, prefix=prefix)
        return {chosen[text.request]: text.token_ids for text in ended}

    right = run(list(range(70)), 64)
    for batch_size, some in ((1, 5), (2, 12), (33, 70)):
        chosen = draw.sample(range(70), some)
        assert run(chosen, batch_size) == {i: right[i] for i in chosen}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_smollm2_repeats_itself(dtype, monkeypatch):
    """Eight exemplars, other batches, shuffled, and broken off in the middle."""
    config = RunConfig(model=SMOLLM2, dtype=dtype, prompt="wei_8shot", max_new_tokens=16, temperature=0.7, n_samples=2)
    requests, opened = requests_of(config, 20), open_sampler(config)
    right = texts(config, requests, opened)
    assert len(set(right.values())) > 20
    if not opened.describe()["repeatable"]:
        assert dtype == "float32"
        return
    opened.batch_size = 3
    rest = opened.sample(requests[8:18], ())
    begun = {(s.problem_id, s.sample_index): s.text for s in next(rest)}
    rest.close()
    opened.batch_size = 64
    assert begun == {key: right[key] for key in begun}
    left = [request for request in requests if request.key not in begun]
    pairs = [left[i : i + 2] for i in range(0, len(left), 2)]
    random.Random(1).shuffle(pairs)
    assert texts(config, [request for pair in pairs for request in pair], opened).items() <= right.items()


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("inputs, outputs", [(64, 48), (576, 1536), (4864, 896)])
def test_a_row_is_the_same_among_any_number(inputs, outputs, reading):
    layer = torch.nn.Linear(inputs, outputs).to(torch.bfloat16)
    x = torch.randn(1, 1000, inputs).to(torch.bfloat16)
    with torch.inference_mode(), packing.packed(layer, lambda: reading):
        together = layer(x)
        for size in (1, 2, 7, 31, 33, 63, 65, 100, 300):
            parts = [layer(piece) for piece in x.split(size, dim=1)[:20]]
            assert torch.equal(torch.cat(parts, dim=1), together[:, : sum(part.shape[1] for part in parts)])
    right = torch.nn.functional.linear(x.float(), layer.weight.float(), layer.bias.float())
    assert torch.allclose(together.float(), right, atol=0.05, rtol=0.02)
    assert layer(x).shape == together.shape == (1, 1000, outputs)


def test_where_rows_do_not_repeat_only_one_at_a_time_is_repeatable(tiny_model, monkeypatch):
    monkeypatch.setattr(sampler, "fit", lambda model, length: (None, False))
    config = RunConfig(model=str(tiny_model), max_new_tokens=12, prompt="zero_shot")
    requests = requests_of(config, 4)
    opened = open_sampler(config)
    texts(config, requests, opened)
    assert opened.describe()["repeatable"] is False
    config = config.model_copy(update={"repeatable": True})
    opened, sizes = open_sampler(config), []
    generate = opened.model.generate
    monkeypatch.setattr(opened.model, "generate", lambda ids, **rest: sizes.append(len(ids)) or generate(ids, **rest))
    assert len(texts(config, requests, opened)) == 4 and sizes == [1, 1, 1, 1]
    assert opened.describe()["attention"] == "plain generate (its texts depend on the batch)"
    assert opened.describe()["repeatable"] is True


def test_it_can_be_turned_off_and_is_refused_where_no_one_can_promise_it(tiny_model):
    config = RunConfig(model=str(tiny_model), max_new_tokens=4, repeatable=False)
    opened = open_sampler(config)
    texts(config, requests_of(config, 2), opened)
    assert opened.describe()["repeatable"] is False
    with pytest.raises((ConfigError, ValueError), match="repeatable: only sampler 'transformers' or 'vllm'"):
        RunConfig(model="x", sampler="openai", base_url="http://localhost:1/v1", repeatable=True)


def test_prompts_that_a_tokenizer_breaks_up_otherwise_are_run_apart(tiny_model, monkeypatch):
    """All are answered, and the others as if these were not there."""
    config = RunConfig(model=str(tiny_model), max_new_tokens=6)
    requests, opened = requests_of(config, 5), open_sampler(config)
    before, encode = opened.tokens.before, opened.tokens.encode
    odd = requests[2].prompt
    monkeypatch.setattr(
        opened.tokens, "encode", lambda prompt, *rest: encode(prompt, *rest)[3 if prompt is odd else 0 :]
    )
    assert before(odd, requests[2].problem.question) == before(requests[0].prompt, requests[0].problem.question)
    some = texts(config, requests, opened)
    assert len(some) == 5
    del requests[2]
    assert texts(config, requests, opened).items() <= some.items()
    assert isinstance(opened, sampler.TransformersSampler)
