from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sottovoce.channels.message import Heard, Message, PayloadRef, Turn, text_digest, words

TEXT = "The answer is 22 €."
REF = PayloadRef("sde", "a" * 64, text_digest(TEXT), 7, 4096, hidden=32, dtype="float32", layers=(0, 2))
MESSAGE = Message(
    "agent_1",
    2,
    "revise",
    TEXT,
    1,
    REF,
    source="model",
    notes=("carried in words",),
    stats={"entropy": 0.5, "tokens": 7},
)
BARE = Message("judge", 0, "answer", "")


@pytest.mark.parametrize("message", [MESSAGE, BARE, replace(MESSAGE, payload=replace(REF, layers=(), hidden=None))])
def test_a_message_comes_back_from_json_as_it_was(message: Message) -> None:
    data = message.to_dict()

    assert Message.from_dict(json.loads(json.dumps(data))) == message
    assert Message.from_dict(data) == message
    assert json.loads(json.dumps(data)) == data  # lists where JSON has lists, so that a checkpoint is stable


@pytest.mark.parametrize(
    "heard", [Heard(MESSAGE), Heard(BARE, (0, 0)), Heard(MESSAGE, (4, 10), latest=False, own=True)]
)
def test_a_heard_message_comes_back_from_json_as_it_was(heard: Heard) -> None:
    data = heard.to_dict()

    assert Heard.from_dict(json.loads(json.dumps(data))) == heard
    assert json.loads(json.dumps(data)) == data


def test_a_message_with_an_unknown_key_is_not_taken_for_another() -> None:
    with pytest.raises(TypeError, match="agnet"):
        Message.from_dict({**BARE.to_dict(), "agnet": "x"})


@pytest.mark.parametrize(
    ("message", "latent"),
    [
        (MESSAGE, True),
        (BARE, False),
        (replace(MESSAGE, text=TEXT + " "), False),
        (replace(MESSAGE, text=""), False),
        (replace(MESSAGE, attempt=5, notes=()), True),  # what is not text may change
    ],
)
def test_a_payload_counts_until_its_text_is_edited(message: Message, latent: bool) -> None:
    assert (message.latent is not None) == latent


@pytest.mark.parametrize(("span", "text"), [(None, TEXT), ((4, 10), "answer"), ((0, 0), ""), ((14, 99), "22 €.")])
def test_a_heard_part_is_its_words(span: tuple[int, int] | None, text: str) -> None:
    assert Heard(MESSAGE, span).text == text


def test_a_turn_reads_as_its_words() -> None:
    turn = Turn("user", ("One said: ", Heard(MESSAGE, (14, 16)), ".", Heard(BARE)))

    assert turn.text == words(turn.parts) == "One said: 22."


def test_a_message_stands_under_round_agent_act_and_attempt() -> None:
    assert MESSAGE.key == (2, "agent_1", "revise", 1)
