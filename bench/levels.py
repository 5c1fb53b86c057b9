"""How often the paired tests find a difference that is not there. Prints the table of levels in docs/statistics.md.

    python -m bench.levels            # about ten minutes on one core
    python -m bench.levels --quick    # a minute, noisier

Two systems have the same mean accuracy over the problems that there could be. What differs from case to case is how
each system's chance spreads over problems (its profile), whether both find the same problems hard, and how many samples
each has. Every case is searched with few draws; the worst one of each row is then drawn anew, many times, so that its
bounds (Clopper and Pearson's, 95%) are not those of the luckiest.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy import special, stats

from gsm8k_nb.stats import mean_p

LEVEL = 0.05
SIZES = (10, 20, 50, 100, 250, 1319)  # problems
SAMPLES = (1, 4, 8, 32, 64)
RATES = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97)
BINS = 200  # of equally many problems each, from the hardest to the easiest
# The profiles of both systems, and whether they find the same problems hard (or have nothing to do with each other).
# A number is the correlation of two samples of a problem, the chances being beta distributed.
PROFILES = (
    ("equal", "equal", True), ("0.1", "0.1", True), ("0.5", "0.5", True), ("0.5", "0.5", False),
    ("mixed", "mixed", False), ("equal", "0.5", True), ("equal", "mixed", True), ("two", "mixed", True),
    ("0.1", "0.9", True), ("0.1", "0.9", False), ("0.5", "mixed", True),
)  # fmt: skip
NAMES = {"equal": "all equal", "mixed": "always or never", "two": "two values"}


@dataclass(frozen=True)
class Case:
    """Two profiles, the mean accuracy of both, and the number of samples of each."""

    profiles: tuple[str, str, bool]
    rate: float
    samples: tuple[int, int]

    def __str__(self) -> str:
        a, b, shared = self.profiles
        first, second = (NAMES.get(name, f"beta {name}") for name in (a, b))
        hard = "the same problems hard" if shared else "apart"
        return f"{first} / {second}, {hard}, rate {self.rate:g}, N = {self.samples[0]} / {self.samples[1]}"


def cases() -> list[Case]:
    """All of them; of two like profiles, samples in one order are enough."""
    every = product(PROFILES, RATES, product(SAMPLES, repeat=2))
    return [Case(*one) for one in every if one[0][0] != one[0][1] or one[2][0] <= one[2][1]]


def chances(profile: str, rate: float) -> np.ndarray:
    """The mean chance in each bin ``(BINS,)``, hardest first; ``rate`` on average."""
    edges = np.linspace(0, 1, BINS + 1)
    if profile == "equal":
        return np.full(BINS, rate)
    if profile == "two":  # nothing and twice the rate, or what mirrors it
        return np.where(edges[1:] <= 0.5, max(0.0, 2 * rate - 1), min(1.0, 2 * rate))
    if profile == "mixed":
        return np.clip(np.diff(np.clip(edges - (1 - rate), 0, None)) * BINS, 0, 1)
    spread = (1 - float(profile)) / float(profile)
    a, b = rate * spread, (1 - rate) * spread
    quantiles = np.clip(special.betaincinv(a, b, edges), 0, 1)
    quantiles[0], quantiles[-1] = 0, 1
    # the share of all chances that lies below each quantile; near 1, where digits run out, from the other end
    below = np.where(quantiles > 1 - 1e-9, rate - (1 - edges), special.betainc(a + 1, b, quantiles) * rate)
    return np.clip(np.diff(below) * BINS, 0, 1)


@cache
def right(profile: str, rate: float, samples: int) -> np.ndarray:
    """The chance of 0 to ``samples`` right ones in each bin ``(BINS, samples + 1)``."""
    chance = chances(profile, rate)[:, None]
    if profile == "mixed":  # the bin in which always and never meet holds both kinds
        return np.where(np.arange(samples + 1) == 0, 1 - chance, 0) + np.where(
            np.arange(samples + 1) == samples, chance, 0
        )
    return stats.binom.pmf(np.arange(samples + 1), samples, chance)


def differences(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The values that a problem's difference of means takes, and the chance of each; 0 on average."""
    (a, b, shared), (n_a, n_b) = case.profiles, case.samples
    first, second = right(a, case.rate, n_a), right(b, case.rate, n_b)
    joint = first.T @ second / BINS if shared else np.outer(first.mean(axis=0), second.mean(axis=0))
    values = np.arange(n_a + 1)[:, None] / n_a - np.arange(n_b + 1) / n_b
    distinct, where = np.unique(values.round(12), return_inverse=True)
    return distinct, np.bincount(where.ravel(), joint.ravel())


