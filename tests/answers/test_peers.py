"""gsm8k_nb.answers.peers: each tool's known quirks, which are what tells its score from another's."""

import os
import threading
import time
from decimal import Decimal

import pytest

from gsm8k_nb.answers import RULES, Verdict, extract, judge, math_verify_process, rules, verdict
from gsm8k_nb.answers.peers import PEER_RULES, Rule

# (rule, completion, gold, the number read, whether the rule calls it right)
QUIRKS = [
    # OpenAI: first marker, exactly one blank, text equality
    ("official", "so 18\n#### 18", 18, "18", True),
    ("official", "#### 1,450,000", 1450000, "1450000", True),
    ("official", "#### 18.00", 18, "18", False),
    ("official", "#### 18.", 18, "18", False),
    ("official", "####18", 18, None, False),
    ("official", "####  18", 18, None, False),
    ("official", "#### $18", 18, None, False),
    ("official", "#### １８", 18, None, False),
    ("official", "#### 40\n#### 42", 42, "40", False),
    ("official", "#### .5", 18, "0.5", False),
    ("official", "#### ,", 18, None, False),
    ("official", "<think>#### 50</think>#### 18", 18, "50", False),
    # lm-eval, gsm8k strict-match: the same pattern, a last dot ignored
    ("lm_eval_strict", "#### 1,450,000", 1450000, "1450000", True),
    ("lm_eval_strict", "#### 18.", 18, "18", True),
    ("lm_eval_strict", "#### 18.00", 18, "18", False),
    ("lm_eval_strict", "#### 18.\n#### 20", 18, "18", True),
    ("lm_eval_strict", "#### $18", 18, None, False),
    ("lm_eval_strict", "The answer is 18", 18, None, False),
    # lm-eval, flexible-extract: dots count, a hyphen is a sign, a fraction is its last number
    ("lm_eval_flexible", "It is $1,250.", 1250, "1250", True),
    ("lm_eval_flexible", "It is 18. Well... that is it", 18, None, False),
    ("lm_eval_flexible", "It is 18 ,, I think", 18, None, False),
    ("lm_eval_flexible", "They finished 20-12", 12, "-12", False),
    ("lm_eval_flexible", "It is 18.00", 18, "18", False),
    ("lm_eval_flexible", "It is 3/4", 4, "4", True),
    ("lm_eval_flexible", "It is 18 (not 20)", 18, "20", False),
    ("lm_eval_flexible", "It is 8", 8, "8", True),
    # lm-eval, gsm8k_cot strict-match: the last dot of its pattern is any character
    ("lm_eval_cot_strict", "The answer is 18.", 18, "18", True),
    ("lm_eval_cot_strict", "The answer is 18", 18, "1", False),
    ("lm_eval_cot_strict", "The answer is 8", 8, None, False),
    ("lm_eval_cot_strict", "The answer is $18.", 18, None, False),
    ("lm_eval_cot_strict", "The answer is 10.5", 10, "10", True),
    ("lm_eval_cot_strict", "The answer is 18 eggs. The answer is 20.", 18, "18", True),
    ("lm_eval_cot_strict", "the answer is 18.", 18, None, False),
    # lm-eval, gsm8k_cot_llama strict-match: the last one
    ("lm_eval_llama_strict", "The final answer is 20. No: The final answer is $1,018", 1018, "1018", True),
    ("lm_eval_llama_strict", "The final answer is 8", 8, "8", True),
    ("lm_eval_llama_strict", "The answer is 8", 8, None, False),
    # simple-evals: the last number after the last "Answer", no sign
    ("simple_evals", "Answer: 1,018", 1018, "1018", True),
    ("simple_evals", "Answer: 18.00", 18, "18", True),
    ("simple_evals", "Answer: -10", -10, "10", False),
    ("simple_evals", "Answer: -18", 18, "18", True),
    ("simple_evals", "Answer: 18 eggs in 7 days", 18, "7", False),
    ("simple_evals", "answer: 18", 18, None, False),
    ("simple_evals", "It is 18", 18, None, False),
    # HELM: any character may join two numbers; the last comma is the last number
    ("helm", "The answer is 18.", 18, "18", True),
    ("helm", "It is 1,018 eggs", 1018, "1018", True),
    ("helm", "Counts: 15 12", 12, None, False),
    ("helm", "It is 18, as planned", 18, "18", True),
    ("helm", "It is 18 eggs, as planned", 18, None, False),
    ("helm", "They finished 20-12", 12, None, False),
    ("helm", "It is 18.00", 18, "18", False),
    # OpenCompass: a comma splits a number; what follows "Question:" is cut
    ("opencompass", "It is 1,000", 1000, "0", False),
    ("opencompass", "It is 2,125", 125, "125", True),
    ("opencompass", "It is 18.00", 18, "18", True),
    ("opencompass", "It is 18\nQuestion: 5 ducks?", 18, "18", True),
    ("opencompass", "They finished 20-12", 12, "-12", False),
    ("opencompass", "nothing", 18, None, False),
    # inspect: whole words, five significant digits
    ("inspect", "ANSWER: $18", 18, "18", True),
    ("inspect", "ANSWER: **1,018.**", 1018, "1018", True),
    ("inspect", "ANSWER: 123456", 123457, "123460", True),
    ("inspect", "ANSWER: 123456", 123466, "123460", False),
    ("inspect", "ANSWER: 18%", 18, None, False),
    ("inspect", "ANSWER: 18kg", 18, None, False),
    ("inspect", "5 eggs: \\boxed{18}", 18, "5", False),
    ("inspect", "ANSWER: 18 in 7 days", 18, "7", False),
    ("inspect", "ANSWER: (18)!", 18, "18", True),
    ("inspect", "ANSWER: −10", -10, "-10", True),
    ("inspect", "ANSWER: 2½", 18, "2.5", False),
    ("inspect", "ANSWER: １８", 18, "18", True),
    ("inspect", "ANSWER: 3²", 9, "9", True),
    ("inspect", "infinity nan", 18, None, False),
    # inspect before 0.3.221: the last word of digits, else the last word; it need only end in the gold answer
    ("inspect_endswith", "ANSWER: $18", 18, "18", True),
    ("inspect_endswith", "ANSWER: 118", 18, "118", True),
    ("inspect_endswith", "ANSWER: 1,018.", 18, "1018", True),
    ("inspect_endswith", "so x=18", 18, None, True),
    ("inspect_endswith", "ANSWER: 18 eggs", 18, "18", True),
    ("inspect_endswith", "so \\boxed{18}", 18, None, False),
    ("inspect_endswith", "ANSWER: 18%", 18, None, False),
    ("inspect_endswith", "ANSWER: 123456", 123457, "123460", True),
    ("inspect_endswith", "ANSWER: -18", 18, "-18", True),
    ("inspect_endswith", "ANSWER: 10", -10, "10", True),
    ("inspect_endswith", "ANSWER: １８", 18, "18", True),
    ("inspect_endswith", "ANSWER: 2½", 18, "2.5", False),
    ("inspect_endswith", "", 18, None, False),
    # verl: the last 300 characters
    ("verl_strict", "#### 20\nNo:\n#### 1,018", 1018, "1018", True),
    ("verl_strict", "#### 18.", 18, "18", False),
    ("verl_strict", "#### $18", 18, None, False),
    ("verl_strict", "#### 18\n" + "as shown above " * 20, 18, None, False),
    ("verl_strict", "x" * 1000 + "#### 18", 18, "18", True),
    ("verl_flexible", "It is 18", 18, "18", True),
    ("verl_flexible", "It is 18 . . .", 18, "18", True),
    ("verl_flexible", "It is 1,018", 1018, "1018", False),
    ("verl_flexible", "It is 18.", 18, "18", False),
    ("verl_flexible", "It is 18, I think", 18, "18", False),
    ("verl_flexible", "They finished 20-12", 12, "-12", False),
    ("verl_flexible", "18 " + "as shown above " * 20, 18, None, False),
]


