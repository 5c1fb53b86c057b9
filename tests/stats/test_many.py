import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsm8k_nb import stats


def test_holm_and_benjamini_hochberg_by_hand():
    p = [0.01, 0.04, 0.03, 0.005]
    assert stats.holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.benjamini_hochberg(p) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert stats.holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert len(stats.holm([])) == len(stats.benjamini_hochberg([])) == 0
    for bad in ([0.1, np.nan], [1.2], [-0.1]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            stats.holm(bad)
        with pytest.raises(ValueError, match="from 0 to 1"):
            stats.benjamini_hochberg(bad)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusted_p_values_are_ordered(p):
    holm, bh, bonferroni = stats.holm(p), stats.benjamini_hochberg(p), np.minimum(1, np.array(p) * len(p))
    assert (np.array(p) <= bh + 1e-15).all() and (bh <= holm + 1e-12).all() and (holm <= bonferroni + 1e-12).all()


def differing(k, pairs):
    table = np.zeros((k, k), dtype=bool)
    for i, j in pairs:
        table[i, j] = table[j, i] = True
    return table


def test_compact_letters_of_a_chain():
    # best and worst differ, the middle one from neither
    assert stats.compact_letters(differing(3, [(0, 2)]), [0.9, 0.5, 0.1]) == ("a", "ab", "b")
    assert stats.compact_letters(differing(3, [(0, 2)]), [0.1, 0.5, 0.9]) == ("b", "ab", "a")
    assert stats.compact_letters(differing(4, itertools.combinations(range(4), 2))) == ("a", "b", "c", "d")
    assert stats.compact_letters(differing(3, [])) == ("a", "a", "a")
    assert stats.compact_letters(np.zeros((0, 0))) == ()


@given(st.integers(1, 8).flatmap(lambda k: st.tuples(st.just(k), st.sets(st.tuples(*[st.integers(0, k - 1)] * 2)))))
@settings(max_examples=200, deadline=None)
def test_systems_share_a_letter_exactly_where_they_cannot_be_told_apart(case):
    k, pairs = case
    table = differing(k, [(i, j) for i, j in pairs if i != j])
    letters = stats.compact_letters(table, scores=np.arange(k))
    assert "a" in letters[k - 1]
    for i, j in itertools.combinations(range(k), 2):
        assert bool(set(letters[i]) & set(letters[j])) != table[i, j]


def test_compact_letters_refuse_what_they_cannot_show():
    with pytest.raises(ValueError, match="symmetric"):
        stats.compact_letters([[False, True], [False, False]])
    with pytest.raises(ValueError, match="3 entries for 2 systems"):
        stats.compact_letters(differing(2, []), [1, 2, 3])
    two_sides = [pair for side in (range(8), range(8, 16)) for pair in itertools.combinations(side, 2)]
    with pytest.raises(ValueError, match="64 overlapping groups, but only 52 letters"):
        stats.compact_letters(differing(16, two_sides))
