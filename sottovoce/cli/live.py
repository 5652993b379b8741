"""The terminal while a run goes on: transcripts and progress that are redrawn, or printed elsewhere, and human input.

People at the terminal reply for an agent, or approve what agents do, in one line or several.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import SottovoceError
from sottovoce.core.text import harmless, one_line, say, steady
from sottovoce.report import describe, transcript
from sottovoce.report.blocks import Block, introduction, rounds
from sottovoce.report.tables import moves
from sottovoce.report.transcript import compact
from sottovoce.runs.log import Asked, Event, Opened, Speaking
from sottovoce.runs.record import DiscussionRecord, ordered
from sottovoce.runs.run import Run

PER_SECOND = 8  # redraws
READING = "reading the prompt"
"""Shown until the first token of a reply."""
AROUND = 8  # lines of the terminal that are not a panel's text


class LiveTranscript:
    """An observer of a run on a terminal; a context manager, so that the cursor is always shown again."""

    def __init__(self, console: Console, waiting: str, *, prompts: bool = False) -> None:
        """Show `waiting` until the agents begin; `prompts` adds the prompts of finished messages."""
        self._console, self._waiting = console, Text(waiting, style="dim")
        self._run: DiscussionRecord | None = None
        self._prompts = prompts
        self._speaking: dict[Place, Message] = {}
        self._panels: dict[tuple[Place, tuple[str, ...]], Panel] = {}
        self._printed = 0  # parts
        # Not by rich's own thread (15.0): while a line is printed it may draw a taller view, part of which remains.
        self._live = Live(get_renderable=self._now, console=console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def __enter__(self) -> LiveTranscript:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._speaking = {}
        self._print(all_of_it=True)
        self._live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop redrawing while somebody types."""
        self._print(all_of_it=True)
        self._live.stop()
        yield
        self._live.start()

    def resume(self, run: DiscussionRecord) -> None:
        """Show the opening of a resumed discussion; its messages so far are printed with the next ones."""
        if run.messages:
            self._run = run
            self._console.print(transcript.block(self._console, introduction(run)))

    def observe(self, run: DiscussionRecord, event: Event) -> None:
        """Process an event; finished parts are printed when the next part begins."""
        self._run = run
        match event:
            case Opened():
                self._console.print(transcript.block(self._console, introduction(run)))
            case Asked():
                names = run.chosen().names()
                order = names.index(event.agent) if event.agent in names else len(names)
                if all(at[:-1] != event.place[:-1] for at in self._speaking):  # else an earlier reply is still shown
                    self._speaking[event.place] = Message(**event.place._asdict(), text="", order=order)
            case Speaking(message):
                begins = message.place not in self._speaking
                kept = self._speaking if message.asked == "answer" else self._unfinished_elsewhere(message)
                self._speaking = {**kept, message.place: message}
                if not begins:
                    self._draw()
                    return
            case Message() as message:
                self._speaking = self._unfinished_elsewhere(message)
        self._print(all_of_it=run.decision is not None)
        self._draw(at_once=True)

    def _unfinished_elsewhere(self, message: Message) -> dict[Place, Message]:
        return {place: unfinished for place, unfinished in self._speaking.items() if place[:-1] != message.place[:-1]}

    def _draw(self, *, at_once: bool = False) -> None:
        if at_once or time.monotonic() - self._drawn > 1 / PER_SECOND:
            self._live.refresh()
            self._drawn = time.monotonic()

    def _parts(self, *, prompts: bool = False) -> list[Block]:
        if self._run is None:
            return []
        messages = ordered([*self._run.messages, *self._speaking.values()])
        return list(rounds(self._run.model_copy(update={"messages": messages}), prompts=prompts))

    def _print(self, *, all_of_it: bool) -> None:
        parts, begin = self._parts(prompts=self._prompts), self._printed
        opens = [number for number, part in enumerate(parts) if part.opens]
        self._printed = max(begin, len(parts) if all_of_it else max(opens, default=0))
        for part in parts[begin : self._printed]:
            self._console.print(self._shown(part))

    def _now(self) -> RenderableType:
        """Return the unfinished parts, without prompts: these are long, and are printed with the finished messages."""
        moving = self._parts()[self._printed :]
        return Group(*map(self._shown, moving)) if moving or self._printed else self._waiting

    def _shown(self, part: Block) -> RenderableType:
        if not any(message.place in self._speaking for message in part.messages):
            part = transcript.folded(part)
        width = transcript.width_of(self._console, 1 if part.prompts else len(part.messages))
        return transcript.block(self._console, part, [self._panel(each, width) for each in part.messages])

    def _panel(self, message: Message, width: int) -> Panel:
        """Return a message's panel; a finished message's panel is cached, since its shading reads the payload."""
        if message.place in self._speaking:
            said = compact(Text(steady(message.text))) if message.text else Text(READING, style="dim")
            lines = said.wrap(self._console, width - 4)
            again = ", asked again" if message.attempt else ""
            text = Text("\n").join(lines[-max(self._console.height - AROUND, 3) :])  # its end, where new text appears
            speaker, notes = f"{describe.speaker(message)}{again} …", " · ".join(map(one_line, message.notes))
            return transcript.titled(speaker, text, Text(notes, style="dim"))
        shown = message.place, message.notes
        if shown not in self._panels:
            self._panels[shown] = transcript.panel(message, colors=transcript.colored(self._console))
        return self._panels[shown]


