"""The probe before a long run: each fault is found, sound completions raise nothing."""

from dataclasses import replace

import pytest

from gsm8k_nb.prompts import FORMATS
from gsm8k_nb.records import Sample
from gsm8k_nb.sampling import smoke
from gsm8k_nb.texts import degenerate

GOOD = "She has 3 + 4 = 7 apples.\nShe eats 2, so 7 - 2 = 5 are left.\n#### 5"


def samples(*texts: str, finish: str = "stop", tokens: int = 40) -> list[Sample]:
    return [Sample(f"test-{i:04d}", 0, text, finish, None, 90, tokens) for i, text in enumerate(texts)]


def findings_of(*texts: str, form: str = "zero_shot", chat: bool = True, **changes) -> dict[str, smoke.Finding]:
    return {finding.name: finding for finding in smoke.look(samples(*texts, **changes), FORMATS[form], chat)}


def test_sound_completions_raise_nothing():
    assert findings_of(GOOD, GOOD, GOOD) == {}


@pytest.mark.parametrize(
    ("name", "text", "changes"),
    [
        ("empty", "  \n", {}),
        ("short", "#### 5", {"tokens": 3}),
        ("cut", GOOD, {"finish": "length"}),
        ("no_form", "So the answer is 5.", {}),
        ("runs_on", GOOD + "\n\nQuestion: Tom has 3 cats. How many", {}),
        ("runs_on", GOOD + "\nQ: Tom has 3 cats", {}),
        ("marks", GOOD + "<|im_end|>\n<|im_start|>user", {}),
        ("marks", "[INST] " + GOOD, {}),
        ("repeats", GOOD + "\nThe answer is 5." * 9, {}),
    ],
)
def test_each_fault_is_found_with_its_texts(name, text, changes):
    finding = findings_of(text, text, **changes)[name]
    assert (finding.count, finding.of) == (2, 2) and finding.texts == (text, text)
    assert str(finding).startswith("2 of the first 2 completions")


def test_a_single_odd_text_among_many_is_no_finding():
    assert findings_of(*[GOOD] * 7, "no") == {}


def test_advice_names_the_other_template_setting():  # a base model behind a chat template
    cut = {"finish": "length"}
    assert "chat_template: plain" in findings_of(GOOD, chat=True, **cut)["cut"].advice
    assert "chat_template: template" in findings_of(GOOD, chat=False, **cut)["cut"].advice


@pytest.mark.parametrize("text", ["", None, " \n"])
def test_an_answer_that_came_as_reasoning_is_told_from_none(text):
    thought = [replace(sample, text=text, reasoning="3 + 4 = 7 #### 7") for sample in samples("", "")]
    findings = {finding.name: finding for finding in smoke.look(thought, FORMATS["zero_shot"], True)}
    assert "empty" not in findings and "reasoning parser" in findings["thought_only"].advice
    assert "max_new_tokens" in findings["thought_only"].advice and "stop string" not in str(findings)
    assert "thought_only" not in findings_of("", "") and "thought_only" not in findings_of(GOOD, GOOD)


def test_failed_requests_are_named_and_not_judged():
    failed = Sample("test-0000", 0, None, error="503 overloaded")
    [finding] = smoke.look([failed, *samples(GOOD)], FORMATS["zero_shot"], True)
    assert str(finding) == "1 of the first 2 requests failed: 503 overloaded"


@pytest.mark.parametrize("text", [GOOD, "", "7 7 7", "ha ha ha", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "#### 1000000000000"])
def test_ordinary_text_is_no_loop(text):
    assert not degenerate(text)
