from dataclasses import replace

import pytest

from gsm8k_nb import data, prompts
from gsm8k_nb.config import RunConfig
from gsm8k_nb.places import AssetError, asset_path
from gsm8k_nb.prompts import FORMATS, PromptError, PromptFormat, prompt_for, render, stops

QUESTION = "How many {pens}?"


def form_of(name: str, problems=(), **options) -> PromptFormat:
    return prompt_for(RunConfig(prompt=name, **options), list(problems))


@pytest.mark.parametrize("name", ["zero_shot", "wei_8shot", "llama3_8shot"])
@pytest.mark.parametrize("chat", [True, False])
def test_question_is_last_and_nothing_trails(name, chat):
    form = form_of(name)
    prompt = render(form, QUESTION, chat)
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    assert QUESTION in text and text == text.rstrip()
    assert (prompt.count(QUESTION) if not chat else sum(QUESTION in message["content"] for message in prompt)) == 1


def test_zero_shot_asks_for_the_marker():
    text = render(form_of("zero_shot"), QUESTION, False)
    assert "#### <number>" in text and "step by step" in text and "only" not in text
    assert text.endswith("\nAnswer:")
    [message] = render(form_of("zero_shot"), QUESTION, True)
    assert message["role"] == "user" and not message["content"].endswith("Answer:")


def test_wei_has_eight_exemplars_in_the_papers_order():
    form = form_of("wei_8shot")
    assert form.shots == 8
    words = ["trees", "cars", "chocolates", "lollipops", "toys", "computers", "golf", "bagels"]
    assert all(word in shot.question for word, shot in zip(words, form.exemplars, strict=True))
    answers = [shot.answer.rsplit("The answer is ", 1)[1] for shot in form.exemplars]
    assert answers == ["6.", "5.", "39.", "8.", "9.", "29.", "33.", "8."]
    text = render(form, QUESTION, False)
    assert text.count("\n\nQ: ") == 8 and text.endswith(f"\n\nQ: {QUESTION}\nA:")
    assert "\nA: There are 15 trees originally." in text


def test_exemplars_are_turns_under_a_template():
    messages = render(form_of("llama3_8shot"), QUESTION, True)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 8 + ["user"]
    assert messages[1]["content"].endswith("The final answer is 6")
    assert messages[-1]["content"].startswith("Given the following problem, reason")
    assert '"The final answer is [answer]"' in messages[-1]["content"]


def test_an_altered_asset_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "gsm8k-cot.yaml"
    file.write_text("doc_to_text: 'Q: {{question}}'\n")
    monkeypatch.setattr(prompts, "asset_path", lambda package, inside: file)
    with pytest.raises(PromptError, match="sha256"):
        form_of("wei_8shot")


def test_a_missing_asset_says_how_to_install_it():
    with pytest.raises(AssetError, match="make setup"):
        asset_path("no-such-package", "a/b.yaml")


def test_train_exemplars_are_one_seeded_draw(official):
    path = str(official / "test.jsonl")
    problems = data.load(path=path)
    form = form_of("train_kshot", problems, data_path=path)
    again = form_of("train_kshot", problems, data_path=path)
    other = form_of("train_kshot", problems, data_path=path, seed=1)
    assert form == again and form.sha256 == again.sha256
    ids = [shot.id for shot in form.exemplars]
    assert len(set(ids)) == 8 and all(name.startswith("train-") for name in ids)
    assert ids != [shot.id for shot in other.exemplars] and form.sha256 != other.sha256
    assert not any("<<" in shot.answer for shot in form.exemplars)
    assert all("\n#### " in shot.answer for shot in form.exemplars)
    assert form_of("train_kshot", problems, data_path=path, shots=4).shots == 4


def test_train_split_missing_beside_the_data_is_said(data_file):
    with pytest.raises(data.DataError, match="train_path"):
        form_of("train_kshot", data_path=str(data_file))


def test_a_scored_problem_is_never_its_own_exemplar(problems):
    train = [replace(problem, id=f"train-{i}", question=problem.question.upper()) for i, problem in enumerate(problems)]
    drawn = prompts.draw_exemplars(train, 2, 0, problems[:2])
    assert {shot.id for shot in drawn} == {"train-2", "train-3"}
    with pytest.raises(PromptError, match="3 exemplars asked for, the train split has 2"):
        prompts.draw_exemplars(train, 3, 0, problems[:2])
    with pytest.raises(PromptError, match="is the scored problem test-0000"):
        prompts.check_no_overlap([prompts.Exemplar("train-0", problems[0].question, "x")], problems)


def test_stops_are_delimiters_and_only_for_plain_text():
    for form in FORMATS.values():
        assert all(stop.startswith("\n\n") for stop in form.stop)
        assert stops(form, chat=True) == ()
        assert stops(form, chat=False) == form.stop
    with pytest.raises(PromptError, match="'='"):
        PromptFormat("x", "{question}", ("=",), "", "x")
    with pytest.raises(PromptError, match="list"):
        PromptFormat("x", "{question}", "\n\nQ:", "", "x")


def test_hash_covers_template_stops_and_exemplars():
    base = form_of("wei_8shot")
    fewer = PromptFormat(base.name, base.template, base.stop, base.answer_pattern, base.source, base.exemplars[:7])
    stopless = PromptFormat(base.name, base.template, (), base.answer_pattern, base.source, base.exemplars)
    assert len({base.sha256, fewer.sha256, stopless.sha256, form_of("zero_shot").sha256}) == 4


def test_a_format_says_all_that_is_said_of_a_prompt():
    for name, form in FORMATS.items():
        fewest, most, usual = form.takes
        assert name == form.name and fewest <= usual <= most
        if name != "as_stored":
            assert form.family and name in RunConfig.model_fields["prompt"].description
    assert {form.name: form.sha256[:8] for form in map(form_of, ["zero_shot", "wei_8shot", "llama3_8shot"])} == {
        "zero_shot": "3f187a90",  # of version 0.1.0: a format that changes is another protocol
        "wei_8shot": "fdf1e639",
        "llama3_8shot": "d230af70",
    }
