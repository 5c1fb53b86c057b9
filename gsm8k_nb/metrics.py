"""Metrics from one pool of N samples a problem: avg@N (pass@1), pass@k, pass^k, maj@k. Pure functions.

    answers = ["18", "20", None, "18.0"], gold 18:   avg@4 = 2/4   pass@2 = 5/6   pass^2 = 1/6   maj@4 = 1

A metric that is undefined is refused with the reason and never returned as 0, 1 or NaN: k above the number of samples,
samples that were never scored (``correct`` is None because the request failed). An answer that could not be read is
wrong, and casts no vote. Curves have one row a problem: resample the rows for an interval.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from gsm8k_nb.answers import TOLERANCE

_LARGEST_FLOAT_COUNT = 10**300  # binomial coefficients beyond this do not fit a float64: exact integers take over
_WIDE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)  # so that no number, however long, overflows a subtraction
Answer = Decimal | Fraction | float | str | None


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that at least one of k samples drawn from n, of which c are right, is right.

    The unbiased estimator 1 - C(n-c, k) / C(n, k) of Chen et al. 2021 (arXiv:2107.03374, equation 1), in whole numbers.
    ValueError where n < k, k < 1 or c is not in 0..n.
    """
    _check("pass@k", k, n, c)
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws


def pass_hat_k(n: int, c: int, k: int) -> float:
    """pass^k: probability that all of k samples are right, C(c, k) / C(n, k) (Yao et al. 2024, arXiv:2406.12045)."""
    _check("pass^k", k, n, c)
    return math.comb(c, k) / math.comb(n, k)


def maj_at_k(answers: Sequence[Answer], gold: Answer, k: int | None = None) -> float:
    """Expected correctness of a plurality vote over k of the answers, over all subsets of k and over ties. In 0..1.

    The vote of self-consistency (Wang et al. 2022, arXiv:2203.11171), unweighted: m answers tied at the top share the
    point. Numbers that are equal are one vote, however written ("18" and "18.0"), and so are those within 1e-6 of gold.
    None and NaN cast no vote; where nobody votes the result is wrong. k=None takes all. ValueError where k is not in
    1..len(answers), or an answer is no number.
    """
    votes = _votes(answers, gold)
    k = votes.samples if k is None else k
    _check("maj@k", k, votes.samples)
    return float(_vote_curve(votes, k)[k - 1])


def pass_curve(correct: Any, k_max: int | None = None) -> np.ndarray:
    """pass@k of every problem for k = 1..k_max: float array (problems, k_max). Its column mean is the metric.

    ``correct`` is (problems, samples) of True, False or None (unscored, which is refused). k_max=None takes the number
    of samples. ValueError names the first problem that has fewer than k_max samples.
    """
    return _curve(pass_at_k, correct, k_max)


def pass_hat_curve(correct: Any, k_max: int | None = None) -> np.ndarray:
    """pass^k of every problem for k = 1..k_max: float array (problems, k_max). Arguments as in ``pass_curve``."""
    return _curve(pass_hat_k, correct, k_max)


def maj_curve(answers: Sequence[Sequence[Answer]], gold: Sequence[Answer], k_max: int | None = None) -> np.ndarray:
    """maj@k of every problem for k = 1..k_max, as ``pass_curve``: ``answers`` (problems, samples), ``gold`` one each.

    A failed request is not an answer of None: leave it out, or ask again, before voting.
    """
    answers, gold = list(answers), list(gold)
    if len(answers) != len(gold):
        raise ValueError(f"{len(answers)} problems have answers but {len(gold)} have a gold answer: align them first")
    pools = [_votes(*pair) for pair in zip(answers, gold, strict=True)]
    k_max = _common_k_max([pool.samples for pool in pools], k_max)
    return np.array([_vote_curve(pool, k_max) for pool in pools])


