"""Many comparisons at once: p-values corrected for their number, and letters for what cannot be told apart."""

from collections.abc import Sequence
from string import ascii_letters

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def holm(p: ArrayLike) -> np.ndarray:
    """Adjusted p-values ``(tests,)`` in the order given: the family-wise error stays at alpha (Holm 1979, SJS 6:65)."""
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    steps = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * steps))
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> np.ndarray:
    """Adjusted p-values ``(tests,)``: the expected share of false discoveries stays at alpha (1995, JRSS B 57:289)."""
    values = _p_values(p)
    return stats.false_discovery_control(values, method="bh") if len(values) else values


def compact_letters(different: ArrayLike, scores: Sequence[float] | None = None) -> tuple[str, ...]:
    """Letters for each system: two share a letter exactly where they cannot be told apart; the best has an "a".

    ``different`` is a symmetric ``(systems, systems)`` array of booleans. Insert-and-absorb of Piepho (2004, JCGS
    13:456), then letters that no pair needs are dropped. ValueError for an asymmetric table or more than 52 letters.
    """
    table = np.asarray(different, dtype=bool)
    if table.ndim != 2 or table.shape != table.T.shape or (table != table.T).any():
        raise ValueError(f"different must be a symmetric (systems, systems) table, got shape {table.shape}")
    k = len(table)
    if scores is not None and len(scores) != k:
        raise ValueError(f"scores has {len(scores)} entries for {k} systems")
    ranked = range(k) if scores is None else np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    rank = {int(system): place for place, system in enumerate(ranked)}
    groups = [frozenset(range(k))] if k else []
    for i, j in zip(*np.nonzero(np.triu(table, 1)), strict=True):
        split = [part for g in groups for part in ((g - {i}, g - {j}) if {i, j} <= g else (g,))]
        groups = [g for g in dict.fromkeys(split) if not any(g < other for other in split)]
    groups = _needed_groups(sorted(groups, key=lambda g: sorted(rank[system] for system in g)))
    if len(groups) > len(ascii_letters):
        raise ValueError(f"{len(groups)} overlapping groups, but only 52 letters: compare fewer systems")
    return tuple(
        "".join(letter for letter, group in zip(ascii_letters, groups, strict=False) if i in group) for i in range(k)
    )


def _needed_groups(groups: list[frozenset[int]]) -> list[frozenset[int]]:
    """Drop each group all of whose pairs, and members, stand together in another group as well; the first is kept."""
    kept = list(groups)
    for group in reversed(groups):
        others = [other for other in kept if other is not group]
        pairs = ({i, j} for i in group for j in group)
        if others and all(any(pair <= other for other in others) for pair in pairs):
            kept = others
    return kept


def _p_values(p: ArrayLike) -> np.ndarray:
    values = np.asarray(p, dtype=float)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"p-values must be numbers from 0 to 1, one a test, got {p!r}")
    return values
