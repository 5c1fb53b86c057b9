"""How sure a score is, and whether two scores differ: intervals, paired tests, power. Arrays in, small dataclasses out.

Verdicts come as an array ``(problems,)`` or ``(problems, samples)`` of 0 and 1, runs aligned by problem:

    a = [1, 0, 1, 1, ...]                      one verdict a problem (test@1)
    b = [[1, 1, 0, 1], [0, 0, 1, 0], ...]      four samples a problem

    compare(verifier_6b, finetuned_175b)       # OpenAI's released GSM8K solutions, 1319 problems
    PairedComparison(difference=0.0432, low=0.0152, high=0.0713, p_bootstrap=0.0033, p_mcnemar=0.0032,
                     p_permutation=0.0032, only_a=209, only_b=152, ...)

The problem is the unit that is independent: samples of one problem are a cluster, so they are averaged first and
problems are resampled (Miller 2024, "Adding error bars to evals", arXiv:2411.00640). A score between 0 and 1 for each
problem, such as its pass@k or maj@k, may stand in place of a verdict. Unscored verdicts (None, nan) are refused, never
taken as wrong.

All functions are deterministic: what is random takes a ``seed``.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

INTERVAL_METHODS = ("auto", "percentile", "bca", "wilson", "clopper-pearson", "clustered")
DIFFERENCE_METHODS = ("auto", "percentile", "bca", "score")

# A bootstrap needs something to resample: with fewer problems than this off the commonest value (fewer right, wrong or
# discordant ones), its intervals cover too rarely, and a score method takes over. The bench prints the coverage.
FEWEST_TO_RESAMPLE = 15
FEWEST_TO_COUNT_SAMPLES = 5  # with fewer, a run's own standard error is too rough to say what its samples are worth
FEWEST_FOR_WILSON = 100  # with fewer problems than this and few right or wrong, Wilson dips below 93% coverage
MOST_DISTINCT = 64  # with more distinct values than this, drawing indices is faster than drawing counts
CHUNK_NUMBERS = 50_000  # numbers drawn at a time: 400 kB as float64 stay in the cache, three times as fast as 4 MB
EXACT_STEPS = 200_000_000  # additions for which an exact permutation distribution is worth its time (about 0.2 s)
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


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Accuracy of a minus that of b, in [-1, 1], on the same problems.

    ``low`` to ``high`` is the interval by ``method``; ``p_bootstrap`` is two-sided, from the percentile bootstrap, or
    from the score test where ``method`` is ``score``; ``p_mcnemar`` is None unless each run has one verdict a problem.
    ``only_a`` counts the problems that only a solves (several samples: where a's mean is higher). ``permutation`` is
    ``exact`` or ``monte carlo``.
    """

    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_mcnemar: float | None
    p_permutation: float
    only_a: int
    only_b: int
    standard_error: float
    n_problems: int
    method: str
    permutation: str
    confidence: float