@pytest.mark.parametrize(("rule", "text", "gold", "read", "right"), QUIRKS)
def test_quirk(rule, text, gold, read, right):
    assert judge(text, gold, rule) == (None if read is None else Decimal(read), right)
    assert extract(text, rule) == (None if read is None else Decimal(read))


def test_every_peer_rule_is_tested_and_in_the_table():
    assert {rule for rule, *_ in QUIRKS} | {"math_verify"} == set(PEER_RULES)
    assert all(RULES[name] is rule for name, rule in PEER_RULES.items())


def test_a_gold_with_zeros_or_commas_is_compared_in_plain_digits():
    assert judge("#### 18", Decimal("18.00"), "official") == (Decimal(18), True)
    assert judge("#### 1,450,000", "1,450,000", "official") == (Decimal(1450000), True)
    assert judge("It is 1450000", "1,450,000", "opencompass") == (Decimal(1450000), True)
    assert judge("#### 0", Decimal("-0"), "lm_eval_strict")[1]


def test_a_gold_with_decimals_is_wrong_for_opencompass():
    assert judge("It is 18.5", "18.5", "opencompass") == (Decimal("18.5"), True)  # as text
    assert judge("It is 18.50", "18.5", "opencompass") == (
        Decimal("18.5"),
        False,
    )  # int("18.5") fails in its comparison


@pytest.mark.parametrize("rule", ["official", "lm_eval_flexible", "simple_evals", "helm", "opencompass", "inspect"])
def test_a_loop_of_digits_is_no_number(rule):
    assert judge("Answer: #### " + "9" * 5000, 18, rule) == (None, False)


