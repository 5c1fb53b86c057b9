"""Arithmetic read from text, exactly and safely: the calculator annotations of GSM8K.

A GSM8K solution carries each calculation twice, once in prose and once for a calculator:

    She earns 3 * 4 = $<<3*4=12>>12 a day.

Text that a model wrote is never passed to ``eval``: it is parsed to a syntax tree of numbers, signs, ``+ - * /`` and
brackets. Values are ``Fraction``, so 1/3 stays 1/3.
"""

import ast
import functools
import operator
import re
from fractions import Fraction

MAX_CHARACTERS = 200  # the longest annotation in GSM8K has 56; a longer text is not one
ANNOTATION = re.compile(r"<<([^<>=]{1,200})=([^<>=]{0,60})>>")

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "$": None, ",": None, " ": None})


@functools.lru_cache(maxsize=2**14)  # the samples of one problem repeat its numbers
def evaluate(expression: str) -> Fraction | None:
    """The exact value of an arithmetic expression; None where it is not one, divides by zero or has a power in it."""
    if len(expression) > MAX_CHARACTERS:
        return None
    text = expression.translate(_SPELLINGS)
    text = re.sub(r"(?<=[\d.)])x(?=[\d.(])", "*", text, flags=re.IGNORECASE)
    text = re.sub(r"(\d*\.?\d+|\d+\.)%", r"(\1/100)", text)
    text = re.sub(r"(?<![\d.])0+(?=\d)", "", text)
    if not re.fullmatch(r"[\d.+\-*/()]+", text) or "**" in text or "//" in text:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError, OverflowError):
        return None


def annotations(solution: str) -> list[tuple[str, str]]:
    """Every ``<<expression=value>>`` of a solution, in order, as (expression, stated value)."""
    return ANNOTATION.findall(solution)


def without_annotations(solution: str) -> str:
    """The solution as a person reads it: the ``<<...>>`` parts removed, the prose left as it is."""
    return re.sub(r"<<[^<>]*>>", "", solution)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(repr(node.value))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    raise ValueError(f"not arithmetic: {ast.dump(node)}")
