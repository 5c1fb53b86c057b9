"""What a paired comparison can find: before a run from a share of discordant problems, after one from its spread."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from gsm8k_nb.stats.intervals import ROUNDING, check_inside
from gsm8k_nb.stats.paired import Paired


@dataclass(frozen=True, slots=True)
class Power:
    """The smallest ``difference`` that a paired comparison finds with probability ``power`` at ``alpha``.

    ``discordance`` is the chance that one sample of a and one of b disagree on a problem; ``within`` the part of it
    that is noise between samples of a problem (None where a run has a single sample, which cannot show it).
    """

    difference: float
    n_problems: int
    discordance: float
    within: float | None
    power: float
    alpha: float


def paired_power(difference: float, n_problems: int, *, discordance: float, alpha: float = 0.05) -> float:
    """The chance that McNemar's exact test finds a true ``difference`` (a share) on ``n_problems``, in its direction.

    ``discordance`` is the share of problems that one system alone solves, at least ``difference``. Exact: summed over
    the likely numbers of discordant problems.
    """
    check_inside("alpha", alpha)
    if not (abs(difference) <= 1 and 0 <= discordance <= 1 and n_problems >= 1):
        shares = f"difference {difference} and discordance {discordance} must be shares of at most 1 (not points)"
        raise ValueError(f"{shares}, and n_problems at least 1, got {n_problems}")
    discordance = max(discordance, abs(difference))
    likely = stats.binom.ppf((1e-9, 1 - 1e-9), n_problems, discordance)
    discordant = np.arange(likely[0], likely[1] + 1)
    most = stats.binom.ppf(alpha / 2, discordant, 0.5)  # losses that the test still rejects, or one more
    most -= special.bdtr(most, discordant.astype(int), 0.5) > alpha / 2
    losses = stats.binom.cdf(most, discordant, (1 - abs(difference) / discordance) / 2 if discordance > 0 else 0.5)
    return float(stats.binom.pmf(discordant, n_problems, discordance) @ losses)


def problems_needed(difference: float, *, discordance: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest problems on which `paired_power` finds a true ``difference`` with probability ``power``.

    Connor's formula (1987, Biometrics 43:207) asks for 1 to 10% fewer, which leaves the exact test at 76 to 79%.
    """
    check_inside("power", power)
    paired_power(difference, 1, discordance=discordance, alpha=alpha)  # refuses what is no share
    if difference == 0:
        raise ValueError("difference must not be 0: no number of problems shows a difference of nothing")
    z = special.ndtri(1 - alpha / 2) + abs(special.ndtri(power))
    sizes = range(1, 100 + 2 * math.ceil(z**2 * max(discordance, abs(difference)) / difference**2))  # twice Connor's
    return sizes[
        bisect_left(sizes, power, key=lambda n: paired_power(difference, n, discordance=discordance, alpha=alpha))
    ]


def power_of_run(pair: Paired, *, power: float = 0.8, alpha: float = 0.05) -> Power:
    """What this pair of runs could detect, at its problems, discordance and samples; inf where nothing.

    Power at the observed difference would only restate the p-value (Hoenig and Heisey 2001, Am. Statistician 55:19).
    """
    check_inside("power", power)
    check_inside("alpha", alpha)
    p, q, n = pair.a.mean(axis=1), pair.b.mean(axis=1), len(pair.a)
    discordance = float((p * (1 - q) + q * (1 - p)).mean())
    within = None
    if min(pair.a.shape[1], pair.b.shape[1]) > 1:
        within = float(pair.a.var(axis=1, ddof=1).mean() + pair.b.var(axis=1, ddof=1).mean())
    averaged_away = max(0.0, discordance - float((pair.differences**2).mean()))

    def missing(size: float) -> float:
        if pair.grid == 1:
            return paired_power(size, n, discordance=discordance, alpha=alpha) - power
        return _mean_power(size, n, discordance, averaged_away, alpha) - power

    difference = float(optimize.brentq(missing, 0.0, 1.0, xtol=1e-7)) if missing(1.0) >= 0 else math.inf
    return Power(difference, n, discordance, within, power, alpha)


def _mean_power(size: float, n: int, discordance: float, averaged_away: float, alpha: float) -> float:
    """Of `mean_p`, by Connor's normal approximation; means over samples are rid of ``averaged_away``."""
    square = max(max(discordance, size) - averaged_away, size**2)  # mean square of a problem's difference
    z, variance = special.ndtri(1 - alpha / 2), square - size**2
    reached = size * math.sqrt(n) - z * math.sqrt(square + z * z / n)
    return float(special.ndtr(reached / math.sqrt(variance))) if variance > ROUNDING else float(reached > 0)
