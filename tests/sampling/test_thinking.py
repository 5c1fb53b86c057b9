"""Reasoning apart from the answer, budgets of thinking and prompts of two steps, on local engines and servers."""

import json
import re

import pytest

from gsm8k_nb import data, prompts, sampling, summary
from gsm8k_nb.answers.passages import marks_in, parted
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample, to_row
from gsm8k_nb.runs import Run
from gsm8k_nb.samplers import Request, SamplerError, open_sampler
from gsm8k_nb.sampling import thinking
from tests.samplers.stub_server import error, reply, serve

THOUGHT, ANSWER = "2 * 9 = 18, or 20? Wait: #### 20", "She sells 9 eggs.\n#### 18"
FAMILIES = {  # how models write a thought and what follows it; harmony's headers differ by what they introduce
    "Qwen3, DeepSeek-R1": "<think>{}</think>\n\n{}",
    "gpt-oss": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "Magistral": "[THINK]{}[/THINK]{}",
    "Command A": "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
    "Seed-OSS": "<seed:think>{}</seed:think>{}",
    "Sky-T1": "<|begin_of_thought|>{}<|end_of_thought|>\n\n{}",
    "Gemma 4": "<|channel>thought\n{}<channel|>{}",
    "working out": "<start_working_out>{}<end_working_out>{}",
    "Apertus": "<|inner_prefix|>{}<|inner_suffix|>{}",
    "LongCat": "<longcat_think>{}</longcat_think>{}",
    "Kimi": "\u25c1think\u25b7{}\u25c1/think\u25b7{}",
    "EXAONE": "<thought>\n{}</thought>\n\n{}",
    "reasoning": "<reasoning>{}</reasoning>{}",
}
MARK = re.compile(r"<[^<>\s]{2,30}>|\[/?[A-Z]{3,}\]|\u25c1/?think\u25b7")


class Local:
    """An engine that writes one text, token for token, by a tokenizer in which every mark is a special token."""

    has_chat_template = True

    def __init__(self, tiny_model, text: str, **fields) -> None:
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig

        from gsm8k_nb.samplers.tokens import Tokens

        tokenizer = AutoTokenizer.from_pretrained(tiny_model)
        tokenizer.add_special_tokens({"additional_special_tokens": MARK.findall(text)})
        config = AutoConfig.from_pretrained(tiny_model)
        self.tokens = Tokens(tokenizer, config, GenerationConfig(eos_token_id=2), RunConfig(**fields))
        self.ids = [*tokenizer(text, add_special_tokens=False).input_ids, 2]

    def sample(self, requests, stop):
        yield [self.tokens.sample(request, self.tokens.encode(request.prompt), self.ids, stop) for request in requests]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stop", [(), ("####",), ("Wait",)])
def test_a_thought_is_told_from_the_answer_on_local_engines(tiny_model, problems, family, stop):
    """Also where the marks are special tokens; a stop string that stands in the thought stops nothing."""
    local = Local(tiny_model, FAMILIES[family].format(THOUGHT, ANSWER))
    [[sample]] = thinking.completions(local, [Request(problems[0], 0, "Q: 1?")], stop, RunConfig())
    assert sample.reasoning.strip() == THOUGHT
    text = re.sub(r"<\|(END|START)_RESPONSE\|>", "", sample.text).strip()
    assert text == ("She sells 9 eggs." if stop == ("####",) else ANSWER)
    assert sample.reasoning_tokens == pytest.approx(len(THOUGHT), abs=1) and sample.finish_reason == "stop"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_thought_is_told_from_the_answer_on_servers(problems, family):
    whole = FAMILIES[family].format(THOUGHT, ANSWER)
    with serve(lambda body, number: reply(body, [whole])) as stub:
        config = RunConfig(sampler="openai", base_url=stub.url, model="stub-1")
        requests = [Request(problems[0], 0, [{"role": "user", "content": "1?"}])]
        [[sample]] = thinking.completions(open_sampler(config), requests, ("####",), config)
    assert sample.reasoning.strip() == THOUGHT
    assert re.sub(r"<\|(END|START)_RESPONSE\|>", "", sample.text).strip() == "She sells 9 eggs."


def test_marks_are_those_of_the_template_or_stated():
    assert marks_in("{% if '</think>' in c %}{% set c = c.split('</think>')[-1] %}{% endif %}<think>") == (
        "<think>",
        "</think>",
    )
    assert marks_in("{{ content.split('[/PONDER]')[-1] }}") == ("[PONDER]", "[/PONDER]")
    assert marks_in("{{ bos_token }}{{ content }}") is None
    assert parted("<p>9 * 2</p>18", ("<p>", "</p>")) == ("9 * 2", "18", False)
    assert parted("<p>9 * 2", ("<p>", "</p>")) == ("9 * 2", "", True)
    assert parted("<p>9 * 2</p>18").reasoning is None  # a mark that nobody stated is text


