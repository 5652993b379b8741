"""A run as events, as a record, and as a file."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from sottovoce.errors import PayloadError, RecordError, SottovoceError, UsageError
from sottovoce.evaluation.events import Decided, Event, Opened, RoundBegan, Speaking, Spoke
from sottovoce.evaluation.record import FILE, Run, discard, load_run, save, write
from sottovoce.evaluation.run import Task, discuss
from sottovoce.nodes.settings import Debate
from tests.evaluation.support import QUESTION, held, task

REPLIES = {"agent_1": ["The answer is 21.", "The answer is 22."], "agent_2": ["The answer is 22."] * 2}


def real(model: str, **settings: object) -> Task:
    """A debate of a real, tiny model."""
    return Task("debate", Debate(model=[model], max_tokens=6, **settings), QUESTION)  # type: ignore[arg-type]  # by name


def test_events_come_in_order_of_time(tmp_path: Path) -> None:
    seen: list[Event] = []

    held(REPLIES, tmp_path, lambda run, event: seen.append(event))

    kinds = [type(event) for event in seen if not isinstance(event, Speaking)]
    assert kinds == [Opened, RoundBegan, Spoke, Spoke, RoundBegan, Spoke, Spoke, Decided]


@pytest.mark.parametrize("summarise", ["none", "each", "shared"])
def test_texts_grow_into_the_messages(model: str, tmp_path: Path, summarise: str) -> None:
    texts: dict[tuple[str, int, str], list[str]] = {}

    def watch(run: Run, event: Event) -> None:
        if isinstance(event, Speaking):
            message = event.message
            texts.setdefault((event.node, message.round, message.act), []).append(message.text)

    run = discuss(real(model, rounds=2, summarise=summarise), PayloadStore(tmp_path), watch=watch)

    longest = 0
    for message in run.messages:
        node = "summarise" if message.agent == "summariser" else message.agent
        grown = texts.pop((node, message.round, message.act))
        assert grown[-1] == message.text
        assert all(message.text.startswith(text) for text in grown)
        longest = max(longest, len(set(grown)))
    assert texts == {}
    assert longest > 2


def test_the_record_has_what_was_asked_said_and_decided(tmp_path: Path) -> None:
    run = held(REPLIES, tmp_path)

    assert (run.status, run.scheme, run.question) == ("done", "debate", QUESTION)
    assert [message.text for message in run.messages] == [
        "The answer is 21.", "The answer is 22.", "The answer is 22.", "The answer is 22.",
    ]  # fmt: skip
    assert run.decision is not None and run.decision["answer"] == "22"
    assert run.usage.calls == 4
    assert set(run.versions) == {"sottovoce", "python", "torch", "transformers", "langgraph"}


def test_the_file_holds_at_every_step_what_the_record_has(tmp_path: Path) -> None:
    had: list[int] = []

    def watch(run: Run, event: Event) -> None:
        if isinstance(event, Spoke):
            had.append(len(load_run(tmp_path / "run").messages))

    run = discuss(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", watch=watch)

    assert had == [1, 2, 3, 4]
    assert load_run(tmp_path / "run") == run


def test_a_run_with_payloads_reads_back_as_it_was(model: str, tmp_path: Path) -> None:
    run = discuss(real(model, protocol="sde", rounds=2), PayloadStore(tmp_path / "payloads"), folder=tmp_path / "run")

    assert load_run(tmp_path / "run") == run
    assert run.models["agent_1"].model == model


def test_a_failed_run_says_why_and_keeps_what_was_said(tmp_path: Path) -> None:
    replies = {"agent_1": ["1"], "agent_2": ["1", "2"]}  # agent_1 has no reply for the second round

    with pytest.raises(SottovoceError, match="script of agent 'agent_1' is empty"):
        discuss(task(replies), PayloadStore(tmp_path), folder=tmp_path / "run")

    run = load_run(tmp_path / "run")
    assert run.status == "failed" and len(run.messages) >= 2
    assert run.error is not None and run.error.startswith("the script of agent 'agent_1' is empty")


def test_a_run_that_was_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        discuss(task({"agent_1": ["1"]}, {"question": " "}), PayloadStore(tmp_path), folder=tmp_path / "run")

    assert not (tmp_path / "run").exists()


def test_an_unexpected_error_is_recorded_and_reaches_the_caller(tmp_path: Path) -> None:
    def watch(run: Run, event: Event) -> None:
        if isinstance(event, Spoke):
            raise ZeroDivisionError("a view broke")

    with pytest.raises(ZeroDivisionError):
        discuss(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", watch=watch)

    assert load_run(tmp_path / "run").error == "ZeroDivisionError: a view broke"


def test_a_cancelled_run_is_stopped_and_keeps_what_was_said(tmp_path: Path) -> None:
    def watch(run: Run, event: Event) -> None:
        if isinstance(event, Spoke):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        discuss(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", watch=watch)

    run = load_run(tmp_path / "run")
    assert (run.status, run.error, len(run.messages)) == ("stopped", None, 1)


def test_a_cut_payload_of_a_saved_run_is_told_by_its_digest(model: str, tmp_path: Path) -> None:
    run = discuss(real(model, protocol="cipher", rounds=1), PayloadStore(tmp_path / "payloads"))
    ref = run.messages[0].payload
    assert ref is not None
    (file,) = (tmp_path / "payloads").rglob(f"{ref.sha256}.safetensors")
    file.write_bytes(file.read_bytes()[:-7])

    with pytest.raises(PayloadError, match=f"payload {ref.sha256} is damaged") as caught:
        ref.load(PayloadStore(tmp_path / "payloads"))

    assert caught.value.exit_code == 1 and "\n" not in str(caught.value)


def test_a_payload_cut_while_the_run_goes_on_ends_it_with_message_and_digest(model: str, tmp_path: Path) -> None:
    def watch(run: Run, event: Event) -> None:
        if isinstance(event, Spoke):
            for file in (tmp_path / "payloads").rglob("*.safetensors"):
                file.write_bytes(file.read_bytes()[:100])

    store = PayloadStore(tmp_path / "payloads", kept=0)  # live copies would serve as well as the files
    with pytest.raises(PayloadError, match=r"message of 'agent_.', round 0: payload [0-9a-f]{64} is damaged"):
        discuss(real(model, protocol="sde", agents=3), store, folder=tmp_path / "run", watch=watch)

    assert load_run(tmp_path / "run").status == "failed"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda text: text[: len(text) // 2], "is damaged: "),
        (lambda text: "[]", "is no run: its format is None; expected 'sottovoce.run'"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "has version 2; this program reads 1"),
        (lambda text: text.replace('"status": "done"', '"status": "over"'), "is damaged: status: "),
        (lambda text: json.dumps({**json.loads(text), "messages": [{"agent": 1}]}), "is damaged: messages.0"),
    ],
)
def test_a_file_that_is_no_run_is_told_so(tmp_path: Path, change, line: str) -> None:  # type: ignore[no-untyped-def]
    save(held(REPLIES, tmp_path), tmp_path / "run")
    path = tmp_path / "run" / FILE
    path.write_text(change(path.read_text()))

    with pytest.raises(RecordError) as caught:
        load_run(tmp_path / "run")

    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_without_a_run_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"holds no run: run\.json cannot be read"):
        load_run(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "a", "before")
    (tmp_path / "folder").mkdir()

    with pytest.raises(RecordError, match="cannot be written"):
        write(tmp_path / "folder", "after")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_a_folder_that_holds_more_than_the_record_is_left(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{}")
    (tmp_path / "other").write_text("")

    discard(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_device_or_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    write(tmp_path / "pipe", "text")

    assert os.read(reading, 100) == b"text"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reading)
