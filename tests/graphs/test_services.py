"""Discussions over a search service: its key is kept out of all that is kept, and its failure ends none of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.registry import Registry
from sottovoce.graphs.react import ReAct, create_react
from sottovoce.retrievers import RETRIEVERS
from tests.graphs.support import board
from tests.retrievers.services import Service, serving
from tests.retrievers.test_google import FOUND, KEY, google

ASKED: Any = {"question": "Who built the mill?", "id": "q1", "kind": "text", "target": "Ana Brook"}
STEPS = [" Hm.\nAction 1: Search[the mill]", " Hm.\nAction 2: Lookup[3]", " Hm.\nAction 3: Finish[Ana Brook]"]
CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """What `--library service` searches: Google, through the real client."""
    with serving(FOUND) as service:
        known: Registry[Any] = Registry("retriever", "sottovoce.none")
        known.register("service", lambda where: google(service))
        for name in ("_paths", "_known"):
            monkeypatch.setattr(RETRIEVERS, name, getattr(known, name))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield service


def relay(saver: InMemorySaver | None = None) -> list[str]:
    """What a relay of three steps is shown."""
    settings = ReAct(library="service", search="passages")
    graph = create_react(settings, models=ScriptedChatModel(STEPS)).compile(checkpointer=saver)
    state: Any = graph.invoke(ASKED, CONFIG, output_keys=["board", "decision"])
    assert state["decision"]["score"] == 1.0
    return [message.text for message in board(state) if message.act == "observe"]


def test_a_relay_over_google_leaves_its_key_in_no_checkpoint_and_no_log(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    saver = InMemorySaver()
    assert relay(saver) == ["Snippet 1. Snippet 2. Snippet 3.", "(Result 1 / 1) Snippet 3."]
    kept = f"{saver.storage}{saver.writes}{saver.blobs}{[*saver.list(CONFIG)]}"
    assert "Snippet 1." in kept and service.asked[0]["api_key"] == KEY and "api_key=***" in caplog.text
    assert KEY not in kept + caplog.text
