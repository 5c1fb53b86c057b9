"""gsm8k_nb.peer_rules: each tool's known quirks, which are what tells its score from another's."""

import builtins
import threading
from decimal import Decimal

import pytest

from gsm8k_nb.answers import RULES, extract, judge
from gsm8k_nb.peer_rules import PEER_RULES

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
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "math_verify":
            raise ModuleNotFoundError("No module named 'math_verify'", name="math_verify")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
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
        ("so \\boxed{2^{10}}", 1024, None, True),
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
