"""Do the intervals and tests keep their promises, and are they quick? Prints Markdown tables.

    python bench/bench_stats.py                 # all of it, some minutes on one core
    python bench/bench_stats.py --only speed    # against scipy.stats.bootstrap(paired=True)
    python bench/bench_stats.py --draws 500     # a quicker, noisier simulation

One row of the first table:

    | 1319 | 0.5 | 94.6% | 94.6% | 95.3% | 95.3% | percentile 100% |

How often the tests of two runs err is another table: ``python -m bench.levels``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
import scipy
from scipy import stats as scipy_stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a checkout, installed or not
from gsm8k_nb import stats  # noqa: E402

SIZES = (50, 250, 1319)
RATES = (0.02, 0.5, 0.98)
CORRELATION = 0.5  # of two runs' verdicts over problems, and of two samples of one problem
SAMPLES = 8
N_RESAMPLES = 2000  # an interval's own Monte Carlo error is then small beside the spread of the data
SPEED_RESAMPLES = 100_000


def table(title: str, note: str, head: Iterable[str], rows: Iterable[Iterable]) -> None:
    """Print one Markdown table, each row as soon as it is known."""
    head = list(head)
    print(f"\n### {title}\n\n{note}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print("| " + " | ".join(f"{x:.1%}" if isinstance(x, float) else str(x) for x in row) + " |", flush=True)


# --- coverage --------------------------------------------------------------------------------------------------------


def exact_coverage(n: int, p: float, method: str) -> tuple[float, dict[str, float]]:
    """Chance that the interval holds p, summed over all counts of right answers; and how often each method was used."""
    chance = scipy_stats.binom.pmf(np.arange(n + 1), n, p)
    covered, used = 0.0, {}
    for k in np.flatnonzero(chance > 1e-8):
        interval = stats.accuracy_interval(np.arange(n) < k, method=method)
        covered += float(chance[k]) * (interval.low <= p <= interval.high)
        used[interval.method] = used.get(interval.method, 0.0) + float(chance[k])
    return covered, used


def coverage_rows() -> Iterable[list]:
    for n in SIZES:
        for p in RATES:
            covered, used = exact_coverage(n, p, "auto")
            others = [exact_coverage(n, p, method)[0] for method in ("percentile", "wilson", "clopper-pearson")]
            named = ", ".join(f"{name} {share:.0%}" for name, share in sorted(used.items()) if share > 0.005)
            yield [n, p_text(p), covered, *others, named]


def sampled_verdicts(rng: np.random.Generator, runs: int, n: int, p: float, samples: int) -> np.ndarray:
    """Runs (runs, n, samples) on the same problems, each problem with its own chance of being solved, p on average."""
    spread = (1 - CORRELATION) / CORRELATION
    chance = rng.beta(p * spread, (1 - p) * spread, n)[:, None]
    return rng.random((runs, n, samples)) < chance


def sampled_coverage_rows(draws: int) -> Iterable[list]:
    rng = np.random.default_rng(1)
    for n in SIZES:
        for p in RATES:
            covered = {"auto": 0, "percentile": 0}
            by_bootstrap = 0
            for _ in range(draws):
                (run,) = sampled_verdicts(rng, 1, n, p, SAMPLES)
                for method in covered:
                    interval = stats.accuracy_interval(run, method=method, n_resamples=N_RESAMPLES)
                    covered[method] += interval.low <= p <= interval.high
                    by_bootstrap += method == "auto" and interval.method == "percentile"
            yield [n, p_text(p), *(hits / draws for hits in covered.values()), by_bootstrap / draws]


@cache
def compared(only_a: int, only_b: int, n: int, method: str = "auto") -> stats.PairedComparison:
    return stats.compare(*paired_verdicts(only_a, only_b, n), n_resamples=N_RESAMPLES, method=method)


def paired_verdicts(only_a: int, only_b: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    both = np.arange(n) >= only_a + only_b
    return both | (np.arange(n) < only_a), both | ((np.arange(n) >= only_a) & (np.arange(n) < only_a + only_b))


def discordant_counts(rng: np.random.Generator, draws: int, n: int, discordance: float, difference: float):
    rates = ((discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance)
    return rng.multinomial(n, rates, size=draws)[:, :2].tolist()


def discordance_of(p: float) -> float:
    """The share of problems on which two runs of accuracy p disagree."""
    return 2 * p * (1 - p) * (1 - CORRELATION)


def difference_coverage_rows(draws: int) -> Iterable[list]:
    rng = np.random.default_rng(2)
    for n in SIZES:
        for p in RATES[:2]:  # 0.98 is 0.02 with right and wrong exchanged
            discordance = discordance_of(p)
            for difference in (0.0, discordance / 2):
                counts = discordant_counts(rng, draws, n, discordance, difference)
                hits = [[compared(x, y, n, method) for x, y in counts] for method in ("auto", "percentile")]
                shares = [sum(r.low <= difference <= r.high for r in results) / draws for results in hits]
                yield [n, p_text(discordance), p_text(difference), *shares]


def sampled_difference_rows(draws: int) -> Iterable[list]:
    """The score interval holds a difference exactly where its test does not reject it, so p-values are enough."""
    rng = np.random.default_rng(5)
    for n in SIZES:
        for p in RATES[:2]:
            spread, held = (1 - CORRELATION) / CORRELATION, 0
            for _ in range(draws):
                chance = rng.beta(p * spread, (1 - p) * spread, n)
                d = (rng.binomial(SAMPLES, chance) - rng.binomial(SAMPLES, chance / 2)) / SAMPLES - p / 2
                held += stats.mean_p(d.sum(), (d**2).sum()) > 0.05  # b is right half as often
            yield [n, p_text(p), p_text(p / 2), held / draws]


def power_rows() -> Iterable[list]:
    """Problems for a power of 80%, and the power that Connor's formula would have left."""
    for points, discordance in ((1, 0.1), (2, 0.2), (5, 0.2), (10, 0.2), (10, 0.3), (3, 0.4)):
        d = points / 100
        z = scipy_stats.norm.ppf((0.975, 0.8))
        connor = int(np.ceil((z[0] * discordance**0.5 + z[1] * (discordance - d**2) ** 0.5) ** 2 / d**2))
        needed = stats.problems_needed(d, discordance=discordance)
        powers = [stats.paired_power(d, n, discordance=discordance) for n in (needed, connor)]
        yield [points, f"{discordance:.0%}", needed, powers[0], connor, powers[1]]


