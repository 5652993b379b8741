"""`payloads gc`: which files under messages nobody names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.payloads import GarbageOptions, gc
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from tests.database import Server, open_saver
from tests.runs.support import carrying

REPLY = "The answer is 22."


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PayloadStore:
    """The store of applications."""
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "store"))
    return PayloadStore()


def put(store: PayloadStore, text: str) -> str:
    """The digest of a payload under these words, written two hours ago."""
    message = carrying(Message("agent_1", 0, "answer", text), [(0, len(text))], [0.5], store)
    assert message.payload is not None
    for path in store.root.glob("*/*.safetensors"):
        os.utime(path, (time.time() - 7200,) * 2)
    return message.payload.sha256


def kept(store: PayloadStore) -> set[str]:
    return set(store.keys())


def in_checkpoints(saver: str, digest: str) -> None:
    """A thread of an application, whose only message names this payload."""
    ref = {"protocol": "cipher", "sha256": digest, "text_sha256": "0" * 64, "tokens": 1, "nbytes": 1}
    config: Any = {"configurable": {"thread_id": "mine"}}
    with open_saver(saver) as opened:
        graph = create_debate(Debate()).compile(checkpointer=opened, interrupt_before=["next_round"])
        graph.invoke({"question": "Why?"}, config)
        said = Message("agent_2", 1, "revise", REPLY).to_dict() | {"payload": ref}
        graph.update_state(config, {"round": 1, "board": [said]}, as_node="agent_2")


def test_what_no_checkpoint_names_is_collected_and_what_is_young_stays(
    store: PayloadStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = put(store, REPLY)
    put(store, "nobody's")
    part, saver = store.root / "ab" / "0123.part", str(tmp_path / "kept.sqlite")
    in_checkpoints(saver, named)
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(b"cut")
    os.utime(part, (time.time() - 7200,) * 2)
    young = carrying(Message("agent_1", 0, "answer", "young"), [(0, 5)], [0.5], store).payload
    assert young is not None

    gc(GarbageOptions(checkpoints=[saver], dry_run=True))
    assert "2 files" in capsys.readouterr().out and len(kept(store)) == 3 and part.exists()
    gc(GarbageOptions(checkpoints=[saver]))

    assert kept(store) == {named, young.sha256} and not part.exists()
    gc(GarbageOptions(checkpoints=[saver], older_than=0))
    assert kept(store) == {named}


@pytest.mark.slow
def test_checkpoints_in_a_database_name_payloads_too(store: PayloadStore, postgres: Server) -> None:
    named, database = put(store, REPLY), postgres.database()
    put(store, "nobody's")
    in_checkpoints(database, named)

    gc(GarbageOptions(checkpoints=[database]))

    assert kept(store) == {named}


def test_what_is_written_again_is_young(store: PayloadStore) -> None:
    digest = put(store, REPLY)
    before = store._path(digest).stat().st_mtime

    carrying(Message("agent_1", 0, "answer", REPLY), [(0, len(REPLY))], [0.5], store)

    assert store._path(digest).stat().st_mtime > before + 3600


@pytest.mark.parametrize(("where", "told"), [([], "name the checkpoints of all"), (["nowhere.sqlite"], "nowhere")])
def test_nothing_is_removed_without_checkpoints_that_exist(store: PayloadStore, where: list[str], told: str) -> None:
    put(store, REPLY)

    with pytest.raises(UsageError, match=told):
        gc(GarbageOptions(checkpoints=where))
    assert len(kept(store)) == 1
