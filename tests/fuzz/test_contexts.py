"""Contexts and edited settings with odd values, in every scheme: nothing that a client names is opened or run."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RequestError
from sottovoce.graphs import NAMES, scheme
from tests.fuzz.cases import drawn, held, kept, text, value

QUESTION = {"question": "What is 1 + 1?"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
DOOR = "door-of-no-client"
"""Part of every path that a case names."""
WATCHED = ("open", "os.listdir", "os.scandir", "os.mkdir", "subprocess.Popen", "os.exec", "socket.connect", "import")
_touched: list[str] | None = None


def _noted(event: str, given: tuple[Any, ...]) -> None:
    if _touched is not None and event in WATCHED and any(DOOR in str(each) for each in given):
        _touched.append(f"{event} {given}")


@pytest.fixture(scope="module", autouse=True)
def watching() -> None:
    """Note what is opened, run or connected to; a hook stays for the process, and does nothing outside `touched`."""
    sys.addaudithook(_noted)


@contextmanager
def touched() -> Iterator[list[str]]:
    """What of the paths of a case is opened within."""
    global _touched
    _touched = []
    try:
        yield _touched
    finally:
        _touched = None


@pytest.fixture(scope="module")
def door() -> Iterator[Path]:
    """A folder that is there, with files of every kind that a setting may name."""
    with tempfile.TemporaryDirectory(prefix=DOOR) as folder:
        for name in ("config.json", "log.jsonl", "model.gguf", "shared.md"):
            (Path(folder) / name).write_text('{"secret": ["4711"]}')
        yield Path(folder)


def odd(rng: random.Random, door: Path) -> JSONValue:
    """A value of any kind, often one that would open something."""
    paths = [str(door), str(door / "config.json"), str(door / "model.gguf"), os.path.relpath(door), f"{door}/gone"]
    specs = [*paths, *(f"{kind}:{paths[0]}" for kind in ("bm25", "dense", "google", "docker", "random"))]
    specs += [f"hosted:{DOOR}:x", f"wikipedia:http://{DOOR}/", f"{DOOR}/hub", "limits", "isolated", "map"]
    path = rng.choice(specs)
    return rng.choice([path, [path], [path, path], {"probe_from": path}, {"agent_1.x": path}, value(rng), text(rng)])


@drawn("contexts")
def test_whatever_a_client_asks_for_is_refused_in_one_line_or_opens_nothing(seeds: range, door: Path) -> None:
    graphs = {name: scheme(name).create().compile(checkpointer=InMemorySaver()) for name in NAMES}

    def case(rng: random.Random) -> None:
        name = rng.choice(NAMES)
        kind = scheme(name).settings
        given = {rng.choice([*kind.model_fields]): odd(rng, door) for _ in range(rng.randrange(1, 4))}
        if rng.random() < 0.2:
            given |= {"sandbox": rng.choice(["limits", "bwrap"]), "unsafe": True} if name == "codegen" else {}
        if not kept(given):
            return
        with touched() as opened:
            try:
                asked(rng, name, given)
            except ValueError as error:  # a server answers 400
                assert isinstance(error, RequestError) or "recursion" in str(error), repr(error)
                raise RequestError(str(error)) from error
            finally:
                assert not opened, f"{name} {given}: {opened}"

    def asked(rng: random.Random, name: str, given: dict[str, Any]) -> None:
        thread: RunnableConfig = {"configurable": {"thread_id": str(rng.random())}}
        way = rng.randrange(3)
        if way == 0:
            scheme(name).make_graph({"configurable": given})
        elif way == 1:
            graphs[name].invoke(QUESTION, thread, context=given, interrupt_after=["opening"])
        else:
            whole = {**scheme(name).settings().model_dump(mode="json"), **given}
            opened = {"settings": whole, "round": -1, "turn": 0, "epochs": [], "marks": [], "votes": []}
            config = graphs[name].update_state(thread, {**QUESTION, **opened}, as_node="opening")
            graphs[name].invoke(None, config, interrupt_after=["next_round"])

    held("contexts", seeds, case)
