"""The transcript while it grows: what is finished is printed for good, the current round stays in motion."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.evaluation import describe, transcript
from sottovoce.evaluation.events import Decided, Event, Opened, RoundBegan, Speaking, Spoke
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
        match event:
            case Opened():
                self._console.print(transcript.opening(run))
            case RoundBegan() | Decided():
                self._print_spoken()
            case Speaking(node, message):
                self._speaking = {**self._speaking, (node, message.act): message}
            case Spoke(node, message):
                self._spoken = [*self._spoken, (message, transcript.panel(message))]
                self._speaking = {key: each for key, each in self._speaking.items() if key[0] != node}

    def _print_spoken(self) -> None:
        spoken, self._spoken = self._spoken, []
        for heading, messages in describe.rounds(message for message, _ in spoken):
            self._console.print(transcript.row(self._console, heading, messages))

    def _now(self) -> RenderableType:
        """What is in motion. Called from rich's thread too: it reads each attribute once."""
        finished = {message.key: panel for message, panel in self._spoken}
        messages = [message for message, _ in self._spoken] + list(self._speaking.values())
        rows: list[RenderableType] = []
        for heading, row in describe.rounds(messages):
            width = transcript.layout(self._console, len(row))[1]
            panels = [finished.get(message.key) or self._unfinished(message, width) for message in row]
            rows += [transcript.headline(heading), transcript.side_by_side(self._console, panels)]
        return Group(*rows) if rows else self._waiting

    def _unfinished(self, message: Message, width: int) -> Panel:
        """The end of a long text, so that what is new stays in sight."""
        text = Text(printable(message.text))
        lines = text.wrap(self._console, width - 4)[-max(self._console.height - FRAME, 3) :]
        return transcript.framed(f"{describe.speaker(message)} …", Text("\n").join(lines), "")
