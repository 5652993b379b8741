"""`payloads gc`: which files under messages nobody names."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.payloads import GarbageOptions, gc
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.runs import run_directory
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import encoded
from sottovoce.runs.run_directory import Log
from tests.database import Server, open_saver
from tests.runs.support import carrying, held
from tests.runs.test_saved_runs import Stop, begin, hold, stop_after

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


def run_on_shelf(*texts: str, limits: Limits | None = None) -> tuple[PayloadStore, list[str]]:
    """A stopped run whose log names a payload for each text."""
    folder = run_directory.new_folder("debate")
    with pytest.raises(Stop):
        hold(begin(folder), observe=stop_after(4), limits=limits)
    store = PayloadStore(folder / "payloads")
    digests = [put(store, text) for text in texts]
    log = Log(folder)
    step = {"line": "step", "of": ["sum/0", 0], "task": "by hand", "seconds": 0.0, "update": {}}
    for text, digest in zip(texts, digests, strict=True):
        ref = {"protocol": "cipher", "sha256": digest, "text_sha256": "0" * 64, "tokens": 1, "nbytes": 1}
        said = {"agent": "agent_1", "round": 3, "act": "revise", "text": text, "payload": ref}
        log.write(encoded({**step, "events": [{"event": "said", **said}]}))
    log.close()
    return store, digests


def in_checkpoints(saver: str, digest: str) -> None:
    """A thread of an application, whose only message names this payload."""
    ref = {"protocol": "cipher", "sha256": digest, "text_sha256": "0" * 64, "tokens": 1, "nbytes": 1}
    config: Any = {"configurable": {"thread_id": "mine"}}
    with open_saver(saver) as opened:
        graph = create_debate(Debate()).compile(checkpointer=opened, interrupt_before=["next_round"])
        graph.invoke({"question": "Why?"}, config)
        said = Message("agent_2", 1, "revise", REPLY).to_dict() | {"payload": ref}
        graph.update_state(config, {"round": 1, "board": [said]}, as_node="agent_2")


def test_what_no_log_of_a_run_names_is_collected_and_what_is_young_stays(store: PayloadStore) -> None:
    of_run, named = run_on_shelf("one")
    put(of_run, "nobody's")
    part = of_run.root / "ab" / "0123.part"
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(b"cut")
    os.utime(part, (time.time() - 7200,) * 2)
    young = carrying(Message("agent_1", 0, "answer", "young"), [(0, 5)], [0.5], of_run).payload
    assert young is not None

    gc(GarbageOptions(dry_run=True))
    assert len(kept(of_run)) == 3 and part.exists()
    gc(GarbageOptions())

    assert kept(of_run) == {*named, young.sha256} and not part.exists()
    gc(GarbageOptions(older_than=0))
    assert kept(of_run) == {*named}


def test_the_store_of_applications_is_left_alone_until_their_checkpoints_are_named(
    store: PayloadStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, unnamed = put(store, REPLY), put(store, "nobody's")
    saver = str(tmp_path / "kept.sqlite")
    in_checkpoints(saver, named)

    gc(GarbageOptions())
    assert "2 files without a known name, kept" in capsys.readouterr().out and unnamed in kept(store)
    gc(GarbageOptions(checkpoints=[saver]))

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


@pytest.mark.parametrize("where", [{"runs": [Path("nowhere")]}, {"checkpoints": ["nowhere.sqlite"]}])
def test_places_that_are_not_there_are_told(where: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        gc(GarbageOptions(**where))


def test_runs_in_folders_of_their_own_are_found(store: PayloadStore, tmp_path: Path) -> None:
    record = held({"agent_1": ["The answer is 22."]}, tmp_path / "elsewhere")
    assert record.decision is not None
    with pytest.raises(Stop):
        hold(begin(tmp_path / "mine" / "row"), observe=stop_after(4))
    of_run = PayloadStore(tmp_path / "mine" / "row" / "payloads")
    put(of_run, "nobody's")

    gc(GarbageOptions(runs=[tmp_path / "mine"]))

    assert kept(of_run) == set()


def test_a_run_that_is_under_way_or_damaged_loses_nothing(
    store: PayloadStore, capsys: pytest.CaptureFixture[str]
) -> None:
    of_run, _ = run_on_shelf("one")
    put(of_run, "nobody's")
    folder = run_directory.saved_runs()[0]
    with closing(Log(folder)):
        gc(GarbageOptions())
    assert "it is running" in capsys.readouterr().out and len(kept(of_run)) == 2

    (folder / "log.jsonl").write_bytes(b"{}\n" + (folder / "log.jsonl").read_bytes())
    gc(GarbageOptions())
    assert "is damaged" in capsys.readouterr().out and len(kept(of_run)) == 2
