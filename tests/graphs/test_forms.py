"""The form that Studio shows of a scheme's settings."""

from __future__ import annotations

import pytest

from sottovoce.graphs import NAMES, scheme
from sottovoce.settings import Settings
from sottovoce.settings.base import Controlled
from sottovoce.settings.option_groups import FIRST, OF_CONTROL, place


@pytest.mark.parametrize("name", NAMES)
def test_a_form_begins_with_what_most_people_need_and_then_with_the_scheme_s_own(name: str) -> None:
    form = [*scheme(name).create().compile().get_context_jsonschema()["properties"]]
    first = [field for field in FIRST if field in form]
    own = [field for field in form if field not in Settings.model_fields and place(field) == len(FIRST)]

    assert form[: len(first)] == first and form[len(first) : len(first) + len(own)] == own
    assert sorted(form) == sorted(scheme(name).settings.model_fields)


def test_no_setting_of_controls_is_missed() -> None:
    assert (*(name for name in Controlled.model_fields if name not in Settings.model_fields),) == OF_CONTROL