@dataclass(frozen=True, slots=True)
class UnpairedComparison:
    """Accuracy of a minus that of b as if on different problems."""

    difference: float
    low: float
    high: float
    standard_error: float
    z: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests (TOST) of a difference within ``margin``.

    ``p_value`` is the larger of the two; ``equivalent`` is p_value <= alpha. ``low`` to ``high`` is the interval at
    1 - 2 alpha. ``bound`` is the smallest margin that would pass: "no difference larger than ``bound``" at level alpha.
    """

    difference: float
    margin: float
    p_value: float
    low: float
    high: float
    bound: float
    equivalent: bool


@dataclass(frozen=True, slots=True)
class Power:
    """What a paired comparison can detect: the smallest ``difference`` found with probability ``power`` at ``alpha``.

    ``discordance`` is the chance that one sample of a and one of b disagree on a problem; ``within`` the part of it
    that is noise between samples of a problem (None where a run has a single sample, which cannot show it).
    """

    difference: float
    n_problems: int
    discordance: float
    within: float | None
    power: float
    alpha: float


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """The variance of one verdict, split: ``between`` problems (their difficulty), ``within`` a problem (its samples).

    ``standard_error`` is that of the run's accuracy; ``standard_error_floor`` is what endless samples of as many
    problems would leave. From ``enough_samples`` on, the standard error is within ``tolerance`` (a share) of the floor;
    None where the problems show no spread of their own, so that every sample helps.
    """

    between: float
    within: float
    n_problems: int
    n_samples: int
    standard_error: float
    standard_error_floor: float
    enough_samples: int | None
    tolerance: float


# --- intervals of one accuracy ---------------------------------------------------------------------------------------


def accuracy_interval(
    correct: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 10_000, seed: int = 0, method: str = "auto"
) -> Interval:
    """Accuracy (a share in [0, 1]) and its interval, from verdicts ``(problems,)`` or ``(problems, samples)``.

    Methods: ``percentile`` bootstrap over problems, its tails expanded for small n (Hesterberg 2014, arXiv:1411.5279),
    ``bca`` (Efron 1987, JASA 82:171), ``wilson``, ``clopper-pearson``, and ``clustered``: mean +- t quantile times the
    standard error over problems. ``auto`` is ``percentile`` unless fewer than 15 problems are off the commonest value
    (15 right and 15 wrong): then ``wilson``, or ``clopper-pearson`` for fewer than 100 problems. Where all problems
    agree a bootstrap has width zero, so Wilson stands in for it. With several samples a problem these two count as many
    problems as the samples are worth. ValueError for unscored verdicts, values outside [0, 1] or an unknown method.
    """
    _check_one_of("method", method, INTERVAL_METHODS)
    _check_inside("confidence", confidence)
    values, samples, _ = _problem_scores(correct, "correct")
    n, estimate, worth = len(values), float(values.mean()), _effective_size(values, samples)
    chosen = _interval_method(values, method)
    if chosen == "wilson":
        low, high = _wilson(estimate, worth, confidence)
    elif chosen == "clopper-pearson":
        low, high = _clopper_pearson(estimate * worth, worth, confidence)
    elif chosen == "clustered":
        half = special.stdtrit(n - 1, (1 + confidence) / 2) * _standard_error(values)
        low, high = max(0.0, estimate - half), min(1.0, estimate + half)
    else:
        means = _resampled_means(values, n_resamples, np.random.default_rng(seed))
        low, high = np.quantile(means, _tail_levels(values, means, confidence, chosen))
    return Interval(estimate, float(low), float(high), _standard_error(values), chosen, confidence)


def wilson_interval(n_correct: float, n: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for ``n_correct`` of ``n`` independent problems (Wilson 1927, JASA 22:209)."""
    _check_count(n_correct, n, confidence)
    return _binomial_interval("wilson", n_correct, n, confidence, _wilson(n_correct / n, n, confidence))


def clopper_pearson_interval(n_correct: float, n: int, *, confidence: float = 0.95) -> Interval:
    """The exact interval for ``n_correct`` of ``n`` independent problems: never covers less than ``confidence``.

    Clopper and Pearson 1934, Biometrika 26:404, by quantiles of the beta distribution.
    """
    _check_count(n_correct, n, confidence)
    return _binomial_interval("clopper-pearson", n_correct, n, confidence, _clopper_pearson(n_correct, n, confidence))


def clustered_standard_error(values: ArrayLike, clusters: ArrayLike) -> float:
    """Standard error of the mean of ``values`` ``(rows,)`` when rows of one cluster go together.

    ``clusters`` ``(rows,)`` labels them: the problem of a sample, the template of a GSM-Symbolic instance. Miller 2024:
    SE^2 = sum over clusters of (sum over its rows of (s - mean))^2 / rows^2; here times G / (G - 1) for G clusters,
    which makes it the standard error of the cluster means where all have one size. ValueError where G = 1.
    """
    scores, _, _ = _problem_scores(values, "values")
    labels = np.asarray(clusters)
    if labels.shape != np.shape(values) or labels.ndim != 1:
        raise ValueError(f"values and clusters must be 1-D, of one length: got {np.shape(values)} and {labels.shape}")
    _, index = np.unique(labels, return_inverse=True)
    sums = np.bincount(index, weights=scores - scores.mean())
    if len(sums) < 2:
        raise ValueError("a clustered standard error needs at least 2 clusters, got 1")
    return float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(scores))


