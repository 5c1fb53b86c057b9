"""Text to number: the rules that read a completion's answer, and the comparison with the gold answer."""

from gsm8k_nb.answers.rules import RULES, TOLERANCE, Verdict, extract, gold_of, is_correct, judge, parse_gold, verdict

__all__ = ["RULES", "TOLERANCE", "Verdict", "extract", "gold_of", "is_correct", "judge", "parse_gold", "verdict"]
