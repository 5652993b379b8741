"""Transcripts stay whole: wide letters, many empty lines, terminals that lack Unicode or cannot move."""

from __future__ import annotations

import os
import unicodedata

import pytest

from sottovoce.channels.message import Message
from sottovoce.cli.live import LiveTranscript
from sottovoce.core.text import steady
from sottovoce.graphs.debate import Debate
from sottovoce.report import transcript
from sottovoce.report.tables import moves
from sottovoce.runs.log import Asked, Speaking
from sottovoce.runs.record import DiscussionRecord
from tests import warm
from tests.cli.screen import console_of, in_motion, text_of
from tests.runs.support import QUESTION

WIDE = {
    "Chinese": "你好世界。" * 40,
    "a family, joined": "👨‍👩‍👧‍👦" * 30,
    "combining accents": "e\u0301a\u0308" * 90,
}


def columns(line: str) -> int:
    """How wide a line is on a terminal that knows no sequences of letters: each takes what it takes alone."""
    wide = (2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line if not _combines(letter))
    return sum(wide)


def _combines(letter: str) -> bool:
    return unicodedata.category(letter) in ("Mn", "Me", "Cf")


def run_of(*said: Message) -> DiscussionRecord:
    settings = Debate().model_dump(mode="json")
    return DiscussionRecord(scheme="debate", settings=settings, question=QUESTION, messages=list(said))


@pytest.mark.parametrize("name", WIDE)
def test_borders_stay_whole_around_wide_letters(name: str) -> None:
    console = console_of(80, terminal=True, color_system=None)
    live = LiveTranscript(console, "loading")
    first, second = (Message(f"agent_{at}", 0, "answer", WIDE[name], order=at - 1) for at in (1, 2))

    live.observe(run_of(first), Speaking(second))

    lines = [line for line in in_motion(live, console).splitlines() if line.startswith(("│", "╭", "╰"))]
    assert {columns(line) for line in lines} == {80} and len(lines) > 4
    assert all(line.endswith(("│", "╮", "╯")) for line in lines)


def test_an_agent_that_has_said_nothing_yet_reads_its_prompt() -> None:
    console = console_of(80, terminal=True, color_system=None)
    live, run = LiveTranscript(console, "loading"), run_of()
    asked = {"epoch": 0, "round": 0, "turn": 0, "act": "answer", "attempt": 0, "turns": [("user", "x?")], "heard": []}

    for agent in ("agent_2", "agent_1"):
        live.observe(run, Asked.model_validate({**asked, "agent": agent}))
    before = in_motion(live, console).splitlines()
    live.observe(run, Speaking(Message("agent_2", 0, "answer", "It is", order=1)))
    after = in_motion(live, console).splitlines()

    titles = next(line for line in before if "agent_1 …" in line)
    assert titles.index("agent_1 …") < titles.index("agent_2 …")
    assert [line.count("reading the prompt") for line in before if "reading" in line] == [2]
    assert any("reading the prompt" in line and "It is" in line for line in after)


@pytest.mark.parametrize("text", ["22\n" + "\n" * 299 + "the end", "22" + "\n \n" * 150])
def test_many_empty_lines_are_a_mark(text: str) -> None:
    console = console_of(80)

    console.print(transcript.panel(Message("agent_1", 0, "answer", text)))

    printed = text_of(console)
    assert len(printed.splitlines()) < 9 and "299 empty lines" in printed
    assert ("22" in printed, "the end" in printed) == ("22" in text, "the end" in text)


@pytest.mark.parametrize(("term", "expected"), [("xterm-256color", True), ("dumb", False)])
def test_a_dumb_terminal_has_no_live_view(monkeypatch: pytest.MonkeyPatch, term: str, expected: bool) -> None:
    monkeypatch.setenv("TERM", term)

    assert moves(console_of(terminal=True)) is expected


def test_help_and_a_run_are_readable_where_there_is_only_ascii() -> None:
    program = (
        "import sys; sys.stdout.reconfigure(encoding='ascii'); "
        "from sottovoce.cli import command; command.LATE = 600; "  # whatever a busy machine takes to load
        "from sottovoce.cli.main import main; main(['debate', '--help-all']); main(['graph', 'list']); "
        "main(['single', 'Wie gro\\xdf ist 2 + 2?', '--max-tokens', '8'])"
    )

    done = warm.run(program, env={**os.environ, "LANG": "C", "LC_ALL": "C", "COLUMNS": "80"})

    assert (done.returncode, done.stderr, done.stdout.isascii()) == (0, "", True)
    lines = done.stdout.splitlines()
    boxed = [line for line in lines if line.startswith(("|", "+"))]
    assert len(boxed) > 2 and {len(line) for line in boxed} == {80}
    assert any(line.startswith("single - nl - bundled") for line in lines)
    assert any(r"Wie gro\xdf ist 2 + 2?" in line for line in lines)


def test_what_joins_emoji_is_left_out_and_what_joins_letters_stays() -> None:
    assert steady("👩‍💻 ❤️ 👍🏽") == "👩💻 ❤ 👍"
    assert steady("क्‍ष 🏽") == "क्‍ष "
