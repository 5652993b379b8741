"""A watched discussion from the checkpoint before an intervention: with it as it was held, and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import scheme
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.guard import Guard
from sottovoce.nodes.question import Question
from sottovoce.runs.replay import THREAD, Branch, Branches, branches, never
from tests.nodes.test_guard import monitor

QUESTION: Question = {"id": "q", "question": "What is 14 + 5 * 3 - 7?", "target": "22"}


def replayed(folder: Path, threshold: float, name: str = "debate", number: int = 0, **settings: Any) -> Branches:
    """A watched discussion of the bundled model, continued from before an intervention."""
    found, saver, store = scheme(name).settings(max_tokens=40, **settings), InMemorySaver(), PayloadStore(folder)
    guard = Guard(monitor("all", threshold).model_copy(update={"measured": Measure()}))
    watched, free = (
        scheme(name).create(found, watch=watch, store=store).compile(checkpointer=saver) for watch in (guard, never)
    )
    watched.invoke(QUESTION, THREAD)
    return branches(watched, free, number=number)


def said(branch: Branch) -> list[tuple[Any, ...]]:
    """All that was said, token by token."""
    return [(message.place, message.text, _ids(message), message.withdrawn) for message in branch.messages]


def _ids(message: Message) -> Any:
    return message.payload and message.payload.load().ids


@pytest.mark.parametrize(
    ("protocol", "intervention"), [pytest.param("nl", "again", marks=pytest.mark.slow), ("cipher", "reset")]
)
def test_the_branch_with_an_intervention_is_what_was_held_and_the_other_publishes_what_was_held_back(
    protocol: str, intervention: str, tmp_path: Path
) -> None:
    found = replayed(tmp_path, 0.0, agents=2, rounds=2, protocol=protocol, intervention=intervention)

    assert found.at is not None and found.at["what"] == intervention
    assert said(found.with_it) == said(found.original)
    assert not found.without.interventions and not any(message.withdrawn for message in found.without.messages)
    held_back = [message.text for message in found.original.messages if message.withdrawn]
    assert held_back == [message.text for message in found.without.messages[: len(held_back)]]


@pytest.mark.slow
def test_a_later_intervention_is_replayed_from_the_checkpoint_before_it(tmp_path: Path) -> None:
    found = replayed(tmp_path, 0.0, agents=2, rounds=1, intervention="again", cap=2, number=3)

    assert (
        len(found.original.interventions) == 4 and len(found.without.interventions) == 2
    )  # two were made side by side
    assert said(found.with_it) == said(found.original)


def test_without_an_intervention_the_replay_is_token_identical(tmp_path: Path) -> None:
    found = replayed(tmp_path, 99.0, agents=2, rounds=2, protocol="cipher")

    assert found.at is None and not found.original.interventions
    assert said(found.original) == said(found.with_it) == said(found.without)