def test_of_an_open_thought_a_forced_answer_is_the_text(tiny_model, problems):
    local = Local(tiny_model, "<think>2 * 9 is 18\n**Final answer** \\boxed{18}")
    [[sample]] = thinking.completions(local, [Request(problems[0], 0, "Q")], (), RunConfig())
    assert sample.text.strip() == "**Final answer** \\boxed{18}" and sample.reasoning.startswith("2 * 9 is 18")


# ---- budgets


def thinker(tokens: int):
    """A server that thinks so many tokens, a word each, then answers in four; it goes on with what is written."""

    def answer(body, number):
        messages = body["messages"]
        asked = re.search(r"number (\d)", next(m["content"] for m in messages if m["role"] == "user"))
        number = [5, 48, 1200, -1][int(asked[1])]
        written = messages[-1]["content"] if messages[-1]["role"] == "assistant" else ""
        assert bool(written) == bool(body.get("continue_final_message"))
        # Right is what it says after thinking half of it or more.
        thought = written.partition("</think>")[0].removeprefix("<think>").split()
        whole = [*(f"w{n}" for n in range(tokens)), "</think>"] if "</think>" not in written else []
        guess = number if "</think>" not in written or 2 * len(thought) >= tokens else number + 1
        words = [*whole, "####", str(guess)] if written else ["<think>", *whole, "####", str(guess)]
        words, most = words[len(thought) if written and "</think>" not in written else 0 :], body["max_tokens"]
        good = reply(body, [" ".join(words[:most])], "stop" if len(words) <= most else "length")
        good.body["usage"]["completion_tokens"] = min(len(words), most)
        return good

    return answer


@pytest.mark.parametrize("budget", [0, 32, 128, None])
def test_curves_are_those_of_the_stored_texts(tmp_path, data_file, problems, budget):
    with serve(thinker(50)) as stub:
        config = RunConfig(
            sampler="openai", base_url=stub.url, model="stub-1", data_path=str(data_file), max_new_tokens=200,
            max_thinking_tokens=budget, outputs_dir=str(tmp_path), n_resamples=100, rules="both",
        )  # fmt: skip
        results = evaluate(config)
    samples = [json.loads(line) for line in Run(config.run_folder).samples_file.read_text().splitlines()]
    assert all(sample["error"] is None for sample in samples)
    assert [len((sample["reasoning"] or "").split()) for sample in samples] == [{0: 0, 32: 31}.get(budget, 50)] * 4
    assert results.metrics.accuracy == (0 if budget == 0 else 1.0)
    assert same_curve(results, samples)
    label = results.metrics.protocol.label
    assert ("tokens of thinking" in label) == (budget is not None) and f"most {budget} tokens" in label or not budget


def evaluate(config: RunConfig) -> summary.Results:
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    sampling.fill(run, config, problems, prompts.prompt_for(config, problems))
    summary.score_run(run, config, problems)
    return summary.summarise(run, config)


def same_curve(results: summary.Results, samples: list[dict]) -> bool:
    """The curve against one made from the rows on disk, a limit at a time."""
    scores = [json.loads(line) for line in (results.run.folder / "scores.jsonl").read_text().splitlines()]
    right = {(s["problem_id"], s["sample_index"]) for s in scores if s["rule"] == "flexible" and s["correct"]}
    for row in summary.by_tokens(results).itertuples():
        done = [s for s in samples if s["finish_reason"] != "length" and s["completion_tokens"] <= row.tokens]
        good = sum((s["problem_id"], s["sample_index"]) in right for s in done)
        low, cut = good / len(samples), (len(samples) - len(done)) / len(samples)
        assert (row.low, row.high, row.finished) == pytest.approx((low, low + cut, len(done) / len(samples)), abs=1e-15)
        assert not done or row.accuracy == pytest.approx(good / len(done), abs=1e-15)
    return True


@pytest.fixture
def thinking_model(tiny_model, tmp_path):
    """The tiny model with a chat template that opens a thought."""
    import shutil

    folder = shutil.copytree(tiny_model, tmp_path / "thinker")
    for file in (folder / "tokenizer_config.json", folder / "chat_template.jinja"):
        if file.exists():
            text = file.read_text()
            opened = "[assistant]<think>\\n" if file.suffix == ".json" else "[assistant]<think>\n"
            file.write_text(text.replace("[assistant]", opened))
    return str(folder)


@pytest.mark.parametrize("budget", [0, 5])
def test_a_thought_is_closed_at_its_budget_on_the_local_engine(thinking_model, tmp_path, data_file, problems, budget):
    config = RunConfig(
        model=thinking_model, dtype="float32", device="cpu", max_new_tokens=12, max_thinking_tokens=budget, smoke=0,
        data_path=str(data_file), outputs_dir=str(tmp_path), n_samples=2, temperature=1.0,
    )  # fmt: skip
    results = evaluate(config)
    for row in results.of_rule().itertuples():
        assert row.reasoning_tokens and row.completion_tokens <= 12 and row.text
        assert budget or row.reasoning.strip() == ""
    assert results.metrics.health.thought_cut == 0


