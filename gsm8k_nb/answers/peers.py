"""How other evaluation tools read and judge a GSM8K answer, by name, so that their verdicts can be laid beside ours.

    PEER_RULES["lm_eval_cot_strict"].matches("The answer is 18", "18")  ->  False   (it reads "1": see its description)

Each is written anew from the tool's published source as named in ``Rule.source``, quirks included: that is their point.
They get the completion as it stands, reasoning included; where a tool also cuts it by stop strings, that is the
sampler's task. Most tools compare texts, not numbers, so a rule may carry its own ``matches``.
"""

import math
import operator
import re
import string
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from gsm8k_nb.answers import math_verify_process
from gsm8k_nb.answers.numerals import plain_decimal


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to read an answer.

    ``function`` gives the number read from a completion, or None; ``when_cut``, where it is given, does so for one
    that the token limit ended. ``matches`` is the rule's own verdict on a completion and a gold answer in
    plain digits (``"1450000"``, no commas); where it is None, ``is_correct`` compares numbers. ``version`` changes
    whenever the rule reads some text in another way than before.
    """

    name: str
    description: str
    source: str
    function: Callable[[str], Decimal | None]
    matches: Callable[[str, str], bool] | None = None
    when_cut: Callable[[str], Decimal | None] | None = None
    version: str = "1"


def _match(pattern: str, which: int, removed: str = "[,$]", last: int | None = None) -> Callable[[str], str]:
    """Match number ``which`` of ``pattern`` in the ``last`` characters, less what the tool removes before comparing."""
    compiled = re.compile(pattern)

    def read(text: str) -> str:
        matches = list(compiled.finditer(text[-last:] if last else text))
        if not matches:
            return "[invalid]"
        return re.sub(removed, "", next(group for group in matches[which].groups() if group).strip())

    return read


_LM_EVAL = r"[,$]|\.$"  # what lm-eval's exact match ignores: commas, dollars, a last dot


def _verl_flexible(text: str) -> str:
    numbers = re.findall(r"-?[0-9.,]+", text[-300:])
    return next((number for number in reversed(numbers) if number != "."), "")


def _simple_evals(text: str) -> str:
    if "Answer" not in text:
        return ""
    numbers = re.findall(r"\d+\.?\d*", text.rpartition("Answer")[2].replace(",", ""))
    answer = numbers[-1].rstrip(".") if numbers else ""
    return answer.rstrip("0").rstrip(".") if "." in answer else answer


def _helm(text: str) -> str:
    matches = re.findall(r"-?[\d,]+(?:.\d+)?", text)
    return matches[-1].replace(",", "").strip() if matches else ""


def _opencompass(text: str) -> str:
    numbers = re.findall(r"-?\d++\.\d+|-?\d+", text.split("Question:")[0])
    return numbers[-1] if numbers else "NULL"


def _opencompass_same(answer: str, gold: str) -> bool:
    try:
        return answer == gold or abs(float(answer) - int(gold)) < 1e-6
    except (ValueError, OverflowError):
        return False


_INSPECT_TRIM = "!?:;()[]{}'\"`"
_INSPECT_SIGNS = {"-": -1, "−": -1, "﹣": -1, "－": -1, "+": 1, "＋": 1, "﹢": 1}
_INSPECT_GROUPS = str.maketrans("٫．", "..", "'’ʼ＇，﹐、٬")
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
    fraction = unicodedata.numeric(base[-1:] or " ", 0.0)  # 2½ is 2.5
    digits = base[:-1] if 0 < fraction < 1 else base
    amount = 0.0 if base and not digits else _float(digits.translate(_INSPECT_GROUPS))
    if amount is None or digits[:1] in ("+", "-"):
        return None
    amount = sign * (amount if digits == base else amount + fraction)
    exponent = "".join(str(_SUPERSCRIPTS.index(digit)) for digit in word[len(base) :])
    try:
        return amount ** int(exponent) if exponent else amount
    except (ArithmeticError, ValueError):  # int() takes 4,300 digits at most
        return None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _inspect_before(text: str) -> str:
    """The last word of digits and dots, at five significant digits, else the last word as it stands."""
    text = re.sub(r"\.(?=\D|$)", "", re.sub(r"[$,£€*_]", "", text.strip().casefold()))
    words = re.split(r"\s+", text)
    word = next((word for word in reversed(words) if word.replace(".", "").isnumeric()), words[-1])
    if not word.replace(".", "").isnumeric():
        return word
    begins = re.match(r"\d+(?:\.\d+)?", word)
    number = _float(begins[0]) if begins and word.isascii() else _inspect_number(word)
    return word if number is None else format(number, ".5g")


def _inspect_before_matches(text: str, gold: str) -> bool:
    """Whether what is read ends with the gold answer; of a gold that is no row of digits, whether the text does."""
    if gold.isnumeric():
        return _inspect_before(text).endswith(format(float(gold), ".5g"))
    edges = string.whitespace + string.punctuation
    return text.casefold().strip(edges).endswith(gold.strip(edges))


def _text_rule(
    name: str, source: str, description: str, read: Callable[[str], str], same: Callable[[str, str], bool] = operator.eq
) -> Rule:
    """A rule that reads a text: the number is what that text spells, the verdict is text equality or ``same``."""
    number = lambda text: plain_decimal(read(text).replace(",", ""))  # noqa: E731
    return Rule(name, description, source, number, lambda text, gold: same(read(text), gold))


_LM_EVAL_AT = "lm-evaluation-harness 0.4.13, lm_eval/tasks/gsm8k/"
# fmt: off
_ALL = (
    _text_rule("official", "openai/grade-school-math, grade_school_math/dataset.py",
               "OpenAI's: the first '#### ' (one blank) with digits, commas removed, text equality; '18.00' is not "
               "'18', a last dot is kept", _match(r"#### (-?[0-9.,]+)", 0, ",")),
    _text_rule("lm_eval_strict", _LM_EVAL_AT + "gsm8k.yaml",
               "lm-eval's gsm8k strict-match: the first '#### ' with digits; commas, dollars and one last dot removed; "
               "text equality", _match(r"#### (-?[0-9.,]+)", 0, _LM_EVAL)),
    _text_rule("lm_eval_flexible", _LM_EVAL_AT + "gsm8k.yaml and gsm8k-cot.yaml",
               "lm-eval's flexible-extract (gsm8k and gsm8k_cot): the last run of digits, dots, commas and dollars; "
               "'...' counts as one, '20-12' gives -12", _match(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1, _LM_EVAL)),
    _text_rule("lm_eval_cot_strict", _LM_EVAL_AT + "gsm8k-cot.yaml",
               "lm-eval's gsm8k_cot strict-match: 'The answer is N' and any one character; at the end of the text "
               "that character is the last digit", _match(r"The answer is (-?[0-9.,]+).", 0, _LM_EVAL)),
    _text_rule("lm_eval_llama_strict", _LM_EVAL_AT + "gsm8k-cot-llama.yaml",
               "lm-eval's gsm8k_cot_llama strict-match: the last 'The final answer is N'",
               _match(r"The final answer is (?:(-?[$0-9.,]{2,})|(-?[0-9]+))", -1, _LM_EVAL)),
    _text_rule("simple_evals", "openai/simple-evals, mgsm_eval.py, language 'en'",
               "simple-evals' MGSM: the last number after the last 'Answer', its minus sign dropped", _simple_evals),
    _text_rule("helm", "stanford-crfm/helm, metrics/evaluate_reference_metrics.py, final_number_exact_match",
               "HELM's final_number_exact_match: '15 12' is one number, a lone comma counts as the last one", _helm),
    _text_rule("opencompass", "open-compass/opencompass, opencompass/datasets/gsm8k.py, gsm8k_postprocess",
               "OpenCompass' gsm8k_postprocess: the last number before 'Question:'; a comma splits it: '1,000' is 000",
               _opencompass, _opencompass_same),
    _text_rule("inspect", "UKGovernmentBEIS/inspect_ai 0.3.285, scorer/_common.py, match(numeric=True)",
               "inspect's match(numeric=True) since 0.3.221: the last word that is a number, compared at five "
               "significant digits; '18%' and '\\boxed{18}' are no numbers",
               _inspect, lambda answer, gold: answer == format(float(gold), ".5g")),
    Rule("inspect_endswith",
         "inspect's match(numeric=True) before 0.3.221: the last word of digits, else the last word, need only end in "
         "the gold answer: 118 is right for 18, and so is 'x=18'",
         "UKGovernmentBEIS/inspect_ai 0.3.180, scorer/_common.py, match(location='end', numeric=True)",
         lambda text: plain_decimal(_inspect_before(text)), _inspect_before_matches),
    _text_rule("verl_strict", "volcengine/verl, verl/utils/reward_score/gsm8k.py, method='strict'",
               "verl's reward: the last '#### ' with digits in the last 300 characters, commas removed, text equality",
               _match(r"#### (-?[0-9.,]+)", -1, "[,$]", last=300)),
    _text_rule("verl_flexible", "volcengine/verl, verl/utils/reward_score/gsm8k.py, method='flexible'",
               "verl's flexible reward: the last run of digits, dots and commas in the last 300 characters, as it "
               "stands: '1,000' and '18.' are wrong", _verl_flexible),
    Rule("math_verify", "the Math-Verify package: sympy expressions compared; '60%' is 0.6 as well as 60",
         "huggingface/math-verify, at most 10 s for a completion",
         lambda text: plain_decimal(math_verify_process.ask(text)[0]),
         lambda text, gold: math_verify_process.ask(text, gold)[1], version="2"),
)
# fmt: on
PEER_RULES: dict[str, Rule] = {rule.name: rule for rule in _ALL}
