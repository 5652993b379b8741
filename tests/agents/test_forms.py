"""A form that a call asks for is kept by every protocol, streamed or not, and carried as any message is."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.response_format import Form
from tests.support import tiny_loaded
from tests.tables import pairs

PROTOCOLS = ["nl", "cipher", "sde"]
QUESTION = "What is 14 + 3?"
ANSWER = Form(choices=("red", "blue"), after="Answer:")
OBJECT = Form.of_object("why", "answer")
KEPT = {
    "choices": (ANSWER, r"(?s)(?:.*\n)?Answer: (?:red|blue|unknown)"),
    "object": (OBJECT, r'(?s)\{"why": ".*", "answer": ".*"\}'),
}


def agent(protocol: str, store: PayloadStore, **more: Any) -> HookedChatModel:
    plain = {"protocol": protocol, "preloaded": tiny_loaded(), "store": store, "max_tokens": 60, "seed": 3}
    return HookedChatModel(**{**plain, **more})


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


@pytest.mark.parametrize(("begun", "spaced"), [("", False), ("Answer:", True), ("Answer: ", False), ("So\n", False)])
def test_a_form_comes_behind_a_space_in_a_line_that_was_begun(begun: str, spaced: bool, store: PayloadStore) -> None:
    reply = agent("nl", store).invoke(QUESTION, prefill=begun, response_format={"choices": ["red", "blue"]})
    assert str(reply.text).startswith(" ") == spaced and str(reply.text).strip() in ("red", "blue", "unknown")
