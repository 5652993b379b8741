r"""Values of formulas in LaTeX: fractions, roots, powers, factorials, pi and the four operations, in floats.

A text with any other sign has no value; nothing else is ever evaluated. Floats overflow where exact numbers would grow
without end: `9^{9^{9}}` has no value.
"""

from __future__ import annotations

import math
import re

TOKEN = re.compile(r"\\(?:frac|sqrt|pi|cdot|times|div)(?![a-z])|\d+(?:\.\d+)?|\.\d+|[-+*/^!(){}\[\]]")
SPACE = re.compile(r"\\(?:left|right|displaystyle)\b|\\[,;:! ]|\s+")
OPERATIONS = {"\\cdot": "*", "\\times": "*", "\\div": "/"}
MOST_TOKENS = 100
LARGEST_FACTORIAL = 170  # the last one that a float holds


def value(latex: str) -> float | None:
    r"""Return the value of a formula; None if it has no value, or signs that this file does not read.

    >>> value(r"\frac{\sqrt{9}}{2}"), value("2^{-1}"), value("5!"), value("x + 1"), value("9^{9^{9}}")
    (1.5, 0.5, 120.0, None, None)
    """
    braced = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", re.sub(r"\\[dt]frac", r"\\frac", latex))
    text = SPACE.sub(" ", braced)
    tokens = TOKEN.findall(text)
    if len(tokens) > MOST_TOKENS or "".join(tokens) != text.replace(" ", "") or re.search(r"[\d.]\s+[\d.]", text):
        return None
    try:
        formula = _Formula([OPERATIONS.get(token, token) for token in tokens])
        result = formula.sum()
    except (ArithmeticError, ValueError, IndexError):
        return None
    return result if not formula.tokens and math.isfinite(result) else None


class _Formula:
    """The tokens that are not read yet, the next one last."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def sum(self) -> float:
        result = self.product()
        while self._next() in ("+", "-"):
            result = result + self.product() if self.tokens.pop() == "+" else result - self.product()
        return result

    def product(self) -> float:
        if self._next() in ("+", "-"):
            return -self.product() if self.tokens.pop() == "-" else self.product()
        result = self.power()
        while self.tokens and self._next() not in ("+", "-", ")", "}", "]"):
            if self._next() == "\\frac" and result.is_integer():  # a mixed number
                result += self.power()
                continue
            sign = self.tokens.pop() if self._next() in ("*", "/") else "*"  # without a sign between: a product
            result = result / self.power() if sign == "/" else result * self.power()
        return result

    def power(self) -> float:
        result = self.operand()
        while self._next() == "!":
            self.tokens.pop()
            if result > LARGEST_FACTORIAL or not result.is_integer():
                raise ValueError("too large, or not whole")
            result = float(math.factorial(int(result)))
        if self._next() != "^":
            return result
        self.tokens.pop()
        if self._next() == "-":
            self.tokens.pop()
            return math.pow(result, -self.power())
        return math.pow(result, self.power())

    def operand(self) -> float:
        token = self.tokens.pop()
        if token in ("(", "{", "["):
            result = self.sum()
            if self.tokens.pop() != {"(": ")", "{": "}", "[": "]"}[token]:
                raise ValueError("not closed")
            return result
        if token == "\\frac":
            return self.operand() / self.operand()
        if token == "\\sqrt":
            degree = self.operand() if self._next() == "[" else 2.0
            return math.pow(self.operand(), 1 / degree)
        return math.pi if token == "\\pi" else float(token)

    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""
