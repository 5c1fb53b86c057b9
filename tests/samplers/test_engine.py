"""The engine writes what ``model.generate`` writes, runs shared tokens once, and says which models it does not fit."""

import importlib.util
import json

import pytest

from gsm8k_nb.config import SMOLLM2, RunConfig
from gsm8k_nb.prompts import prompt_for, render

from ..conftest import ROOT

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")
import transformers as hf  # noqa: E402

from gsm8k_nb.samplers.loading import load_model  # noqa: E402
from gsm8k_nb.samplers.shared_prefix import attention, engine  # noqa: E402
from gsm8k_nb.samplers.shared_prefix.decoding import Decoding, choose, end_check  # noqa: E402
from gsm8k_nb.samplers.shared_prefix.engine import Request, generate, supports  # noqa: E402

EOS = 2
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}
# Windows of 16 tokens end inside the shared prefix of 31, so every kind of key is hidden from some token.
WINDOW = {"sliding_window": 16, "head_dim": 8}
NEOX = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "initializer_range": 0.3, "eos_token_id": EOS}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
CONFIGS = {
    "llama": lambda: hf.LlamaConfig(**SIZES),
    "llama with linear biases": lambda: hf.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "qwen2": lambda: hf.Qwen2Config(**SIZES),
    "qwen2 with windows": lambda: hf.Qwen2Config(
        **SIZES, use_sliding_window=True, sliding_window=16, max_window_layers=1
    ),
    "qwen3": lambda: hf.Qwen3Config(**SIZES, head_dim=16),
    "mistral": lambda: hf.MistralConfig(**SIZES, **WINDOW),
    "gemma2": lambda: hf.Gemma2Config(**SIZES, **WINDOW, query_pre_attn_scalar=16, attn_logit_softcapping=3.0),
    "gemma3": lambda: hf.Gemma3TextConfig(**SIZES, **WINDOW, query_pre_attn_scalar=16, layer_types=ALTERNATING),
    "gpt-neox": lambda: hf.GPTNeoXConfig(**NEOX),
    "gpt2": lambda: hf.GPT2Config(**GPT2, n_positions=256),
    "gpt-oss": lambda: hf.GptOssConfig(
        **SIZES, **WINDOW, num_local_experts=4, num_experts_per_tok=2, rope_parameters={"rope_theta": 1e4}
    ),
}


def build(name: str):
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).eval()
    model.generation_config = hf.GenerationConfig()
    return model


@pytest.fixture(scope="module")
def llama():
    return build("llama")


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    """Seven prompts of 32 to 45 tokens that share their first 31."""
    generator = torch.Generator().manual_seed(1)

    def draw(n):
        return torch.randint(3, 97, (n,), generator=generator).tolist()

    prefix = [1, *draw(30)]
    return [prefix + draw(n) for n in (5, 9, 1, 14, 3, 7, 2)]


def reference(model, prompt: list[int], n: int = 30) -> list[int]:
    """What ``generate`` writes greedily after one prompt on its own."""
    ids = torch.tensor([prompt])
    config = hf.GenerationConfig(max_new_tokens=n, do_sample=False, eos_token_id=EOS, pad_token_id=0)
    return model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)[0, len(prompt) :].tolist()


def written(model, requests: list[Request], settings: Decoding, **options) -> dict:
    """(request, sample) -> what was finished; every sample exactly once."""
    finished = list(generate(model, requests, settings, **options))
    by_sample = {(sample.request, sample.sample): sample for sample in finished}
    assert len(by_sample) == len(finished) == sum(request.n_samples for request in requests)
    return by_sample


GREEDY = Decoding(30, stop_token_ids=[EOS])


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_tokens_are_those_of_generate(name, prompts, monkeypatch):
    model = build(name)
    assert supports(model) is None
    assert supports(model, length=90) is None
    expected = [reference(model, prompt) for prompt in prompts]
    monkeypatch.setattr(engine, "READ_AT_ONCE", 20)  # the prefix in two chunks, the questions in several
    monkeypatch.setattr(attention, "TILE", 4)
    monkeypatch.setattr(attention, "BLOCK", 8)
    for batch_size in (1, 3, 7):
        finished = written(model, [Request(prompt) for prompt in prompts], GREEDY, batch_size=batch_size)
        assert [finished[i, 0].token_ids for i in range(len(prompts))] == expected
        reasons = ["stop" if tokens[-1] == EOS else "length" for tokens in expected]
        assert [finished[i, 0].finish_reason for i in range(len(prompts))] == reasons
    finished = written(model, [Request(prompt, 3, range(3)) for prompt in prompts], GREEDY, batch_size=4)
    assert all(sample.token_ids == expected[request] for (request, _), sample in finished.items())


