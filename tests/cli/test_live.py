"""Tests of the transcript while it streams."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from sottovoce.channels.message import Message
from sottovoce.cli.live import LiveTranscript
from sottovoce.nodes.decide import majority
from sottovoce.report import transcript
from sottovoce.runs.events import Count, Decided, Event, Opened, Speaking
from sottovoce.runs.record import DiscussionRecord, ordered
from sottovoce.settings import Debate, Settings
from tests.cli.screen import left_on_screen
from tests.runs import schemes
from tests.runs.schemes import ALL, ASKED, JUDGED, WATCHED, WEIGHED, Once
from tests.runs.support import QUESTION, held

REPLIES = {"agent_1": ["The answer is 21.", "The answer is 22."], "agent_2": ["The answer is 22."] * 2}


def screen(width: int = 100, height: int = 30) -> Console:
    return Console(file=StringIO(), width=width, height=height, force_terminal=True, markup=False, highlight=False)


def shown(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def now(live: LiveTranscript, console: Console) -> str:
    with console.capture() as capture:
        console.print(live._now())
    return capture.get()


@pytest.fixture
def run() -> DiscussionRecord:
    """A record that holds nothing yet."""
    return DiscussionRecord(scheme="debate", settings=Debate().model_dump(mode="json"), question=QUESTION)


def spoke(run: DiscussionRecord, message: Message) -> Message:
    """The event after the record took it."""
    run.messages = ordered([*run.messages, message])
    return message


def test_every_round_is_printed_for_good(tmp_path: Path) -> None:
    console = screen()

    with LiveTranscript(console, "loading") as live:
        held(REPLIES, tmp_path, live.observe)

    text = shown(console)
    assert text.index("What is 14") < text.index("Round 1") < text.index("answer is 21") < text.rindex("Round 2")


def test_texts_stream_beside_what_is_finished(run: DiscussionRecord) -> None:
    console = screen()
    live = LiveTranscript(console, "loading")

    live.observe(run, spoke(run, Message("agent_1", 0, "answer", "I say 22.")))
    live.observe(run, Speaking(Message("agent_2", 0, "answer", "Let me", order=1)))

    line = next(line for line in now(live, console).splitlines() if "I say 22." in line)
    assert "Let me" in line


def test_only_the_end_of_a_long_text_is_shown(run: DiscussionRecord) -> None:
    console = screen(height=15)
    live = LiveTranscript(console, "loading")

    live.observe(run, Speaking(Message("agent_1", 0, "answer", "\n".join(map(str, range(100))))))

    text = now(live, console)
    assert "99" in text and "50" not in text
    assert len(text.splitlines()) < 15


def test_what_was_finished_stays_when_the_run_stops(run: DiscussionRecord) -> None:
    console = screen()

    with pytest.raises(KeyboardInterrupt), LiveTranscript(console, "loading") as live:
        live.observe(run, Opened(settings={}, notes=[]))
        live.observe(run, spoke(run, Message("agent_1", 0, "answer", "I say 22.")))
        raise KeyboardInterrupt

    assert "I say 22." in shown(console).split("\x1b[?25h")[0]


def test_nothing_is_in_motion_after_the_decision(run: DiscussionRecord) -> None:
    console = screen()
    live = LiveTranscript(console, "loading")
    assert "loading" in now(live, console)

    live.observe(run, Speaking(Message("agent_1", 0, "answer", "I")))
    live.observe(run, spoke(run, Message("agent_1", 0, "answer", "I say 22.")))
    assert "I say 22." in now(live, console)
    run.decision = majority([], QUESTION)
    live.observe(run, Decided(decision=run.decision))

    assert now(live, console).strip() == ""


def moments(scheme: tuple[Settings, schemes.Replies], tmp_path: Path) -> list[tuple[Event, str]]:
    """Each event of a scripted run, and what is in motion after it."""
    console = screen(height=80)
    live, seen = LiveTranscript(console, "loading"), list[tuple[Event, str]]()

    def watch(run: DiscussionRecord, event: Event) -> None:
        live.observe(run, event)
        seen.append((event, now(live, console)))

    schemes.held(*scheme, tmp_path, watch)
    return seen


@pytest.mark.parametrize("scheme", [*ALL, (Debate(summarise="each"), {"": ["The answer is 22."] * 10})])
def test_what_is_left_of_the_live_view_is_the_transcript(
    scheme: tuple[Settings, schemes.Replies], tmp_path: Path
) -> None:
    live, after = screen(height=500), screen(height=500)

    with LiveTranscript(live, "loading") as view:
        run = schemes.held(*scheme, tmp_path, view.observe)
    live.print(transcript.conclusion(live, run))
    transcript.print_run(after, run)

    assert left_on_screen(shown(live)) == left_on_screen(shown(after))


@pytest.mark.parametrize("what", ["again", "reset"])
def test_what_a_watch_withdrew_is_left_as_the_transcript_has_it(
    what: Literal["again", "reset"], tmp_path: Path
) -> None:
    live, after = screen(height=500), screen(height=500)

    with LiveTranscript(live, "loading") as view:
        run = schemes.held(Debate(rounds=2), WATCHED, tmp_path, view.observe, watch=Once(what))
    live.print(transcript.conclusion(live, run))
    transcript.print_run(after, run)

    assert left_on_screen(shown(live)) == left_on_screen(shown(after))


def test_debaters_stay_in_sight_while_the_next_one_speaks(tmp_path: Path) -> None:
    seen = [
        text
        for event, text in moments(JUDGED, tmp_path)
        if isinstance(event, Speaking) and event.message.agent == "negative" and event.message.round
    ]

    assert all("Round 2" in text and "Round 1" not in text for text in seen)
    assert all("affirmative" in text and "answer is 22" in text and "negative" in text for text in seen)


def test_agents_stand_in_the_order_in_which_they_speak(tmp_path: Path) -> None:
    seen = moments(JUDGED, tmp_path)

    text = next(text for event, text in seen if isinstance(event, Speaking) and event.message.agent == "moderator")
    places = [text.index(name) for name in ("affirmative", "negative", "debater_3", "moderator")]
    assert places == sorted(places)


def test_votes_appear_when_they_are_counted(tmp_path: Path) -> None:
    seen = moments(WEIGHED, tmp_path)

    before = next(text for event, text in seen if isinstance(event, Message))
    counted = next(text for event, text in seen if isinstance(event, Count))
    assert "Vote after round 1:" not in before
    assert "22 ×1, weight 0.8: agent_1 (confidence 0.95, weight 0.8)" in counted


def test_an_agent_that_is_asked_again_is_shown_as_it_speaks_again(tmp_path: Path) -> None:
    said = [
        (event.message.attempt, text)
        for event, text in moments(JUDGED, tmp_path)
        if isinstance(event, Speaking) and event.message.agent == "moderator" and not event.message.round
    ]

    assert [attempt for attempt, _ in said] == [0, 1]
    assert "Hard to say." in said[0][1] and "asked again" not in said[0][1]
    assert "moderator, asked again …" in said[1][1] and "Hard to say." not in said[1][1]


def test_an_answer_turn_appears_under_its_reply(tmp_path: Path) -> None:
    said = [
        (event.message.asked, text)
        for event, text in moments(ASKED, tmp_path)
        if isinstance(event, Speaking) and event.message.agent == "secretary"
    ]

    assert [asked for asked, _ in said] == ["", "answer"]
    assert "Both." in said[0][1] and "it says" not in said[0][1]
    assert "secretary …" in said[1][1] and "Both." in said[1][1] and 'it says "22"' in said[1][1]


def test_the_round_is_printed_before_its_judge_speaks(tmp_path: Path) -> None:
    speaking = [
        text
        for event, text in moments(JUDGED, tmp_path)
        if isinstance(event, Speaking) and event.message.act == "judge"
    ]

    assert all("The judge's choice after round 2" in text for text in speaking)
    assert not any("Round 2" in text or "Candidates" in text for text in speaking)
