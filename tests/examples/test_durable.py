"""kill -9 in the middle of a round of three agents: whose reply was committed is not asked again, and the end is one.

Processes that start warm are killed.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.sqlite import SqliteSaver

from sottovoce.channels.message import Message
from tests.database import Server, open_saver
from tests.warm import PROCESSES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "durable.py"
QUESTION = "What is 14 + 3 * 5 - 7?"
Turn = tuple[str, int]
"""Agent and round."""


def discuss(folder: Path, saver: str, thread: str) -> None:
    """The application, with a file that gets a line for each call of a model, and at last the decision."""
    calls = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    class Calls(BaseCallbackHandler):
        raise_error = run_inline = True

        def on_chat_model_start(self, *call: object, metadata: Any = None, **more: object) -> None:
            os.write(calls, f"{json.dumps([metadata['agent'], metadata['round']])}\n".encode())

    application = runpy.run_path(str(EXAMPLE))
    told = {"callbacks": [Calls()]}
    decision = application["discuss"](QUESTION, thread, saver, str(folder / "payloads"), **told)
    (folder / "decision").write_text(json.dumps(decision))


def calls_in(folder: Path) -> list[Turn]:
    file = folder / "calls"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def committed(saver: str, thread: str) -> dict[Turn, Message]:
    """Whose replies the checkpoints hold: those of rounds that are over, and the writes of one that is not."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    with open_saver(saver) as opened:
        found = opened.get_tuple(config)
    if found is None:
        return {}
    written = [value for _, channel, value in found.pending_writes or [] if channel == "board"]
    told = [*found.checkpoint["channel_values"].get("board", []), *(each for value in written for each in value)]
    messages = map(Message.from_dict, told)
    return {(message.agent, message.round): message for message in messages}


def killed_after(calls: int, seconds: float, *told: Any) -> bool:
    """Kill the application so many seconds after so many calls of models; tells whether it was."""
    folder: Path = told[0]
    before = len(calls_in(folder))
    process = PROCESSES.Process(target=discuss, args=told)
    process.start()
    try:
        while process.is_alive() and len(calls_in(folder)) < before + calls:
            time.sleep(0.002)
        process.join(seconds)
        assert process.exitcode in (None, 0), "the application failed"
        return process.exitcode is None
    finally:
        process.kill()
        process.join()


def broken_often(folder: Path, saver: str, thread: str, kills: int, draw: random.Random) -> int:
    """Kill a debate at random moments until it is over, or so many times, then let it end; tells how often."""
    folder.mkdir()
    for done in range(kills + 1):
        had, before = committed(saver, thread), len(calls_in(folder))
        if done == kills:
            discuss(folder, saver, thread)
            broken = False
        else:
            broken = killed_after(draw.randint(1, 4), draw.uniform(0, 0.3), folder, saver, thread)
        again = calls_in(folder)[before:]
        assert not set(again) & set(had), "whose reply was committed was asked again"
        assert len(again) == len(set(again)), "somebody was asked twice in one go"
        if not broken:
            break
    return done


def end_of(folder: Path, saver: str, thread: str) -> Any:
    """All that was said, to the digest of what lay under it, and the decision."""
    said = {turn: (message.text, message.payload) for turn, message in committed(saver, thread).items()}
    return said, json.loads((folder / "decision").read_text())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("unbroken")
    discuss(folder, str(folder / "kept.sqlite"), "1")
    assert sorted(calls_in(folder)) == [(f"agent_{i}", n) for i in (1, 2, 3) for n in (0, 1, 2)]
    return end_of(folder, str(folder / "kept.sqlite"), "1")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "kept.sqlite")
    server: Server = request.getfixturevalue("postgres")
    return server.database()


def test_a_debate_that_is_killed_in_a_round_goes_on_with_the_missing_agents_to_the_same_end(
    saver: str, tmp_path: Path, unbroken: Any
) -> None:
    kills = broken_often(tmp_path / "run", saver, "1", 2, random.Random(7))

    assert kills >= 1 and end_of(tmp_path / "run", saver, "1") == unbroken


def test_a_kill_between_the_last_reply_of_a_round_and_its_checkpoint_asks_nobody_again(
    tmp_path: Path, unbroken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is `next` there: all tasks have their writes."""
    put = SqliteSaver.put

    def broken(self: SqliteSaver, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if checkpoint["channel_values"].get("board"):
            raise KeyboardInterrupt
        return put(self, config, checkpoint, metadata, new_versions)

    saver = str(tmp_path / "kept.sqlite")
    monkeypatch.setattr(SqliteSaver, "put", broken)
    with pytest.raises(KeyboardInterrupt):
        discuss(tmp_path, saver, "1")
    monkeypatch.undo()
    assert len(calls_in(tmp_path)) == 3
    discuss(tmp_path, saver, "1")

    assert len(calls_in(tmp_path)) == 9 and end_of(tmp_path, saver, "1") == unbroken


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))  # a test that takes longer than four minutes is taken to hang
def test_many_kills_change_nothing(saver: str, tmp_path: Path, unbroken: Any, seed: int) -> None:
    draw, kills, debates = random.Random(seed), 0, 0
    while kills < 10:
        folder = tmp_path / f"run-{debates}"
        kills += broken_often(folder, saver, str(debates), 4, draw)
        assert end_of(folder, saver, str(debates)) == unbroken
        debates += 1

    print(f"{kills} kills in {debates} debates")