def test_some_of_the_references_stop_and_some_do_not(prompts):
    """Else the test above would not show that rows leave the batch and others take their place."""
    lengths = {len(reference(build(name), prompt)) for name in ("qwen2", "gpt-neox") for prompt in prompts}
    assert 30 in lengths and len(lengths) > 4


@pytest.mark.parametrize(
    "some", [[[5, 6, 7], [8, 9]], [[5, 6, 7], [5, 6, 7]], [[5]], [[5], [5, 6]], [[1, 5, 6, 7, 8]]],
    ids=["no prefix", "the same twice", "one token", "one within the other", "one prompt"],
)  # fmt: skip
def test_odd_prefixes(llama, some):
    finished = written(llama, [Request(prompt) for prompt in some], GREEDY)
    assert [finished[i, 0].token_ids for i in range(len(some))] == [reference(llama, prompt) for prompt in some]


def test_shared_tokens_are_run_once_and_only_live_rows_are_run(llama, prompts):
    """Tokens through the embedding: the prefix, every question, and each written token but a sample's last."""
    run, embedding = [], llama.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda module, inputs, output: run.append(inputs[0].numel()))
    try:
        finished = written(llama, [Request(prompt, 2, (0, 1)) for prompt in prompts], GREEDY, batch_size=5)
    finally:
        hook.remove()
    questions = sum(len(prompt) - 31 for prompt in prompts)
    assert sum(run) == 31 + questions + sum(len(sample.token_ids) - 1 for sample in finished.values())
    assert max(run[2:]) <= 5


def test_a_kept_prefix_is_not_run_again(llama, prompts):
    """Prompts that share all, a part, or nothing of what the last call kept; also after one that was broken off."""
    memory, run, embedding = engine.Memory(), [], llama.get_input_embeddings()
    longer = [[*prompts[0][:20], *range(50, 60), last] for last in (5, 6)]  # 20 as before, then 10 of their own
    others = [[4, 5, 6, last] for last in (7, 8)]
    calls = [(prompts, 31), (prompts, 0), (longer, 10), (prompts, 11), (others, 3), (longer, 30)]
    for some, read in calls:
        run.clear()
        hook = embedding.register_forward_hook(lambda module, inputs, output: run.append(inputs[0].numel()))
        try:
            finished = written(llama, [Request(prompt) for prompt in some], GREEDY, memory=memory)
        finally:
            hook.remove()
        assert [finished[i, 0].token_ids for i in range(len(some))] == [reference(llama, prompt) for prompt in some]
        shared = len(memory.prefix)
        written_tokens = sum(len(sample.token_ids) - 1 for sample in finished.values())
        assert sum(run) == read + sum(len(prompt) - shared for prompt in some) + written_tokens
        assert all(t.numel() == 0 for layer in memory.layers.values() for t in (*layer.fresh, *layer.rows))
        broken_off = generate(llama, [Request(prompt) for prompt in some], GREEDY, batch_size=1, memory=memory)
        next(broken_off)
        broken_off.close()
        assert len(memory.prefix) == shared


def test_logits_are_computed_only_where_a_token_is_chosen(llama, prompts):
    places = []
    hook = llama.lm_head.register_forward_hook(lambda module, inputs, output: places.append(output[..., 0].numel()))
    try:
        written(llama, [Request(prompt) for prompt in prompts], Decoding(2), batch_size=7)
    finally:
        hook.remove()
    assert places == [1, 7, 7]  # the prefix (one, not used), the questions' ends, the second tokens


