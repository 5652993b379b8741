"""A form that a call asks for is kept by every protocol, streamed or not, and carried as any message is."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from sottovoce.agents.convert import to_messages
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.models import Rows
from tests.support import HIDDEN, requested, tiny_loaded
from tests.tables import pairs, some

PROTOCOLS = ["nl", "cipher", "sde", "hidden"]
QUESTION = "What is 14 + 3?"
ANSWER = Form(choices=("red", "blue"), after="Answer:")
OBJECT = Form.of_object("why", "answer")
KEPT = {
    "choices": (ANSWER, r"(?s)(?:.*\n)?Answer: (?:red|blue|unknown)"),
    "object": (OBJECT, r'(?s)\{"why": ".*", "answer": ".*"\}'),
}


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    return PayloadStore(tmp_path)


def agent(protocol: str, store: PayloadStore, **more: Any) -> HookedChatModel:
    plain = {"protocol": protocol, "preloaded": tiny_loaded(), "store": store, "max_tokens": 60, "seed": 3}
    return HookedChatModel(**{**plain, **more})


def heard(reply: AIMessage) -> MessageRef:
    ref = PayloadRef.from_dict(reply.additional_kwargs["payload"])
    return MessageRef(Message("agent_1", 0, "answer", str(reply.text), payload=ref))


@pytest.mark.parametrize(("protocol", "kind"), pairs(PROTOCOLS, list(KEPT), 2))
async def test_all_ways_to_call_keep_a_form(protocol: str, kind: str, store: PayloadStore) -> None:
    form, expected = KEPT[kind]
    model = agent(protocol, store)
    told: Any = {"response_format": asdict(form)}

    reply = model.invoke(QUESTION, **told)
    chunks = [chunk.text for chunk in model.stream(QUESTION, **told)]
    again = [str((await model.ainvoke(QUESTION, **told)).text)]
    again.append("".join([str(chunk.text) async for chunk in model.astream(QUESTION, **told)]))

    assert re.fullmatch(expected, str(reply.text))
    assert "".join(map(str, chunks)) == again[0] == again[1] == reply.text and len(chunks) > 3
    assert form is not OBJECT or list(json.loads(str(reply.text))) == ["why", "answer"]


@pytest.mark.parametrize(("protocol", "kind"), pairs(PROTOCOLS, list(KEPT), 2))
def test_what_a_guided_message_carries_has_the_length_of_its_tokens(
    protocol: str, kind: str, store: PayloadStore
) -> None:
    said = heard(agent(protocol, store).invoke(QUESTION, response_format=asdict(KEPT[kind][0])))

    payload = said.message.payload.load(store) if said.message.payload else None
    assert payload is not None and len(payload.spans) == len(payload.tensors["entropy"]) == len(payload)
    assert payload.spans[-1][1] == len(said.text)
    shapes = {name: tuple(each.shape) for name, each in payload.tensors.items() if name.startswith(("rows.", "states"))}
    n = len(payload)
    expected = {"cipher": [(n, HIDDEN)], "sde": [(1, n, HIDDEN)], "hidden": [(1, n, HIDDEN)], "nl": []}
    assert list(shapes.values()) == expected[protocol]


def test_a_guided_message_of_cipher_is_heard_as_rows_of_which_the_guided_are_tokens(store: PayloadStore) -> None:
    model = agent("cipher", store)
    said = heard(model.invoke(QUESTION, response_format=asdict(ANSWER)))

    request = requested(model, to_messages([Turn("user", ("He said: ", said))]))

    (rows,) = [piece.rows for piece in request.prompt if isinstance(piece, Rows)]
    payload = said.message.payload.load(store) if said.message.payload else None
    assert payload is not None
    one_hot = (rows == tiny_loaded().table.rows[list(payload.ids)]).all(-1).tolist()
    marker = next(i for i, (_, end) in enumerate(payload.spans) if end > said.text.rindex("Answer:"))
    assert all(one_hot[marker:]) and not any(one_hot[: marker - 1])


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "nl", "cipher"))
def test_the_reference_knows_no_forms(protocol: str, store: PayloadStore) -> None:
    model = agent(protocol, store, options={"compat": "reference"})

    assert requested(model, [HumanMessage(QUESTION)], response_format=asdict(ANSWER)).form is None
    assert str(model.invoke(QUESTION, response_format=asdict(OBJECT)).text) == str(model.invoke(QUESTION).text)


@pytest.mark.parametrize(("begun", "spaced"), [("", False), ("Answer:", True), ("Answer: ", False), ("So\n", False)])
def test_a_form_comes_behind_a_space_in_a_line_that_was_begun(begun: str, spaced: bool, store: PayloadStore) -> None:
    reply = agent("nl", store).invoke(QUESTION, prefill=begun, response_format={"choices": ["red", "blue"]})

    assert str(reply.text).startswith(" ") == spaced and str(reply.text).strip() in ("red", "blue", "unknown")


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_a_form_that_cannot_be_kept_is_refused_before_anything_is_said(way: str, store: PayloadStore) -> None:
    said = r"^the format, at its shortest \{.*\}, takes \d+ tokens, but max_tokens is 5; raise it$"
    with pytest.raises(UsageError, match=said):
        list(getattr(agent("nl", store), way)(QUESTION, response_format=asdict(OBJECT), max_tokens=5))