class PipedTranscript:
    """An observer of a run for a pipe or a file; a context manager, so that a stopped run also shows its last messages.

    Each round is printed when it is over: until then a monitor may withdraw messages, which changes their headings.
    """

    def __init__(self, console: Console, *, prompts: bool = False) -> None:
        """Start with nothing printed; `prompts` adds the prompts."""
        self._console, self._prompts = console, prompts
        self._run: DiscussionRecord | None = None
        self._parts = -1
        """Number of printed parts; -1 before the introduction."""

    def __enter__(self) -> PipedTranscript:
        return self

    def __exit__(self, *error: object) -> None:
        self._print(all_of_it=True)

    def resume(self, run: DiscussionRecord) -> None:
        """Take over a resumed discussion; its messages so far are printed with the next ones."""
        self._run = run if run.messages else None

    def observe(self, run: DiscussionRecord, event: Event) -> None:
        """Print finished messages; nothing before the first message, since a run may be refused until then."""
        if not isinstance(event, Speaking) and run.messages:
            self._run = run
            self._print(all_of_it=run.decision is not None)

    def _print(self, *, all_of_it: bool) -> None:
        if self._run is None:
            return
        if self._parts < 0:
            self._console.print(transcript.block(self._console, introduction(self._run)))
            self._parts = 0
        parts = list(rounds(self._run, prompts=self._prompts))
        over = len(parts) if all_of_it else max((at for at, part in enumerate(parts) if part.opens), default=0)
        for part in parts[self._parts : over]:
            self._console.print(transcript.block(self._console, part))
        self._parts = max(self._parts, over)


BETWEEN = 30.0
"""Seconds between two lines if there is no terminal."""


class RunProgress:
    """An observer of a run; a context manager."""

    def __init__(self, console: Console, run: Run) -> None:
        """Start before the run resumes: discussions that are over count for the score, and not for the rate."""
        self._console, self._run = console, run
        self._before = self._over()
        self._began = self._last_line = time.monotonic()
        self._bar = Progress(
            BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[line]}"), console=console
        )
        self._task = self._bar.add_task("", total=len(run.records), completed=self._before, line="")

    def __enter__(self) -> Self:
        if moves(self._console):
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if moves(self._console):  # else rich prints an empty line
            self._bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop redrawing while somebody types."""
        self._bar.stop()
        yield
        if moves(self._console):
            self._bar.start()

    def observe(self, record: DiscussionRecord, event: Event) -> None:
        """Update the progress when a discussion is done."""
        if record.status != "done":
            return
        line, now = self.line(), time.monotonic()
        self._bar.update(self._task, completed=self._over(), line=line)
        if not moves(self._console) and now - self._last_line >= BETWEEN:
            self._last_line = now
            self._console.print(f"{self._over()} of {len(self._run.records)}: {line}", soft_wrap=True)

    def line(self) -> str:
        """Return rate, time left and score so far."""
        over, minutes = self._over() - self._before, (time.monotonic() - self._began) / 60
        counts = self._run.counts
        parts = [f"{over / minutes:.0f} a minute" if over else "none yet"]
        if over and (left := counts.discussions - self._over()):
            parts.append(f"{timedelta(seconds=round(left * minutes * 60 / over))} left")
        if counts.scored:
            parts.append(f"{counts.score / counts.scored:.0%} right")
        parts += [f"{n} {name}" for name, n in (("abstained", counts.abstained), ("failed", counts.failed)) if n]
        return ", ".join(parts)

    def _over(self) -> int:
        counts = self._run.counts
        return counts.done + counts.failed


Pause = Callable[[], AbstractContextManager[object]]
FENCE = '"""'
"""The line before and after a reply of several lines."""
REJECTED = "-"
Reply = str | JSON


def person(pause: Pause = nullcontext, *, hint: Callable[[], str]) -> Callable[[JSON], Reply]:
    """Return a function that answers a graph's interrupts (nodes.people, nodes.approve) from stdin.

    Questions go to stderr, so that stdout is only for the run. Of parallel discussions one asks at a time. `pause`
    stops redrawing on the terminal, and `hint` returns what to do if stdin has ended.
    """
    lock = threading.Lock()

    def answer(request: JSON) -> Reply:
        with lock, pause():
            prompt = _approval_prompt if "approve" in request else _reply_prompt
            say(prompt(request), error=True)
            reply = _reply()
        if reply is None:
            raise SottovoceError(f"no reply for {request['agent']}: stdin has ended; {hint()}")
        return {"approve": not reply} if "approve" in request and reply in ("", REJECTED) else reply

    return answer


def _reply() -> str | None:
    """Return the next line of stdin, or the lines between two fences; None if stdin has ended before."""
    line = read_line()
    if line is None or line.strip() != FENCE:
        return line
    lines = list[str]()
    while (line := read_line()) is not None and line.strip() != FENCE:
        lines.append(line)
    return "\n".join(lines) if line is not None else None


def read_line() -> str | None:
    """Return the next line of stdin without its end; None if there is none.

    At a terminal it polls stdin, so that an interrupt ends the wait.
    """
    while os.name == "posix" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], 0.2)[0]:
        continue
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


def _approval_prompt(request: JSON) -> str:
    agent, what, then = (one_line(request[name]) for name in ("agent", "approve", "then"))
    notes = [f"({one_line(note)})" for note in request["notes"]]
    how = f"Enter approves, {REJECTED} rejects, any other text replaces it: "
    begin = f"{agent} is about to do this ({what}):"
    return "\n".join([begin, harmless(request["text"]), *notes, f"Then {then}.", how])


def _reply_prompt(request: JSON) -> str:
    agent, act, why = (one_line(request[name]) for name in ("agent", "act", "why"))
    who = f"You reply for {agent} ({act}): {why}. The prompt:"
    turns = [f"[{role}]\n{harmless(text)}" for role, text in request["turns"]]
    how = f"Your reply, in one line, or in several between two lines of {FENCE}: {one_line(request['begun'])}"
    return "\n\n".join([who, *turns, how])