def test_math_verify_is_an_extra(monkeypatch):
    monkeypatch.setattr(math_verify_process, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs the math-verify package: pip install 'gsm8k-nb\[math-verify\]'"
    ):
        extract("#### 18", "math_verify")


@pytest.mark.parametrize(
    ("text", "gold", "read", "right"),
    [
        ("The answer is 1,018.", 1018, "1018", True),
        ("The answer is $18.00", 18, "18", True),
        ("so \\boxed{\\frac{36}{2}}", 18, "18", True),
        ("so \\boxed{9 \\times 2}", 18, "18", True),  # it calculates
        ("so \\boxed{2^{10}}", 1024, "1024", True),
        ("The answer is 3/4.", 18, "0.75", False),
        ("She has 18 on day 5", 18, "5", False),
        ("no idea", 18, None, False),
    ],
)
def test_math_verify(text, gold, read, right):
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    assert judge(text, gold, "math_verify") == (None if read is None else Decimal(read), right)


def test_math_verify_reads_a_percentage_both_ways():
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    assert judge("#### 60%", 60, "math_verify")[1]


def test_math_verify_in_a_thread():
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(judge("#### 18", 18, "math_verify")))
    thread.start()
    thread.join()
    assert verdicts == [(Decimal(18), True)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("each gets 0." + "3" * 5000, "0." + "3" * 28),
        ("each gets \\boxed{0." + "3" * 5000 + "}", "0." + "3" * 28),
        ("so \\boxed{" + "9" * 5000 + "}", None),
        ("so \\boxed{\\frac{1}{" + "7" * 5000 + "}}", None),
    ],
)
def test_math_verify_takes_numbers_of_thousands_of_digits(text, read):
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    assert verdict(text, 18, "math_verify") == Verdict(None if read is None else Decimal(read), False)
    assert judge("#### 18", 18, "math_verify") == (Decimal(18), True)


@pytest.mark.parametrize("expression", ["9^{9^{9^9}}", "10!!!!!!", "3^{3^{3^{3^3}}} - 1", "(7!)!!"])
def test_what_math_verify_never_ends_is_stopped_and_named_in_any_thread(expression, monkeypatch):
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    math_verify_process._stop()
    monkeypatch.setattr(math_verify_process, "SECONDS", 1)
    found, threads = [], threading.active_count()
    thread = threading.Thread(target=lambda: found.append(verdict(f"so \\boxed{{{expression}}}", 18, "math_verify")))
    thread.start()
    running = wait_for(lambda: math_verify_process._child)
    thread.join(timeout=30)
    assert found == [Verdict(None, False, "TimeoutError: Math-Verify took longer than 1 s")]
    assert threading.active_count() == threads
    with pytest.raises(ProcessLookupError):  # nothing is left running on
        os.kill(running.pid, 0)
    assert verdict("#### 18", 18, "math_verify") == Verdict(Decimal(18), True)
    math_verify_process._stop()


def test_math_verify_goes_on_after_its_process_was_ended_or_the_wait_for_it_interrupted(monkeypatch):
    pytest.importorskip("math_verify", reason="the extra math-verify is not installed")
    assert judge("#### 18", 18, "math_verify")[1]
    math_verify_process._child.kill()
    math_verify_process._child.wait()
    assert judge("#### 18", 18, "math_verify")[1]

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(math_verify_process._child.stdout, "readline", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        judge("#### 7", 18, "math_verify")
    assert judge("#### 18", 18, "math_verify") == (Decimal(18), True)  # not the reply to the question before


def wait_for(condition):
    while not (found := condition()):
        time.sleep(0.001)
    return found


def failing(error):
    def read(text):
        raise error

    return Rule("strict", "fails", "here", read)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("Exceeds the limit (4300 digits)"), "ValueError: Exceeds the limit (4300 digits)"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (OverflowError("too large"), "OverflowError: too large"),
        (MemoryError(), "MemoryError: "),
        (TimeoutError("x" * 500), "TimeoutError: " + "x" * 200),
    ],
)
def test_a_rule_that_fails_on_a_text_has_read_no_answer_and_says_why(error, name, monkeypatch):
    monkeypatch.setattr(rules, "RULES", {"strict": failing(error)})
    assert verdict("#### 18", 18, "strict") == Verdict(None, False, name)
    assert extract("#### 18", "strict") is None


def test_an_interrupt_or_a_missing_package_is_no_failure_of_a_rule(monkeypatch):
    for error in (KeyboardInterrupt(), ModuleNotFoundError("no such package")):
        monkeypatch.setattr(rules, "RULES", {"strict": failing(error)})
        with pytest.raises(type(error)):
            verdict("#### 18", 18, "strict")


def test_thousands_of_superscripts_are_no_number_for_inspect():
    assert verdict("It is 9" + "⁹" * 300, 18, "inspect") == Verdict(None, False)
