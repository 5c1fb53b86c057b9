"""gsm8k_nb.answers.numerals: one spelling for every form, and what a number in its surroundings is worth."""

import re
from decimal import Decimal

import pytest

from gsm8k_nb.answers.grammar import table
from gsm8k_nb.answers.numerals import MAX_DIGITS, NUMBER, ORDINAL, normalise, plain_decimal, value

from ..conftest import ROOT


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a total of \\$9{,}200", "a total of $9,200"),
        ("12\\,750 and 12\u202f750 and 12\u00a0750", "12750 and 12750 and 12750"),
        ("12\u00a075", "12 75"),  # no group of three
        ("１，２３４．５％", "1,234.5%"),
        ("٣٬٥٠٠٫٥", "3,500.5"),
        ("−5 ﹣5 －5 ‑5", "-5 -5 -5 -5"),
        ("½ and 1½ and 2 ¾", "1/2 and 1 1/2 and 2 3/4"),
        ("24 m² or 10⁻³", "24 m^2 or 10^-3"),
        ("\\frac{3}{4} \\dfrac34 1\\frac{1}{2}", "3/4 3/4 1 1/2"),
        ("\\frac{a+1}{2} \\sqrt{2}", "\ufffc \ufffc"),
        ("24\\text{ m}^2", "24 m^2"),
        ("9 \\times 2 = \\(18\\)", "9 × 2 =  18 "),
        ("1\u200b8", "18"),
        ("plain text stays 18", "plain text stays 18"),
    ],
)
def test_normalise(text, plain):
    assert normalise(text) == plain


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,200 and 1,00,000", ["1200", "100000"]),
        ("18,50 and 1,2,3 and 1,2345", ["18.5", "3", None]),
        ("-5 and 7-5 and x-5 and - 5", ["-5", "7", "5", "5", "5"]),
        ("3/4, 1 1/2, 5/0, 1/2/2020", ["0.75", "1.5", None, None, None]),
        ("1.5e3 1.5 × 10^3 1e99", ["1500", "1500", None]),
        ("7:30 2^10 x1 a_1 1.2.3 12 m^2", [None, None, None, None, None, None, None, "12", None]),
        ("2x4 boards, 8 cm3, 36kg", [None, None, "8", None, "36"]),
    ],
)
def test_values_in_their_surroundings(text, values):
    read = [value(text, match) for match in NUMBER.finditer(text)]
    assert read == [None if number is None else Decimal(number) for number in values]


def test_ordinals():
    text = "1st 2nd 3rd 11th 4 5 thin"
    assert [bool(ORDINAL.match(text, match.end())) for match in NUMBER.finditer(text)] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("text", ["", ".", "1.2.3", "NaN", "Infinity", "1e9999", "9" * (MAX_DIGITS + 1)])
def test_no_plain_decimal(text):
    assert plain_decimal(text) is None


def test_plain_decimal():
    assert plain_decimal("18.") == 18
    assert plain_decimal("１８") == 18
    assert plain_decimal("-.5") == Decimal("-0.5")


@pytest.mark.parametrize("section", ["numerals", "passages", "sentences", "flexible"])
def test_every_pattern_of_the_grammar_is_used(section):
    code = (ROOT / "gsm8k_nb" / "answers" / f"{section}.py").read_text(encoding="utf-8")
    for name in table("grammar.toml")[section]:
        assert re.search(rf"\b_P\.{name}\b", code), name
