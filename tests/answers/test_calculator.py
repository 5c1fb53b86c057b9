import json
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsm8k_nb.answers.calculator import annotations, evaluate, without_annotations


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3", 5),
        ("16-3-4", 9),
        ("2*(3+4)", 14),
        ("-1,200/4", -300),
        ("20*50%", 10),
        ("1/3", Fraction(1, 3)),
        (".5*4", 2),
        ("3 x 4", 12),
        ("6÷4", Fraction(3, 2)),
        ("$5×2", 10),
        ("007+1", 8),
        ("0.1+0.2", Fraction(3, 10)),
    ],
)
def test_exact_values(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "2**3",
        "9**9**9",
        "7//2",
        "1/0",
        "__import__('os')",
        "1e9999",
        "a+1",
        "(" * 150,
        "2+",
        "1_0",
        "9" * 5000,
    ],
)
def test_everything_else_is_refused_at_once(text):
    started = time.perf_counter()
    assert evaluate(text) is None
    assert time.perf_counter() - started < 1


@given(st.text(max_size=300))
def test_no_text_raises(text):
    value = evaluate(text)
    assert value is None or isinstance(value, Fraction)


def test_annotations_and_prose():
    solution = "She earns 3 * 4 = $<<3*4=12>>12 a day.\n#### 12"
    assert annotations(solution) == [("3*4", "12")]
    assert without_annotations(solution) == "She earns 3 * 4 = $12 a day.\n#### 12"


def test_reads_the_annotations_of_gsm8k(official):
    pairs = [pair for line in (official / "train.jsonl").open() for pair in annotations(json.loads(line)["answer"])]
    right = sum(evaluate(left) is not None and evaluate(left) == evaluate(right) for left, right in pairs)
    assert len(pairs) == 23716
    assert right == 23714  # the other two use //, which Python reads and a person does not