def test_model_is_left_as_it_was(llama, prompts):
    before, weights = llama.config._attn_implementation, {k: v.clone() for k, v in llama.state_dict().items()}
    iterator = generate(llama, [Request(prompt) for prompt in prompts], GREEDY, batch_size=2)
    next(iterator)
    assert llama.config._attn_implementation == engine.ATTENTION
    iterator.close()
    assert all(torch.equal(value, weights[name]) for name, value in llama.state_dict().items())
    assert llama.config._attn_implementation == before
    assert not any("forward" in vars(module) for module in llama.modules())
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_grad_mode_does_not_leak_between_results(llama, prompts):
    for _ in generate(llama, [Request(prompt) for prompt in prompts], GREEDY, batch_size=2):
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_bfloat16_is_as_near_to_float32_as_the_model_itself(prompts):
    model = build("llama")
    text = prompts[3]
    with torch.inference_mode():
        exact = model(input_ids=torch.tensor([text]), logits_to_keep=4).logits[0]
        model = model.to(torch.bfloat16)
        own = model(input_ids=torch.tensor([text]), logits_to_keep=4).logits[0].float()
    ours = engine._probe(model, text)[0].float()
    assert (ours - exact).norm() < 2 * (own - exact).norm()


# --- sampling ---

DRAWN = Decoding(20, temperature=1.0, stop_token_ids=[EOS])


def test_samples_do_not_depend_on_the_batch(llama, prompts):
    requests = [Request(prompt, 4, range(10 * i, 10 * i + 4)) for i, prompt in enumerate(prompts)]
    one, four, all_at_once = (written(llama, requests, DRAWN, batch_size=size) for size in (1, 4, 28))
    assert one == four == all_at_once
    alone = written(llama, [Request(prompts[2], 1, (22,))], DRAWN)
    assert alone[0, 0].token_ids == one[2, 2].token_ids
    texts = {tuple(one[0, sample].token_ids) for sample in range(4)}
    assert len(texts) == 4


def expected_chances(logits, settings: Decoding):
    """The distribution that transformers' own warpers leave."""
    warpers = hf.LogitsProcessorList([hf.TemperatureLogitsWarper(settings.temperature)])
    if settings.top_k:
        warpers.append(hf.TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1:
        warpers.append(hf.TopPLogitsWarper(settings.top_p))
    return warpers(None, logits.clone()).softmax(-1)


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("cut", [{}, {"top_k": 7}, {"top_p": 0.9}, {"top_k": 200, "top_p": 0.8}], ids=str)
def test_draws_follow_the_distribution_of_transformers(spread, cut):
    """On a fine grid of uniforms each token is drawn as often as its chance says; also beyond the likeliest 64."""
    settings, n = Decoding(1, temperature=0.7, **cut), 20_000
    logits = torch.randn(300, generator=torch.Generator().manual_seed(3)) * spread + torch.linspace(0, 1e-3, 300)
    uniforms = (torch.arange(n) + 0.5) / n
    drawn = torch.bincount(choose(logits.expand(n, -1), settings, uniforms), minlength=300) / n
    expected = expected_chances(logits[None], settings)[0]
    assert (drawn - expected).abs().max() < 2.5 / n + 1e-6
    assert not drawn[expected == 0].any()


def test_greedy_needs_no_numbers():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert choose(logits, Decoding(1), None).tolist() == [1, 0]


# --- stop strings ---


class Letters:
    """A tokenizer in which token i is character i; it counts what it decodes."""

    def __init__(self) -> None:
        self.decoded = 0

    def decode(self, ids, **_) -> str:
        self.decoded += len(ids)
        return "".join(map(chr, ids))


def ends(text: str, stop: list[str], limit: int = 100) -> tuple[str, str | None]:
    """What is written of ``text``, letter by letter, and why it ends."""
    check, ids = end_check(Decoding(limit, stop_strings=stop), Letters()), []
    for letter in text:
        ids.append(ord(letter))
        if reason := check(ids):
            return "".join(map(chr, ids)), reason
    return text, None


def test_stop_strings_end_a_text_with_the_token_that_completes_them():
    assert ends("A: 4\n\nQ: more", ["Q:", "\n\n\n"]) == ("A: 4\n\nQ:", "stop")
    assert ends("A: 4\n\nQ and so on", ["\n\nQuestion:"]) == ("A: 4\n\nQ and so on", None)
    assert ends("x" * 200 + "\n\nQuestion: y", ["\n\nQuestion:"], 500) == ("x" * 200 + "\n\nQuestion:", "stop")
    assert ends("abcdef", ["Q"], limit=4) == ("abcd", "length")
    assert ends("abQ", ["Q"], limit=3) == ("abQ", "stop")


def test_only_tokens_that_can_complete_a_stop_string_are_decoded_with_their_text():
    tokenizer = Letters()
    check, ids = end_check(Decoding(10_000, stop_strings=["Q:"]), tokenizer), []
    for _ in range(1000):
        ids.append(ord("x"))
        check(ids)
    assert tokenizer.decoded == 1


def test_stop_strings_in_a_run(tiny_model):
    tokenizer = hf.AutoTokenizer.from_pretrained(tiny_model)
    model = hf.AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    model.generation_config = hf.GenerationConfig()
    prompts = [tokenizer(f"Q: what is {i}?\nA:").input_ids for i in range(5)]
    free = written(model, [Request(prompt) for prompt in prompts], Decoding(40))
    texts = {key: tokenizer.decode(sample.token_ids, skip_special_tokens=True) for key, sample in free.items()}
    stop = texts[0, 0][5:7]
    settings = Decoding(40, stop_strings=[stop])
    cut = written(model, [Request(prompt) for prompt in prompts], settings, tokenizer=tokenizer)
    for key, sample in cut.items():
        text = tokenizer.decode(sample.token_ids, skip_special_tokens=True)
        assert free[key].token_ids[: len(sample.token_ids)] == sample.token_ids
        assert (sample.finish_reason == "stop") == (stop in text) == (stop in texts[key])
        assert stop not in tokenizer.decode(sample.token_ids[:-1], skip_special_tokens=True)
    assert cut[0, 0].finish_reason == "stop" and len(cut[0, 0].token_ids) < 40


# --- what is refused ---


def test_models_that_do_not_fit_are_named_with_a_reason():
    bloom = hf.AutoModelForCausalLM.from_config(hf.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=4))
    mamba = hf.AutoModelForCausalLM.from_config(
        hf.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4)
    )
    assert "only 0 of its layers" in supports(bloom.eval())
    assert supports(mamba.eval())
    assert "training" in supports(build("llama").train())


