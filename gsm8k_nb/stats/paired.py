"""Two runs on the same problems: is one better? Decision, p-value and interval come from one method."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from gsm8k_nb.stats import intervals
from gsm8k_nb.stats.intervals import ROUNDING, standard_error

METHODS = ("auto", "percentile")
NULLS = ("the discordant problems fall to either system alike", "the same mean accuracy on problems like these")
NODES, WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(100))  # of a mean over -1/2 to 1/2
EXACT_STEPS = 200_000_000  # additions for which an exact permutation distribution is worth its time (about 0.2 s)


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Accuracy of a minus that of b, in [-1, 1], on the same problems; ``only_a`` counts those where a is better.

    ``low`` to ``high`` and ``p`` come from one ``method``: ``exact`` (McNemar's), ``score`` (several samples) or
    ``percentile`` (the bootstrap, on request). The interval leaves out 0 where ``p`` is below 1 - confidence, and
    nowhere else. ``decides`` is False where so few problems could not show a difference even if a solved all of them
    and b none. For reference: ``p_bootstrap``, ``p_mcnemar`` (None unless each run has one verdict a problem) and
    ``p_permutation`` (``exact`` or ``monte carlo``), whose null is that both are alike on every problem.
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
    p: float
    null: str
    decides: bool

    @property
    def bound(self) -> float:
        """The largest difference, either way, that the interval holds: what is larger is ruled out."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Paired:
    """Two runs on the same problems, read and checked once: floats ``(problems, samples)``, aligned by problem."""

    a: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, a: ArrayLike, b: ArrayLike) -> "Paired":
        """From arrays as in `compare`. ValueError names both lengths where they differ."""
        x, y = intervals.matrix(a, "a"), intervals.matrix(b, "b")
        if len(x) != len(y):
            raise ValueError(f"a has {len(x)} problems and b has {len(y)}: align both runs by problem id first")
        return cls(x, y)

    @cached_property
    def differences(self) -> np.ndarray:
        """Of each problem's mean, a minus b: ``(problems,)``."""
        return self.a.mean(axis=1) - self.b.mean(axis=1)

    @cached_property
    def grid(self) -> int | None:
        """What makes the differences whole: 1 for one verdict a problem, None for scores that are no verdicts."""
        whole = all(((run == 0) | (run == 1)).all() for run in (self.a, self.b))
        return math.lcm(self.a.shape[1], self.b.shape[1]) if whole else None

    def unpaired_p(self) -> float:
        """The two-sided z-test as if on different problems, which other tools print; single verdicts are pooled."""
        x, y = self.a.mean(axis=1), self.b.mean(axis=1)
        error = math.hypot(standard_error(x), standard_error(y))
        if self.grid == 1 or error == 0:
            pooled = (x.mean() + y.mean()) / 2
            error = math.sqrt(pooled * (1 - pooled) * 2 / len(x))
        return float(2 * special.ndtr(-abs(self.differences.mean()) / error)) if error > 0 else 1.0

    def compare(self, confidence: float, n_resamples: int, seed: int, method: str = "auto") -> PairedComparison:
        """As the function `compare`."""
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
        intervals.check_inside("confidence", confidence)
        d, n, rng, tail = self.differences, len(self.a), np.random.default_rng(seed), (1 - confidence) / 2
        only_a, only_b = int((d > ROUNDING).sum()), int((d < -ROUNDING).sum())
        means = intervals.resampled_means(d, n_resamples, rng)
        p_bootstrap = _bootstrap_p(means, n)
        p_permutation, permutation = _permutation_p(d, self.grid, n_resamples, rng)
        p_mcnemar = mcnemar_p(only_a, only_b) if self.grid == 1 else None
        if method == "percentile" and np.ptp(d) > ROUNDING:  # equal differences leave nothing to resample
            p, ends, extreme = p_bootstrap, intervals.percentile(means, n, confidence), 0.0
        elif p_mcnemar is not None:
            p, extreme, method = p_mcnemar, mcnemar_p(n, 0), "exact"
            ends = (0.0 - _exact_end(only_b, only_a, n, tail), _exact_end(only_a, only_b, n, tail))
        else:
            p, extreme, method = float(mean_p(d.sum(), (d**2).sum())), float(mean_p(n, n)), "score"
            ends = _mean_ends(d, confidence)
        return PairedComparison(
            float(d.mean()), *ends, p_bootstrap, p_mcnemar, p_permutation, only_a, only_b, standard_error(d), n,
            method, permutation, confidence, p, NULLS[method != "exact"], extreme <= 1 - confidence,
        )  # fmt: skip


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

    Method ``auto`` is ``exact`` for one verdict a problem: McNemar's test, and the interval by Fay and Lumbard (2021,
    Statistics in Medicine 40:1147) that leaves out 0 exactly where the test rejects. Else it is ``score``, `mean_p` and
    its interval, which hold though the runs have unlike samples or unlike hard problems. ``percentile`` is the
    bootstrap of the differences of problem means. ValueError names both lengths where they differ.
    """
    return Paired.of(a, b).compare(confidence, n_resamples, seed, method)


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Two-sided exact McNemar p-value: discordant problems fall to either side with probability 1/2. 1.0 where none."""
    if only_a < 0 or only_b < 0:
        raise ValueError(f"counts of discordant problems must not be negative, got {only_a} and {only_b}")
    return float(min(1.0, 2 * special.bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def mean_p(total: ArrayLike, squares: ArrayLike) -> np.ndarray:
    """Two-sided p-value of "the mean difference over problems is 0", from the sum of differences and of their squares.

    z solves z^2 = total^2 / (squares + z^2): the sum over the root of its squares, as in McNemar's test, to which z^2
    is added, as Wilson's interval adds pseudo observations, for rare problems that were not drawn. Arrays of one shape
    are tested one by one.
    """
    total, squares = np.square(total), np.asarray(squares, dtype=float)
    scale = np.maximum(squares + np.sqrt(squares**2 + 4 * total), np.finfo(float).tiny)
    return 2 * special.ndtr(-np.sqrt(2 * total / scale))


def _mean_ends(differences: np.ndarray, confidence: float) -> tuple[float, float]:
    """The true means that `mean_p` does not reject, a quadratic in the mean."""
    n, mean = len(differences), float(differences.mean())
    z2 = float(special.ndtri((1 + confidence) / 2)) ** 2
    if n <= z2:
        return -1.0, 1.0
    half = math.sqrt(z2 * (np.square(differences - mean).sum() + z2) / (n * (n - z2)))
    return max(-1.0, mean - half), min(1.0, mean + half)


def _exact_end(gain: int, loss: int, n: int, tail: float) -> float:
    """The upper end of Fay and Lumbard's interval for (gain - loss) / n, a discordant rate times (2 share - 1).

    Clopper and Pearson's limits of rate and share are beta distributions, and their product exceeds the end with chance
    ``tail``. At a difference of 0 only the share counts, and that chance is McNemar's.
    """
    discordant = gain + loss
    if loss == 0:
        return 1.0 if discordant == n else float(special.betaincinv(discordant + 1, n - discordant, 1 - tail))
    most = np.ones_like(NODES) if discordant == n else special.betaincinv(discordant + 1, n - discordant, NODES + 0.5)
    fewest = special.betaincinv(discordant, n - discordant + 1, NODES + 0.5)

    def excess(difference: float) -> float:
        rate = most if difference >= 0 else fewest
        share = np.clip((1 + difference / rate) / 2, 0, 1)
        return float(WEIGHTS @ special.betaincc(gain + 1, loss, share)) - tail

    at_zero = special.betaincc(gain + 1, loss, 0.5) - tail
    if abs(at_zero) < ROUNDING:
        return 0.0
    return float(optimize.brentq(excess, *((0.0, 1.0) if at_zero > 0 else (-1.0, 0.0)), xtol=1e-9))


def _bootstrap_p(means: np.ndarray, n: int) -> float:
    """Two-sided p-value at which the percentile interval of ``means`` just reaches 0; 1 for a single problem."""
    if n == 1:
        return 1.0
    below, above = (means <= ROUNDING).sum(), (means >= -ROUNDING).sum()
    tail = min(0.5, (min(below, above) + 1) / (len(means) + 1))
    return float(2 * special.stdtr(n - 1, special.ndtri(tail) * math.sqrt((n - 1) / n)))


def _permutation_p(
    differences: np.ndarray, grid: int | None, n_resamples: int, rng: np.random.Generator
) -> tuple[float, str]:
    """Two-sided, if each problem's difference may flip its sign: ``exact`` (Pagano and Tritchler 1983, JASA 78:435) for
    differences that are whole multiples of one fraction, else ``monte carlo``.
    """
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
    """The flips observed count too, so that p is never 0 (Phipson and Smyth 2010, SAGMB 9:39)."""
    moving = differences[np.abs(differences) > ROUNDING]
    n, observed, extreme = len(moving), abs(moving.sum()), 0
    step = max(1, intervals.CHUNK_NUMBERS // max(1, n))
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        bits = np.unpackbits(rng.integers(256, size=(rows, -(-n // 8)), dtype=np.uint8), axis=1)[:, :n]
        sums = 2 * (bits.astype(float) @ moving) - moving.sum()
        extreme += int((np.abs(sums) >= observed - n * ROUNDING).sum())
    return (extreme + 1) / (n_resamples + 1)
