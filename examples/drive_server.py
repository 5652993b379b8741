"""Program that drives every graph of a LangGraph server as a user of Studio would, and checks the results.

    python examples/drive_server.py                                       # starts `langgraph dev`, and stops it
    python examples/drive_server.py --url http://127.0.0.1:2024 debate    # a running server, one graph

For each graph: an assistant with its own settings, a walk with a stop before each node, state and history, an edited
message, a fork, and all streams. It prints one line for each graph, and stops with one line at the first error.
The assistants and threads stay on the server for inspection.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import APIError

ROOT = Path(__file__).resolve().parents[1]
QUESTION = {"question": "What is 14 + 3 * 5 - 7?"}
EDIT = "It is 22.\nAnswer: 22"
EDITED = "edited since, heard in words"
"""The note on a message whose text was edited, so that its payload no longer belongs to it."""
CONFIG: Any = {"recursion_limit": 200}
SHORT = {"protocol": "cipher", "max_tokens": 8, "answer_turn": False, "guide": "off"}
SETTINGS: dict[str, dict[str, Any]] = {
    "debate": {"agents": 2, "rounds": 2},
    "mad": {"rounds": 1},
    "reconcile": {"agents": 2, "rounds": 1},
    "cmd": {"agents": 4, "rounds": 1},
    "madra": {"rounds": 1, "n_wiki": 2, "select_tokens": 8},
    "react": {"agents": 2, "steps": 2, "step_tokens": 8},
    "brief": {"know": "question"},
    "ia": {"rounds": 2, "library": "encyclopedia", "passages": 2},
    "pipeline": {},
    "self_consistency": {"samples": 2},
    "whodunit": {"suspects": 3, "attributes": 3, "turns": 2},
    "govsim": {"agents": 2, "months": 1, "utterances": 1},
    "codegen": {"agents": 2, "rounds": 2},
}
"""Settings by graph that make its discussions short."""
SANDBOX = '[settings.codegen]\nsandbox = "isolated"\n'
"""A setting of the server that clients cannot choose."""
SIZE = 50_000
"""Limit on the characters of a state as JSON: tensors are stored elsewhere."""
START = 120.0
"""Seconds in which a server must start."""
AT_ONCE = 4
"""Graphs that are driven in parallel."""
STREAMS: Any = ["values", "updates", "messages-tuple", "custom", "debug"]
State = Any  # Any: a state as JSON


class Wrong(Exception):
    """An unexpected result of the server."""


def check(holds: object, otherwise: str) -> None:
    """Raise `Wrong` unless a condition holds."""
    if not holds:
        raise Wrong(otherwise)


def refuse(error: Any) -> None:
    """Raise `Wrong` for the server's error of a run."""
    check(error is None, f"the server said: {error and error['message']}")