def test_a_difference_in_the_mask_is_found_where_the_text_is_long_enough(monkeypatch):
    """As with a model that hides tokens in a way its attention function is not told of."""
    model, mask = build("mistral"), attention._mask
    monkeypatch.setattr(attention, "_mask", lambda memory, span, n, window, like: mask(memory, span, n, None, like))
    assert "differ" in supports(model, length=40)
    model.config.sliding_window = 60
    assert supports(model, length=40) is None
    assert "differ" in supports(model, length=90)


def test_wrong_requests_are_refused(llama):
    with pytest.raises(ValueError, match="request 1 .*at least one token"):
        list(generate(llama, [Request([1, 2]), Request([])], GREEDY))
    with pytest.raises(ValueError, match="a seed for each"):
        list(generate(llama, [Request([1, 2], n_samples=3, seeds=(1,))], GREEDY))
    with pytest.raises(ValueError, match="tokenizer"):
        list(generate(llama, [Request([1, 2])], Decoding(3, stop_strings=["Q:"])))
    assert list(generate(llama, [], GREEDY)) == []
    assert list(generate(llama, [Request([1, 2], n_samples=0)], GREEDY)) == []  # and no endless loop


# --- the script for a GPU ---


def test_gpu_script_runs_on_a_cpu(capsys):
    """With a tiny shape, and the engine loaded from its file alone."""
    spec = importlib.util.spec_from_file_location("bench_gpu", ROOT / "bench" / "gpu.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--tiny", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "does the engine fit: yes" in printed and "equal to generate's: 4 of 4" in printed
    assert printed.count("| engine") == 6 and "| 2 x 64 |" in printed


# --- a real model ---


def test_smollm2_writes_what_generate_writes(official):
    """Two official problems after Wei's eight exemplars, in float32."""
    config = RunConfig(model=SMOLLM2, dtype="float32", device="cpu", prompt="wei_8shot")
    model, tokenizer = load_model(config)
    model.generation_config = hf.GenerationConfig()
    form = prompt_for(config, [])
    lines = (official / "test.jsonl").read_text(encoding="utf-8").splitlines()[:2]
    prompts = [tokenizer(render(form, json.loads(line)["question"], chat=False)).input_ids for line in lines]
    finished = written(model, [Request(prompt) for prompt in prompts], Decoding(16, stop_token_ids=[EOS]))
    assert [finished[i, 0].token_ids for i in range(2)] == [reference(model, prompt, 16) for prompt in prompts]
