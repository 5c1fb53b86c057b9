"""Metrics from one pool of N samples a problem: avg@N, pass@k, pass^k, maj@k and test@N. Pure functions.

Four samples of one problem whose gold answer is 18, the third of them without an answer:

    answers = ["18", "20", None, "18.0"]       correct = [True, False, False, True]

    avg@4  = 2/4                               pass@2 = 1 - C(2,2)/C(4,2) = 5/6
    pass^2 = C(2,2)/C(4,2) = 1/6               maj@4  = 1 (two votes for 18, one for 20, no vote from the third)

A metric that is undefined is refused with the reason and never returned as 0, 1 or NaN: k above the number of samples,
fewer samples than asked for, samples that were never scored (``correct`` is None because the request failed). For the
last case ``bounds`` gives the worst and the best accuracy, and the curves take ``denominator="all"`` or ``"scored"``.
An answer that could not be read is not such a case: it is wrong, and casts no vote.

The curves return one row a problem, because samples of one problem are a cluster: resample the rows for an interval.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from gsm8k_nb.records import Score

TOLERANCE = Decimal("1e-6")  # two numbers closer than this are the same answer
DENOMINATORS = ("all", "scored")
_LARGEST_FLOAT_COUNT = 10**300  # binomial coefficients beyond this do not fit a float64: exact integers take over

_WIDE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)  # so that no number, however long, overflows a subtraction

Answer = Decimal | int | float | str | None


# ---- one problem, counts in, number out


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that at least one of k samples drawn from n, of which c are right, is right.

    The unbiased estimator 1 - C(n-c, k) / C(n, k) of Chen et al. 2021 (arXiv:2107.03374, equation 1), in exact
    integers, so that neither a large n nor a small probability loses digits. ValueError where n < k, k < 1 or c is not
    in 0..n.
    """
    _check_counts("pass@k", n, c, k)
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws


