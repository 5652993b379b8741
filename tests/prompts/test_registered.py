"""A kind of somebody else's is one file, and is then used by name as ours are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.graphs.single import create_single
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question, check_question
from sottovoce.prompts.kinds import KINDS, placeholder, read_field, read_reply, same
from sottovoce.prompts.render import Prompts
from tests.prompts.roman import ROMAN

QUESTION: Question = {"question": "What is VII + VII?", "kind": "roman", "target": "XIV"}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The kind is known in this file alone: other tests list all that there are."""
    KINDS.register("roman", ROMAN)
    yield
    del KINDS._known["roman"]


def test_a_registered_kind_is_read_compared_and_asked_for_like_ours() -> None:
    for said in ("VII and VII: the answer is XIV.", 'It is {"answer": "XIV"}', r"\boxed{XIV}", "xiv"):
        assert read_reply(said, QUESTION) == "XIV"
    assert read_reply("fourteen", QUESTION) is read_reply("VII and VII is XIV.", QUESTION) is None
    assert read_field(" xiv ", QUESTION) == "XIV" and read_field("a  numeral", QUESTION) is None
    assert same("XIV", "XIIII", "roman") and not same("XIV", "XVI", "roman") and not same(None, "I", "roman")
    assert (KINDS["roman"].words, placeholder(QUESTION)) == ("Roman numeral", "a numeral")
    assert KINDS["roman"].grammar([]) == Form(pattern="[IVXLCDM]{1,15}")


def test_its_request_stands_where_ours_do_after_the_request_for_steps() -> None:
    assert PromptBuilder(Prompts(), QUESTION, None).form() == 'Show your steps. End with "The answer is XIV."'
    assert PromptBuilder(Prompts(), QUESTION, None, components=frozenset({"answer_description"})).form() == ROMAN.form
    assert (
        PromptBuilder(Prompts(), {**QUESTION, "answer_description": "In Roman."}, None).form()
        == "Show your steps. In Roman."
    )


def test_a_discussion_is_held_in_it() -> None:
    graph = create_single(models=ScriptedChatModel(["VII + VII = XIIII. The answer is XIIII."])).compile()

    decision = graph.invoke({**QUESTION})["decision"]

    assert (decision["answer"], decision["score"]) == ("XIIII", 1.0)


def test_the_command_line_takes_it() -> None:
    from sottovoce.datasets.question_source import QuestionOptions

    assert QuestionOptions.model_validate({"kind": "roman"}).kind == "roman"
    with pytest.raises(UsageError, match=r"^unknown kind of answer 'greek'; choose from: label, .*, roman, text, "):
        QuestionOptions.model_validate({"kind": "greek"})


def test_a_name_is_given_once() -> None:
    KINDS.register("roman", ROMAN)
    with pytest.raises(UsageError, match="kind of answer 'number' exists already; choose another name"):
        KINDS.register("number", ROMAN)


# What ours promise


def test_what_a_grammar_allows_is_read_as_the_answer() -> None:
    labels = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
    allowed = {("option", ()): "ABCD", ("option", ("red", "blue")): "AB", ("yes_no", ()): ("yes", "no")}
    allowed[("label", (*labels,))] = labels
    for (kind, choices), texts in allowed.items():
        question = {"question": "?", "kind": kind, "choices": [*choices]}
        assert KINDS[kind].grammar(choices) == Form(choices=tuple(texts))
        for text in texts:
            assert read_field(text, question) == read_reply(f"So it goes.\nAnswer: {text}", question) == text
    assert KINDS["label"].grammar([]) is KINDS["text"].grammar([]) is None


def test_a_number_has_one_way_to_be_written_while_it_is_kept_to_its_grammar() -> None:
    form = KINDS["number"].grammar([])
    assert form is not None and form.pattern is not None
    for text in ("0", "-0", "22", "-3.5", "0.000000001", "999999999999999.999999999"):
        assert re.fullmatch(form.pattern, text) and float(read_field(text, {"kind": "number"}) or "nan") == float(text)
    for text in ("", "007", "1,200", "$5", "5.", ".5", "1/2", "+5", "9" * 16):
        assert not re.fullmatch(form.pattern, text)


def test_a_target_is_checked_as_its_kind_says() -> None:
    with pytest.raises(UsageError, match=r"^target is 'two'; expected a number, such as 22"):
        check_question({"question": "1 + 1?", "kind": "number", "target": "two"}, None)
    check_question({"question": "1 + 1?", "kind": "text", "target": "two"}, None)
