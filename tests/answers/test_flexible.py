"""answers.flexible over generated texts: every rendering of a number reads back, nothing raises, time is linear.

The readings of single texts are in test_rules.py, beside those of the rule strict.
"""

import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsm8k_nb.answers import RULES, extract

# Rendering a number in every way of the grammar must not change what is read.

DIGIT_SETS = {
    "ascii": "0123456789",
    "full-width": "０１２３４５６７８９",
    "arabic": "٠١٢٣٤٥٦٧٨٩",
    "devanagari": "०१२३४५६७८९",
}
GROUPS = {
    "none": "",
    "comma": ",",
    "no-break": "\u00a0",
    "thin": "\u2009",
    "narrow": "\u202f",
    "latex comma": "{,}",
    "latex space": "\\,",
}
WRAPPERS = [
    "{}",
    "${}",
    "\\${}",
    "£{}",
    "{} €",
    "₹{}",
    "USD {}",
    "US${}",
    "{}%",
    "{}\\%",
    "**{}**",
    "_{}_",
    "`{}`",
    "({})",
]
WRAPPERS += [
    "{} apples",
    "{}kg",
    "{} m^2",
    "{} m²",
    "{}\\text{{ cm}}^3",
    "${}$",
    "\\({}\\)",
    "[{}]",
    '"{}"',
    "{}.",
    "{}!",
    "{},",
]
CONTEXTS = [
    "#### {}",
    "####{}",
    "3 and 5.\n#### {}\nOn page 7.",
    "\\boxed{{{}}}",
    "It is $\\boxed{{{}}}$, from 3 and 5.",
    "The answer is {}",
    "the final answer is: {}\n\nQ: And 7?",
    "2 + 3 = 5.\n**Answer:** {}\nThat took 2 steps.",
    "Final Answer: {}",
    "<think>maybe 7</think>A: {}",
    '{{"steps": 3, "answer": {}}}',
    "There are 3 + 5 = {}",
    "Out of 3 she keeps {}",
    "- {}",
]


def grouped(digits, separator, indian):
    """Digits with a separator at each thousand, or the Indian way: the last three, then twos."""
    head, parts = digits, []
    while len(head) > (3 if not parts or not indian else 2):
        size = 3 if not parts or not indian else 2
        head, parts = head[:-size], [head[-size:], *parts]
    return separator.join([head, *parts])


@st.composite
def renderings(draw):
    """(the number, a way to write it)."""
    whole = draw(st.integers(0, 10**12))
    digits = str(whole)
    decimals = draw(st.sampled_from(["", "", ".0", ".5", ".25", ".125"]))
    style = draw(st.sampled_from(list(GROUPS)))
    indian = style == "comma" and draw(st.booleans())
    text = grouped(digits, GROUPS[style], indian) + decimals
    text = text.translate(str.maketrans("0123456789", DIGIT_SETS[draw(st.sampled_from(list(DIGIT_SETS)))]))
    value = Decimal(digits + decimals)
    sign = draw(st.sampled_from(["", "", "-", "\u2212", "\uff0d"]))
    return (-value if sign else value), sign + text


@st.composite
def special_renderings(draw):
    """(the number, a way to write it): fractions, mixed numbers, scientific notation."""
    over, under, whole = draw(st.integers(0, 999)), draw(st.integers(1, 999)), draw(st.integers(1, 99))
    proper = over % under
    exact = Decimal(over) / Decimal(under)
    tenths = draw(st.integers(1, 99))
    scientific = Decimal(tenths) / 10 * 1000
    return draw(
        st.sampled_from(
            [
                (exact, f"{over}/{under}"),
                (exact, f"{over}⁄{under}"),
                (exact, f"\\frac{{{over}}}{{{under}}}"),
                (exact, f"\\dfrac{{{over}}}{{{under}}}"),
                (-exact, f"-\\frac{{{over}}}{{{under}}}"),
                (whole + Decimal(proper) / Decimal(under), f"{whole} {proper}/{under}"),
                (whole + Decimal(proper) / Decimal(under), f"{whole}\\frac{{{proper}}}{{{under}}}"),
                (whole + Decimal("0.5"), f"{whole}½"),
                (whole + Decimal("0.75"), f"{whole} ¾"),
                (scientific, f"{tenths / 10}e3"),
                (scientific, f"{tenths / 10} × 10^3"),
                (scientific, f"{tenths / 10} \\times 10^{{3}}"),
                (scientific, f"{tenths / 10} x 10³"),
            ]
        )
    )


