"""The transcript of a discussion that runs: redrawn on a terminal, and printed message by message elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from sottovoce.channels.message import Message, Place
from sottovoce.core.text import one_line, steady
from sottovoce.report import describe, transcript
from sottovoce.report.blocks import Block, introduction, rounds
from sottovoce.report.transcript import compact
from sottovoce.runs.events import Asked, Event, Opened, Speaking
from sottovoce.runs.record import DiscussionRecord, ordered

PER_SECOND = 8  # redraws
READING = "reading the prompt"
"""Shown until the first token of a reply."""
AROUND = 8  # lines of the terminal that are not a panel's text


class LiveTranscript:
    """An observer of a run on a terminal; a context manager, since the cursor must come back whatever happens."""

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
                self._wait(run, event)
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

    def _wait(self, run: DiscussionRecord, call: Asked) -> None:
        """Show that an agent reads its prompt, unless an earlier reply of the same act is still on the screen."""
        names = run.chosen().names()
        order = names.index(call.agent) if call.agent in names else len(names)
        if all(at[:-1] != call.place[:-1] for at in self._speaking):
            self._speaking[call.place] = Message(**call.place._asdict(), text="", order=order)

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
        width = transcript.width_of(self._console, 1 if part.prompts else len(part.messages))
        return transcript.block(self._console, part, [self._panel(each, width) for each in part.messages])

    def _panel(self, message: Message, width: int) -> Panel:
        """Return a message's panel; that of a finished message is made once, since its shading reads the payload."""
        if message.place in self._speaking:
            return self._unfinished(message, width)
        shown = message.place, message.notes
        if shown not in self._panels:
            self._panels[shown] = transcript.panel(message)
        return self._panels[shown]

    def _unfinished(self, message: Message, width: int) -> Panel:
        """Return a panel with the end of a long text, so that new text stays visible, and the notes below it."""
        said = compact(Text(steady(message.text))) if message.text else Text(READING, style="dim")
        lines = said.wrap(self._console, width - 4)
        again = ", asked again" if message.attempt else ""
        shown = Text("\n").join(lines[-max(self._console.height - AROUND, 3) :])
        speaker, notes = f"{describe.speaker(message)}{again} …", " · ".join(map(one_line, message.notes))
        return transcript.titled(speaker, shown, notes)


class PipedTranscript:
    """An observer of a run for a pipe or a file; a context manager, so that a stopped run shows all that it had.

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
        """Print what is finished; nothing before the first message, since a run may be refused until then."""
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
