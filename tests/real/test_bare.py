"""Each scheme of smollm2 as typed: its first discussion ends with what it is meant to show."""

from __future__ import annotations

import pytest

from sottovoce.models import LoadedModel
from tests.cli.conftest import Call, call  # noqa: F401  # a fixture

pytestmark = [pytest.mark.real, pytest.mark.slow]

SHOWN = {
    "brief": "right: the answer is Marrow Reach",
    "codegen": "it solves the problem",
    "ia": "Dublin",
    "madra": "right: the answer is tailor",
    "govsim": "the fish died out in month 1",
    "pipeline": "right: the answer is Paula",
    "react": "right: the answer is Cragg Press",
    "whodunit": "who fits",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_first_discussion_shows_what_its_line_says(call: Call, smollm2: LoadedModel, name: str) -> None:  # noqa: F811
    answer = call(name)

    assert answer.code == 0 and f"; on {smollm2.name}, with --" in answer.err
    assert SHOWN[name] in " ".join(answer.out.split())
