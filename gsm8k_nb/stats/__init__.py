"""How sure a score is, and whether two scores differ: intervals, paired tests, power. Arrays in, small dataclasses out.

Verdicts come as an array ``(problems,)`` or ``(problems, samples)`` of 0 and 1, runs aligned by problem:

    a = [1, 0, 1, 1, ...]                      one verdict a problem (test@1)
    b = [[1, 1, 0, 1], [0, 0, 1, 0], ...]      four samples a problem

    compare(verifier_6b, finetuned_175b)       # OpenAI's released GSM8K solutions, 1319 problems
    PairedComparison(difference=0.0432, low=0.0143, high=0.0723, p_bootstrap=0.0033, p_mcnemar=0.0032,
                     p_permutation=0.0032, only_a=209, only_b=152, ..., p=0.0032, method='exact', decides=True)

The problem is the unit that is independent: samples of one problem are a cluster, so they are averaged first and
problems are resampled (Miller 2024, "Adding error bars to evals", arXiv:2411.00640). A score between 0 and 1 for each
problem, such as its pass@k or maj@k, may stand in place of a verdict. Unscored verdicts (None, nan) are refused, never
taken as wrong. What is random takes a ``seed``.
"""

from gsm8k_nb.stats.intervals import Interval, accuracy_interval
from gsm8k_nb.stats.many import benjamini_hochberg, compact_letters, holm
from gsm8k_nb.stats.paired import Paired, PairedComparison, compare, mcnemar_p, mean_p
from gsm8k_nb.stats.power import Power, paired_power, power_of_run, problems_needed

__all__ = [
    "Interval", "Paired", "PairedComparison", "Power", "accuracy_interval", "benjamini_hochberg", "compact_letters",
    "compare", "holm", "mcnemar_p", "mean_p", "paired_power", "power_of_run", "problems_needed",
]  # fmt: skip
