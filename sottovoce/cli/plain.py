"""The transcript for a pipe or a file: each message is printed once it is finished, in the transcript's order.

In the end the output is the transcript of the run. A watched run may withdraw messages, which changes their headings,
so such a run is printed in whole rounds.
"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from sottovoce.channels.message import Message
from sottovoce.report import transcript
from sottovoce.report.blocks import Block, introduction, rounds
from sottovoce.runs.events import Event, Speaking
from sottovoce.runs.record import DiscussionRecord


class PipedTranscript:
    """An observer of a run that never redraws; a context manager, so that a stopped run shows all that it had."""

    def __init__(self, console: Console, *, prompts: bool = False, watched: bool = False) -> None:
        """Start with nothing printed; `prompts` adds the prompts, and `watched` says that messages may be withdrawn."""
        self._console, self._prompts, self._watched = console, prompts, watched
        self._run: DiscussionRecord | None = None
        self._parts = self._messages = 0
        """Numbers of printed parts, and of printed messages of the part that follows."""
        self._opened = False

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
        if not self._opened:
            self._console.print(transcript.block(self._console, introduction(self._run)))
            self._opened = True
        parts = list(rounds(self._run, prompts=self._prompts))
        over = len(parts) if all_of_it else max((at for at, part in enumerate(parts) if part.opens), default=0)
        for part in parts[self._parts : over]:
            self._finish(part, part.messages, lines=True)
            self._parts, self._messages = self._parts + 1, 0
        if self._parts < len(parts) and not self._watched:
            now = parts[self._parts]
            self._finish(now, in_order(now.messages), lines=False)

    def _finish(self, part: Block, messages: tuple[Message, ...], *, lines: bool) -> None:
        """Print the remaining messages of a part, one by one, and with `lines` the lines below them."""
        for message in messages[self._messages :]:
            heading = "" if self._messages else part.heading
            self._show(Block(heading, (message,), prompts=part.prompts))
            self._messages += 1
        if lines:
            self._show(replace(part, heading="" if self._messages else part.heading, messages=()))

    def _show(self, part: Block) -> None:
        if part.heading or part.messages or part.lines:
            self._console.print(transcript.block(self._console, part))


def in_order(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the leading messages that are at their own places, before which no other can come any more."""
    stand = next((at for at, message in enumerate(messages) if message.order != at), len(messages))
    return messages[:stand]