# --- two runs on the same problems -----------------------------------------------------------------------------------


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
    method: str = "auto",
) -> PairedComparison:
    """Is a better than b? Both ``(problems,)`` or ``(problems, samples)``, row i of each being the same problem.

    The runs may have different numbers of samples. Interval: ``percentile`` or ``bca`` bootstrap of the differences of
    problem means, or Tango's ``score`` interval (1998, Statistics in Medicine 17:891). ``auto`` is ``percentile``, and
    ``score`` where fewer than 15 differences are off the commonest one (few discordant problems); where all are equal
    it is always ``score``. The tests are `mcnemar_p` and `permutation_p`, equal for one verdict a problem.
    ValueError names both lengths where they differ.
    """
    _check_one_of("method", method, DIFFERENCE_METHODS)
    _check_inside("confidence", confidence)
    differences, grid, samples = _paired_differences(a, b)
    rng = np.random.default_rng(seed)
    low, high, p_bootstrap, used = _difference_interval(differences, samples, confidence, n_resamples, rng, method)
    p_permutation, kind = _permutation_p(differences, grid, n_resamples, rng)
    only_a, only_b = int((differences > ROUNDING).sum()), int((differences < -ROUNDING).sum())
    p_mcnemar = mcnemar_p(only_a, only_b) if grid == 1 else None
    mean, error, n = float(differences.mean()), _standard_error(differences), len(differences)
    tests = (p_bootstrap, p_mcnemar, p_permutation)
    return PairedComparison(mean, low, high, *tests, only_a, only_b, error, n, used, kind, confidence)


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Two-sided exact McNemar p-value: discordant problems fall to either side with probability 1/2. 1.0 where none."""
    if only_a < 0 or only_b < 0:
        raise ValueError(f"counts of discordant problems must not be negative, got {only_a} and {only_b}")
    return float(min(1.0, 2 * special.bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def permutation_p(a: ArrayLike, b: ArrayLike, *, n_resamples: int = 10_000, seed: int = 0) -> float:
    """Two-sided paired permutation test of the mean difference: under the null each problem's difference may flip sign.

    Exact over all 2^problems flips for verdicts, whose mean differences are whole multiples of one fraction: the
    distribution of the sum is built up from one size of difference to the next (Pagano and Tritchler 1983, JASA
    78:435). Otherwise ``n_resamples`` random flips, the observed one counted among them, so that p is never 0 (Phipson
    and Smyth 2010, SAGMB 9:39). The null is that a and b are exchangeable on every problem; with unlike numbers of
    samples that holds for their means only approximately.
    """
    differences, grid, _ = _paired_differences(a, b)
    return _permutation_p(differences, grid, n_resamples, np.random.default_rng(seed))[0]


def two_proportion_z(a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95) -> UnpairedComparison:
    """The unpaired z-test, for comparison only: it ignores that both runs answered the same problems.

    With one verdict a problem the test pools the two rates, as textbooks do, and the interval is Newcombe's hybrid of
    two Wilson intervals (1998, Statistics in Medicine 17:873). With several, both use the root of the summed squares of
    the standard errors over problems (Miller 2024). The lengths of a and b may differ. At 50 problems and rates near
    one half its true size is 5.7%; from 250 problems on it is below 5.5%.
    """
    _check_inside("confidence", confidence)
    (x, _, x_plain), (y, _, y_plain) = _problem_scores(a, "a"), _problem_scores(b, "b")
    p, q = float(x.mean()), float(y.mean())
    error = math.hypot(_standard_error(x), _standard_error(y))
    if (x_plain and y_plain) or error == 0:
        pooled = (x.sum() + y.sum()) / (len(x) + len(y))
        tested = math.sqrt(pooled * (1 - pooled) * (1 / len(x) + 1 / len(y)))
        (p_low, p_high), (q_low, q_high) = _wilson(p, len(x), confidence), _wilson(q, len(y), confidence)
        below, above = math.hypot(p - p_low, q_high - q), math.hypot(p_high - p, q - q_low)
    else:
        tested = error
        below = above = float(special.ndtri((1 + confidence) / 2)) * error
    z = (p - q) / tested if tested > 0 else 0.0  # no spread even in the pooled rate: both all right or all wrong
    return UnpairedComparison(p - q, p - q - below, p - q + above, error, z, float(2 * special.ndtr(-abs(z))))


def equivalence(a: ArrayLike, b: ArrayLike, *, margin: float, alpha: float = 0.05) -> Equivalence:
    """Can a difference of ``margin`` (a share, 0.02 = 2 points) or more be ruled out, either way? Runs as in `compare`.

    Two one-sided tests (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657). With one verdict a problem, or few
    discordant ones, by Tango's score test; else by Hall's t-test on the differences of problem means, whose skewness
    makes the plain t-test claim equivalence too often.
    """
    _check_inside("alpha", alpha, 0.5)
    _check_inside("margin", margin)
    differences, grid, _ = _paired_differences(a, b)
    n = len(differences)
    if grid == 1 or _off_commonest(differences) < FEWEST_TO_RESAMPLE:
        counts = _discordant_counts(differences, 1)
        low, high = _score_interval(*counts, 1 - 2 * alpha)
        p_above = special.ndtr(-_score_statistic(*counts, -margin))
        p_below = special.ndtr(_score_statistic(*counts, margin))
    else:
        t = float(special.stdtrit(n - 1, 1 - alpha))
        low, high = _hall_end(differences, t), _hall_end(differences, -t)
        p_above = special.stdtr(n - 1, -_hall_statistic(differences, -margin))
        p_below = special.stdtr(n - 1, _hall_statistic(differences, margin))
    mean, p_value, bound = float(differences.mean()), float(max(p_above, p_below)), max(abs(low), abs(high))
    return Equivalence(mean, margin, p_value, low, high, bound, p_value <= alpha)


# --- many comparisons ------------------------------------------------------------------------------------------------


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
    """Letters for each system: two share a letter exactly where they cannot be told apart.

    ``different`` is a symmetric ``(systems, systems)`` array of booleans, usually adjusted p-values below alpha.
    ``scores`` order the letters, best first: the best system has an "a". Insert-and-absorb of Piepho (2004, JCGS
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
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if len(groups) > len(alphabet):
        raise ValueError(f"{len(groups)} overlapping groups, but only {len(alphabet)} letters: compare fewer systems")
    return tuple("".join(alphabet[n] for n, group in enumerate(groups) if system in group) for system in range(k))


# --- power and variance ----------------------------------------------------------------------------------------------


def discordance_from_rates(accuracy_a: float, accuracy_b: float, *, correlation: float = 0.5) -> float:
    """The share of problems on which two systems are expected to disagree, before any run.

    ``correlation`` is that of their verdicts over problems: 0.3 to 0.7 between language models (Miller 2024).
    ValueError where no two systems of these accuracies can have that correlation.
    """
    for name, value in (("accuracy_a", accuracy_a), ("accuracy_b", accuracy_b)):
        _check_inside(name, value)
    spread = math.sqrt(accuracy_a * (1 - accuracy_a) * accuracy_b * (1 - accuracy_b))
    both = accuracy_a * accuracy_b + correlation * spread
    least, most = max(0.0, accuracy_a + accuracy_b - 1), min(accuracy_a, accuracy_b)
    if not least - ROUNDING <= both <= most + ROUNDING:
        low, high = ((x - accuracy_a * accuracy_b) / spread for x in (least, most))
        raise ValueError(
            f"accuracies {accuracy_a} and {accuracy_b} cannot have correlation {correlation}: "
            f"it must be between {low:.3f} and {high:.3f}"
        )
    return accuracy_a + accuracy_b - 2 * both


def paired_power(
    difference: float,
    n_problems: int,
    *,
    discordance: float,
    n_samples: int = 1,
    within: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """The chance that a two-sided paired test at ``alpha`` finds a true ``difference`` (a share) on ``n_problems``.

    Connor 1987 (Biometrics 43:207): Phi((sqrt(n) difference - z sqrt(D)) / sqrt(D - difference^2)), D being the mean
    square of a problem's difference: the ``discordance`` for one verdict a problem. With ``n_samples`` of each system,
    the part ``within`` of it (noise between samples of a problem, both systems together) is divided by their number
    (Miller 2024). A discordance below ``difference`` cannot be, and is raised to it.
    """
    return _power(difference, n_problems, discordance, _averaged_away(n_samples, within, discordance), alpha)


def detectable_difference(
    n_problems: int,
    *,
    discordance: float,
    n_samples: int = 1,
    within: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """The smallest true difference (a share) that `paired_power` finds with probability ``power``: before a run.

    ``discordance`` from `discordance_from_rates` or a pilot. inf where so few problems can show no difference at all.
    """
    return _detectable(n_problems, discordance, _averaged_away(n_samples, within, discordance), power, alpha)


def problems_needed(
    difference: float,
    *,
    discordance: float,
    n_samples: int = 1,
    within: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """How many problems a paired test needs to find a true ``difference`` with probability ``power`` (Connor 1987)."""
    _check_inside("power", power)
    _check_inside("alpha", alpha)
    null, alternative = _mean_square(difference, discordance, _averaged_away(n_samples, within, discordance))
    if difference == 0:
        raise ValueError("difference must not be 0: no number of problems shows a difference of nothing")
    root = special.ndtri(1 - alpha / 2) * math.sqrt(null) + special.ndtri(power) * math.sqrt(alternative)
    return math.ceil((root / difference) ** 2 - ROUNDING)


def power_of_run(a: ArrayLike, b: ArrayLike, *, power: float = 0.8, alpha: float = 0.05) -> Power:
    """What this pair of runs could detect: `detectable_difference` at their problems, discordance and samples.

    It speaks of true differences of that size, not of the one observed: power at the observed difference would only
    restate the p-value (Hoenig and Heisey 2001, The American Statistician 55:19). Arrays as in `compare`.
    """
    differences, _, _ = _paired_differences(a, b)
    x, y = _matrix(a, "a"), _matrix(b, "b")
    p, q = x.mean(axis=1), y.mean(axis=1)
    discordance = float((p * (1 - q) + q * (1 - p)).mean())
    within = None
    if min(x.shape[1], y.shape[1]) > 1:
        within = float(x.var(axis=1, ddof=1).mean() + y.var(axis=1, ddof=1).mean())
    averaged_away = max(0.0, discordance - float((differences**2).mean()))
    difference = _detectable(len(differences), discordance, averaged_away, power, alpha)
    return Power(difference, len(differences), discordance, within, power, alpha)


def variance_split(correct: ArrayLike, *, tolerance: float = 0.05) -> VarianceSplit:
    """Split the variance of verdicts ``(problems, samples)``, at least 2 of each (Miller 2024, on resampling).

    The squared standard error is (between + within / samples) / problems, so samples beyond the point where the second
    term is small stop helping: ``enough_samples`` puts the standard error within ``tolerance`` of its floor.
    """
    _check_inside("tolerance", tolerance)
    matrix = _matrix(correct, "correct")
    n, samples = matrix.shape
    if n < 2 or samples < 2:
        raise ValueError(f"a variance split needs at least 2 problems and 2 samples of each, got {n} and {samples}")
    within = float(matrix.var(axis=1, ddof=1).mean())
    between = float(matrix.mean(axis=1).var(ddof=1)) - within / samples  # unbiased; noise can push it below zero
    between = between if between > ROUNDING else 0.0
    enough = None if between == 0 and within > 0 else 1
    if between > 0:
        enough = max(1, math.ceil(within / (between * ((1 + tolerance) ** 2 - 1)) - ROUNDING))
    error = _standard_error(matrix.mean(axis=1))
    return VarianceSplit(between, within, n, samples, error, math.sqrt(between / n), enough, tolerance)


def _averaged_away(n_samples: int, within: float, discordance: float) -> float:
    """The part of the discordance that the mean over ``n_samples`` is rid of."""
    if not 0 <= within <= discordance <= 1:
        raise ValueError(f"0 <= within <= discordance <= 1 must hold, got within {within}, discordance {discordance}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    return within * (1 - 1 / n_samples)


def _mean_square(difference: float, discordance: float, averaged_away: float) -> tuple[float, float]:
    """Mean square of a problem's difference, and its variance when the true difference is ``difference``."""
    if not -1 <= difference <= 1:
        raise ValueError(f"difference must be from -1 to 1 (a share, not points), got {difference}")
    square = max(max(discordance, abs(difference)) - averaged_away, difference**2)
    return square, square - difference**2


def _power(difference: float, n_problems: int, discordance: float, averaged_away: float, alpha: float) -> float:
    _check_inside("alpha", alpha)
    if n_problems < 1:
        raise ValueError(f"n_problems must be at least 1, got {n_problems}")
    square, variance = _mean_square(difference, discordance, averaged_away)
    reached = abs(difference) * math.sqrt(n_problems) - special.ndtri(1 - alpha / 2) * math.sqrt(square)
    return float(special.ndtr(reached / math.sqrt(variance))) if variance > ROUNDING else float(reached > 0)


def _detectable(n_problems: int, discordance: float, averaged_away: float, power: float, alpha: float) -> float:
    _check_inside("power", power)
    if _power(1.0, n_problems, discordance, averaged_away, alpha) < power:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(60):  # halving, since the power jumps where the variance reaches zero
        middle = (low + high) / 2
        enough = _power(middle, n_problems, discordance, averaged_away, alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


# --- the bootstrap ---------------------------------------------------------------------------------------------------


def _resampled_means(values: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Means ``(n_resamples,)`` of bootstrap resamples of ``values``.

    Equal values are interchangeable, so a resample is how often each distinct value was drawn: one multinomial draw of
    three counts for a paired 0/1 difference, in place of 1319 indices.
    """
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


def _tail_levels(values: np.ndarray, means: np.ndarray, confidence: float, method: str) -> tuple[float, float]:
    """The two quantile levels of ``means`` that bound the interval."""
    if method == "bca":
        return _bca_levels(values, means, confidence)
    n = len(values)
    t = special.stdtrit(n - 1, (1 + confidence) / 2)
    tail = float(special.ndtr(-t * math.sqrt(n / (n - 1))))  # a resample's variance is (n - 1) / n of what it should be
    return tail, 1 - tail


def _bca_levels(values: np.ndarray, means: np.ndarray, confidence: float) -> tuple[float, float]:
    """Bias-corrected and accelerated levels; the jackknife of a mean has a closed form."""
    mean, size = values.mean(), len(means)
    below = ((means < mean - ROUNDING).sum() + (means <= mean + ROUNDING).sum()) / (2 * size)
    bias = special.ndtri(np.clip(below, 0.5 / size, 1 - 0.5 / size))
    centred = values - mean
    acceleration = (centred**3).sum() / (6 * (centred**2).sum() ** 1.5)
    z = bias + special.ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = special.ndtr(bias + z / (1 - acceleration * z))
    return float(low), float(high)


def _bootstrap_p(means: np.ndarray, n: int) -> float:
    """Two-sided p-value at which the percentile interval of ``means`` just reaches 0."""
    below, above = (means <= ROUNDING).sum(), (means >= -ROUNDING).sum()
    tail = min(0.5, (min(below, above) + 1) / (len(means) + 1))
    t = special.ndtri(tail) * math.sqrt((n - 1) / n)
    return float(2 * special.stdtr(n - 1, t))


def _difference_interval(
    differences: np.ndarray, samples: int, confidence: float, n_resamples: int, rng: np.random.Generator, method: str
) -> tuple[float, float, float, str]:
    """low, high, p-value and the method used."""
    off = _off_commonest(differences)
    if method == "score" or off == 0 or (method == "auto" and off < FEWEST_TO_RESAMPLE):
        counts = _discordant_counts(differences, samples)
        z = _score_statistic(*counts, 0.0)
        return *_score_interval(*counts, confidence), float(2 * special.ndtr(-abs(z))), "score"
    method = "percentile" if method == "auto" else method
    means = _resampled_means(differences, n_resamples, rng)
    low, high = np.quantile(means, _tail_levels(differences, means, confidence, method))
    return float(low), float(high), _bootstrap_p(means, len(differences)), method


def _off_commonest(values: np.ndarray) -> float:
    """How many problems do not have the commonest value: right or wrong ones, discordant ones, whichever are rare.

    Means over samples may be off by little, so this is Kish's effective number, (sum of x)^2 / sum of x^2 for distances
    x: a plain count where all distances are 1.
    """
    distinct, counts = np.unique(values.round(12), return_counts=True)
    distances = np.abs(distinct - distinct[counts.argmax()])
    squares = float((counts * distances**2).sum())
    return float((counts * distances).sum() ** 2 / squares) if squares > 0 else 0.0


def _effective_size(values: np.ndarray, samples: int) -> float:
    """How many problems of one verdict would give this standard error: from n to n times ``samples``.

    The variance that verdicts of these means would have, over the squared standard error: the effective sample size of
    Korn and Graubard (1998, Survey Methodology 24:193). n itself for one verdict a problem.
    """
    n = len(values)
    if samples == 1 or _off_commonest(values) < FEWEST_TO_COUNT_SAMPLES:
        return float(n)
    variance = np.abs(values).mean() - values.mean() ** 2
    return float(np.clip(variance / _standard_error(values) ** 2, n, n * samples))


def _interval_method(values: np.ndarray, method: str) -> str:
    off = _off_commonest(values)
    if off == 0 and method != "clopper-pearson":  # a resample of equal values has no spread
        return "wilson"
    if method != "auto":
        return method
    if off >= FEWEST_TO_RESAMPLE:
        return "percentile"
    return "wilson" if len(values) >= FEWEST_FOR_WILSON else "clopper-pearson"


# --- binomial and score intervals ------------------------------------------------------------------------------------


def _wilson(p: float, n: float, confidence: float) -> tuple[float, float]:
    z = special.ndtri((1 + confidence) / 2)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    # exactly 0 and 1 at the ends, where rounding would leave 1e-17
    return (0.0 if p == 0 else max(0.0, centre - half)), (1.0 if p == 1 else min(1.0, centre + half))


def _clopper_pearson(n_correct: float, n: float, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low = special.betaincinv(n_correct, n - n_correct + 1, tail) if n_correct > 0 else 0.0
    high = special.betaincinv(n_correct + 1, n - n_correct, 1 - tail) if n_correct < n else 1.0
    return float(low), float(high)


def _binomial_interval(method: str, n_correct: float, n: int, confidence: float, ends: tuple[float, float]) -> Interval:
    p = n_correct / n
    error = math.sqrt(p * (1 - p) / (n - 1)) if n > 1 else 0.0
    return Interval(p, float(ends[0]), float(ends[1]), error, method, confidence)


def _discordant_counts(differences: np.ndarray, samples: int) -> tuple[float, float, float]:
    """Problems that only a solves, that only b solves, and all.

    A difference d of means counts as a verdict that differs with probability abs(d), which has the same mean and at
    least the variance; the three are then scaled to the number of such problems that the samples are worth.
    """
    scale = _effective_size(differences, samples) / len(differences)
    gain, loss = differences.clip(min=0).sum(), -differences.clip(max=0).sum()
    return float(gain * scale), float(loss * scale), len(differences) * scale


def _score_statistic(gain: float, loss: float, n: float, difference: float) -> float:
    """Tango's z for a true ``difference``: its variance is taken at the most likely rates that have that difference."""
    b = -gain - loss + (2 * n - gain + loss) * difference
    c = -loss * difference * (1 - difference)
    rate = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * rate + difference * (1 - difference))
    return (gain - loss - n * difference) / math.sqrt(max(variance, ROUNDING))


def _score_interval(gain: float, loss: float, n: float, confidence: float) -> tuple[float, float]:
    """The differences that the score test does not reject: its z falls as the difference grows, so halve."""
    z = special.ndtri((1 + confidence) / 2)
    middle = (gain - loss) / n
    ends = []
    for outer in (-1.0, 1.0):
        inside, outside = middle, outer
        for _ in range(60):
            half = (inside + outside) / 2
            accepted = abs(_score_statistic(gain, loss, n, half)) <= z
            inside, outside = (half, outside) if accepted else (inside, half)
        ends.append((inside + outside) / 2)
    return ends[0], ends[1]


def _hall_statistic(values: np.ndarray, true_mean: float) -> float:
    """A t statistic rid of skewness by Hall's cubic transformation (1992, JRSS B 54:221)."""
    n, deviation, skewness = len(values), values.std(ddof=1), _skewness(values)
    w = (values.mean() - true_mean) / deviation
    return math.sqrt(n) * float(w + skewness * w**2 / 3 + skewness**2 * w**3 / 27 + skewness / (6 * n))


def _skewness(values: np.ndarray) -> float:
    centred = values - values.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _hall_end(values: np.ndarray, t: float) -> float:
    """The true mean at which `_hall_statistic` is t: the transformation is a cube, so it inverts in closed form."""
    n, deviation, skewness = len(values), values.std(ddof=1), _skewness(values)
    x = t / math.sqrt(n) - skewness / (6 * n)
    w = x if abs(skewness) < 1e-6 else (np.cbrt(1 + skewness * x) - 1) * 3 / skewness
    return float(values.mean() - deviation * w)


# --- permutation -----------------------------------------------------------------------------------------------------


def _permutation_p(
    differences: np.ndarray, grid: int | None, n_resamples: int, rng: np.random.Generator
) -> tuple[float, str]:
    """The two-sided p-value and ``exact`` or ``monte carlo``; ``grid`` times each difference is whole, where known."""
    if grid is not None:
        units = np.rint(differences * grid).astype(np.int64)
        sizes, counts = np.unique(np.abs(units[units != 0]), return_counts=True)
        if (sizes @ counts + 1) * (counts.sum() + len(counts)) <= EXACT_STEPS:
            return _exact_flips(sizes, counts, int(abs(units.sum()))), "exact"
    return _random_flips(differences, n_resamples, rng), "monte carlo"


def _exact_flips(sizes: np.ndarray, counts: np.ndarray, observed: int) -> float:
    """P(abs(sum of flipped differences) >= observed), ``counts[i]`` differences having size ``sizes[i]``."""
    total = int(sizes @ counts)
    chance = np.zeros(total + 1)  # of the sum of those that fall to the negative side
    chance[0], reach = 1.0, 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        grown = np.zeros_like(chance)
        for k, weight in enumerate(stats.binom.pmf(np.arange(count + 1), count, 0.5)):
            grown[k * size : k * size + reach + 1] += weight * chance[: reach + 1]
        chance, reach = grown, reach + size * count
    return float(min(1.0, 2 * chance[: (total - observed) // 2 + 1].sum()))


def _random_flips(differences: np.ndarray, n_resamples: int, rng: np.random.Generator) -> float:
    moving = differences[np.abs(differences) > ROUNDING]
    n, observed, extreme = len(moving), abs(moving.sum()), 0
    step = max(1, CHUNK_NUMBERS // max(1, n))
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        bits = np.unpackbits(rng.integers(256, size=(rows, -(-n // 8)), dtype=np.uint8), axis=1)[:, :n]
        sums = 2 * (bits.astype(float) @ moving) - moving.sum()
        extreme += int((np.abs(sums) >= observed - n * ROUNDING).sum())
    return (extreme + 1) / (n_resamples + 1)


# --- reading and checking what came in -------------------------------------------------------------------------------


def _matrix(correct: ArrayLike, name: str) -> np.ndarray:
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
    unscored = int(np.isnan(array).sum())
    if unscored:
        raise ValueError(f"{name} holds {unscored} unscored verdicts (None or nan): score or leave out those problems")
    if array.min() < 0 or array.max() > 1:
        worst = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"{name} must hold values from 0 to 1, got {worst:g}")
    return array[:, None] if array.ndim == 1 else array


def _problem_scores(correct: ArrayLike, name: str) -> tuple[np.ndarray, int, bool]:
    """Each problem's mean ``(problems,)``, the number of samples, and whether it is plain: one verdict, 0 or 1."""
    matrix = _matrix(correct, name)
    return matrix.mean(axis=1), matrix.shape[1], matrix.shape[1] == 1 and _is_binary(matrix)


def _paired_differences(a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, int | None, int]:
    """Differences of problem means ``(problems,)``, the number that makes them whole, the smaller number of samples.

    The second is 1 for one verdict a problem, and None for scores that are no verdicts.
    """
    x, y = _matrix(a, "a"), _matrix(b, "b")
    if len(x) != len(y):
        raise ValueError(f"a has {len(x)} problems and b has {len(y)}: align both runs by problem id first")
    grid = math.lcm(x.shape[1], y.shape[1]) if _is_binary(x) and _is_binary(y) else None
    return x.mean(axis=1) - y.mean(axis=1), grid, min(x.shape[1], y.shape[1])


def _is_binary(values: np.ndarray) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _standard_error(values: np.ndarray) -> float:
    """Of the mean of problem scores; 0 for a single problem, which shows no spread."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


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
    if values.ndim != 1:
        raise ValueError(f"p must be one-dimensional, got shape {values.shape}")
    bad = values[~((values >= 0) & (values <= 1))]
    if len(bad):
        raise ValueError(f"p-values must be from 0 to 1, got {bad[0]}")
    return values


def _check_inside(name: str, value: float, top: float = 1.0) -> None:
    if not 0 < value < top:
        raise ValueError(f"{name} must be between 0 and {top:g}, both excluded, got {value}")


def _check_one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise ValueError(f"unknown {name} {value!r}; known: {', '.join(allowed)}")


def _check_count(n_correct: float, n: int, confidence: float) -> None:
    _check_inside("confidence", confidence)
    if n < 1 or not 0 <= n_correct <= n:
        raise ValueError(f"need 0 <= n_correct <= n and n >= 1, got n_correct {n_correct} of n {n}")