def test_cut_thoughts_are_counted_and_the_headline_says_what_they_can_move(tmp_path, data_file):
    with serve(thinker(50)) as stub:
        config = RunConfig(
            sampler="openai", base_url=stub.url, model="stub-1", data_path=str(data_file), max_new_tokens=20,
            outputs_dir=str(tmp_path), n_resamples=100, rules="both",
        )  # fmt: skip
        results = evaluate(config)
    assert results.metrics.health.thought_cut == 4 and results.metrics.accuracy == 0
    assert results.headline.endswith("; 4 of 4 thoughts cut, with all of them right 1.0000")


def test_a_server_that_cannot_continue_is_told_by_the_parameter(tmp_path, data_file):
    def answer(body, number):
        if "continue_final_message" in body:
            return error(400, "Unrecognized request argument supplied: continue_final_message")
        return thinker(50)(body, number)

    with serve(answer) as stub:
        config = RunConfig(
            sampler="openai", base_url=stub.url, model="stub-1", data_path=str(data_file), max_new_tokens=60,
            max_thinking_tokens=8, outputs_dir=str(tmp_path),
        )  # fmt: skip
        with pytest.raises(SamplerError, match="max_thinking_tokens"):
            evaluate(config)


def test_kojima_asks_twice_and_keeps_both_parts(tmp_path, data_file):
    def answer(body, number):
        written = body["messages"][-1]["content"] if body["messages"][-1]["role"] == "assistant" else ""
        return reply(body, [" 5." if written else "It is 2 + 3 pens. That makes five"])

    with serve(answer) as stub:
        config = RunConfig(
            sampler="openai", base_url=stub.url, model="stub-1", data_path=str(data_file), limit=1,
            prompt="kojima_2stage", outputs_dir=str(tmp_path), n_resamples=100, rules="both",
        )  # fmt: skip
        results = evaluate(config)
        first, second = (seen.body for seen in stub.seen)
    assert first["messages"][-1]["content"].endswith("A: Let's think step by step.") and first["max_tokens"] == 512
    assert second["max_tokens"] == thinking.ANSWER_TOKENS and second["add_generation_prompt"] is False
    [row] = results.of_rule().itertuples()
    assert row.text == "It is 2 + 3 pens. That makes five\nTherefore, the answer (arabic numerals) is 5."
    assert row.correct and row.completion_tokens == 16 and row.prompt_tokens == 100


def test_the_answer_is_read_from_the_reasoning_on_purpose_only(tmp_path, replay_config, problems):
    row = Sample(problems[0].id, 0, "", "stop", None, 1, 9, 0.1, "2 + 3 = 5\n#### 5", 8)
    rows = [json.dumps(to_row(row) | {"problem_id": problem.id}) for problem in problems]
    (tmp_path / "samples.jsonl").write_text("\n".join(rows))
    plain = evaluate(replay_config)
    assert plain.metrics.accuracy == 0 and "reasoning" not in plain.headline
    meant = evaluate(replay_config.model_copy(update={"answer_from": "reasoning"}))
    assert meant.metrics.accuracy == 0.25 and meant.metrics.protocol.settings == {"answer_from": "reasoning"}


@pytest.mark.parametrize("chat_template", ["auto", "plain"])
def test_a_prompt_file_asks_a_server_byte_for_byte_as_the_prompt_that_it_repeats(tmp_path, data_file, chat_template):
    file = tmp_path / "mine.yaml"
    file.write_text('template: "Q: {question}\\nA:"\nstop: ["\\n\\nQ:"]\nexemplars: wei\nanswer_form: the answer is\n')
    asked = {}
    for prompt in (str(file), "wei_8shot"):
        with serve(lambda body, number: reply(body, ["It is 5. The answer is 5."])) as stub:
            config = RunConfig(
                sampler="openai", base_url=stub.url, model="stub-1", data_path=str(data_file), prompt=prompt,
                chat_template=chat_template, outputs_dir=str(tmp_path / "outputs"), n_resamples=100, rules="both",
            )  # fmt: skip
            results = evaluate(config)
        asked[prompt] = sorted(json.dumps(seen.body, sort_keys=True) for seen in stub.seen)
        assert results.metrics.health.no_marker == 0 and results.metrics.protocol.shots == 8
        stored = results.run.read_json("config.json")["inputs"]
        assert stored.get("prompt_text") == (file.read_text() if prompt == str(file) else None)
    assert asked[str(file)] == asked["wei_8shot"] and len(asked["wei_8shot"]) == 4
