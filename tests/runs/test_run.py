"""A run as events, as a record, and as a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.runs.log import Asked, Count, Decided, Event, Intervention, Level, Opened, Reset, Speaking
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run
from tests.cli.screen import printed
from tests.runs import schemes
from tests.runs.schemes import SENT, WATCHED, Once, says
from tests.runs.single import Task, run_one
from tests.runs.support import QUESTION, task

REPLIES = {"agent_1": ["The answer is 21.", "The answer is 22."], "agent_2": ["The answer is 22."] * 2}


def real(model: str, **settings: object) -> Task:
    """A debate of a real, tiny model."""
    return Task("debate", Debate(model=[model], max_tokens=6, **settings), QUESTION)  # type: ignore[arg-type]  # by name


def test_votes_are_counted_after_all_spoke_and_groups_change_before_the_next_round(tmp_path: Path) -> None:
    seen: list[Event] = []

    schemes.held(*SENT, tmp_path, lambda run, event: seen.append(event))

    kinds = [type(event) for event in seen if not isinstance(event, (Asked, Speaking, Message))]
    assert kinds == [Level, Opened, Count, Level, Count, Decided]
    assert [event.round for event in seen if isinstance(event, (Count, Level))] == [0, 0, 1, 1]


def test_texts_stream_into_the_messages(model: str, tmp_path: Path) -> None:
    texts: dict[Place, list[str]] = {}

    def observe(run: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Speaking):
            texts.setdefault(event.message.place, []).append(event.message.text)

    run = run_one(real(model, rounds=2, summarise="each"), PayloadStore(tmp_path), observe=observe)

    longest = 0
    for message in run.messages:
        streamed = texts.pop(message.place)
        assert streamed[-1] == message.text
        assert all(message.text.startswith(text) for text in streamed)
        longest = max(longest, len(set(streamed)))
    assert texts == {}
    assert longest > 2


def test_what_was_said_again_is_published_and_what_was_held_back_is_withdrawn(tmp_path: Path) -> None:
    seen: list[Event] = []
    watch = Once("again")

    settings = Debate(rounds=2)
    run = schemes.held(settings, WATCHED, tmp_path, lambda run, event: seen.append(event), watch=watch)

    own = [event for event in seen if isinstance(event, Message) and event.agent == "agent_1"]
    assert [(event.round, event.attempt, event.text, event.notes) for event in own] == [
        (0, 0, says(21), ()), (1, 0, says(20), ("withdrawn: it wavers",)), (1, 1, says(22), ()),
    ]  # fmt: skip
    assert run.cost.calls == len(run.messages) == 5 and run.resets == []
    (entry,) = (event.intervention for event in seen if isinstance(event, Intervention))
    assert run.interventions == load_run(tmp_path / "run").only.interventions == [entry]
    assert (entry["agent"], entry["round"], entry["attempt"], entry["what"]) == ("agent_1", 1, 0, "again")
    assert "first attempt: withdrawn: it wavers" in printed(run, 120) and says(20) not in printed(run, 120)


def test_a_reset_is_an_event_and_what_it_withdrew_is_kept_and_shown(tmp_path: Path) -> None:
    seen: list[Event] = []
    watch = Once("reset")

    settings = Debate(rounds=2)
    run = schemes.held(settings, WATCHED, tmp_path, lambda run, event: seen.append(event), watch=watch)

    (reset,) = (event for event in seen if isinstance(event, Reset))
    assert (reset.cut, reset.why) == ([1, 0], "it wavers") and run.resets == [reset]
    assert [(message.epoch, message.round) for message in run.messages if message.agent == "agent_1"] == [
        (0, 0), (0, 1), (1, 1),
    ]  # fmt: skip
    assert load_run(tmp_path / "run").only.resets == [reset]
    shown = printed(run, 100)
    places = [shown.index(text) for text in ("Round 2, withdrawn", "Taken back to round 2", "it wavers\nRound 2 ")]
    assert places == sorted(places)


def test_the_file_holds_at_every_step_what_the_record_has(tmp_path: Path) -> None:
    had: list[int] = []

    def observe(run: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Message):
            had.append(len(load_run(tmp_path / "run").only.messages))

    run = run_one(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", observe=observe)

    assert had == [1, 2, 3, 4]
    assert load_run(tmp_path / "run").only == run


def test_a_run_that_was_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run_one(task({"agent_1": ["1"]}, {"question": " "}), PayloadStore(tmp_path), folder=tmp_path / "run")

    assert not (tmp_path / "run").exists()


def test_an_unexpected_error_is_recorded_and_reaches_the_caller(tmp_path: Path) -> None:
    def observe(run: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Message):
            raise ZeroDivisionError("a view broke")

    with pytest.raises(ZeroDivisionError):
        run_one(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", observe=observe)

    assert load_run(tmp_path / "run").only.error == "ZeroDivisionError: a view broke"


def test_a_cancelled_run_is_stopped_and_keeps_what_was_said(tmp_path: Path) -> None:
    def observe(run: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Message):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_one(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run", observe=observe)

    run = load_run(tmp_path / "run").only
    assert (run.status, run.error) == ("stopped", None)
    assert run.messages and {message.round for message in run.messages} == {0}


def begun() -> Run:
    """A run in which nobody spoke."""
    return Run(new_manifest("debate", Debate(), [QUESTION], origin="here", models=ScriptedChatModel()), [QUESTION])


def test_a_run_that_continues_forgets_why_it_had_stopped() -> None:
    run = begun()
    run.end("the limit was reached")
    assert (run.status, run.why) == ("stopped", "the limit was reached")
    run.add({"line": "resumed"})
    assert (run.status, run.why) == ("running", "")


@pytest.mark.parametrize(("outside", "score"), [(True, None), (False, 0.0)])
def test_a_result_keeps_that_scheme_and_protocol_are_not_the_cause(outside: bool, score: float | None) -> None:
    run = begun()
    (key,) = run.records
    run.fail(key, "the line is down", 1.0, outside=outside)
    (result,) = run.results()
    assert (result.outside, result.comparable_score) == (outside, score)
    run.end()
    assert run.status == "stopped"  # a failed discussion is tried again


def test_equal_payloads_of_several_messages_all_count() -> None:
    run, refs = begun(), [PayloadRef("nl", digest * 64, "0" * 64, 5, 100) for digest in "aab"]
    run.only.messages = [Message(f"agent_{n}", 0, "answer", "", payload=ref) for n, ref in enumerate(refs)]
    assert run.nbytes == 300