class Driver:
    """The checks of one graph, with an assistant of its own."""

    def __init__(self, client: SyncLangGraphClient, graph: str, model: str) -> None:
        self.client = client
        context = {**SHORT, "model": [model], **SETTINGS.get(graph, {})}
        made = client.assistants.create(graph, context=context, name=f"{graph}, driven")
        self.assistant = made["assistant_id"]

    def tour(self) -> str:
        """Run all checks and return a summary."""
        nodes = self.drawn()
        thread, steps = self.walked(nodes)
        history = self.history(thread)
        who, messages, pieces = self.edited(thread, history), self.forked(thread, history), self.streamed()
        return (
            f"{len(nodes)} nodes drawn, {steps} steps walked, {len(history)} checkpoints read, an edit of {who} heard, "
            f"a fork of {messages} messages, {pieces} pieces streamed"
        )

    def thread(self) -> str:
        """Create a thread and return its id."""
        return str(self.client.threads.create()["thread_id"])

    def drawn(self) -> set[str]:
        """Return the nodes of the graph's drawing; check that edges lead to and from each."""
        graph: Any = self.client.assistants.get_graph(self.assistant, xray=True)
        nodes = {node["id"] for node in graph["nodes"]} - {"__start__", "__end__"}
        unreached = nodes - {edge["target"] for edge in graph["edges"]}
        stuck = nodes - {edge["source"] for edge in graph["edges"]}
        check(not unreached | stuck, f"the drawing has no edge to {unreached} or from {stuck}")
        return nodes

    def walked(self, nodes: set[str]) -> tuple[str, int]:
        """Step through a discussion with a stop before every node; return its thread and the number of steps."""
        thread, ahead, steps = self.thread(), ["opening"], 0
        self.step(thread, QUESTION)
        while ahead:
            state = self.client.threads.get_state(thread)
            check(sorted(state["next"]) == sorted(ahead), f"after step {steps} it shows {state['next']} as next")
            ran = self.step(thread, None)
            check(sorted(ran) == sorted(ahead), f"{ahead} was to be next, and {ran} was")
            ahead, steps = [*self.client.threads.get_state(thread)["next"]], steps + 1
            check(set(ahead) <= nodes, f"{ahead} is next, and not drawn")
        return thread, steps

    def step(self, thread: str, state: Any) -> list[str]:
        """Continue until the next stop, and return the nodes that ran."""
        parts = self.client.runs.stream(
            thread, self.assistant, input=state, interrupt_before="*", stream_mode="updates", config=CONFIG
        )
        return [name for part in parts for name in of(part, "updates") if name != "__interrupt__"]

    def resumed(self, thread: str, checkpoint: Any = None) -> State:
        """Resume from a checkpoint, or from the thread's current state, and return the final state."""
        ended: Any = self.client.runs.wait(
            thread, self.assistant, input=None, checkpoint=checkpoint, config=CONFIG, raise_error=False
        )
        refuse(ended.get("__error__"))
        state = self.client.threads.get_state(thread)
        check(not state["next"], f"it stopped before {state['next']}")
        return state["values"]

    def history(self, thread: str) -> list[State]:
        """Return all checkpoints, the oldest first; check that each is small and summarizes its payloads in words."""
        states: list[Any] = [*reversed(self.client.threads.get_history(thread, limit=1000))]
        for state in states:
            size = len(json.dumps(state))
            check(size < SIZE, f"a checkpoint takes {size} characters; expected fewer than {SIZE}")
            for message in state["values"].get("board", []):
                carried = message["payload"]
                check(carried is None or ": " in carried["summary"], f"{carried} says nothing in words")
        return states

    def edited(self, thread: str, history: Sequence[State]) -> str:
        """Edit a message and resume; check that the message is marked as edited, and return its agent."""
        before, there = next(
            (one, other)
            for one, other in pairwise(history)
            if any(message["payload"] for message in other["values"].get("board", []))
        )
        said = [message for message in there["values"]["board"] if message["payload"]][-1]
        edit = {**said, "text": EDIT, "attempt": said["attempt"] + 1}
        self.client.threads.update_state(
            thread, {"board": [edit]}, as_node=before["next"][0], checkpoint=there["checkpoint"]
        )
        state: State = self.client.threads.get_state(thread)
        check(sorted(state["next"]) == sorted(there["next"]), f"after an edit {state['next']} is next")
        for board in (state["values"]["board"], self.resumed(thread)["board"]):
            found = [message for message in board if message["text"] == EDIT]
            check(found and EDITED in found[0]["notes"], f"the edited message of {said['agent']} does not say so")
        return str(said["agent"])

    def forked(self, thread: str, history: Sequence[State]) -> int:
        """Fork the first round and return the fork's number of messages; check that its origin has two successors."""
        origin = next(state for state in history if state["next"] == ["next_round"])
        values = self.resumed(thread, origin["checkpoint"])
        check(values.get("decision"), "a fork came to no decision")
        here = origin["checkpoint"]["checkpoint_id"]
        parents = [(state["parent_checkpoint"] or {}).get("checkpoint_id") for state in self.history(thread)]
        check(parents.count(here) == 2, f"the origin of a fork has {parents.count(here)} futures; expected 2")
        return len(values["board"])

    def streamed(self) -> int:
        """Check every stream, and return the number of streamed pieces of text."""
        parts = list(
            self.client.runs.stream(self.thread(), self.assistant, input=QUESTION, stream_mode=STREAMS, config=CONFIG)
        )
        values = [of(part, "values") for part in parts if part.event == "values"]
        updates = [written or {} for part in parts for written in of(part, "updates").values()]
        told = [of(part, "custom")["type"] for part in parts if part.event == "custom"]
        tokens: list[Any] = [part.data for part in parts if part.event == "messages"]
        debug = {of(part, "debug")["type"] for part in parts if part.event == "debug"}
        board = values[-1]["board"]
        shown = [message for written in updates for message in written.get("board", [])]
        check(values[-1].get("decision"), "the last values hold no decision")
        check(len(shown) == len(board) > 0, f"updates show {len(shown)} messages; expected {len(board)}")
        check(any("decision" in written for written in updates), "updates show no decision")
        check(told[0] == "round" and told[-1] == "decided" and "act" in told, f"progress tells {told}")
        spoken = {message["agent"] for message in board if message["source"] == "model"}
        check({about["agent"] for _, about in tokens} == spoken, "tokens are not told with their agents")
        check(debug >= {"checkpoint", "task", "task_result"}, f"debug shows {debug} alone")
        return len(tokens)


