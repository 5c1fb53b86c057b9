"""How other evaluation tools read and judge a GSM8K answer, by name, so that their verdicts can be laid beside ours.

    PEER_RULES["lm_eval_cot_strict"].matches("The answer is 18", "18")  ->  False   (it reads "1": see its description)

Each is written anew from the tool's published source as named in ``Rule.source``, quirks included: that is their point.
They get the completion as it stands, reasoning included; where a tool also cuts it by stop strings, that is the
sampler's task. Most tools compare texts, not numbers, so a rule may carry its own ``matches``.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from gsm8k_nb.answers import math_verify_process
from gsm8k_nb.answers.numerals import plain_decimal


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to read an answer.

    ``function`` gives the number read from a completion, or None. ``matches`` is the rule's own verdict on a completion
    and a gold answer in plain digits (``"1450000"``, no commas); where it is None, ``is_correct`` compares numbers.
    """

    name: str
    description: str
    source: str
    function: Callable[[str], Decimal | None]
    matches: Callable[[str, str], bool] | None = None


def _text_rule(
    name: str, description: str, source: str, read: Callable[[str], str], same: Callable[[str, str], bool] | None = None
) -> Rule:
    """A rule that reads a text: the number is what that text spells, the verdict is text equality or ``same``."""
    equal = same or (lambda answer, gold: answer == gold)
    return Rule(name, description, source, lambda t: plain_decimal(read(t)), lambda t, gold: equal(read(t), gold))


# OpenAI, grade-school-math: grade_school_math/dataset.py

_OFFICIAL = re.compile(r"#### (-?[0-9.,]+)")


def _official(text: str) -> str:
    match = _OFFICIAL.search(text)
    return match[1].replace(",", "") if match else "[invalid]"


# EleutherAI, lm-evaluation-harness 0.4.13: lm_eval/tasks/gsm8k/*.yaml, filters/extraction.py, api/metrics.py

_LM_EVAL_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_LM_EVAL_COT = re.compile(r"The answer is (-?[0-9.,]+).")
_LM_EVAL_LLAMA = re.compile(r"The final answer is ((-?[$0-9.,]{2,})|(-?[0-9]+))")


def _lm_eval(pattern: re.Pattern[str], which: int) -> Callable[[str], str]:
    """Match number ``which`` of ``pattern``, less what lm-eval's exact match ignores: commas, dollars, a last dot."""

    def read(text: str) -> str:
        matches = list(pattern.finditer(text))
        if not matches:
            return "[invalid]"
        found = next(group for group in matches[which].groups() if group)
        return re.sub(r"\.$", "", re.sub(r"[,$]", "", found.strip()))

    return read


# OpenAI, simple-evals: mgsm_eval.py, language "en"


def _simple_evals(text: str) -> str:
    if "Answer" not in text:
        return ""
    numbers = re.findall(r"\d+\.?\d*", text.rpartition("Answer")[2].replace(",", ""))
    answer = numbers[-1].rstrip(".") if numbers else ""
    return answer.rstrip("0").rstrip(".") if "." in answer else answer


# Stanford, HELM: metrics/evaluate_reference_metrics.py, final_number_exact_match


def _helm(text: str) -> str:
    matches = re.findall(r"-?[\d,]+(?:.\d+)?", text)
    return matches[-1].replace(",", "").strip() if matches else ""


# OpenCompass: opencompass/datasets/gsm8k.py, gsm8k_postprocess and Gsm8kEvaluator


def _opencompass(text: str) -> str:
    numbers = re.findall(r"-?\d++\.\d+|-?\d+", text.split("Question:")[0])
    return numbers[-1] if numbers else "NULL"


def _opencompass_same(answer: str, gold: str) -> bool:
    try:
        return answer == gold or abs(float(answer) - int(gold)) < 1e-6
    except (ValueError, OverflowError):
        return False


# UK AISI, inspect_ai 0.3.285: scorer match(location="end", numeric=True), as inspect_evals' gsm8k uses it

_INSPECT_TRIM = "!?:;()[]{}'\"`"
_INSPECT_SIGNS = {"-": -1, "−": -1, "﹣": -1, "－": -1, "+": 1, "＋": 1, "﹢": 1}
_INSPECT_GROUPS = "'’ʼ＇，﹐、٬"
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def _inspect(text: str) -> str:
    """The last word that is a number, at five significant digits."""
    text = re.sub(r"\\([$,£€*_])", r"\1", text.strip().casefold())
    text = re.sub(r"\.(?=\D|$)", "", re.sub(r"[$,£€*_]", "", text))
    for word in reversed(text.split()):
        number = _inspect_number(word.strip(_INSPECT_TRIM))
        if number is not None and math.isfinite(number):
            return format(number, ".5g")
    return ""


