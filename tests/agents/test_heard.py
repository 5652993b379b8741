"""What is heard of a message under each protocol: a public text, several spans, by others and by oneself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels import create
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.payload import Label, Payload, Span
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Ids, Request, Rows
from tests.support import hear, ids, noise, tiny_loaded

PROTOCOLS = ["nl", "cipher", "sde"]
LAYERS = (0, 1)


def spoken(protocol: str, store: PayloadStore, **more: Any) -> tuple[Message, Payload]:
    """A message of eight tokens of one letter each, with the tensors that its protocol sends along."""
    loaded, text = tiny_loaded(), "abcdefgh"
    tensors = {"ids": torch.tensor(ids(text)), "spans": torch.tensor([[i, i + 1] for i in range(8)])}
    if protocol == "cipher":
        tensors[f"rows.{loaded.table.key}"] = noise(8, 32)
    if protocol == "sde":
        tensors["states"] = noise(len(LAYERS), 8, 32)
    layers = LAYERS if protocol == "sde" else ()
    payload = Payload(Label(protocol, text, loaded.name, loaded.weights_key, loaded.vocabulary_key, layers), tensors)
    assert len(payload.ids) == 8
    return Message("agent_1", 0, "answer", text, payload=store.put(payload), **more), payload


def request(protocol: str, store: PayloadStore, heard: MessageRef) -> Request:
    return hear(create(protocol), tiny_loaded(), store, heard)


def latent(request: Request) -> int:
    """How many rows or edits a prompt has."""
    return len(request.edits) + sum(isinstance(piece, Rows) for piece in request.prompt)


def flat(request: Request) -> list[int | None]:
    """The ids of a prompt, None for each row."""
    return [each for piece in request.prompt for each in (piece.ids if isinstance(piece, Ids) else [None] * len(piece))]


def holds(whole: list[int | None], part: tuple[int, ...]) -> bool:
    return any(tuple(whole[i : i + len(part)]) == part for i in range(len(whole)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_others_hear_the_public_text_in_words_and_nothing_of_what_lies_under_the_private_one(
    protocol: str, store: PayloadStore
) -> None:
    message, payload = spoken(protocol, store, begun="Thought: ", public="I take the key.")

    heard = request(protocol, store, MessageRef(message))

    assert latent(heard) == 0
    assert holds(flat(heard), ids("I take the key."))
    assert not holds(flat(heard), payload.ids) and not holds(flat(heard), ids("Thought: "))
    plain = Message("agent_1", 0, "answer", "I take the key.")
    assert heard.prompt == request(protocol, store, MessageRef(plain)).prompt


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_hears_all_that_it_said_itself_as_it_was_said(protocol: str, store: PayloadStore) -> None:
    message, payload = spoken(protocol, store)
    secret = replace(message, public="I take the key.")

    own = request(protocol, store, MessageRef(secret, own=True))

    assert flat(own) == flat(request(protocol, store, MessageRef(message, own=True)))
    assert not holds(flat(own), ids("I take the key."))
    if protocol == "cipher":
        (rows,) = (piece.rows for piece in own.prompt if isinstance(piece, Rows))
        assert rows.equal(payload.tensors[f"rows.{tiny_loaded().table.key}"])
    else:
        assert holds(flat(own), payload.ids) and not own.edits


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_beginning_that_a_reply_was_given_is_read_in_words_before_what_lies_under_it(
    protocol: str, own: bool, store: PayloadStore
) -> None:
    message, payload = spoken(protocol, store)

    with_it = request(protocol, store, MessageRef(replace(message, begun="Thought 3:"), own=own))
    without = request(protocol, store, MessageRef(message, own=own))

    whole, begun = flat(without), ids("Thought 3:")
    at = whole.index(None if protocol == "cipher" else payload.ids[0])
    assert flat(with_it) == [*whole[:at], *begun, *whole[at:]]
    assert latent(with_it) == latent(without)
    assert [edit.at for edit in with_it.edits] == [edit.at + len(begun) for edit in without.edits]


@pytest.mark.parametrize(("spans", "own"), [(((1, 3), (5, 8)), True), (((5, 8), (1, 3)), False)])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_of_several_spans_the_tokens_of_all_are_heard_in_their_order_and_no_others(
    protocol: str, spans: tuple[Span, ...], own: bool, store: PayloadStore
) -> None:
    message, payload = spoken(protocol, store)
    at = [i for span in spans for i in range(*span)]

    found = request(protocol, store, MessageRef(message, spans, own=own))

    if protocol == "cipher":
        (rows,) = (piece.rows for piece in found.prompt if isinstance(piece, Rows))
        assert rows.equal(payload.tensors[f"rows.{tiny_loaded().table.key}"][at])
        return
    assert holds(flat(found), tuple(payload.ids[i] for i in at)) and not holds(flat(found), ids("abc"))
    carried = [edit.delta for edit in found.edits]
    assert len(carried) == (len(LAYERS) if protocol == "sde" and not own else 0)
    for delta, states in zip(carried, payload.states if carried and payload.states is not None else (), strict=True):
        assert delta.equal(states[at])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_spans_are_of_the_text_that_was_said_whatever_is_public(protocol: str, store: PayloadStore) -> None:
    message, _ = spoken(protocol, store)
    heard = MessageRef(replace(message, public="I pass.", begun="Thought: "), ((1, 3),))

    assert heard.text == "bc"
    assert latent(request(protocol, store, heard)) == {"nl": 0, "cipher": 1, "sde": len(LAYERS)}[protocol]
