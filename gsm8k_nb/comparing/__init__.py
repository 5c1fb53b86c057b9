"""Two or more finished runs, problem by problem: are they alike, which problems do they share, which pairs differ.

    >>> comparison = load(CompareConfig(runs="params/cobbe-*.yaml", allow_unlike=True))
    >>> comparison.systems[1].name, comparison.intervals[1].estimate
    ('GPT-3 6B + verifier', 0.3904...)
    >>> conclusion(comparison, comparison.pairs[3])
    'GPT-3 6B + verifier is better than GPT-3 175B fine-tuned: +4.32 points (95% interval 1.43 to 7.21; exact ...'
    >>> show(comparison, "pairs")          # in a notebook: one of TABLES, with a warning where the runs are unlike

Runs of unlike protocols, data or rules are refused with the names of the fields that differ, or, where
``allow_unlike`` says so, compared under a banner. Everything here is computed from the run folders alone.
"""

from gsm8k_nb.comparing.pairs import Comparison, Pair, conclusion, load
from gsm8k_nb.comparing.read import ComparisonError, System, find_runs
from gsm8k_nb.comparing.showing import save, show, show_conclusions, show_figure, show_solved_by_one

__all__ = [
    "Comparison", "ComparisonError", "Pair", "System", "conclusion", "find_runs", "load", "save",
    "show", "show_conclusions", "show_figure", "show_solved_by_one",
]  # fmt: skip