@settings(max_examples=600, deadline=None)
@given(renderings(), st.sampled_from(WRAPPERS), st.sampled_from(CONTEXTS))
def test_any_rendering_reads_back(rendering, wrapper, context):
    value, text = rendering
    completion = context.format(wrapper.format(text))
    assert extract(completion, "flexible") == value, completion


@settings(max_examples=300, deadline=None)
@given(special_renderings(), st.sampled_from(["{}", "${}$", "**{}**", "{} hours", "({})"]), st.sampled_from(CONTEXTS))
def test_any_fraction_or_power_of_ten_reads_back(rendering, wrapper, context):
    value, text = rendering
    read = extract(context.format(wrapper.format(text)), "flexible")
    assert read is not None
    assert abs(read - value) < Decimal("1e-20")


SNIPPETS = [
    "####",
    " ",
    "\n",
    "18",
    "-",
    ",",
    ".",
    "/",
    ":",
    "^",
    "{",
    "}",
    "\\boxed{",
    "\\frac{",
    "\\text{",
    "\\",
    "$",
    "%",
    "½",
]
SNIPPETS += [
    "The answer is ",
    "Answer:",
    "A:",
    "Q:",
    "Question:",
    "<think>",
    "</think>",
    "<|im_end|>",
    "</s>",
    "User:",
    "=",
    "x",
]
SNIPPETS += [
    "e5",
    "²",
    "\u202f",
    "İ",
    "\ufffc",
    "1. Add",
    "Step 2:",
    "not ",
    "(",
    ")",
    "_",
    "*",
    "#",
    "[INST]",
    "٣",
    "e",
    "th",
    "∞",
]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=6)), max_size=25).map("".join))
def test_no_input_raises(text):
    for name in RULES:
        if name != "math_verify":  # not ours, and not quick
            read = extract(text, name)
            assert read is None or read.is_finite()


REPEATED = [
    "#",
    "#### ",
    "#### 7:30 ",
    "#### ,\n",
    "#### 1. A\n",
    "9",
    ",",
    ".",
    "1,",
    "1 ",
    "1 1/",
    "1/",
    "-",
    "-1",
    "$",
    "\\",
]
REPEATED += [
    "\\boxed{",
    "\\boxed{2^3} ",
    "\\frac{",
    "\\frac{1}",
    "\\text{",
    "\\sqrt[",
    "answer ",
    "answer is ",
    "answer: ",
]
REPEATED += [
    "the answer for ",
    "The answer is 7:30 ",
    "A: x 7:30\n",
    " ",
    "\n",
    "<think>",
    "</think>",
    "<|",
    "<|im_end|>",
]
REPEATED += [
    "User:\n",
    "Q:\n",
    "Question: 1 ",
    "1. Q: ",
    "1\u202f200",
    "\u202f200",
    " 1\u202f2000",
    "2^",
    "{",
    "1e9",
    "e",
    "½",
    "٣",
]
REPEATED += [
    "1=",
    "not 1 ",
    "1st ",
    "Step 1: ",
    "1. a\n",
    "7:30 ",
    "_",
    "_1",
    "*",
    "(",
    "about ",
    "\ufffc",
    "²",
    "a",
    "answer,",
]


@pytest.mark.parametrize("rule", ["strict", "flexible"])
@pytest.mark.parametrize("unit", REPEATED)
def test_time_is_linear(rule, unit):
    """A quadratic step would take minutes here: 400,000 characters of nothing but one trap."""
    text = unit * (400_000 // len(unit))
    start = time.process_time()
    extract(text, rule)
    assert time.process_time() - start < 10
