"""Arithmetic of other shapes than the bundled model's: as CIPHER's paper and files have it, and of a chosen length."""

from __future__ import annotations

import re

import pytest

from sottovoce.datasets.arithmetic import MADE, Expression, made_arithmetic
from sottovoce.datasets.samples import samples
from sottovoce.settings import Debate
from tests.shared import shared

N = 60


def asked(name: str, seed: int = 0) -> list[Expression]:
    """What is asked, read from the questions' own words."""
    found = [re.findall(r"\d+|[-+*]", each["question"]) for each in made_arithmetic(name, N, seed)]
    return [Expression(tuple(map(int, parts[::2])), tuple(parts[1::2])) for parts in found]


def test_the_papers_expressions_have_six_different_numbers_of_two_digits() -> None:
    for each in asked("arithmetic_cipher"):
        assert len({*each.operands}) == 6 and all(10 <= number <= 99 for number in each.operands)
        assert len(each.operators) == 5
    assert {operator for each in asked("arithmetic_cipher") for operator in each.operators} == {"+", "-", "*"}


def test_the_files_expressions_have_the_shape_of_the_real_ones() -> None:
    real = re.compile(r"What is the result of (\d+\+\d+\*\d+\+\d+-\d+\*\d+)\?")
    lines = shared("datasets/arithmetic_valid200.jsonl").read_text().splitlines()

    assert all(real.search(line) for line in lines)
    for each in asked("arithmetic_files"):
        assert each.operators == ("+", "*", "+", "-", "*") and all(0 <= number <= 29 for number in each.operands)


@pytest.mark.parametrize("operations", [2, 6])
def test_a_chain_has_as_many_operations_as_its_name_says_and_is_new_to_the_bundled_model(operations: int) -> None:
    found = asked(f"chain{operations}")

    assert {len(each.operators) for each in found} == {operations}
    assert all(each.held_out for each in found)


@pytest.mark.parametrize("name", [*MADE])
def test_targets_are_right_and_a_seed_makes_the_same_ones_whose_beginning_stays(name: str) -> None:
    made = samples(name, 3, Debate(), 4)

    assert [each["id"] for each in made] == [f"{name}/4/{i}" for i in range(3)]
    assert [each["question"] for each in made_arithmetic(name, N, 4)[:3]] == [each["question"] for each in made]
    assert asked(name, 4) != asked(name, 5) and len({*asked(name, 4)}) == N
    for each in made:
        expression = each["question"].removeprefix("What is ").removesuffix("?")
        assert int(each["target"]) == _by_hand(expression)


def _by_hand(expression: str) -> int:
    """Products first, then sums from the left: worked out otherwise than the program does."""
    total = 0
    for sign, term in re.findall(r"(^|[-+]) ?(\d+(?: \* \d+)*)", expression):
        value = 1
        for factor in term.split(" * "):
            value *= int(factor)
        total += -value if sign == "-" else value
    return total