def of(part: Any, event: str) -> dict[str, Any]:
    """Return the data of a part of a stream if it belongs to this event, else an empty dict."""
    refuse(part.data if part.event == "error" else None)
    return dict(part.data) if part.event == event else {}


@contextmanager
def serving(
    folder: Path, config: Path = ROOT / "langgraph.json", models: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start `langgraph dev` on a free port, offline, and yield its address; stop it at the end of the block.

    It runs in `folder`, where it writes its files and its log. Its clients may use the names of `models`.
    """
    port, log = free_port(), folder / "server.log"
    offered = "".join(f"{json.dumps(name)} = {json.dumps(where)}\n" for name, where in (models or {}).items())
    (folder / "server.toml").write_text(f"{SANDBOX}[model]\n{offered}", encoding="utf-8")
    offline = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "HF_HUB_OFFLINE": "1"}
    env = {**os.environ, **offline, "PYTHONPATH": str(ROOT), "SOTTOVOCE_STORE": str(folder / "store")}
    env["SOTTOVOCE_SERVER"] = str(folder / "server.toml")
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    command += ["--host", "127.0.0.1", "--config", str(config)]
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            end, up = time.monotonic() + START, False
            while not up and time.monotonic() < end and process.poll() is None:
                with suppress(httpx.TransportError):
                    up = httpx.get(f"http://127.0.0.1:{port}/ok", timeout=5, trust_env=False).is_success
                time.sleep(0.2)
            check(up, f"the server did not start; its log ends so: {log.read_text()[-500:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Parse the command line and drive the graphs."""
    parser = argparse.ArgumentParser(description="Drive the graphs of a LangGraph server, and check what it shows.")
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="graphs to drive (default: all)")
    parser.add_argument("--url", help="the address of a running server (default: start one)")
    parser.add_argument("--model", default="bundled", help="the agents' model (default: bundled)")
    asked = parser.parse_args()
    if asked.url:
        drive_all(asked.url, asked.graphs, asked.model)
        return
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), models={asked.model: asked.model}) as url:
        drive_all(url, asked.graphs, asked.model)


def drive_all(url: str, graphs: Sequence[str], model: str) -> None:
    """Print a line for each graph, in order; drive several at once, since a server makes runs wait for each other."""
    with get_sync_client(url=url) as client, ThreadPoolExecutor(AT_ONCE) as threads:
        served = {each["graph_id"] for each in client.assistants.search(limit=1000)}

        def drive(graph: str) -> str:
            try:
                check(graph in served, f"the server has no such graph; it has {', '.join(sorted(served))}")
                return f"{graph}: {Driver(client, graph, model).tour()}"
            except APIError as error:
                said = error.body.get("detail") if isinstance(error.body, dict) else None
                raise Wrong(f"{graph}: the server said: {said or error}") from error
            except (Wrong, httpx.HTTPError) as error:
                raise Wrong(f"{graph}: {error}") from error

        driven = threads.map(drive, graphs or sorted(served))
        try:
            for line in driven:
                print(line, flush=True)
        finally:
            threads.shutdown(cancel_futures=True)


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(str(wrong))
