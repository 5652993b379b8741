"""Formulas in LaTeX have their value or none, and a hostile one ends at once."""

from __future__ import annotations

import pytest

from sottovoce.prompts.kinds import read_field
from sottovoce.prompts.kinds.latex import value

VALUES = {
    r"\sqrt{16}": 4.0,
    r"2\sqrt{3}": 3.4641016151377544,
    r"3\pi": 9.42477796076938,
    r"-\frac{\sqrt{9}}{2}": -1.5,
    "5!": 120.0,
    r"\frac12": 0.5,
    r"\dfrac{3}{4}": 0.75,
    r"2 \cdot (3 + 4) - 1": 13.0,
    r"\sqrt[3]{8}": 2.0,
    "-2^2": -4.0,
    "2^3^2": 512.0,
    r"\left(\frac{1}{2}\right)^{2}": 0.25,
    "10^{-3}": 0.001,
    **dict.fromkeys(["x + 1", r"\infty", r"\sqrt{-1}", r"\frac{1}{0}", "(1, 2)", r"\{1, 2\}", r"\frac{", ""]),
    r"\log_2 8": None,
    "1 2": None,
    "__import__('os').getpid()": None,
}


def test_a_formula_has_its_value_or_none() -> None:
    for latex, meant in VALUES.items():
        assert value(latex) == (None if meant is None else pytest.approx(meant, rel=1e-15)), latex


HOSTILE = ["9^{9^{9^{9}}}", "9^9^9^9", r"(10^{8})!", "{" * 90 + "1" + "}" * 90, "-" * 10_000 + "1", r"\frac" * 50]


def test_a_hostile_formula_has_no_value() -> None:
    assert [latex for latex in HOSTILE if value(latex) not in (None, 1.0)] == []
    assert read_field(r"\sqrt{" + "1+" * 1000 + "1}", {"kind": "number"}) is None