def _inspect_number(word: str) -> float | None:
    """A word as a float, with Unicode signs, fractions, digits and exponents; of Chinese numerals only single signs."""
    if len(word) > 400 or not any(character.isnumeric() for character in word):
        return None
    number = _float(word)
    if number is not None:
        return number
    sign = 1
    while word[:1] in _INSPECT_SIGNS:
        sign, word = sign * _INSPECT_SIGNS[word[0]], word[1:]
    if len(word) == 1 and word.isnumeric():  # ½, and also ², which here is 2
        return sign * unicodedata.numeric(word)
    base = word.rstrip(_SUPERSCRIPTS)
    amount = _inspect_amount(base)
    exponent = [_SUPERSCRIPTS.index(digit) for digit in word[len(base) :]]
    if amount is None or not exponent:
        return None if amount is None else sign * amount
    try:
        return (sign * amount) ** int("".join(map(str, exponent)))
    except (ArithmeticError, ValueError):  # int() takes 4,300 digits at most
        return None


def _inspect_amount(word: str) -> float | None:
    """Digits of any script, with a vulgar fraction behind them (2½)."""
    fraction = unicodedata.numeric(word[-1:] or " ", 0.0)
    if not 0 < fraction < 1:
        return _inspect_digits(word)
    whole = _inspect_digits(word[:-1]) if len(word) > 1 else 0.0
    return None if whole is None else whole + fraction


def _inspect_digits(word: str) -> float | None:
    digits = "".join(
        str(unicodedata.digit(character, character)) for character in word if character not in _INSPECT_GROUPS
    )
    return _float(digits.replace("٫", ".").replace("．", ".")) if digits[:1].isdigit() or digits[:1] == "." else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _inspect_same(answer: str, gold: str) -> bool:
    return answer == format(float(gold), ".5g")


_LM_EVAL_SOURCE = "lm-evaluation-harness 0.4.13, lm_eval/tasks/gsm8k"

PEER_RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        _text_rule(
            "official",
            "OpenAI's: the first '#### ' (one blank) with digits, commas removed, text equality; '18.00' is not '18', "
            "a last dot is kept",
            "openai/grade-school-math, grade_school_math/dataset.py",
            _official,
        ),
        _text_rule(
            "lm_eval_strict",
            "lm-eval's gsm8k strict-match: the first '#### ' with digits; commas, dollars and one last dot removed; "
            "text equality",
            f"{_LM_EVAL_SOURCE}/gsm8k.yaml",
            _lm_eval(_OFFICIAL, 0),
        ),
        _text_rule(
            "lm_eval_flexible",
            "lm-eval's flexible-extract (gsm8k and gsm8k_cot): the last run of digits, dots, commas and dollars; '...' "
            "counts as one, '20-12' gives -12",
            f"{_LM_EVAL_SOURCE}/gsm8k.yaml and gsm8k-cot.yaml",
            _lm_eval(_LM_EVAL_FLEXIBLE, -1),
        ),
        _text_rule(
            "lm_eval_cot_strict",
            "lm-eval's gsm8k_cot strict-match: 'The answer is N' and any one character; at the end of the text that "
            "character is the last digit",
            f"{_LM_EVAL_SOURCE}/gsm8k-cot.yaml",
            _lm_eval(_LM_EVAL_COT, 0),
        ),
        _text_rule(
            "lm_eval_llama_strict",
            "lm-eval's gsm8k_cot_llama strict-match: the last 'The final answer is N'",
            f"{_LM_EVAL_SOURCE}/gsm8k-cot-llama.yaml",
            _lm_eval(_LM_EVAL_LLAMA, -1),
        ),
        _text_rule(
            "simple_evals",
            "simple-evals' MGSM: the last number after the last 'Answer', its minus sign dropped",
            "openai/simple-evals, mgsm_eval.py",
            _simple_evals,
        ),
        _text_rule(
            "helm",
            "HELM's final_number_exact_match: '15 12' is one number, a lone comma counts as the last one",
            "stanford-crfm/helm, metrics/evaluate_reference_metrics.py",
            _helm,
        ),
        _text_rule(
            "opencompass",
            "OpenCompass' gsm8k_postprocess: the last number before 'Question:'; a comma splits it, '1,000' gives 000",
            "open-compass/opencompass, opencompass/datasets/gsm8k.py",
            _opencompass,
            _opencompass_same,
        ),
        _text_rule(
            "inspect",
            "inspect's match(numeric=True): the last word that is a number, compared at five significant digits; '18%' "
            "and '\\boxed{18}' are no numbers",
            "UKGovernmentBEIS/inspect_ai 0.3.285, scorer/_common.py",
            _inspect,
            _inspect_same,
        ),
        Rule(
            "math_verify",
            "the Math-Verify package: sympy expressions compared; '60%' is 0.6 as well as 60",
            "huggingface/math-verify",
            lambda text: math_verify_process.ask(text)[0],
            lambda text, gold: math_verify_process.ask(text, gold)[1],
        ),
    )
}
