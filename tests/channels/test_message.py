from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.payload import Span
from sottovoce.channels.store import PayloadRef, text_digest
from tests.tables import each_row

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
FULL = replace(MESSAGE, epoch=3, turn=4, order=5, begun="Thought: ", public="I pass.")
BARE = Message("judge", 0, "answer", "")


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (REF, "sde: 7 tokens × 2 layers (0, 2) × 32, float32, 4.1 kB"),
        (
            PayloadRef("cipher", "a" * 64, "b" * 64, 1, 612, hidden=64, dtype="bfloat16"),
            "cipher: 1 row × 64, bfloat16, 612 bytes",
        ),
        (PayloadRef("nl", "a" * 64, "b" * 64, 2, 99), "nl: 2 tokens, 99 bytes"),
    ],
)
def test_a_reference_shows_in_words_what_lies_there(ref: PayloadRef, told: str) -> None:
    assert ref.summary == ref.to_dict()["summary"] == told
    assert PayloadRef.from_dict({**ref.to_dict(), "summary": "nothing", "layers": [3]}).summary != "nothing"


@pytest.mark.parametrize(
    "message", [MESSAGE, FULL, BARE, replace(MESSAGE, payload=replace(REF, layers=(), hidden=None))]
)
def test_a_message_comes_back_from_json_as_it_was(message: Message) -> None:
    data = message.to_dict()

    assert Message.from_dict(json.loads(json.dumps(data))) == message
    assert Message.from_dict(data) == message
    assert json.loads(json.dumps(data)) == data  # lists where JSON has lists, so that a checkpoint is stable


@pytest.mark.parametrize(
    "heard",
    [
        MessageRef(MESSAGE),
        MessageRef(BARE, ((0, 0),)),
        MessageRef(MESSAGE, ((4, 10), (14, 16)), latest=False, own=True),
        MessageRef(FULL, own=True),
    ],
)
def test_a_heard_message_comes_back_from_json_as_it_was(heard: MessageRef) -> None:
    data = heard.to_dict()
    assert MessageRef.from_dict(json.loads(json.dumps(data))) == heard
    assert json.loads(json.dumps(data)) == data


def test_a_message_with_an_unknown_key_is_not_taken_for_another() -> None:
    with pytest.raises(TypeError, match="agnet"):
        Message.from_dict({**BARE.to_dict(), "agnet": "x"})


@each_row(
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


@each_row(
    ("spans", "text"),
    [
        ((), TEXT),
        (((4, 10),), "answer"),
        (((0, 0),), ""),
        (((14, 99),), "22 €."),
        (((4, 10), (14, 16)), "answer22"),
        (((14, 16), (4, 10)), "22answer"),
    ],
)
def test_a_heard_part_is_its_words_span_by_span(spans: tuple[Span, ...], text: str) -> None:
    assert MessageRef(MESSAGE, spans).text == text


@each_row(
    ("reference", "prefill", "body"),
    [
        (MessageRef(FULL), "", "I pass."),
        (MessageRef(FULL, own=True), "Thought: ", TEXT),
        (MessageRef(FULL, ((4, 10),)), "", "answer"),
        (MessageRef(replace(FULL, public=None)), "Thought: ", TEXT),
        (MessageRef(replace(FULL, public="")), "", ""),  # nothing at all is meant for the others
    ],
)
def test_others_hear_the_public_text_and_the_agent_itself_all_of_it(
    reference: MessageRef, prefill: str, body: str
) -> None:
    assert (reference.prefill, reference.body, reference.text) == (prefill, body, prefill + body)