def drawn(case: Case, draws: int, sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sums of differences and of their squares ``(draws, sizes)``: the first n problems of each draw, for each n."""
    values, chance = differences(case)
    edges, total, squares = np.cumsum(chance) / chance.sum(), [], []
    step = max(1, 4_000_000 // max(sizes))
    for start in range(0, draws, step):
        picks = rng.random((min(step, draws - start), max(sizes)))
        d = values[np.searchsorted(edges, picks, side="right").clip(max=len(values) - 1)]
        total.append(np.cumsum(d, axis=1)[:, np.array(sizes) - 1])
        squares.append(np.cumsum(d**2, axis=1)[:, np.array(sizes) - 1])
    return np.concatenate(total), np.concatenate(squares)


def p_values(case: Case, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """As `gsm8k_nb.stats.compare` decides: the exact McNemar test for one sample of each, else `mean_p`."""
    if case.samples != (1, 1):
        return mean_p(total, squares)
    losses = np.rint((squares - np.abs(total)) / 2)
    return np.minimum(1, 2 * special.bdtr(losses, np.rint(squares).astype(int), 0.5))


def other_p_values(total: np.ndarray, squares: np.ndarray) -> dict[str, np.ndarray]:
    """What two usual tests would say: a t-test, and sign flips (by their normal approximation)."""
    n = np.array(SIZES)
    spread = np.sqrt(np.maximum(squares - total**2 / n, 1e-12) / (n - 1) * n)
    return {
        "paired t-test": 2 * special.stdtr(n - 1, -np.abs(total) / spread),
        "sign flips": 2 * special.ndtr(-np.abs(total) / np.sqrt(np.maximum(squares, 1e-12))),
    }


def bounded(found: int, draws: int) -> str:
    """A level in percent and its 95% bounds."""
    low = special.betaincinv(found, draws - found + 1, 0.025) if found else 0.0
    return f"{found / draws:.1%} ({low:.1%} to {special.betaincinv(found + 1, draws - found, 0.975):.1%})"


def again(worst: Case, n: int, draws: int, rng: np.random.Generator) -> str:
    p = p_values(worst, *drawn(worst, draws, (n,), rng))
    return bounded(int((p <= LEVEL).sum()), draws)


def search(draws: int, rng: np.random.Generator) -> tuple[dict[Case, np.ndarray], dict[str, np.ndarray]]:
    """The level of each case at each size, roughly; and the highest of the usual tests."""
    levels, usual = {}, {}
    for case in cases():
        total, squares = drawn(case, draws, SIZES, rng)
        levels[case] = (p_values(case, total, squares) <= LEVEL).mean(axis=0)
        for name, p in other_p_values(total, squares).items():
            usual[name] = np.maximum(usual.get(name, 0.0), (p <= LEVEL).mean(axis=0))
    return levels, usual


def row(levels: dict[Case, np.ndarray], chosen: list[Case], draws: int, rng: np.random.Generator) -> list[str]:
    """For each size, the worst of the chosen cases, drawn anew."""
    return [again(max(chosen, key=lambda c: levels[c][place]), n, draws, rng) for place, n in enumerate(SIZES)]


def rows(levels: dict[Case, np.ndarray], draws: int, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """The table: by numbers of samples, by profiles, by rate."""
    for pair in (one for one in product(SAMPLES, repeat=2) if one[0] <= one[1]):
        chosen = [case for case in levels if tuple(sorted(case.samples)) == pair]
        yield f"N = {pair[0]} and {pair[1]}", row(levels, chosen, draws, rng)
    for profiles in PROFILES:
        chosen = [case for case in levels if case.profiles == profiles]
        yield str(chosen[0]).rsplit(", rate", 1)[0], row(levels, chosen, draws, rng)
    for rate in RATES:
        yield f"rate {rate:g}", row(levels, [case for case in levels if case.rate == rate], draws, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    few, many = (300, 2_000) if options.quick else (1_500, 20_000)
    rng = np.random.default_rng(options.seed)
    levels, usual = search(few, rng)
    print(f"{len(levels)} cases searched with {few:,} draws each; each row's worst case drawn anew, {many:,} times.\n")
    print(f"| worst of | {' | '.join(f'n = {n}' for n in SIZES)} |\n|{'---|' * (len(SIZES) + 1)}")
    for name, cells in rows(levels, many, rng):
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\nThe same search with the usual tests, the highest level found, with the bounds of its draws:\n")
    print(f"| test | {' | '.join(f'n = {n}' for n in SIZES)} |\n|{'---|' * (len(SIZES) + 1)}")
    for name, found in usual.items():
        print(f"| {name} | {' | '.join(bounded(round(level * few), few) for level in found)} |")


if __name__ == "__main__":
    main()
