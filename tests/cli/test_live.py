"""Tests of the transcript and the progress of a run while it is running: on a terminal, and in a pipe."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sottovoce.channels.message import Message
from sottovoce.cli import live
from sottovoce.cli.live import LiveTranscript, PipedTranscript, RunProgress
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.settings import Settings
from sottovoce.report import transcript
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Count, Event
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import load_run
from sottovoce.runs.runner import resume_run
from tests.cli.screen import console_of, in_motion, left_on_screen, printed, text_of
from tests.runs import schemes
from tests.runs.schemes import ASKED, JUDGED, WATCHED, WEIGHED, Once
from tests.runs.test_saved_runs import begin, fresh, hold


def moments(scheme: tuple[Settings, schemes.Replies], tmp_path: Path) -> list[tuple[Event, str]]:
    """Each event of a scripted run, and what is in motion after it."""
    console = console_of(100, 80, terminal=True)
    live, seen = LiveTranscript(console, "loading"), list[tuple[Event, str]]()

    def watch(run: DiscussionRecord, event: Event) -> None:
        live.observe(run, event)
        seen.append((event, in_motion(live, console)))

    schemes.held(*scheme, tmp_path, watch)
    return seen


SUMMED: tuple[Settings, schemes.Replies] = (Debate(summarise="each"), {"": ["The answer is 22."] * 10})
TAKEN_BACK: tuple[Settings, schemes.Replies] = (Debate(rounds=2), WATCHED)


@pytest.mark.parametrize(
    ("scheme", "watch"),
    [*((scheme, None) for scheme in (JUDGED, ASKED, SUMMED)), (TAKEN_BACK, Once("again")), (TAKEN_BACK, Once("reset"))],
)
def test_a_terminal_and_a_pipe_are_left_with_the_transcript(
    scheme: tuple[Settings, schemes.Replies], watch: Once | None, tmp_path: Path
) -> None:
    live, after, piped = console_of(100, 500, terminal=True), console_of(100, 500, terminal=True), console_of()

    with LiveTranscript(live, "loading") as view, PipedTranscript(piped) as printer:

        def observe(run: DiscussionRecord, event: Event) -> None:
            view.observe(run, event)
            printer.observe(run, event)

        run = schemes.held(*scheme, tmp_path, observe, watch=watch)
    for console in (live, piped):
        console.print(transcript.conclusion(console, run))
    transcript.print_run(after, run)

    assert left_on_screen(text_of(live)) == left_on_screen(text_of(after))
    assert text_of(piped) == printed(run)


def test_votes_appear_when_they_are_counted(tmp_path: Path) -> None:
    seen = moments(WEIGHED, tmp_path)

    before = next(text for event, text in seen if isinstance(event, Message))
    counted = next(text for event, text in seen if isinstance(event, Count))
    assert "Vote after round 1:" not in before
    assert "22 ×1, weight 0.8: agent_1 (confidence 0.95, weight 0.8)" in counted


def test_a_round_is_printed_when_the_next_one_begins(tmp_path: Path) -> None:
    console, seen = console_of(), list[tuple[Event, str]]()

    def watch(run: DiscussionRecord, event: Event) -> None:
        piped.observe(run, event)
        seen.append((event, text_of(console)))

    with PipedTranscript(console) as piped:
        schemes.held(*JUDGED, tmp_path, watch)

    said = [(event, text) for event, text in seen if isinstance(event, Message) and event.act == "revise"]
    assert said and all(text.count("╭─ affirmative") == 1 and text != text_of(console) for _, text in said)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_how_many_are_over_the_rate_and_the_score_and_a_pipe_a_line_now_and_then(
    terminal: bool, tmp_path: Path
) -> None:
    run, seen = begin(tmp_path / "run", 2), StringIO()

    shown = RunProgress(Console(file=seen, force_terminal=terminal, width=100), run)
    shown._last_line -= live.BETWEEN  # as if so much time had passed
    with shown:
        hold(run, observe=shown.observe, limits=Limits(at_once=1))

    if terminal:
        assert "2/2" in seen.getvalue() and " a minute" in seen.getvalue() and "0% right" in seen.getvalue()
    else:
        (line,) = seen.getvalue().splitlines()
        assert line.startswith("1 of 2: ") and " a minute, " in line and line.endswith(" left, 0% right")


def test_what_earlier_sessions_did_counts_for_the_score_and_not_for_the_rate(tmp_path: Path) -> None:
    hold(begin(tmp_path / "run", 3), limits=Limits(call_limit=16, at_once=1))
    run = resume_run(load_run(tmp_path / "run"), models=fresh())

    assert RunProgress(Console(file=StringIO()), run).line() == "none yet, 0% right"
    run.close()
