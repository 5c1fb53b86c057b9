"""What the sampler hands to vLLM and makes of its outputs, on a stand-in for the package that runs a tiny model."""

import json
import shutil
import sys
from decimal import Decimal
from types import ModuleType, SimpleNamespace

import pytest

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem
from gsm8k_nb.samplers import Request, SamplerError, open_sampler, sample_seed

torch = pytest.importorskip("torch", reason="the transformers extra is not installed")

QUESTIONS = ["One pen?", "Two pens and a box of them, how many is that?", "Three?", "What about four pens then?"]


class Engine:
    """As ``vllm.LLM(...).llm_engine``: works on two requests at a time, a token a step, of a model in float32."""

    def __init__(self, **options):
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        self.options, self.llm_engine = options, self
        self.model = AutoModelForCausalLM.from_pretrained(options["model"], dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(options["model"])
        config = AutoConfig.from_pretrained(options["model"])
        self.vllm_config = SimpleNamespace(
            scheduler_config=SimpleNamespace(max_num_seqs=2),
            model_config=SimpleNamespace(hf_config=config, dtype=torch.float32, quantization=None),
        )
        self.asked, self.waiting = [], {}

    def add_request(self, name, prompt, params):
        self.asked.append((prompt["prompt_token_ids"], params))
        self.waiting[name] = (prompt["prompt_token_ids"], params, [])

    def has_unfinished_requests(self):
        return bool(self.waiting)

    def step(self):
        for ids, params, new in list(self.waiting.values())[:2]:
            new.append(self.next(ids, params, new))
        ended = {name: self.ended(params, new) for name, (_, params, new) in self.waiting.items()}
        return [self.output(name, reason) for name, reason in ended.items() if reason] + [
            SimpleNamespace(finished=False)
        ]

    def next(self, ids, params, new):
        with torch.inference_mode():
            logits = self.model(torch.tensor([ids + new])).logits[0, -1]
        if not params.temperature:
            return int(logits.argmax())
        generator = torch.Generator().manual_seed(params.seed + len(new))
        return int(torch.multinomial((logits / params.temperature).softmax(-1), 1, generator=generator))

    def ended(self, params, new):
        text = self.tokenizer.decode(new, skip_special_tokens=True)
        if new and (new[-1] in params.stop_token_ids or any(stop in text for stop in params.stop)):
            return "stop"
        return "length" if len(new) == params.max_tokens else None

    def output(self, name, reason):
        _, _, new = self.waiting.pop(name)
        return SimpleNamespace(
            request_id=name, finished=True, outputs=[SimpleNamespace(token_ids=new, finish_reason=reason)]
        )

    def abort_request(self, names):
        for name in names:
            del self.waiting[name]


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """The stand-in under the names that vLLM's own package and modules have."""
    made = {name: ModuleType(name) for name in ("vllm", "vllm.platforms", "vllm.sampling_params")}
    made["vllm"].LLM, made["vllm"].SamplingParams, made["vllm"].__version__ = Engine, SimpleNamespace, "0"
    made["vllm.platforms"].current_platform = SimpleNamespace(device_type="cpu")
    made["vllm.sampling_params"].RequestOutputKind = SimpleNamespace(FINAL_ONLY="last only")
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("VLLM_BATCH_INVARIANT", raising=False)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_LOGGING_LEVEL", "VLLM_NO_USAGE_STATS", "VLLM_DO_NOT_TRACK"):
        monkeypatch.setenv(name, "as the user has it")  # so that what is set here is not left behind


def options(tiny_model, **changes) -> RunConfig:
    values = {"model": str(tiny_model), "sampler": "vllm", "dtype": "float32", "device": "cpu", "max_new_tokens": 24}
    return RunConfig(**values | changes)


def requests(samples: int = 1) -> list[Request]:
    problems = [Problem(f"test-{i:04d}", text, "#### 1", Decimal(1)) for i, text in enumerate(QUESTIONS)]
    return [Request(problem, index, problem.question) for problem in problems for index in range(samples)]


def answers(sampler, asked, stop=()) -> dict:
    samples = [sample for batch in sampler.sample(iter(asked), stop) for sample in batch]
    assert len(samples) == len(asked)
    return {
        (sample.problem_id, sample.sample_index): (
            sample.text,
            sample.finish_reason,
            sample.prompt_tokens,
            sample.completion_tokens,
        )
        for sample in samples
    }


def test_greedy_texts_reasons_and_counts_are_those_of_the_transformers_sampler(tiny_model):
    config = options(tiny_model)
    ours, other = open_sampler(config), open_sampler(config.model_copy(update={"sampler": "transformers"}))
    whole = answers(ours, requests())
    assert whole == answers(other, requests())
    text = whole["test-0001", 0][0]
    stop = (text[3:5],)
    cut = answers(ours, requests(), stop)
    assert cut == answers(other, requests(), stop) and cut["test-0001", 0][:2] == (text[: text.find(stop[0])], "stop")


def test_every_sampling_field_is_stated(tiny_model):
    greedy = open_sampler(options(tiny_model))
    answers(greedy, requests()[:1], ("\n\nQ:",))
    [(ids, params)] = greedy.engine.asked
    assert vars(params) == {
        "temperature": 0.0, "top_p": 1.0, "top_k": 0, "n": 1, "max_tokens": 24, "min_tokens": 0, "min_p": 0.0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "ignore_eos": False,
        "skip_special_tokens": True, "seed": None, "stop": ["\n\nQ:"], "stop_token_ids": [2],
        "output_kind": "last only",
    }  # fmt: skip
    assert ids[0] == 1 and 1 not in ids[1:]
    stated = greedy.engine.options
    assert stated["generation_config"] == "vllm" and stated["enable_prefix_caching"] and not stated["use_tqdm_on_load"]
    assert stated["max_model_len"] == 2048 and stated["tensor_parallel_size"] == 1 and stated["dtype"] == "float32"
    assert greedy.describe()["sampling"]["method"] == "greedy"


def test_each_sample_has_a_seed_of_its_own(tiny_model):
    drawn = open_sampler(options(tiny_model, temperature=0.9, n_samples=2, top_p=0.9, top_k=5))
    asked = requests(samples=2)
    first = answers(drawn, asked)
    assert [params.seed for _, params in drawn.engine.asked] == [sample_seed(0, request) for request in asked]
    assert {(params.top_p, params.top_k) for _, params in drawn.engine.asked} == {(0.9, 5)}
    assert first == answers(drawn, asked[::-1])
    with pytest.raises(SamplerError, match="temperature: vllm takes 0, or 0.01 and more, got 0.005"):
        open_sampler(options(tiny_model, temperature=0.005))


def test_all_end_tokens_of_the_model_end_a_text(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "two-ends")
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": [2, 77]}))
    sampler = open_sampler(options(folder))
    answers(sampler, requests()[:1])
    assert sampler.engine.asked[0][1].stop_token_ids == [2, 77]
    file.unlink()
    assert open_sampler(options(folder)).tokens.eos_ids == [2]


def test_requests_are_taken_as_needed_and_given_up_with_the_run(tiny_model, monkeypatch):
    sampler = open_sampler(options(tiny_model))
    monkeypatch.setattr("gsm8k_nb.samplers.vllm.HAND_ON", 1)
    taken = []
    batches = sampler.sample((taken.append(request) or request for request in requests(samples=4)), ())
    assert len(next(batches)) == 2 and len(taken) == 4  # twice what vLLM works on at a time
    batches.close()
    assert not sampler.engine.waiting
    assert len(answers(sampler, requests())) == 4  # and it can be asked again


def test_what_goes_wrong_is_said_in_a_line(tiny_model, monkeypatch, tmp_path):
    with pytest.raises(SamplerError, match="could not be loaded; that folder has no config.json"):
        open_sampler(options(tmp_path))
    sampler = open_sampler(options(tiny_model, max_new_tokens=2040))
    with pytest.raises(SamplerError, match=r"max_new_tokens: a prompt has \d+ tokens .* lower max_new_tokens to 20"):
        answers(sampler, requests()[1:2] * 3)
    sampler = open_sampler(options(tiny_model))
    monkeypatch.setattr(sampler.engine, "ended", lambda params, new: "abort")
    [[sample]] = list(sampler.sample(requests()[:1], ()))
    assert sample.text is None and sample.error == "vllm ended the request: abort"
    monkeypatch.setattr(sampler.engine, "has_unfinished_requests", lambda: False)
    with pytest.raises(SamplerError, match="^vllm stopped: it knows nothing of 1 requests; "):  # and no endless loop
        list(sampler.sample(requests()[:1], ()))
    monkeypatch.setattr(sampler.engine, "has_unfinished_requests", lambda: True)
    monkeypatch.setattr(sampler.engine, "step", broken)
    with pytest.raises(SamplerError, match="^vllm stopped: CUDA out of memory; what was sampled before is safe$"):
        answers(sampler, requests())
    monkeypatch.setattr(sys.modules["vllm"], "LLM", broken)
    with pytest.raises(SamplerError, match="^model: vllm could not load .*: CUDA out of memory$"):
        open_sampler(options(tiny_model))
    with pytest.raises(SamplerError, match="device: this vllm runs on 'cpu', got 'cuda'"):
        open_sampler(options(tiny_model, device="cuda"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(SamplerError, match=r"environment of its own.*pip install -e '\.\[vllm\]'"):
        open_sampler(options(tiny_model))


def test_a_prompt_that_cannot_be_answered_is_one_failed_sample(tiny_model, monkeypatch):
    sampler = open_sampler(options(tiny_model))
    long = Problem("test-0009", "pens " * 1000, "#### 1", Decimal(1))
    asked = [Request(long, 0, long.question), *requests()]
    done = [sample for batch in sampler.sample(asked, ()) for sample in batch]
    assert {sample.problem_id: sample.error for sample in done if sample.error} == {
        "test-0009": "max_new_tokens: a prompt has 5001 tokens and 24 new ones are allowed, but the model's context is "
        "2048; lower max_new_tokens to 0"
    }
    assert len(done) == 5
    add = sampler.engine.add_request

    def refuse(name, prompt, params):
        if len(prompt["prompt_token_ids"]) == 7:
            raise ValueError("no such prompt,\nplease")
        add(name, prompt, params)

    monkeypatch.setattr(sampler.engine, "add_request", refuse)
    done = [sample for batch in sampler.sample(requests(), ()) for sample in batch]
    assert [sample.error for sample in done if sample.error] == ["no such prompt, please"] and len(done) == 4


def test_a_stop_string_inside_reasoning_stops_nothing(tiny_model, monkeypatch):
    sampler = open_sampler(options(tiny_model, max_new_tokens=200))
    script = "<think>Hm.\n\nQ: what?</think>It is 5.\n\nQ: And then?"
    tokens = sampler.tokenizer(script, add_special_tokens=False).input_ids
    monkeypatch.setattr(Engine, "next", lambda self, ids, params, new: (tokens + [2] * 200)[len(new)])
    done = answers(sampler, requests(samples=3), ("\n\nQ:",))
    assert {text for text, *_ in done.values()} == {"<think>Hm.\n\nQ: what?</think>It is 5."}
    assert {reason for _, reason, *_ in done.values()} == {"stop"}
    stops = [params.stop for _, params in sampler.engine.asked]
    assert stops[0] == ["\n\nQ:"] and stops[-1] == [] and len(stops) < 2 * len(done)  # once found out, it is known


def test_a_thought_is_closed_at_its_budget_and_gone_on_with(tiny_model, monkeypatch):
    """The second request holds the first one's text with the closing mark, and asks for what is left of the tokens."""
    from gsm8k_nb.sampling import thinking

    config = options(tiny_model, max_new_tokens=60, max_thinking_tokens=20, think_tags=["<think>", "</think>"], min_p=0)
    sampler = open_sampler(config)
    first, second = (
        [*sampler.tokenizer(text, add_special_tokens=False).input_ids, 2]
        for text in ("<think>Let me see, it is hard", "It is 5.")
    )
    monkeypatch.setattr(
        Engine, "next", lambda self, ids, params, new: (first if params.max_tokens == 20 else second)[len(new)]
    )
    [request] = requests()[:1]
    [[sample]] = thinking.completions(sampler, [request], (), config)
    assert (sample.reasoning, sample.text) == ("Let me see, i\n", "\n\nIt is 5.") and sample.finish_reason == "stop"
    (ids, asked), (again, more) = sampler.engine.asked
    assert (asked.max_tokens, more.max_tokens) == (20, 40) and again[: len(ids)] == ids
    assert sampler.tokenizer.decode(again[len(ids) :]) == "<think>Let me see, i\n</think>\n\n"
    assert sample.completion_tokens == 20 + len("It is 5.") + 1 and asked.seed is None


def broken(**options):
    raise RuntimeError("CUDA out\nof memory")


def test_its_batch_invariant_mode_is_asked_for_and_recorded(tiny_model, monkeypatch):
    assert open_sampler(options(tiny_model)).describe()["repeatable"] is False
    with pytest.raises(SamplerError, match="repeatable: vllm repeats its texts on GPUs only"):
        open_sampler(options(tiny_model, repeatable=True))
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0")  # as the user has it, and so it stays
    sys.modules["vllm.platforms"].current_platform.device_type = "cuda"
    assert open_sampler(options(tiny_model, repeatable=True, device="cuda")).describe()["repeatable"] is False
    monkeypatch.delenv("VLLM_BATCH_INVARIANT")
    assert open_sampler(options(tiny_model, repeatable=True, device="cuda")).describe()["repeatable"] is True
