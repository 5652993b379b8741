from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from langgraph.types import Overwrite

from sottovoce.channels.board import Board
from sottovoce.channels.message import EDITED, Message, latest
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import BoardConflict
from tests.tables import each_row

AGENTS = ["agent_2", "agent_10", "Zoë", "agent_1"]
"""In the order of the settings, which no alphabet has."""
REF = PayloadRef("sde", "a" * 64, text_digest("22"), 7, 4096, hidden=32, dtype="float32", layers=(0, 2))


def message(
    agent: str = "agent_1", round: int = 0, text: str = "22", attempt: int = 0, act: str = "answer", turn: int = 0
) -> Message:
    order = AGENTS.index(agent) if agent in AGENTS else len(AGENTS)
    ref = replace(REF, text_sha256=text_digest(text))
    return Message(agent, round, act, text, attempt, ref, turn=turn, order=order, stats={"entropy": 0.5})


def board(*writes: AnyState) -> Board:
    made = Board(list[Message], "board")
    made.update(list(writes))
    return made


@each_row("write", [[message()], json.loads(json.dumps([message().to_dict()]))])
def test_messages_may_arrive_as_they_are_or_as_json(write: AnyState) -> None:
    assert board(write).get() == [message()]


def test_an_equal_message_changes_nothing() -> None:
    made = board(message())

    assert made.update([message(), [message().to_dict()]]) is False
    assert made.update([]) is False
    assert made.get() == [message()]


def test_a_message_says_that_its_words_were_edited_since_it_was_spoken_once() -> None:
    edited = replace(message(), text="23", attempt=1)

    (_, taken) = board(message(), edited.to_dict()).get()

    assert taken.notes == (EDITED,)
    assert board(taken).get() == [taken]


@pytest.mark.parametrize("other", [message(text="23"), replace(message(), source="human")])
def test_two_messages_at_one_place_are_an_error_that_names_both(other: Message) -> None:
    with pytest.raises(
        BoardConflict,
        match=r"two different messages of 'agent_1' for epoch 0, round 0, turn 0, act 'answer', attempt 0: "
        r"'22' and '2[23]'; raise `attempt` to replace one",
    ):
        board(message(), other)


@pytest.mark.parametrize(
    "again", [replace(message(), payload=replace(REF, sha256="b" * 64)), replace(message(), stats={"entropy": 0.50001})]
)
def test_the_same_words_again_are_the_same_message_whatever_lies_under_them(again: Message) -> None:
    """A step that is done again in another batch may differ in the last bits of its tensors."""
    made = board(message())
    assert made.update([again]) is False
    assert made.get() == [message()]


@each_row("elsewhere", [{"epoch": 1}, {"agent": "agent_2"}, {"attempt": 1}])
def test_other_words_at_another_place_are_another_message(elsewhere: dict[str, Any]) -> None:
    assert len(board(message(), replace(message(text="23"), **elsewhere)).get()) == 2


def test_messages_are_ordered_by_epoch_round_turn_and_the_agents_place_in_the_settings() -> None:
    ordered = [
        *(message(agent, 0) for agent in [*AGENTS, "judge"]),  # who is not in the settings stands last
        message("agent_1", 0, turn=1),
        message("agent_2", 0, turn=2),
        message("agent_2", 0, turn=10),
        message("agent_10", 1),
        message("agent_1", 10),
        replace(message("agent_2", 0), epoch=1),
        replace(message("agent_1", 0), epoch=1),
    ]
    assert board(*reversed(ordered)).get() == ordered
    assert board(ordered[3:], ordered[:3]).get() == ordered


def test_what_one_agent_says_in_one_turn_stands_as_it_came() -> None:
    spoken = [
        message(act="select"),
        message(act="answer"),
        message(act="answer", attempt=1),
        message(act="a last word"),
    ]

    assert board(message("agent_2"), spoken).get() == [message("agent_2"), *spoken]
    restored = Board(list[Message], "board").from_checkpoint(board(spoken).checkpoint())
    assert restored.get() == spoken


def test_readers_take_the_highest_attempt() -> None:
    first, again, other = message(), message(text="23", attempt=1), message("agent_2")
    assert latest(board(again, other, first).get()) == [other, again]
    assert latest([]) == []


@pytest.mark.parametrize("wrap", [Overwrite, lambda value: {"__overwrite__": value}])
def test_an_overwrite_replaces_the_board(wrap: Any) -> None:  # Any: two forms of one thing
    made = board(message("agent_1"), message("agent_2"))

    assert made.update([wrap([message("agent_3").to_dict()])]) is True
    assert made.get() == [message("agent_3")]
    made.update([wrap([])])
    assert made.get() == []


def test_a_copy_is_independent() -> None:
    made = board(message())
    copied = made.copy()
    copied.update([message("agent_2")])

    assert (len(made.get()), len(copied.get())) == (1, 2)
    assert copied == made  # as channels: what they hold does not count


def test_a_checkpoint_is_plain_json_and_comes_back() -> None:
    made = board(message("agent_10"), message("agent_2"))
    wire = made.checkpoint()

    assert json.loads(json.dumps(wire)) == wire
    restored = Board(list[Message], "board").from_checkpoint(json.loads(json.dumps(wire)))
    assert restored.get() == made.get() == [message("agent_2"), message("agent_10")]
