import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsm8k_nb.texts import interval, p_number, p_value, percent, points

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("p", "alpha", "written"),
    [
        (0.0497, 0.05, "0.0497"), (0.05, 0.05, "0.050"), (0.0503, 0.05, "0.0503"), (0.04996, 0.05, "0.04996"),
        (0.00996, 0.01, "0.00996"), (0.0996, 0.1, "0.0996"), (0.0004, 0.05, "0.0004"), (0.00009, 0.05, "< 0.0001"),
        (0.00009, 0.00008, "0.0001"), (0.99996, 0.05, "> 0.99"), (1.0, 0.05, "> 0.99"), (0.0032, 0.05, "0.0032"),
        (0.5, 0.05, "0.50"), (0.051, 0.05, "0.051"), (0.0, 0.05, "< 0.0001"), (0.0249, 0.025, "0.0249"),
    ],
)  # fmt: skip
def test_a_rounded_p_stays_on_its_side_of_the_level(p, alpha, written):
    assert p_number(p, alpha) == written
    assert p_value(p, alpha) == (f"p {written}" if written[0] in "<>" else f"p = {written}")


@given(st.floats(0, 1), st.sampled_from([0.1, 0.05, 0.01, 0.005, 0.001]))
def test_no_p_contradicts_its_decision(p, alpha):
    text = p_number(p, alpha)
    if abs(p - alpha) > 1e-15:
        assert (float(text.strip("<> ")) < alpha or text == f"< {alpha}") == (p < alpha)


def test_what_is_no_p_is_refused():
    for p in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            p_number(p)


def test_ends_of_an_interval_stay_on_their_side_of_no_difference():
    assert interval(0.00004, 0.07131) == "0.004 to 7.13" and interval(-0.0000004, 0.01) == f"{MINUS}0.00004 to 1.00"
    assert interval(0.0, 1e-12) == "0.00 to 0.00"  # a millionth of a point is rounding
    assert [points(share) for share in (0.0432, -0.0432, 0.0, -1e-12)] == ["+4.32", f"{MINUS}4.32", "+0.00", "+0.00"]


@given(st.floats(-1, 1))
def test_points_keep_their_sign(share):
    text = points(share)
    assert float(text.replace(MINUS, "-")) == pytest.approx(100 * share, abs=0.0051)
    if abs(share) > 1e-9:
        assert text.startswith("+" if share > 0 else MINUS) and float(text[1:]) > 0


def test_neither_none_nor_all_unless_it_is():
    written = [percent(share) for share in (0.0, 0.00004, 0.5, 0.99996, 1.0)]
    assert written == ["0.00", "0.004", "50.00", "99.996", "100.00"]
