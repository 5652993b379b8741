"""The transcript while it grows: what is finished is printed for good, the current round stays in motion."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.evaluation import describe, parts, transcript, votes
from sottovoce.evaluation.events import Counted, Decided, Event, Opened, Regrouped, RoundBegan, Speaking, Spoke
from sottovoce.evaluation.printable import printable
from sottovoce.evaluation.record import Run

PER_SECOND = 8  # redraws
FRAME = 8  # lines of the terminal that are not a panel's text


class LiveTranscript:
    """Watches a run on a terminal; a context manager, since the cursor must come back whatever happens."""

    def __init__(self, console: Console, waiting: str) -> None:
        """`waiting` is shown until the agents begin."""
        self._console, self._waiting = console, Spinner("dots", Text(waiting, style="dim"))
        self._speaking: dict[tuple[str, str], Message] = {}
        self._spoken: list[tuple[Message, Panel]] = []
        self._counted: parts.Lines = {}
        self._order: list[str] = []
        self._live = Live(get_renderable=self._now, console=console, refresh_per_second=PER_SECOND, transient=True)

    def __enter__(self) -> LiveTranscript:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._speaking = {}
        self._print_spoken()
        self._live.stop()

    def watch(self, run: Run, event: Event) -> None:
        """Take in an event. A round is printed when the next begins: summaries of it may be said until then."""
        self._order = parts.order(run)
        match event:
            case Opened():
                self._console.print(transcript.opening(run))
            case RoundBegan() | Decided():
                self._print_spoken()
            case Regrouped(level):
                self._print_spoken()
                self._console.print(transcript.part(self._console, parts.level(run.levels, level)))
            case Speaking(node, message):
                self._print_before(message)
                self._speaking = {**self._speaking, (node, message.act): message}
            case Spoke(node, message):
                self._print_before(message)
                self._speaking = {key: each for key, each in self._speaking.items() if key[0] != node}
                self._spoken = [*self._spoken, (message, self._finished(message))]
            case Counted(round, cast):
                self._counted = {**self._counted, round: votes.count(round, cast, run.question)}

    def _finished(self, message: Message) -> Panel:
        """Made once: tokens are shaded by what the payload holds."""
        attempts = [each for each, _ in self._spoken if each.key[:3] == message.key[:3]]
        return transcript.panel(describe.last_attempts([*attempts, message])[0])

    def _print_before(self, message: Message) -> None:
        """The staff speaks when the round is over, and each of its acts when the one before is over."""
        if message.act in parts.STAFF and any(each.act != message.act for each, _ in self._spoken):
            self._print_spoken()

    def _print_spoken(self) -> None:
        spoken, counted = self._spoken, self._counted
        self._spoken, self._counted = [], {}
        for part in parts.rounds([message for message, _ in spoken], counted, self._order):
            self._console.print(transcript.part(self._console, part))

    def _now(self) -> RenderableType:
        """What is in motion. Called from rich's thread too: it reads each attribute once."""
        spoken = self._spoken
        finished = {message.key: panel for message, panel in spoken}
        messages = [message for message, _ in spoken] + list(self._speaking.values())
        rows: list[RenderableType] = []
        for part in parts.rounds(messages, self._counted, self._order):
            width = transcript.layout(self._console, len(part.messages))[1]
            panels = [finished.get(each.key) or self._unfinished(each, width) for each in part.messages]
            rows.append(transcript.part(self._console, part, panels))
        return Group(*rows) if rows else self._waiting

    def _unfinished(self, message: Message, width: int) -> Panel:
        """The end of a long text, so that what is new stays in sight."""
        text = Text(printable(message.text))
        lines = text.wrap(self._console, width - 4)[-max(self._console.height - FRAME, 3) :]
        again = ", asked again" if message.attempt else ""
        return transcript.framed(f"{describe.speaker(message)}{again} …", Text("\n").join(lines), "")