def pass_hat_k(n: int, c: int, k: int) -> float:
    """pass^k: probability that all of k samples drawn from n, of which c are right, are right: C(c, k) / C(n, k).

    The reliability measure of Yao et al. 2024 (tau-bench, arXiv:2406.12045). Refused as ``pass_at_k`` is.
    """
    _check_counts("pass^k", n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def avg_at_n(correct: Sequence[bool | None]) -> float:
    """avg@N: the share of right samples of one problem. ValueError where a sample is unscored or there is none."""
    n, c = _scored_counts([correct], None)
    return float(c[0] / n[0])


def any_of_n(correct: Sequence[bool | None]) -> float:
    """test@N of Cobbe et al. 2021 (arXiv:2110.14168): 1.0 where any of the N samples is right, else 0.0.

    It is pass@k at k = N only. From the same pool it has no value for a smaller k: that is ``pass_at_k``.
    """
    _, c = _scored_counts([correct], None)
    return float(c[0] > 0)


def maj_at_k(answers: Sequence[Answer], gold: Answer, k: int | None = None) -> float:
    """Expected correctness of a plurality vote over k of the answers, over all subsets of k and over ties. In 0..1.

    The vote of self-consistency (Wang et al. 2022, arXiv:2203.11171), unweighted. Numbers that are equal are one vote,
    however written ("18" and "18.0", "1,800" and 1800); every answer within 1e-6 of gold votes for gold. None and NaN
    (how a pandas frame spells None) cast no vote; where nobody votes the result is wrong. m answers tied at the top
    share the point: 1/m. k=None takes all of them. ValueError where k is not in 1..len(answers), or an answer is no
    number.
    """
    votes = _votes(answers, gold)
    k = votes.samples if k is None else k
    _check_k("maj@k", votes.samples, k)
    if k == votes.samples:
        return _plurality(votes)
    return float(_vote_curve(votes, k)[k - 1])


# ---- many problems, one row each


def pass_curve(correct: Any, k_max: int | None = None, denominator: str | None = None) -> np.ndarray:
    """pass@k of every problem for k = 1..k_max: float array (problems, k_max). Its column mean is the metric.

    ``correct`` is (problems, samples) of True, False or None (unscored): an array or nested lists. k_max=None takes the
    number of samples; a smaller k_max also allows problems with unequal numbers of samples. Unscored samples are
    refused unless ``denominator`` says what they are: "all" keeps them in n as wrong, "scored" leaves them out of n.
    ValueError names the first problem that has fewer than k_max samples.
    """
    return _curve(_pass_row, correct, k_max, denominator)


def pass_hat_curve(correct: Any, k_max: int | None = None, denominator: str | None = None) -> np.ndarray:
    """pass^k of every problem for k = 1..k_max: float array (problems, k_max). Arguments as in ``pass_curve``."""
    return _curve(_pass_hat_row, correct, k_max, denominator)


def maj_curve(answers: Sequence[Sequence[Answer]], gold: Sequence[Answer], k_max: int | None = None) -> np.ndarray:
    """maj@k of every problem for k = 1..k_max: float array (problems, k_max). Its column mean is the metric.

    ``answers`` holds the N answers of each problem and ``gold`` one number each, in the same order. k_max as in
    ``pass_curve``. A failed request is not an answer of None: leave it out, or ask again, before voting.
    """
    answers, gold = list(answers), list(gold)
    if len(answers) != len(gold):
        raise ValueError(f"{len(answers)} problems have answers but {len(gold)} have a gold answer: align them first")
    pools = [_votes(*pair) for pair in zip(answers, gold, strict=True)]
    k_max = _common_k_max([pool.samples for pool in pools], k_max)
    return np.array([_vote_curve(pool, k_max) for pool in pools])


# ---- samples that failed, samples that are copies, rows that repeat


@dataclass(frozen=True, slots=True)
class Bounds:
    """Accuracy where some samples are unscored. ``worst`` counts them wrong, ``best`` right, both over all ``n``.

    ``answered`` is the accuracy over the n - unscored samples that have a verdict, None where there is none.
    """

    n: int
    right: int
    unscored: int
    worst: float
    best: float
    answered: float | None

    def __str__(self) -> str:
        if not self.unscored:
            return f"{self.worst:.4f} ({self.right} of {self.n}, none unscored)"
        scored = self.n - self.unscored
        answered = "no sample is scored" if self.answered is None else f"{self.answered:.4f} over the {scored} scored"
        return f"{self.worst:.4f} to {self.best:.4f} over all {self.n}; {answered}; {self.unscored} unscored"


def bounds(correct: Any) -> Bounds:
    """Worst and best accuracy of verdicts, (problems,) or (problems, samples), None where the request failed."""
    matrix = _verdicts(correct)
    n, right, unscored = matrix.size, int((matrix == 1).sum()), int(np.isnan(matrix).sum())
    answered = right / (n - unscored) if n > unscored else None
    return Bounds(n, right, unscored, right / n, (right + unscored) / n, answered)


def identical_samples(texts: Mapping[Any, Sequence[str | None]] | Iterable[Sequence[str | None]]) -> float:
    """Share of problems whose samples are all byte-identical, of those that have two texts or more. In 0..1.

    ``texts`` holds the texts of each problem, in a mapping by problem id or one after another. Failed samples (None)
    are left out. ValueError where no problem has two texts: one sample is always identical to itself.
    """
    groups = texts.values() if isinstance(texts, Mapping) else texts
    pools = [[text for text in group if text is not None] for group in groups]
    repeated = [len(set(pool)) == 1 for pool in pools if len(pool) > 1]
    if not repeated:
        raise ValueError("no problem has two texts or more, so whether samples are identical is undefined")
    return sum(repeated) / len(repeated)


def identical_warning(texts: Mapping[Any, Sequence[str | None]] | Iterable[Sequence[str | None]]) -> str | None:
    """A sentence to print where all samples of most problems are byte-identical, else None."""
    share = identical_samples(texts)
    if share <= 0.5:
        return None
    return (
        f"all samples are byte-identical in {share:.1%} of the problems: sampling is greedy, or a cache returned one "
        "text N times. pass@k and maj@k then say no more than one sample does."
    )


def scores_by_problem(scores: Iterable[Score]) -> dict[str, list[Score]]:
    """The scores of one rule, grouped by problem and ordered by sample; the last row of a sample that was retried wins.

    ``[[s.correct for s in group] for group in ...values()]`` is what the curves take. ValueError where two rules meet.
    """
    latest: dict[str, dict[int, Score]] = defaultdict(dict)
    rules = set()
    for score in scores:
        rules.add(score.rule)
        latest[score.problem_id][score.sample_index] = score
    if len(rules) > 1:
        raise ValueError(f"scores of several rules in one table: {', '.join(sorted(rules))}; choose one")
    return {problem: [rows[index] for index in sorted(rows)] for problem, rows in latest.items()}


# ---- counts and verdicts


def _check_k(metric: str, n: int, k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"{metric} needs a whole k of 1 or more, got k={k!r}")
    if k > n:
        raise ValueError(f"{metric} is undefined for k={k}: it needs k samples of the problem and there are {n}")


def _check_counts(metric: str, n: int, c: int, k: int) -> None:
    for name, value in (("n", n), ("c", c)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{metric} counts samples: {name} must be a whole number, got {value!r}")
    _check_k(metric, n, k)
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
    stray = matrix[~(np.isnan(matrix) | (matrix == 0) | (matrix == 1))]
    if stray.size:
        raise ValueError(f"verdicts must be True, False or None, got {stray[0]}")
    return matrix


def _scored_counts(correct: Any, denominator: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Samples n and right samples c of each problem, each (problems,); unscored samples as ``denominator`` says."""
    if denominator is not None and denominator not in DENOMINATORS:
        raise ValueError(f"denominator must be one of {', '.join(DENOMINATORS)} or None, got {denominator!r}")
    rows = [_verdicts(row) for row in correct]
    if any(row.ndim != 1 for row in rows):
        raise ValueError("verdicts must be (problems, samples): one list of True, False or None for each problem")
    n = np.array([row.size for row in rows])
    unscored = np.array([np.isnan(row).sum() for row in rows])
    if unscored.any() and denominator is None:
        raise ValueError(
            f"{unscored.sum()} of {n.sum()} samples are unscored (None), so the metric is undefined: ask for them "
            'again, state denominator="all" (they count as wrong) or "scored" (they are left out), or see bounds()'
        )
    return n - unscored if denominator == "scored" else n, np.array([(row == 1).sum() for row in rows])


def _common_k_max(samples: Sequence[int], k_max: int | None) -> int:
    """The largest k of a curve: what was asked for, where each problem has as many samples, else a ValueError."""
    if not len(samples):
        raise ValueError("there is no problem, so the curve is undefined")
    k_max = int(max(samples)) if k_max is None else k_max
    for row, n in enumerate(samples):
        if n < k_max:
            raise ValueError(f"problem {row} has {n} samples where k={k_max} needs {k_max}: ask for the missing ones")
    _check_k("the curve", k_max, k_max)
    return k_max


def _curve(row: Any, correct: Any, k_max: int | None, denominator: str | None) -> np.ndarray:
    n, c = _scored_counts(correct, denominator)
    k_max = _common_k_max(n, k_max)
    return np.array([row(int(samples), int(right), k_max) for samples, right in zip(n, c, strict=True)])


@lru_cache(maxsize=4096)
def _pass_row(n: int, c: int, k_max: int) -> tuple[float, ...]:
    return tuple(pass_at_k(n, c, k) for k in range(1, k_max + 1))


@lru_cache(maxsize=4096)
def _pass_hat_row(n: int, c: int, k_max: int) -> tuple[float, ...]:
    return tuple(pass_hat_k(n, c, k) for k in range(1, k_max + 1))


# ---- the vote


@dataclass(frozen=True, slots=True)
class _Votes:
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
    counts = Counter(map(_number, answers))
    if not counts:
        raise ValueError("there is no answer, so a majority vote is undefined")
    blank = counts.pop(None, 0)
    right = sum(counts.pop(number) for number in list(counts) if _near(number, target))
    others: list[int] = []
    start = None
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
    if isinstance(answer, bool | np.bool_):
        raise ValueError(f"an answer must be a number or None, got the verdict {answer!r}")
    try:
        number = _decimal(answer)
    except InvalidOperation:
        number = None
    if number is None or number.is_infinite():
        raise ValueError(f"an answer must be a finite number or None where none was read, got {answer!r}")
    return None if number.is_nan() else number


def _decimal(answer: Any) -> Decimal | None:
    if isinstance(answer, Decimal):
        return answer
    if isinstance(answer, str):
        return Decimal(answer.replace(",", ""))
    if isinstance(answer, Integral):
        return Decimal(int(answer))
    if isinstance(answer, Fraction):
        return _WIDE.divide(Decimal(answer.numerator), Decimal(answer.denominator))
    return Decimal(repr(float(answer))) if isinstance(answer, Real) else None


def _plurality(votes: _Votes) -> float:
    """The vote of the whole pool."""
    top = max(votes.gold, *votes.others, 0)
    if votes.gold < top or top == 0:
        return 0.0
    return 1 / (1 + votes.others.count(top))


@lru_cache(maxsize=65536)
def _vote_curve(votes: _Votes, k_max: int) -> np.ndarray:
    """maj@k of a pool for k = 1..k_max, float array (k_max,), read-only because it is cached.

    Subsets are counted by generating functions, in which the coefficient of x^k counts the subsets of size k. With j
    votes for gold, a group of c others may have fewer (sum over a < j of C(c, a) x^a) or tie (C(c, j) x^j); a group
    smaller than j, and the answers without a vote, are free: (1 + x)^c. With t ties the point is worth 1/(1+t). All
    terms are positive, so nothing cancels. It takes at most N^2/2 array operations, and seldom many, as j stops at the
    largest rival: beyond it gold wins alone.
    """
    n = votes.samples
    kind = float if math.comb(n, min(k_max, n // 2)) < _LARGEST_FLOAT_COUNT else object
    rival = votes.others[0] if votes.others else 0
    wins = _wins_alone(votes, rival, k_max, kind)
    for j in range(1, min(rival, votes.gold, k_max) + 1):
        wins[j:] += math.comb(votes.gold, j) * _shared(votes, j, k_max - j, kind)
    draws = _binomials(n, k_max, kind)
    curve = (wins[1:] / draws[1:]).astype(float)
    curve.flags.writeable = False
    return curve


def _wins_alone(votes: _Votes, rival: int, degree: int, kind: type) -> np.ndarray:
    """Subsets by size 0..degree in which gold has more votes than any rival can have at all."""
    wins = np.zeros(degree + 1, dtype=kind)
    rest = _binomials(votes.samples - votes.gold, degree, kind)
    for j in range(rival + 1, min(votes.gold, degree) + 1):
        wins[j:] += math.comb(votes.gold, j) * rest[: degree + 1 - j]
    return wins


def _shared(votes: _Votes, j: int, degree: int, kind: type) -> np.ndarray:
    """Choices of the answers that are not gold, by size 0..degree, where none has more than j votes; ties share."""
    rivals = [count for count in votes.others if count >= j]
    ties = min(len(rivals), degree // j)
    ways = np.zeros((ties + 1, degree + 1), dtype=kind)  # by number of ties, by size
    ways[0] = _binomials(votes.samples - votes.gold - sum(rivals), degree, kind)
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
    values = np.array([math.comb(n, size) for size in range(degree + 1)], dtype=kind)
    values.flags.writeable = False
    return values
