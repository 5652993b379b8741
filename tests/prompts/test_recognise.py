"""The kind of answer that is recognised where nobody named one."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.prompts.kinds import kind_of


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is 14 + 3 * 5 - 7?", "number"),
        ("What is l + y * o?", "number"),
        ("A box holds 12 eggs and 3 are broken. How many are whole?", "number"),
        ("Tickets cost 4 dollars and 9 were sold. What is the total price in dollars?", "number"),
        ("Compute the product of 6 and 7.", "number"),
        ("What is the number of moons of Mars?", "number"),
        ("Should we rewrite our service in Rust?", "yes_no"),
        ("Is 18 + 40 equal to 58?", "yes_no"),
        ("Mira lives in Orn. Does she live by a river?", "yes_no"),
        ("Could the painter have seen the opera, or not?", "yes_no"),
        ("Is Paris the capital of France or of Spain?", "text"),
        ("What is the capital of France?", "text"),
        ("In which year did the war end?", "text"),
        ("Which is larger, 3/7 or 4/9?", "text"),
        ("What is the value of friendship?", "text"),
        ("Who wrote the letters?", "text"),
        ("Explain why the sky is blue.", "text"),
    ],
)
def test_the_wording_names_the_kind_where_it_is_plain_and_else_it_is_text(question: str, kind: str) -> None:
    assert kind_of({"question": question}) == kind


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"choices": ["red", "blue"]}, "option"),
        ({"target": "22"}, "number"),
        ({"target": "-3.5"}, "number"),
        ({"target": "no"}, "yes_no"),
        ({"target": "Montreal"}, "text"),
        ({"target": "Montreal", "kind": "label"}, "label"),
    ],
)
def test_a_kind_choices_and_a_target_say_more_than_the_wording(fields: dict[str, Any], kind: str) -> None:
    assert kind_of({"question": "What is it?", **fields}) == kind
