"""The transcript while it grows."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, Group

from sottovoce.channels.message import Message
from sottovoce.evaluation.events import Decided, Opened, RoundBegan, Speaking, Spoke
from sottovoce.evaluation.live import LiveTranscript
from sottovoce.evaluation.record import Run
from tests.evaluation.support import held

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
def run(tmp_path: Path) -> Run:
    return held(REPLIES, tmp_path)


def test_every_round_is_printed_for_good(tmp_path: Path) -> None:
    console = screen()

    with LiveTranscript(console, "loading") as live:
        held(REPLIES, tmp_path, live.watch)

    text = shown(console)
    assert text.index("What is 14") < text.index("Round 1") < text.index("answer is 21") < text.rindex("Round 2")


def test_texts_grow_beside_what_is_finished(run: Run) -> None:
    console = screen()
    live = LiveTranscript(console, "loading")

    live.watch(run, Spoke("agent_1", Message("agent_1", 0, "answer", "I say 22.")))
    live.watch(run, Speaking("agent_2", Message("agent_2", 0, "answer", "Let me")))

    line = next(line for line in now(live, console).splitlines() if "I say 22." in line)
    assert "Let me" in line


def test_only_the_end_of_a_long_text_is_shown(run: Run) -> None:
    console = screen(height=15)
    live = LiveTranscript(console, "loading")

    live.watch(run, Speaking("agent_1", Message("agent_1", 0, "answer", "\n".join(map(str, range(100))))))

    text = now(live, console)
    assert "99" in text and "50" not in text
    assert len(text.splitlines()) < 15


def test_what_was_finished_stays_when_the_run_stops(run: Run) -> None:
    console = screen()

    with pytest.raises(KeyboardInterrupt), LiveTranscript(console, "loading") as live:
        live.watch(run, Opened((), {}))
        live.watch(run, RoundBegan(0))
        live.watch(run, Spoke("agent_1", Message("agent_1", 0, "answer", "I say 22.")))
        raise KeyboardInterrupt

    assert "I say 22." in shown(console).split("\x1b[?25h")[0]


def test_nothing_is_in_motion_after_the_decision(run: Run) -> None:
    live = LiveTranscript(screen(), "loading")
    assert run.decision is not None

    live.watch(run, Speaking("agent_1", Message("agent_1", 0, "answer", "I")))
    live.watch(run, Spoke("agent_1", Message("agent_1", 0, "answer", "I say 22.")))
    live.watch(run, Decided(run.decision))

    assert not isinstance(live._now(), Group)
