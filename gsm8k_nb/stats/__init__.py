"""How sure a score is, and whether two differ: verdicts in, as arrays ``(problems,)`` or ``(problems, samples)``.

    compare(verifier_6b, finetuned_175b)       # OpenAI's released GSM8K solutions, 1319 problems
    PairedComparison(difference=0.0432, low=0.0143, high=0.0723, ..., only_a=209, only_b=152, p=0.0032, ...)

Samples of one problem are a cluster: they are averaged, and problems are resampled (Miller 2024, arXiv:2411.00640).
Scores from 0 to 1, such as pass@k, may stand in place of verdicts; unscored ones (None, nan) are refused.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gsm8k_nb.stats.intervals import Interval, accuracy_interval

if TYPE_CHECKING:
    from gsm8k_nb.stats.many import benjamini_hochberg, compact_letters, holm
    from gsm8k_nb.stats.paired import Paired, PairedComparison, compare, mcnemar_p, mean_p
    from gsm8k_nb.stats.power import Power, paired_power, power_of_run, problems_needed

__all__ = [
    "Interval", "Paired", "PairedComparison", "Power", "accuracy_interval", "benjamini_hochberg", "compact_letters",
    "compare", "holm", "mcnemar_p", "mean_p", "paired_power", "power_of_run", "problems_needed",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What compares runs, when first asked for: an evaluation needs none of it, and SciPy's tests take long to load."""
    for module in ("paired", "many", "power") if name in __all__ else ():
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
