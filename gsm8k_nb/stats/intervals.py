"""How sure one accuracy is: verdicts read and checked, and the interval of their mean over problems."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

INTERVAL_METHODS = ("auto", "percentile", "wilson", "clopper-pearson")
FEWEST_TO_RESAMPLE = 15  # with fewer problems off the commonest value, a bootstrap's intervals cover too rarely
FEWEST_TO_COUNT_SAMPLES = 5  # with fewer, a run's own standard error is too rough to say what its samples are worth
FEWEST_FOR_WILSON = 100  # with fewer problems than this and few right or wrong, Wilson dips below 93% coverage
MOST_DISTINCT = 64  # with more distinct values than this, drawing indices is faster than drawing counts
CHUNK_NUMBERS = 50_000  # numbers drawn at a time: 400 kB as float64 stay in the cache, three times as fast as 4 MB
ROUNDING = 1e-12  # two means closer than this are the same mean


@dataclass(frozen=True, slots=True)
class Interval:
    """An accuracy, its interval at ``confidence`` by ``method``, and its standard error over problems."""

    estimate: float
    low: float
    high: float
    standard_error: float
    method: str = "percentile"
    confidence: float = 0.95


def accuracy_interval(
    correct: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 10_000, seed: int = 0, method: str = "auto"
) -> Interval:
    """Accuracy (a share in [0, 1]) and its interval, from verdicts ``(problems,)`` or ``(problems, samples)``.

    Methods: ``percentile`` bootstrap over problems, its tails expanded for small n (Hesterberg 2014, arXiv:1411.5279),
    ``wilson`` (1927, JASA 22:209), ``clopper-pearson`` (1934, Biometrika 26:404), these two over as many problems as
    the samples are worth. ``auto`` resamples unless fewer than 15 problems are off the commonest value: then
    ``wilson``, or ``clopper-pearson`` below 100 problems. ValueError for what is no verdict or an unknown method.
    """
    if method not in INTERVAL_METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(INTERVAL_METHODS)}")
    check_inside("confidence", confidence)
    verdicts = matrix(correct, "correct")
    values = verdicts.mean(axis=1)
    n, off, estimate = len(values), _off_commonest(values), float(values.mean())
    if off == 0 and method != "clopper-pearson":  # a resample of equal values has no spread
        method = "wilson"
    elif method == "auto":
        few = "wilson" if n >= FEWEST_FOR_WILSON else "clopper-pearson"
        method = "percentile" if off >= FEWEST_TO_RESAMPLE else few
    if method == "percentile":
        ends = percentile(resampled_means(values, n_resamples, np.random.default_rng(seed)), n, confidence)
    else:
        interval = _wilson if method == "wilson" else _clopper_pearson
        ends = interval(estimate, _effective_size(values, verdicts.shape[1]), confidence)
    return Interval(estimate, *ends, standard_error(values), method, confidence)


def matrix(correct: ArrayLike, name: str) -> np.ndarray:
    """Verdicts as floats ``(problems, samples)``; ValueError where they are not verdicts or scores in [0, 1]."""
    raw = correct if isinstance(correct, np.ndarray) else np.asarray(correct, dtype=object)
    if raw.dtype.kind in "USO" and any(isinstance(value, str | bytes) for value in raw.flat):
        raise ValueError(f"{name} must hold verdicts 0 or 1, got text")
    try:
        array = np.asarray(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array (problems,) or (problems, samples) of 0 and 1: {error}") from error
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must be a filled array (problems,) or (problems, samples), got shape {array.shape}")
    if unscored := int(np.isnan(array).sum()):
        raise ValueError(f"{name} holds {unscored} unscored verdicts (None or nan): score or leave out those problems")
    if (stray := array[(array < 0) | (array > 1)]).size:
        raise ValueError(f"{name} must hold values from 0 to 1, got {stray[0]:g}")
    return array[:, None] if array.ndim == 1 else array


def standard_error(values: np.ndarray) -> float:
    """Of the mean of problem scores; 0 for a single problem, which shows no spread."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def resampled_means(values: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Means ``(n_resamples,)`` of resamples, drawn as how often each distinct value comes where these are few."""
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}")
    n = len(values)
    distinct, counts = np.unique(values.round(12), return_counts=True)
    by_counts = len(distinct) <= MOST_DISTINCT
    means = np.empty(n_resamples)
    index = np.uint16 if n <= 2**16 else np.uint32  # narrow integers are drawn faster
    step = max(1, CHUNK_NUMBERS // (len(distinct) if by_counts else n))
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        if by_counts:
            means[start : start + rows] = rng.multinomial(n, counts / n, size=rows) @ distinct / n
        else:
            means[start : start + rows] = values.take(rng.integers(n, size=(rows, n), dtype=index)).mean(axis=1)
    return means


def percentile(means: np.ndarray, n: int, confidence: float) -> tuple[float, float]:
    """The interval of resampled ``means``: their variance is (n - 1) / n too small, so a t quantile sets the tails."""
    t = special.stdtrit(n - 1, (1 + confidence) / 2)
    tail = float(special.ndtr(-t * math.sqrt(n / (n - 1))))
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _off_commonest(values: np.ndarray) -> float:
    """How many problems do not have the commonest value: a count, for means over samples Kish's effective number."""
    distinct, counts = np.unique(values.round(12), return_counts=True)
    distances = np.abs(distinct - distinct[counts.argmax()])
    squares = counts @ distances**2
    return float((counts @ distances) ** 2 / squares) if squares > 0 else 0.0


def _effective_size(values: np.ndarray, samples: int) -> float:
    """How many problems of one verdict would give this standard error (Korn and Graubard 1998, Surv. Meth. 24:193)."""
    n = len(values)
    if samples == 1 or _off_commonest(values) < FEWEST_TO_COUNT_SAMPLES:
        return float(n)
    variance = np.abs(values).mean() - values.mean() ** 2
    return float(np.clip(variance / standard_error(values) ** 2, n, n * samples))


def _wilson(p: float, n: float, confidence: float) -> tuple[float, float]:
    """Wilson's score interval for a share ``p`` of ``n`` problems, which need not be a whole number."""
    z = special.ndtri((1 + confidence) / 2)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return float(low) if p > 0 else 0.0, float(high) if p < 1 else 1.0  # not 1e-17


def _clopper_pearson(p: float, n: float, confidence: float) -> tuple[float, float]:
    n_correct, tail = p * n, (1 - confidence) / 2
    low = special.betaincinv(n_correct, n - n_correct + 1, tail) if n_correct > 0 else 0.0
    high = special.betaincinv(n_correct + 1, n - n_correct, 1 - tail) if n_correct < n else 1.0
    return float(low), float(high)


def check_inside(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, both excluded, got {value}")
