import random

import pytest

from sottovoce.datasets.arithmetic import Expression
from sottovoce.prompts import kinds
from sottovoce.training import problems
from sottovoce.training.problems import FORMS, Form, Problem, pose
from sottovoce.training.product import Question
from sottovoce.training.schemes import confidence

EXPRESSION = Expression((14, 3, 5), ("+", "*"))


def posed(form: Form, *, claimed: int | None = None, choices: list[str] | None = None) -> Problem:
    question = Question(question="What is 14 + 3 * 5?", kind=form)
    if choices:
        question["choices"] = choices
    return Problem(EXPRESSION, question, claimed=claimed)


@pytest.mark.parametrize(
    ("problem", "reply"),
    [
        (posed("number"), "3 * 5 = 15; 14 + 15 = 29. The answer is 29."),
        (posed("yes_no", claimed=28), "3 * 5 = 15; 14 + 15 = 29; 29 = 28? no. The answer is no."),
        (posed("label", claimed=29), "3 * 5 = 15; 14 + 15 = 29; 29 = 29? yes. [Correct]"),
        (
            posed("option", choices=["28", "29", "39"]),
            "3 * 5 = 15; 14 + 15 = 29; (A) 28 = 29? no; (B) 29 = 29? yes. The answer is (B).",
        ),
    ],
)
def test_each_form_has_its_own_ending(problem: Problem, reply: str) -> None:
    assert problem.reply([]) == reply
    assert problem.parts(reply) == (problem.working([]), problem.stated([]))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_right_to_say_is_read_as_what_is_right(form: Form) -> None:
    rng = random.Random(form)
    for _ in range(200):
        problem = pose(rng, problems.plain(rng), form)
        found = kinds.read(problem.reply([]), form, problem.question.get("choices"))
        assert found is not None
        assert found.lower() == problem.stated([]).lower()
        assert kinds.read_value(problem.stated([]), form, problem.question.get("choices")) == found


@pytest.mark.parametrize("form", FORMS)
def test_who_lacks_a_value_gives_no_answer_in_any_form(form: Form) -> None:
    rng = random.Random(form)
    problem = pose(rng, problems.split(rng, ["agent_1", "agent_2"]), form)
    assert problem.stated([]) == ("Unknown" if form == "label" else "unknown")
    assert problem.read(problem.reply([])) is None
    assert problem.read(problem.reply(list(problem.facts))) is not None


@pytest.mark.parametrize("form", ["yes_no", "label"])
def test_a_slip_can_make_a_wrong_claim_look_right(form: Form) -> None:
    rng = random.Random(1)
    problem = posed(form, claimed=28)
    said = {problem.stated([], problem.slip(rng)) for _ in range(50)}
    assert said == {"yes_no": {"yes", "no"}, "label": {"Correct", "Incorrect"}}[form]


def test_a_slip_ends_in_one_of_the_choices() -> None:
    rng = random.Random(1)
    for _ in range(100):
        problem = pose(rng, problems.plain(rng), "option")
        assert problem.stated([], problem.slip(rng)) != problem.stated([])


def test_confidence_falls_with_the_numbers_and_with_dissent_and_is_low_where_nothing_is_known() -> None:
    small, large = (Problem(Expression((top, 3), ("+",)), Question(question="?")) for top in (20, 600))
    assert float(confidence(small, [])) > float(confidence(large, []))
    agreed, alone, opposed = (float(confidence(large, [], others)) for others in (["603"], [], ["604"]))
    assert agreed > alone > opposed
    split = problems.split(random.Random(0), ["agent_1", "agent_2"])
    assert confidence(split, []) == "0.1"
