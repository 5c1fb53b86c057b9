"""Prompt files: what they may say, what is said of a broken one, and that ours are such files."""

import json
import re

import pytest

from gsm8k_nb.config import ConfigError, RunConfig
from gsm8k_nb.formats import FORMATS, PromptError, format_of, read_format
from gsm8k_nb.prompts import prompt_for, render, stops
from gsm8k_nb.protocol import protocol_of
from gsm8k_nb.runs import Inputs

MINE = """# a newcomer's file
template: "Q: {question}\\nA:"
stop: ["\\n\\nQ:"]
exemplars: wei
answer_form: "the answer is"
"""


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "my-prompt.yaml"
    file.write_text(MINE)
    return file


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("written_out", [True, False])
def test_a_file_that_says_the_same_gives_the_same_bytes(mine, chat, written_out):
    ours = prompt_for(RunConfig(prompt="wei_8shot"), [])
    if written_out:
        shots = [{"question": shot.question, "answer": shot.answer} for shot in ours.exemplars]
        mine.write_text(MINE.replace("exemplars: wei", f"exemplars: {json.dumps(shots)}"))
    form = prompt_for(RunConfig(prompt=str(mine)), [])
    assert render(form, "How many {pens}?", chat) == render(ours, "How many {pens}?", chat)
    assert stops(form, chat) == stops(ours, chat) and form.sha256 == ours.sha256 and form.shots == 8


def test_a_files_content_names_the_run_wherever_it_lies(mine, tmp_path):
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved" / mine.name
    moved.write_text(MINE)
    config = RunConfig(prompt=str(mine))
    assert config.run_id == RunConfig(prompt=str(moved)).run_id and "-my-prompt-" in config.run_id
    moved.write_text(MINE.replace("A:", "Answer:"))
    assert config.run_id != RunConfig(prompt=str(moved)).run_id != RunConfig(prompt="wei_8shot").run_id


def test_a_stored_run_keeps_its_prompt_when_the_file_has_gone(mine):
    config = RunConfig(prompt=str(mine), temperature=0.5)
    stored = config.model_dump() | {"inputs": {"prompt_text": config.form.text}}
    mine.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        RunConfig.checked(config.model_dump())
    assert RunConfig.stored(stored).form == config.form and RunConfig.stored(stored).n_shots == 8


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("stop:", "stops:", "line 3: stops: unknown; known: exemplars, template"),
        ("{question}", "the question", "line 2: template: must hold {question}"),
        ("exemplars: wei", "exemplars: 8", "line 4: exemplars"),
        ("exemplars: wei", "exemplars: [{question: x}]", "line 4: exemplars"),
        ("exemplars: wei", "exemplars: {train: 99}", "line 4: exemplars"),
        ('"the answer is"', '"[0-9"', "line 5: answer_form: must be '####', 'boxed'"),
        ('"the answer is"', "no group", "line 5: answer_form"),
        ('["\\n\\nQ:"]', '["="]', "line 3: stop: stop string '='"),
        ('["\\n\\nQ:"]', '"\\n\\nQ:"', "line 3: stop"),
        ("answer_form", "#answer_form", "line 1: answer_form: Field required"),
        ("exemplars: wei", "exemplars: wei\nexemplars: wei", "line 5: 'exemplars' stands here twice"),
        ("exemplars: wei", "exemplars: [", "line 6: expected"),
    ],
)
def test_a_broken_file_is_refused_by_its_line(mine, old, new, said):
    assert old in MINE
    mine.write_text(MINE.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        RunConfig.checked({"prompt": str(mine)})
    assert f"parameter 'prompt': my-prompt, {said}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b\n", "\x00", "template: 5\n"])
def test_what_is_no_prompt_file_is_refused(text):
    with pytest.raises(PromptError, match="mine, line 1|mine, "):
        read_format("mine", text)


def test_a_name_that_is_none_is_refused_with_a_near_one(tmp_path):
    for name, said in (("wei8shot", "did you mean 'wei_8shot'"), ("nothing.yaml", "cannot be read")):
        with pytest.raises(PromptError, match=said):
            format_of(name)
    with pytest.raises(PromptError, match="cannot be read"):
        format_of(str(tmp_path / ".yaml"))


def test_system_message_and_stops_of_the_parameters_stand_first(mine):
    mine.write_text(MINE + "system: Be brief.\n")
    form = prompt_for(RunConfig(prompt=str(mine)), [])
    assert render(form, "1?", True)[0] == {"role": "system", "content": "Be brief."}
    assert render(form, "1?", False).startswith("Be brief.\n\nQ: ")
    changed = RunConfig(prompt=str(mine), system_prompt="Think.", stop=["END"])
    form = prompt_for(changed, [])
    assert render(form, "1?", True)[0]["content"] == "Think." and stops(form, True) == stops(form, False) == ("END",)
    assert len({changed.run_id, RunConfig(prompt=str(mine)).run_id}) == 2
    protocol = protocol_of(changed, Inputs())
    assert protocol.settings["system_prompt"] == "Think."


def test_every_prompt_of_ours_is_such_a_file():
    assert set(FORMATS) == {
        "zero_shot", "wei_8shot", "train_kshot", "llama3_8shot", "boxed", "kojima_2stage", "as_stored"
    }  # fmt: skip
    text = render(FORMATS["boxed"], "How many?", True)[0]["content"]
    assert text.startswith("How many?\n") and text.endswith("within \\boxed{}.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zero_shot", "#### 1,018"), ("train_kshot", "####1,018"), ("wei_8shot", "The answer is 1,018."),
        ("llama3_8shot", "The final answer is $1,018"), ("boxed", "So \\boxed{1,018}."),
        ("kojima_2stage", "Therefore, the answer (arabic numerals) is $1,018."),
    ],
)  # fmt: skip
def test_the_form_that_a_prompt_asks_for_is_known(name, text):
    match = re.search(FORMATS[name].answer_pattern, text)
    assert match and match[match.lastindex] == "1,018"