def bounds(correct: Any) -> tuple[float, float]:
    """Worst and best accuracy of verdicts (problems, samples): a failed request (None) counts as wrong or as right."""
    matrix = _verdicts(correct)
    return float((matrix == 1).mean()), float((matrix != 0).mean())


def identical_samples(texts: Iterable[Sequence[str | None]]) -> float | None:
    """Share of problems whose samples are all byte-identical, of those with two texts or more (None is none). In 0..1.

    None where no problem has two texts: one sample is always identical to itself.
    """
    pools = [[text for text in group if text is not None] for group in texts]
    repeated = [len(set(pool)) == 1 for pool in pools if len(pool) > 1]
    return sum(repeated) / len(repeated) if repeated else None


def _check(metric: str, k: int, n: int, c: int = 0) -> None:
    for name, value in (("n", n), ("c", c), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{metric}: {name} must be a whole number, got {name}={value!r}")
    if not 1 <= k <= n:
        raise ValueError(f"{metric} is undefined for k={k}: k must be 1 or more, and there are {n} samples")
    if not 0 <= c <= n:
        raise ValueError(f"{metric} is undefined for c={c}: the number of right samples must be in 0..{n}")


def _verdicts(correct: Any) -> np.ndarray:
    """Verdicts as a float array of 1, 0 and NaN (unscored); ValueError where one is anything else or there is none."""
    try:
        matrix = np.array(correct, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"verdicts must be True, False or None, in rows of one length: {error}") from error
    if not matrix.size:
        raise ValueError("there is no sample, so accuracy is undefined")
    if (stray := matrix[~(np.isnan(matrix) | (matrix == 0) | (matrix == 1))]).size:
        raise ValueError(f"verdicts must be True, False or None, got {stray[0]}")
    return matrix


def _common_k_max(samples: Sequence[int], k_max: int | None) -> int:
    """The largest k of a curve: what was asked for, where each problem has as many samples, else a ValueError."""
    if not len(samples):
        raise ValueError("there is no problem, so the curve is undefined")
    k_max = int(max(samples)) if k_max is None else k_max
    for row, n in enumerate(samples):
        if n < k_max:
            raise ValueError(f"problem {row} has {n} samples where k={k_max} needs {k_max}: ask for the missing ones")
    _check("the curve", k_max, k_max)
    return k_max


def _curve(metric: Callable[[int, int, int], float], correct: Any, k_max: int | None) -> np.ndarray:
    rows = [_verdicts(row) for row in correct]
    if any(row.ndim != 1 for row in rows):
        raise ValueError("verdicts must be (problems, samples): one list of True, False or None for each problem")
    n = [row.size for row in rows]
    if unscored := sum(int(np.isnan(row).sum()) for row in rows):
        raise ValueError(f"{unscored} of {sum(n)} samples are unscored (None), so the metric is undefined: ask again")
    k_max = _common_k_max(n, k_max)
    counts = [(row.size, int(row.sum())) for row in rows]
    curves = {pair: [metric(*pair, k) for k in range(1, k_max + 1)] for pair in set(counts)}
    return np.array([curves[pair] for pair in counts])


class _Votes(NamedTuple):
    """A pool of answers as counts: votes for gold, votes for each other number (descending), answers without a vote."""

    gold: int
    others: tuple[int, ...]
    blank: int

    @property
    def samples(self) -> int:
        return self.gold + sum(self.others) + self.blank


def _votes(answers: Sequence[Answer], gold: Answer) -> _Votes:
    """Count the votes. Numbers closer than TOLERANCE to gold, else to the smallest number of a group, are one vote."""
    if isinstance(answers, str) or not isinstance(answers, Iterable):
        raise ValueError(f"answers must be a list of answers of one problem, got {answers!r}")
    target = _number(gold)
    if target is None:
        raise ValueError(f"the gold answer must be a number, got {gold!r}")
    numbers = [_number(answer) for answer in answers]
    if not numbers:
        raise ValueError("there is no answer, so a majority vote is undefined")
    counts = Counter(number for number in numbers if number is not None)
    blank = len(numbers) - counts.total()
    right = sum(counts.pop(number) for number in list(counts) if _near(number, target))
    others: list[int] = []
    start: Decimal | None = None
    for number in sorted(counts):
        if start is None or not _near(number, start):
            others.append(0)
            start = number
        others[-1] += counts[number]
    return _Votes(right, tuple(sorted(others, reverse=True)), blank)


def _near(a: Decimal, b: Decimal) -> bool:
    return _WIDE.subtract(a, b).copy_abs() < TOLERANCE


def _number(answer: Answer) -> Decimal | None:
    """One answer as a finite Decimal, None where it is None or NaN; ValueError where it is anything else."""
    if answer is None:
        return None
    try:
        if isinstance(answer, Fraction):
            number = _WIDE.divide(Decimal(answer.numerator), Decimal(answer.denominator))
        else:  # text, and not the number itself, so that a verdict or a list is no number
            number = answer if isinstance(answer, Decimal) else Decimal(str(answer).replace(",", ""))
    except (InvalidOperation, ValueError):
        number = Decimal("Infinity")
    if number.is_infinite():
        raise ValueError(f"an answer must be a finite number or None where none was read, got {answer!r}")
    return None if number.is_nan() else number


@lru_cache(maxsize=65536)
def _vote_curve(votes: _Votes, k_max: int) -> np.ndarray:
    """maj@k of a pool for k = 1..k_max, float array (k_max,), read-only because it is cached.

    Subsets are counted by generating functions, in which the coefficient of x^k counts the subsets of size k: j votes
    for gold times the ways in which no other number has more. All terms are positive, so nothing cancels.
    """
    kind = float if math.comb(votes.samples, min(k_max, votes.samples // 2)) < _LARGEST_FLOAT_COUNT else object
    wins: np.ndarray = np.zeros(k_max + 1, dtype=kind)
    rival, top = max(votes.others, default=0), min(votes.gold, k_max)
    for j in (*range(rival + 1, top + 1), *range(1, min(rival, top) + 1)):  # an order that last digits depend on
        wins[j:] += math.comb(votes.gold, j) * _shared(votes, j, k_max - j, kind)
    curve = (wins[1:] / _binomials(votes.samples, k_max, kind)[1:]).astype(float)
    curve.flags.writeable = False
    return curve


def _shared(votes: _Votes, j: int, degree: int, kind: type) -> np.ndarray:
    """Choices of the answers that are not gold, by size 0..degree, where none has more than j votes; ties share.

    A group of c may have fewer than j (sum over a < j of C(c, a) x^a) or tie (C(c, j) x^j); one smaller than j, and the
    answers without a vote, are free: (1 + x)^c. With t ties the point is worth 1/(1+t).
    """
    rivals = [count for count in votes.others if count >= j]
    free = _binomials(votes.samples - votes.gold - sum(rivals), degree, kind)
    if not rivals:
        return free
    ties = min(len(rivals), degree // j)
    ways: np.ndarray = np.zeros((ties + 1, degree + 1), dtype=kind)  # by number of ties, by size
    ways[0] = free
    for count in rivals:
        before, ways = ways, np.zeros_like(ways)
        for chosen in range(min(j, degree + 1)):
            ways[:, chosen:] += math.comb(count, chosen) * before[:, : degree + 1 - chosen]
        if ties:
            ways[1:, j:] += math.comb(count, j) * before[:-1, : degree + 1 - j]
    weights = [Fraction(1, 1 + t) if kind is object else 1 / (1 + t) for t in range(ties + 1)]
    return np.array(weights, dtype=kind) @ ways


@lru_cache(maxsize=4096)
def _binomials(n: int, degree: int, kind: type) -> np.ndarray:
    """C(n, 0..degree), zero beyond n."""
    values: np.ndarray = np.array([math.comb(n, size) for size in range(degree + 1)], dtype=kind)
    values.flags.writeable = False
    return values
