"""The detector of kinds of error: what it reads, what it leaves alone, how precise it was on a hand-checked draw."""

import csv
import json
import re
import time
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsm8k_nb.answers import judge
from gsm8k_nb.mistakes import (
    KINDS,
    PRECISION,
    ErrorReport,
    calculations,
    classify,
    error_table,
)
from gsm8k_nb.records import Problem, Sample

from .conftest import OFFICIAL, needs_official

HAND_CHECK = Path(__file__).parent / "data" / "error_handcheck.csv"
COLUMNS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")

PROBLEM = Problem(
    "test-9999",
    "A baker fills 5 trays with 12 rolls each and packs the rolls in bags of 4. 40 bags fit in the van. How many bags?",
    "He bakes 5 * 12 = <<5*12=60>>60 rolls.\nHe needs 60 / 4 = <<60/4=15>>15 bags.\n#### 15",
    Decimal(15),
)


def report(text: str | None, predicted: int | str | None, **sample) -> ErrorReport:
    sample = Sample(PROBLEM.id, 3, text, **{"finish_reason": "stop", **sample})
    return classify(PROBLEM, sample, None if predicted is None else Decimal(predicted))


# ---- reading calculations

WRONG = {
    "3 * 4 = 13": "3 * 4 = 13",
    "So 3 × 4 = 13 eggs.": "3 * 4 = 13",
    "3 x 4 = 13": "3 * 4 = 13",
    "3x4=13": "3 * 4 = 13",
    "12 ÷ 4 = 4": "12 / 4 = 4",
    "12 − 4 = 9": "12 - 4 = 9",
    "She pays $3.50 * 2 = $8.": "3.50 * 2 = 8",
    "It costs 1,200 + 300 = 1,600 dollars": "1,200 + 300 = 1,600",
    "20% * 50 = 11": "20% * 50 = 11",
    "(3 + 4) * 2 = 15": "(3 + 4) * 2 = 15",
    "$20,000/100 = 20 years": "20,000/100 = 20",
    "(3 + 4 = 8)": "3 + 4 = 8",
    "She has 4 + 5 = 9, then 9 - 2 = 6.": "9 - 2 = 6",
    "3 + 4 = 7 = 2 * 4": "7 = 2 * 4",
    "2 * 3 = 6 * 2 = 13": "6 * 2 = 13",
    "<<3*4=13>>": "3*4 = 13",
    "a total of <<10-2=9>>9 left": "10-2 = 9",
    "3 * 4 = <<3*4=12>>13": "3 * 4 = 13",
    r"$3 \times 4 = 13$": "3 * 4 = 13",
    r"\[ \frac{12}{4} + 1 = 5 \]": "((12)/(4)) + 1 = 5",
    r"\(3 \cdot 4 = 13\)": "3 * 4 = 13",
    r"5 \times 12 &= 61 \\": "5 * 12 = 61",
    "**3 + 4 = 8**": "3 + 4 = 8",
    "- 3 + 4 = 8": "3 + 4 = 8",
    "1. 3 + 4 = 8": "3 + 4 = 8",
    "Step 2: 3 + 4 = 8": "3 + 4 = 8",
    "the total is -48 + 21 = -26": "-48 + 21 = -26",
    "7 / 2 = 5": "7 / 2 = 5",
    "1 / 4 = 0": "1 / 4 = 0",
    "10 / 3 = 3.4": "10 / 3 = 3.4",
    "2.5 * 3 = 7.6": "2.5 * 3 = 7.6",
    "2.55 - 2 = -0.5": "2.55 - 2 = -0.5",
    "12 - 28 = <<12-28=-16>>16 more": "12 - 28 = 16",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_false_equation_is_found(text):
    equation = next(c for c in calculations("First, 2 + 2 = 4.\n" + text) if c.wrong)
    assert f"{equation.left} = {equation.right}" == WRONG[text]


RIGHT_OR_NO_EQUATION = [
    "3 * 4 = 12",
    "10 / 3 = 3.33",  # rounding to the digits shown
    "10 / 6 = 1.66",  # digits cut off
    "10 / 6 = 1.67",
    "11/18 - 10 = -9.38",
    "3 - 5.5 = -2",
    "200 * 1/3 = 66 rolls",  # the fraction of a roll is dropped
    "7 / 2 = 3",
    "7 / 2 = 4",
    "0.1 + 0.2 = <<0.1+0.2=0.30000000000000004>>0.3",
    "9.6 = <<48*0.2=9.600000000000001>>9.6",
    "1/3 * 90 = 0.33 * 90 = 29.7",
    "20% of 50 = 10",
    "20% * 50 = 10",
    "10 / 50 = 20%",
    "10 / 50 * 100 = 20%",
    "100% - 20% = 80%",
    "100 - 20 = 80%",
    "80,000 + 150% = 200,000",
    "50 - 20% = $40",
    "5 squared + 3 = 28",
    "2 half-hours + 1 = 2 hours",
    "10^2 * 3 = 300",
    "|3 - 5| = 2",
    "1 + 2 + ... + 10 = 55",
    "17 mod 5 + 1 = 3",
    r"1{,}200 + 300 = 1{,}500",
    "32 / 96 * 100% = 33.333...%",
    "50,000 * 5% = 2500",
    "3 + 4 = 7 * 2 = 14",  # run on, as pupils write
    "3 * 4 = 12 = 10 + 2",
    "2 * 30 = 60 minutes = 1 hour",
    "2 hours + 30 minutes = 150 minutes",
    "1 hour - 20 minutes = 40 minutes",
    "3 feet + 6 inches = 42 inches",
    "$1 + 50 cents = 150 cents",
    "$0.25 * 10 = 250 cents",
    "2 dozen + 4 = 28",
    "3 million + 2 = 5",
    "1 foot = 12 inches",
    "Cost for 5 people = 5 * 3 = 15",
    "1/2 a cup = 4 ounces",
    "Day 2 = 3 * 4 = 12",
    "x + 5 = 10",
    "x + 5 + 3 = 10",
    "2x + 3 = 13",
    "33 / 2 = 2x / 2",
    "10 - 4 = 3x",
    "x = 5",
    "4x + x = 5x = 40",
    "12 = 3y",
    "3^2 = 9",
    "2 + 3^2 = 11",
    "3**2 = 9",
    "5² + 1 = 26",
    "7:50 + 30 = 8:20",
    "0900 - 0130 = 0730",
    "twice 3 + 4 = 14",
    "half of 10 + 2 = 6",
    "5 more than 3 * 4 = 17",
    "25 classmates + his teacher + 1 = 27",
    "original number - 135 - 50 = 65",
    "24 eggs in 1 tray x 2 trays = 48 eggs",
    "12 x 1 and 1/4 = 15",
    "17 / 3 = 5 and 2/3",
    "14 / 1/4 = 56",
    "2 1/2 * 4 = 10",
    "60 minutes * 2 degrees/10 minutes = 12 degrees",
    "14, 400 / 80 = 180",
    "16,0000 / 10 = 16000",
    "8 * 7 <= 60",
    "8 * 7 != 57",
    "400 000 - 250 000 = 150 000",
    "The ratio is 3 : 4 = 6 : 8",
    "a = b + 3 = 4",
    "H2 + 2 = 4",
    "3 + 4 =",
    "= 7",
    "<<5=6>>",
    "<<x*2=8>>",
    "1 / 0 = 0",
    "3 eggs * $2 per egg = $7",  # units, and operators in words: left alone
    "5 hours x 60 miles/hour = 310 miles",
    "5 times 3 = 16",
    "2(40 + 9) = 98",
    "5 + ( 2 * 2) = 9",
    "1 1/2 / 1/2 = 3",
]


@pytest.mark.parametrize("text", RIGHT_OR_NO_EQUATION)
def test_a_true_equation_or_what_is_none_is_left_alone(text):
    assert not [calculation for calculation in calculations(text) if calculation.wrong]


def test_the_first_wrong_calculation_is_the_one_reported():
    text = "2 * 3 = 6\n6 + 1 = 8 and 8 + 1 = 10\n10 * 2 = 30"
    wrong = [c for c in calculations(text) if c.wrong]
    assert [c.left for c in wrong] == ["6 + 1", "8 + 1", "10 * 2"]
    assert (wrong[0].value, wrong[0].stated, wrong[0].wrong) == (Fraction(7), Fraction(8), True)


numbers = st.one_of(st.integers(1, 9999).map(str), st.decimals("0.1", "999", places=2).map(str))


@settings(deadline=None)
@given(numbers, numbers, st.sampled_from("+-*/"), st.integers(0, 6), st.sampled_from(["", "$"]))
def test_an_equation_is_wrong_exactly_where_the_result_is(a, b, operator, places, currency):
    left, right = Fraction(a), Fraction(b)
    value = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[operator]
    unit = Decimal(10) ** -places
    stated = round(value, places)
    shown = Decimal(stated.numerator) / Decimal(stated.denominator)
    line = f"So {currency}{a} {operator} {currency}{b} = {currency}"
    read = list(calculations(f"{line}{shown.quantize(unit):f}"))
    assert len(read) == 1 and read[0].wrong == (stated == 0 != value and places == 0)
    off = shown + 2 * unit * (1 if value >= 0 else -1)
    assert [c.wrong for c in calculations(f"{line}{off.quantize(unit):f}")] == [True]


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/=()<>.,%$x eof\n", max_size=120) | st.text(max_size=60))
def test_no_text_raises(text):
    list(calculations(text))
    report(text, 7)
    report(text, None, finish_reason=None)


ADVERSARIAL = {
    "sum": "1+" * 50_000,
    "product": "9*" * 50_000 + "9=1",
    "brackets": "(" * 100_000,
    "bracketed": "((((((1" * 15_000,
    "signs": "-" * 100_000,
    "digits": "1 + 1 = " + "9" * 100_000,
    "equations": "1+1=2 " * 17_000,
    "chain": "1=" * 50_000,
    "words": "1 apple pear fig nut " * 5_000,
    "angles": "<<" * 50_000,
    "annotation": "<<1+1" * 20_000,
    "x": "x 1 " * 25_000,
    "bold": "*" * 100_000,
    "latex": r"\frac{" * 16_000,
    "spaces": "1 +" + " " * 100_000,
    "commas": "1,111" * 20_000,
    "percent": "1%+" * 33_000 + "=1",
    "lines": "1 + 1 = 3\n" * 10_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_time_is_linear_in_the_length(name):
    text = ADVERSARIAL[name]
    start = time.process_time()
    report(text, 7)
    report(text, None, finish_reason=None)
    assert time.process_time() - start < 10  # about 1 s for 100,000 characters; a quadratic match takes minutes


MEGABYTE = {
    "lines": "3 + 4 = 7\n",
    "one line": "3 + 4 = 7, ",
    "chain": "3 + 4 = ",
    "annotations": "<<3+4=7>>7 ",
    "prose": "So she has 5 eggs in 3 days. ",
    "digits": "7",
    "boxes": "\\boxed{7} ",
    "latex": "\\frac{3}{4} \\times 5 = 3.75 \\\\ ",
    "chinese": "所以她一共有 3 + 4 = 7 个。",
}


@pytest.mark.parametrize("name", MEGABYTE)
def test_a_megabyte_is_analysed_in_a_second(name):
    text = MEGABYTE[name] * (1_000_000 // len(MEGABYTE[name]))
    times = []
    for end in ("a", "b"):  # two texts: the second is not remembered
        start = time.process_time()
        report(text + end, 7)
        times.append(time.process_time() - start)
    assert min(times) < 1


def test_the_end_of_a_long_text_is_looked_at():
    long = "She counts on.\n" * 10_000
    assert [c.wrong for c in calculations(f"3 + 4 = 8\n{long}5 + 5 = 11\n")] == [True]
    assert report(f"{long}5 + 5 = 11\n#### 11", 11).kind == "wrong_calculation"


# ---- kinds


@pytest.mark.parametrize(
    ("text", "predicted", "kind", "detail"),
    [
        ("5 * 12 = 50 and 50 / 4 = 12.5\n#### 12.5", "12.5", "wrong_calculation", "5 * 12 = 50, but it is 60"),
        ("5 * 12 = <<5*12=60>>60 rolls.\n#### 60", 60, "one_step_short", "60 is an intermediate value"),
        ("The answer is 60.", 60, "one_step_short", "intermediate"),
        ("12 * 5 = 60, so 60.", 60, "one_step_short", "intermediate"),
        ("5 * 12 = 60. 60 / 4 = 15. 40 - 15 = 25. A: 25", 25, "one_step_long", "calculates 15"),
        ("#### -15", -15, "sign", "other sign"),
        ("#### 150", 150, "factor", "times 10"),
        ("#### 1500", 1500, "factor", "times 100"),
        ("#### 15,000", 15000, "factor", "times 1000"),
        ("#### 1.5", "1.5", "factor", "divided by 10"),
        ("#### 0.15", "0.15", "factor", "divided by 100"),
        ("#### 40", 40, "copied", "40 is a number of the question"),
        ("#### 12.00", "12.00", "copied", "12 is a number of the question"),
        ("5 + 12 = 17. #### 17", 17, "other", "none of these"),
        ("", None, "no_answer", "no answer"),
        ("I cannot say.", None, "no_answer", "no answer"),
    ],
)
def test_kinds(text, predicted, kind, detail):
    mistake = report(text, predicted)
    assert mistake.kind == kind and detail in mistake.detail
    assert kind in mistake.kinds
    assert (mistake.problem_id, mistake.sample_index) == (PROBLEM.id, 3)


def test_kinds_keep_the_order_of_precedence():
    mistake = report("5 * 12 = 50", None, finish_reason="length")
    assert mistake.kinds == ("truncated", "no_answer", "wrong_calculation") and mistake.kind == "truncated"
    assert report("5 * 12 = 65. A: 60", 60).kinds == ("wrong_calculation", "one_step_short")
    assert list(KINDS).index("wrong_calculation") < list(KINDS).index("one_step_short")


@pytest.mark.parametrize(
    ("text", "finish_reason", "predicted", "truncated"),
    [
        ("He bakes 5 trays, so", "length", None, True),
        ("He bakes 5 trays, so", "length", 5, True),  # the last number of a cut text is no answer
        ("He bakes 5 trays, so", "stop", None, False),
        ("#### 16\n\nQuestion: another one with 7", "length", 16, False),  # stated, then ran on into a new question
        ("The answer is 16. Next,", "length", 16, False),
        (r"\boxed{16} and so on", "length", 16, False),
        ("A: 16\nQ: A farmer", "length", 16, False),
        ("so 5 * 12 = <<5*12", None, None, True),  # no reason recorded: only mid-expression counts
        ("so 5 * 12 =", None, None, True),
        ("He bakes 5 trays, so", None, None, False),
    ],
)
def test_truncated(text, finish_reason, predicted, truncated):
    assert ("truncated" in report(text, predicted, finish_reason=finish_reason).kinds) == truncated


def test_a_relation_that_may_be_chance_is_kept_but_is_not_the_primary_kind():
    by_chance = report("12 * 4 = 48 and 48 + 12 = 60. #### 60", 60)  # 60, but from other numbers than 5 * 12
    assert (by_chance.kind, by_chance.kinds) == ("other", ("one_step_short", "other"))
    worked_out = report("5 + 7 = 12. #### 12", 12)  # 12 stands in the question, but the text calculates it
    assert (worked_out.kind, worked_out.kinds) == ("other", ("copied", "other"))
    cut_short = report("12 * 3.4 = 40.8. #### 40", 40)
    assert (cut_short.kind, cut_short.kinds) == ("other", ("copied", "other"))
    solved = report("x + 5 = 17, so x = 12. #### 12", 12)
    assert solved.kind == "other"
    minus_by_chance = report("4 - 19 = -15. #### -15", -15)
    assert (minus_by_chance.kind, minus_by_chance.kinds) == ("other", ("sign", "other"))
    long_by_chance = report("3 * 5 = 15 and 15 + 4 = 19. #### 19", 19)
    assert (long_by_chance.kind, long_by_chance.kinds) == ("other", ("one_step_long", "other"))


def test_a_factor_between_one_digit_numbers_needs_to_be_named():
    one_digit = replace(PROBLEM, answer=Decimal(5), solution="#### 5")
    named = replace(one_digit, question="A pen costs 50 cents. How many dollars are 10 pens?")
    sample = Sample(PROBLEM.id, 0, "#### 500", "stop")
    assert classify(one_digit, sample, Decimal(500)).kinds == ("factor", "other")
    assert classify(named, sample, Decimal(500)).kind == "factor"
    assert classify(one_digit, sample, Decimal(5 * 10**4)).kinds == ("other",)  # 10,000 is no slip of this kind


def test_gold_zero_has_no_factor_and_no_sign():
    zero = replace(PROBLEM, answer=Decimal(0), solution="#### 0")
    assert classify(zero, Sample(PROBLEM.id, 0, "#### 7", "stop"), Decimal(7)).kinds == ("other",)


def test_a_negative_gold_answer_has_a_sign():
    turned = replace(PROBLEM, solution="40 - 25 = <<40-25=15>>15\n#### 15")
    assert classify(turned, Sample(PROBLEM.id, 0, "25 - 40 = -15\n#### -15", "stop"), Decimal(-15)).kind == "sign"
    negative = replace(PROBLEM, answer=Decimal(-10), solution="2 - 12 = <<2-12=-10>>-10\n#### -10")
    assert classify(negative, Sample(PROBLEM.id, 0, "#### 10", "stop"), Decimal(10)).kind == "sign"


@pytest.mark.parametrize(
    ("sample", "predicted", "reason"),
    [
        (Sample(PROBLEM.id, 0, None, error="timeout"), None, "unscored"),
        (Sample("test-0001", 0, "#### 7", "stop"), "7", "test-0001"),
        (Sample(PROBLEM.id, 0, "#### 7", "stop"), "NaN", "finite"),
        (Sample(PROBLEM.id, 0, "#### 7", "stop"), "Infinity", "finite"),
    ],
)
def test_what_is_not_a_wrong_answer_is_refused(sample, predicted, reason):
    with pytest.raises(ValueError, match=reason):
        classify(PROBLEM, sample, None if predicted is None else Decimal(predicted))


@pytest.mark.parametrize("predicted", ["1e999999999", "-1e-999999999", "9" * 5000])
def test_a_number_of_any_size_is_cheap(predicted):
    assert report("#### much", predicted).kind == "other"


# ---- the table


def test_table_counts_primary_kinds_and_flags():
    reports = [
        report("#### 150", 150),
        report("5 * 12 = 65. A: 60", 60),
        report("5 * 12 = 60. A: 60", 60),
        report("5 * 12 = 60. A: 60", 60),
        report("", None),
    ]
    table = error_table(reports, examples=1).set_index("kind")
    assert list(table.index) == list(KINDS)
    assert table["count"].to_dict() == {**dict.fromkeys(KINDS, 0), **Counter(r.kind for r in reports)}
    assert table.loc["one_step_short", ["count", "flagged"]].tolist() == [2, 3]
    assert table["share"].sum() == pytest.approx(1.0) and table.loc["factor", "share"] == 0.2
    assert table.loc["one_step_short", "examples"] == "test-9999/3" and table.loc["copied", "examples"] == ""
    assert not table.isna().any().any()


def test_table_without_wrong_answers_is_empty():
    table = error_table([])
    assert table.empty and list(table.columns) == list(error_table([report("", None)]).columns)


# ---- the hand check, on OpenAI's released solutions


@lru_cache(maxsize=1)
def released_reports() -> list[tuple[str, str, ErrorReport]]:
    """(problem id, column, report) of every wrong solution OpenAI released."""
    golds = [json.loads(line) for line in (OFFICIAL / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = (OFFICIAL / "example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    reports = []
    for row, (gold, released) in enumerate(zip(golds, map(json.loads, lines), strict=True)):
        answer = Decimal(gold["answer"].split("####")[1].strip().replace(",", ""))
        problem = Problem(f"test-{row:04d}", gold["question"], gold["answer"], answer)
        for index, column in enumerate(COLUMNS):
            if released[column]["is_correct"]:
                continue
            text = released[column]["solution"]
            stated = re.findall(r"^A:\s*\$?(-?[\d,]*\.?\d+)\s*$", text, re.MULTILINE)
            predicted = Decimal(stated[-1].replace(",", "")) if stated else None
            reports.append((problem.id, column, classify(problem, Sample(problem.id, index, text), predicted)))
    return reports


def hand_labels() -> list[dict[str, str]]:
    with HAND_CHECK.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_stated_precision_is_that_of_the_hand_labels():
    labels = hand_labels()
    assert len(labels) == 60 == len({(row["problem_id"], row["column"]) for row in labels})
    assert list(labels[0]) == ["problem_id", "column", "kind", "right"]
    assert {row["right"] for row in labels} == {"yes", "no"}
    counted = {}
    for kind in PRECISION:
        verdicts = [row["right"] for row in labels if row["kind"] == kind]
        counted[kind] = (verdicts.count("yes"), len(verdicts))
    assert counted == PRECISION


@needs_official
def test_the_hand_checked_labels_are_those_of_the_detector():
    kinds = {(problem, column): mistake.kind for problem, column, mistake in released_reports()}
    assert {row["kind"] for row in hand_labels() if kinds[row["problem_id"], row["column"]] != row["kind"]} == set()


@needs_official
def test_every_released_wrong_answer_gets_a_kind():
    reports = [mistake for _, _, mistake in released_reports()]
    assert len(reports) == 4 * 1319 - (286 + 515 + 458 + 742)
    table = error_table(reports).set_index("kind")
    assert table["count"].sum() == len(reports)
    assert table.loc["wrong_calculation", "count"] > 100 and table.loc["one_step_short", "count"] > 100


@needs_official
def test_gold_solutions_hold_next_to_no_false_equation():
    rows = [json.loads(line) for line in (OFFICIAL / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    read = [calculation for row in rows for calculation in calculations(row["answer"])]
    wrong = {(c.left, c.right) for c in read if c.wrong}
    # false as printed: 32-20 = 300, 364/4 = 273
    assert len(read) > 6000 and wrong == {("32 - 20", "300"), ("364 / 4", "273")}


@pytest.mark.parametrize("text", ["#### 15.0", "#### 15.00", "#### 15.", "#### 015"])
def test_the_gold_answer_in_another_spelling_is_a_kind_of_its_own(text):
    sample = Sample(PROBLEM.id, 0, text, "stop")
    predicted, right = judge(text, PROBLEM.answer, "official")
    assert predicted == 15 and not right
    assert classify(PROBLEM, sample, predicted).kind == "spelling"
