"""A user of Studio, played over HTTP: an assistant with settings, steps, an edit, a fork and all streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from langgraph_sdk.client import SyncLangGraphClient

QUESTION = {"question": "What is 14 + 3 * 5 - 7?"}
EDIT = "It is 22.\nAnswer: 22"
EDITED = "edited since, heard in words"
"""The note on a message whose text was edited, so that its payload no longer belongs to it."""
CONFIG: Any = {"recursion_limit": 200}
SHORT = {"protocol": "cipher", "max_tokens": 8, "answer_turn": "off", "guide": "off"}
SETTINGS: dict[str, dict[str, Any]] = {
    "debate": {"agents": 2, "rounds": 2},
    "mad": {"rounds": 1},
    "reconcile": {"agents": 2, "rounds": 1},
    "cmd": {"agents": 4, "rounds": 1},
    "madra": {"rounds": 1, "n_wiki": 2, "select_tokens": 8},
    "react": {"agents": 2, "steps": 2, "step_tokens": 8},
    "brief": {"know": "question"},
    "ia": {"rounds": 2, "library": "encyclopedia", "passages": 2},
    "self_consistency": {"samples": 2},
    "whodunit": {"suspects": 3, "attributes": 3, "turns": 2},
    "govsim": {"agents": 2, "months": 1, "utterances": 1},
    "codegen": {"agents": 2, "rounds": 2},
}
"""Settings by graph that make its discussions short."""
SIZE = 50_000
"""Limit on the characters of a state as JSON: tensors are stored elsewhere."""
STREAMS: Any = ["values", "updates", "messages-tuple", "custom", "debug"]
State = Any  # a state as JSON


class User:
    """A user with an assistant of one graph."""

    def __init__(self, client: SyncLangGraphClient, graph: str, model: str) -> None:
        self.client = client
        context: Any = {**SHORT, "model": [model], **SETTINGS.get(graph, {})}
        self.assistant = client.assistants.create(graph, context=context)["assistant_id"]

    def tour(self) -> None:
        """Do everything once."""
        self.change(self.walk(self.nodes()))
        self.stream()

    def change(self, thread: str) -> None:
        """Edit and fork a discussion."""
        history = self.history(thread)
        self.edit(thread, history)
        self.fork(thread, history)

    def thread(self) -> str:
        return str(self.client.threads.create()["thread_id"])

    def nodes(self) -> set[str]:
        """Return the nodes of the graph's drawing, where edges lead to and from each."""
        graph: Any = self.client.assistants.get_graph(self.assistant, xray=True)
        nodes = {node["id"] for node in graph["nodes"]} - {"__start__", "__end__"}
        assert nodes <= {edge["target"] for edge in graph["edges"]} & {edge["source"] for edge in graph["edges"]}
        return nodes

    def walk(self, nodes: set[str]) -> str:
        """Stop before every node of a discussion: the nodes that the state names next run next; return the thread."""
        thread, ahead = self.thread(), ["opening"]
        self.step(thread, QUESTION)
        while ahead:
            assert sorted(self.client.threads.get_state(thread)["next"]) == sorted(ahead)
            assert sorted(self.step(thread, None)) == sorted(ahead) and set(ahead) <= nodes
            ahead = [*self.client.threads.get_state(thread)["next"]]
        return thread

    def step(self, thread: str, state: Any) -> list[str]:
        """Continue until the next stop, and return the nodes that ran."""
        parts = self.client.runs.stream(
            thread, self.assistant, input=state, interrupt_before="*", stream_mode="updates", config=CONFIG
        )
        return [name for part in parts for name in of(part, "updates") if name != "__interrupt__"]

    def resume(self, thread: str, checkpoint: Any = None) -> State:
        """Resume from a checkpoint, or from the thread's current state, and return the final state."""
        ended: Any = self.client.runs.wait(
            thread, self.assistant, input=None, checkpoint=checkpoint, config=CONFIG, raise_error=False
        )
        assert "__error__" not in ended, ended
        state = self.client.threads.get_state(thread)
        assert not state["next"]
        return state["values"]

    def history(self, thread: str) -> list[State]:
        """Return all checkpoints, the oldest first: each is small and summarizes its payloads in words."""
        states: list[Any] = [*reversed(self.client.threads.get_history(thread, limit=1000))]
        for state in states:
            assert len(json.dumps(state)) < SIZE
            carried = [message["payload"] for message in state["values"].get("board", [])]
            assert all(payload is None or ": " in payload["summary"] for payload in carried)
        return states

    def edit(self, thread: str, history: Sequence[State]) -> None:
        """Edit a message and resume: the message says that it was edited."""
        before, there = next(
            (one, other)
            for one, other in pairwise(history)
            if any(message["payload"] for message in other["values"].get("board", []))
        )
        said = [message for message in there["values"]["board"] if message["payload"]][-1]
        edited = {**said, "text": EDIT, "attempt": said["attempt"] + 1}
        self.client.threads.update_state(
            thread, {"board": [edited]}, as_node=before["next"][0], checkpoint=there["checkpoint"]
        )
        state: State = self.client.threads.get_state(thread)
        assert sorted(state["next"]) == sorted(there["next"])
        for board in (state["values"]["board"], self.resume(thread)["board"]):
            (found,) = [message for message in board if message["text"] == EDIT]
            assert EDITED in found["notes"]

    def fork(self, thread: str, history: Sequence[State]) -> None:
        """Fork the first round: it comes to a decision, and its origin has two successors."""
        origin = next(state for state in history if state["next"] == ["next_round"])
        assert self.resume(thread, origin["checkpoint"])["decision"]
        parents = [(state["parent_checkpoint"] or {}).get("checkpoint_id") for state in self.history(thread)]
        assert parents.count(origin["checkpoint"]["checkpoint_id"]) == 2

    def stream(self) -> None:
        """Read every stream of a discussion: each has what it should."""
        parts = list(
            self.client.runs.stream(self.thread(), self.assistant, input=QUESTION, stream_mode=STREAMS, config=CONFIG)
        )
        values = [of(part, "values") for part in parts if part.event == "values"]
        updates = [written or {} for part in parts for written in of(part, "updates").values()]
        progress = [of(part, "custom")["type"] for part in parts if part.event == "custom"]
        tokens: list[Any] = [part.data for part in parts if part.event == "messages"]
        board = values[-1]["board"]
        assert values[-1]["decision"] and any("decision" in written for written in updates)
        assert len([message for written in updates for message in written.get("board", [])]) == len(board) > 0
        assert progress[0] == "round" and progress[-1] == "decided" and "act" in progress
        spoken = {message["agent"] for message in board if message["source"] == "model"}
        assert {about["agent"] for _, about in tokens} == spoken
        debug = {of(part, "debug")["type"] for part in parts if part.event == "debug"}
        assert debug >= {"checkpoint", "task", "task_result"}


def of(part: Any, event: str) -> dict[str, Any]:
    """Return the data of a part of a stream if it belongs to this event, else an empty dict."""
    assert part.event != "error", part.data
    return dict(part.data) if part.event == event else {}