# --- speed -----------------------------------------------------------------------------------------------------------


def speed_data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    if kind == "scores":  # a fraction a problem, all different
        return tuple(rng.random((2, 1319)))
    return tuple(np.squeeze(run) for run in sampled_verdicts(rng, 2, 1319, 0.4, 1 if kind == "verdicts" else SAMPLES))


def ours(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    result = stats.compare(a, b, n_resamples=SPEED_RESAMPLES, method="percentile")
    return result.low, result.high


def scipys(a: np.ndarray, b: np.ndarray, batch: int | None = None) -> tuple[float, float]:
    means = [run if run.ndim == 1 else run.mean(axis=1) for run in (a.astype(float), b.astype(float))]
    result = scipy_stats.bootstrap(
        means,
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=SPEED_RESAMPLES,
        batch=batch,
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


CONTENDERS: dict[str, Callable] = {
    "ours": ours,
    "scipy": scipys,
    "scipy, batch=1000": lambda a, b: scipys(a, b, batch=1000),
}


def measure(who: str, kind: str) -> dict:
    """Seconds (ours: best of 9, as it is short), megabytes above start, and the interval, in this process."""
    a, b = speed_data(kind)
    start = peak_megabytes()
    times = []
    for _ in range(9 if who == "ours" else 1):
        began = time.perf_counter()
        low, high = CONTENDERS[who](a, b)
        times.append(time.perf_counter() - began)
    return {"seconds": min(times), "megabytes": peak_megabytes() - start, "low": low, "high": high}


def peak_megabytes() -> float:
    """The most memory this program has held (Linux). getrusage would count what its parent held before it started."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def speed_rows() -> Iterable[list]:
    one_core = os.environ | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    for kind in ("verdicts", "samples", "scores"):
        a, b = speed_data(kind)
        error = stats.compare(a, b, n_resamples=100).standard_error * 2.67 * np.sqrt(2 / SPEED_RESAMPLES)
        reference = None
        for who in CONTENDERS:
            command = [sys.executable, __file__, "--measure", who, kind]
            output = subprocess.run(command, env=one_core, check=True, capture_output=True, text=True).stdout
            row = json.loads(output)
            reference = reference or row
            apart = max(abs(row[end] - reference[end]) for end in ("low", "high")) / error
            ends = f"{row['low']:+.5f} to {row['high']:+.5f}"
            yield [kind, who, f"{row['seconds']:.3f}", f"{row['megabytes']:.0f}", ends, f"{apart:.1f}"]


# --- all of it -------------------------------------------------------------------------------------------------------


def p_text(p: float) -> str:
    return f"{p:.3g}"


def simulate(draws: int) -> None:
    noise = f"From {draws} draws: standard error {np.sqrt(0.05 * 0.95 / draws):.1%} at 5%."
    methods = ("auto (default)", "percentile", "Wilson", "Clopper-Pearson", "auto used")
    table(
        "Coverage of 95% intervals of an accuracy, one verdict a problem",
        "Exact: summed over all counts of right answers, 10 000 resamples. Where all problems agree, Wilson stands in "
        "for a bootstrap. At n = 50 and p = 0.02 no interval can cover anything between 92.2% and 98.2%.",
        ("n", "p", *methods),
        coverage_rows(),
    )
    table(
        f"Coverage of 95% intervals of an accuracy, {SAMPLES} samples a problem",
        f"{noise} Two samples of a problem correlate {CORRELATION}.",
        ("n", "p", "auto (default)", "percentile", "auto was the bootstrap"),
        sampled_coverage_rows(draws),
    )
    table(
        "Coverage of 95% intervals of a paired difference, one verdict a problem",
        noise,
        ("n", "discordance", "difference", "exact (default)", "percentile"),
        difference_coverage_rows(draws),
    )
    table(
        f"Coverage of 95% intervals of a paired difference, {SAMPLES} samples a problem",
        noise,
        ("n", "p of a", "difference", "score (default)"),
        sampled_difference_rows(draws),
    )
    table(
        "Problems for a power of 80%, exact McNemar test at 5%",
        "Exact. Connor's formula takes counts for normal.",
        ("true difference, points", "discordant", "problems needed", "power", "by Connor's formula", "power there"),
        power_rows(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000, help="simulated runs a row (4000)")
    parser.add_argument("--only", choices=("simulation", "speed"))
    parser.add_argument("--measure", nargs=2, metavar=("WHO", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    print(f"NumPy {np.__version__}, SciPy {scipy.__version__}, Python {sys.version.split()[0]}, one core.")
    if options.only != "speed":
        simulate(options.draws)
    if options.only != "simulation":
        table(
            f"{SPEED_RESAMPLES} resamples of a paired difference over 1319 problems",
            "Ours is all of `compare`, tests included. `apart`: the larger distance of the two ends from ours, in "
            "standard errors of Monte Carlo.",
            ("data", "who", "seconds", "MB above start", "95% interval", "apart"),
            speed_rows(),
        )


if __name__ == "__main__":
    main()
