"""Tests of the transcript in a pipe: each message is printed once it is finished."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from sottovoce.channels.message import Message
from sottovoce.cli.live import PipedTranscript, in_order
from sottovoce.report import transcript
from sottovoce.runs.events import Event, Opened
from sottovoce.runs.record import DiscussionRecord
from sottovoce.settings import Debate, Settings
from tests.cli.screen import printed
from tests.runs import schemes
from tests.runs.schemes import ALL, JUDGED, WATCHED, Once


def pipe(width: int = 60) -> Console:
    return Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("scheme", ALL)
def test_what_was_printed_in_the_end_is_the_transcript(
    scheme: tuple[Settings, schemes.Replies], tmp_path: Path
) -> None:
    console = pipe()

    with PipedTranscript(console) as piped:
        run = schemes.held(*scheme, tmp_path, piped.observe)
    console.print(transcript.conclusion(console, run))

    assert text_of(console) == printed(run)


@pytest.mark.parametrize("what", ["again", "reset"])
def test_what_a_watch_withdrew_is_left_as_the_transcript_has_it(
    what: Literal["again", "reset"], tmp_path: Path
) -> None:
    console = pipe()

    with PipedTranscript(console, watched=True) as piped:
        run = schemes.held(Debate(rounds=2), WATCHED, tmp_path, piped.observe, watch=Once(what))
    console.print(transcript.conclusion(console, run))

    assert text_of(console) == printed(run)


def test_a_message_is_printed_before_the_next_one_is_said(tmp_path: Path) -> None:
    console, seen = pipe(), list[tuple[Event, str]]()
    piped = PipedTranscript(console)

    def watch(run: DiscussionRecord, event: Event) -> None:
        piped.observe(run, event)
        seen.append((event, text_of(console)))

    schemes.held(*JUDGED, tmp_path, watch)

    said = [(event, text) for event, text in seen if isinstance(event, Message) and not event.attempt]
    assert len(said) > 5
    assert all(f"─ {event.agent} " in text and text.endswith("╯\n") for event, text in said[:3])
    counts = [text.count("╭─") for _, text in said]
    assert counts == sorted(counts) and len({*counts}) > 4


def test_nothing_is_printed_before_something_was_said(tmp_path: Path) -> None:
    console = pipe()
    run = DiscussionRecord(
        scheme="debate", settings=Debate().model_dump(mode="json"), question={"question": "x?", "kind": "number"}
    )

    with PipedTranscript(console) as piped:
        piped.observe(run, Opened(settings={}, notes=[]))

    assert text_of(console) == ""


def test_who_might_still_be_preceded_waits() -> None:
    first, second, third = (Message(f"agent_{at}", 0, "answer", "x", order=at - 1) for at in (1, 2, 3))

    assert in_order((second, third)) == () and in_order((first, third)) == (first,)
    assert in_order((first, second, third)) == (first, second, third)
