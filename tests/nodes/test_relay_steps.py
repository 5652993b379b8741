"""Steps of a ReAct relay as careful models write them, and the action that each means."""

from __future__ import annotations

import pytest

from sottovoce.channels.message import Message
from sottovoce.environments.react import Malformed
from sottovoce.nodes.react import Said

STEPS: list[tuple[str, str]] = [
    (" I need the birthplace of Bern Holt.\nAction 1: Search[Bern Holt]", "Search[Bern Holt]"),
    ("Thought 1: I begin with Bern Holt.\nAction 1: Search[Bern Holt]", "Search[Bern Holt]"),
    (" First I need his page.\nThen the town's.\nAction 1: Search[Bern Holt]", "Search[Bern Holt]"),
    (" Two things are missing:\n- his town\n- its river\n\nAction 1: Search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\n\n**Action 1:** Search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\n**Action 1: Search[Bern Holt]**", "Search[Bern Holt]"),
    (" I look him up.\nAction: Search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\naction 1 - search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\nACTION 1 \u2013 Search [Bern Holt].", "Search[Bern Holt]"),
    (" I look him up.\n### Action 1\nSearch[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\nAction 1: `Search[Bern Holt]`", "Search[Bern Holt]"),
    (" I look him up.\nAction 1:\n```\nSearch[Bern Holt]\n```", "Search[Bern Holt]"),
    (' I look him up.\nAction 1: Search["Bern Holt"]', "Search[Bern Holt]"),
    (
        " I could do Search[Aldmoor] or Lookup[fair]; the man comes first.\nAction 1: Search[Bern Holt]",
        "Search[Bern Holt]",
    ),
    (" He was born in Aldmoor.\nAction 1: Finish[Aldmoor]\n\nThis is what the page says.", "Finish[Aldmoor]"),
    (
        " I look him up.\nAction 1: Search[Bern Holt]\nObservation 1: He was born in Kell.\nThought 2: So Kell.\n"
        "Action 2: Finish[Kell]",
        "Search[Bern Holt]",
    ),
    (" I look him up.\nAction 1: Search[Bern Holt]\n**Observation 1:** Kell.\nFinish[Kell]", "Search[Bern Holt]"),
    (" I look him up.\n**Observation 1:** He is of Kell.\nAction 2: Finish[Kell]", ""),
    (" The word may be further down.\nAction 1: Look up[born]", "Lookup[born]"),
    (" The word may be further down.\nAction 1: Lookup[born in]\nAction 2: Search[Aldmoor]", "Lookup[born in]"),
    (" The page names both.\nAction 1: Finish[Aldmoor and Kell]", "Finish[Aldmoor and Kell]"),
    (" It is 340 metres.\nAction 1: Finish[340 metres]", "Finish[340 metres]"),
    (" Nothing is told of it.\nAction 1: Finish[NOT ENOUGH INFO]", "Finish[NOT ENOUGH INFO]"),
    (" I look him up. Search[Bern Holt]", "Search[Bern Holt]"),
    (" I need to know where he was born before anything else, and then", ""),
    (" I look him up.\nAction 1: look at the page of Bern Holt", ""),
]
"""Replies behind "Thought 1:"; the action, or "" where there is none."""


@pytest.mark.parametrize(("text", "action"), STEPS)
def test_a_step_is_read_as_it_is_meant(text: str, action: str) -> None:
    does = Said(Message("agent_1", 0, "step", text), None).does
    assert ("" if isinstance(does, Malformed) else str(does)) == action
