"""`--guide` says in one place which replies are kept to their forms."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.core.response_format import Form
from sottovoce.nodes.context import RunContext
from sottovoce.prompts.kinds import KINDS
from sottovoce.prompts.render import Prompts
from sottovoce.settings import Debate

FIELDS = Form.of_object("answer")
LETTERS, YES_NO, NUMBER = (KINDS[kind].grammar(["x", "y"]) for kind in ("option", "yes_no", "number"))
ACTION = Form(pattern=r"(Search|Finish)\[[^\]]+\]", after="Action:")


def kept(form: Form | None, **settings: Any) -> bool:
    found = RunContext(Debate(**settings), {}, Prompts()).constraint(form)
    assert found in (form, None)
    return found is not None


@pytest.mark.parametrize(("guide", "number"), [("auto", False), ("on", True)])
def test_fields_choices_and_actions_are_kept_and_numbers_where_it_is_on(guide: str, number: bool) -> None:
    assert all(kept(form, guide=guide) for form in (FIELDS, LETTERS, YES_NO, ACTION))
    assert kept(NUMBER, guide=guide) == number


def test_free_text_stays_free() -> None:
    assert not kept(KINDS["text"].grammar([]), guide="on")


@pytest.mark.parametrize("settings", [{"guide": "off"}, {"guide": "on", "compat": "reference"}])
def test_nothing_is_kept_where_it_is_off_and_under_the_published_code(settings: dict[str, Any]) -> None:
    assert not any(kept(form, **settings) for form in (FIELDS, LETTERS, YES_NO, NUMBER, ACTION))
