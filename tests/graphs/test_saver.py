"""Where a graph's checkpoints lie: LangGraph's own suite on each kind of saver, and what goes wrong in one line."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate

from sottovoce.core.errors import RecordError, UsageError
from sottovoce.graphs.runtime.saver import open_saver, shown
from tests.database import PASSWORD, Server

KINDS = ("memory", "sqlite", "postgres")


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: Server = request.getfixturevalue("postgres")
        return found.database()
    return "memory" if request.param == "memory" else str(tmp_path / "kept.sqlite")


async def test_what_is_opened_keeps_all_that_langgraph_asks_of_a_saver(where: str) -> None:
    @checkpointer_test(name="ours")
    async def ours() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        async with open_saver(where) as saver:
            yield saver

    report = await validate(ours)

    assert report.passed_all_base(), report.to_dict()


def test_a_tensor_is_refused_and_plain_values_come_back(where: str) -> None:
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    with open_saver(where) as saver:
        stored = saver.put(config, {**empty_checkpoint(), "channel_values": {}}, {}, {})
        saver.put_writes(stored, [("board", [{"text": "4"}])], "task")
        with pytest.raises(TypeError):
            saver.put_writes(stored, [("board", torch.zeros(2))], "another")
        found = saver.get_tuple(config)

    assert found is not None and found.pending_writes == [("task", "board", [{"text": "4"}])]


async def test_a_write_that_was_cut_off_leaves_the_file_open_to_others(tmp_path: Path) -> None:
    where, config = tmp_path / "kept.sqlite", {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    write = "INSERT INTO writes VALUES ('1', '', '', 'task', '', 0, 'board', 'null', NULL)"
    async with open_saver(where) as saver:
        held = await saver.conn.executemany(write, [()])  # type: ignore[attr-defined]  # as a cancelled write's traceback does

    with open_saver(where) as another:
        another.put(config, empty_checkpoint(), {}, {})  # type: ignore[arg-type]  # plain
    assert held.rowcount == 1


async def test_a_write_that_nobody_waits_for_leaves_the_file_open_to_others(tmp_path: Path) -> None:
    """As LangGraph's of a task that is cancelled while its graph ends (1.2)."""
    where, config = tmp_path / "kept.sqlite", {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    async with open_saver(where) as saver:
        stored = await saver.aput(config, empty_checkpoint(), {}, {})  # type: ignore[arg-type]  # plain
        left = asyncio.create_task(saver.aput_writes(stored, [("board", [{"text": "4"}])], "task"))
        await asyncio.sleep(0)

    with open_saver(where) as another:
        another.put(config, empty_checkpoint(), {}, {})  # type: ignore[arg-type]  # plain
    await left


def test_a_wrong_password_is_told_in_a_line_without_it(postgres: Server) -> None:
    with pytest.raises(RecordError) as refused, open_saver(postgres.address(password="of%2Fanother")):
        raise AssertionError("not opened")

    line = str(refused.value)
    assert "password authentication failed" in line and "\n" not in line
    assert "another" not in line and PASSWORD not in line


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("postgresql://ada:secret@127.0.0.1:1/runs", "'postgresql://ada@127.0.0.1:1/runs' cannot be opened"),
        ("postgresql://ada:secret@host/runs?colour=red", "is not a database address"),
        ("mysql://ada:secret@host/runs", "a saver is 'memory', a file, or postgresql://"),
        ("nowhere/kept.sqlite", "unable to open database file"),
    ],
)
async def test_what_cannot_be_opened_is_told_in_a_line(where: str, told: str) -> None:
    with pytest.raises((RecordError, UsageError), match=told) as sync, open_saver(where):
        raise AssertionError("not opened")
    with pytest.raises((RecordError, UsageError)) as asynchronous:
        async with open_saver(where):
            raise AssertionError("not opened")

    assert str(sync.value) == str(asynchronous.value)
    assert "\n" not in str(sync.value) and "secret" not in str(sync.value)


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be looked at as one" * 40)

    with pytest.raises(RecordError, match="file is not a database"), open_saver(file):
        raise AssertionError("not opened")


def test_a_database_without_the_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres", None)

    with pytest.raises(UsageError, match="extra 'postgres'"), open_saver("postgresql://ada@host/runs"):
        raise AssertionError("not opened")


def test_a_file_of_checkpoints_holds_no_pickle(tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    with open_saver(tmp_path / "kept.sqlite") as saver:
        saver.put_writes(
            saver.put(config, {**empty_checkpoint(), "channel_values": {}}, {}, {}), [("board", [1])], "task"
        )

    rows = sqlite3.connect(tmp_path / "kept.sqlite").execute(
        "SELECT type FROM checkpoints UNION SELECT type FROM writes"
    )
    assert {kind for (kind,) in rows} == {"msgpack"}


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("postgresql://ada:se@c:ret@host:5432/runs?password=two", "postgresql://ada@host:5432/runs"),
        ("postgresql://host/runs", "postgresql://host/runs"),
        ("kept.sqlite", "kept.sqlite"),
    ],
)
def test_a_place_is_shown_without_its_password(where: str, told: str) -> None:
    assert shown(where) == told


@pytest.mark.parametrize("where", ["", "\0", None, 3])
def test_a_place_that_is_none_is_refused(where: Any) -> None:
    # SQLite takes "" for a file of its own that is gone once it is closed: the discussion was lost
    with pytest.raises(UsageError, match=r"^a saver is 'memory', a file, or postgresql://"):
        open_saver(where)
