"""A stepper at a terminal: a discussion runs one step of its graph at a time, and steps can be undone or forked.

Commands are lines of stdin, typed or from a pipe; so are the replies of people who take part. Each step ends at a stop,
which is a checkpoint of the graph: the discussion can continue from any stop, as a branch of its own.

Nothing here imports torch or langgraph before a discussion is stepped through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sottovoce.cli.command import SchemeCommands
from sottovoce.core.errors import SottovoceError, UsageError, nearest
from sottovoce.core.text import one_line
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained, knowledge
from sottovoce.report.output import console_of
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.cli.step_stops import Stops

PROMPT = "step> "
HELP = {
    "next": "or Enter: run one step, with all agents that act side by side",
    "go": "run to the end",
    "edit": "AGENT TEXT: replace an agent's last message; others read the new text in words",
    "back": "go back to the previous stop",
    "fork": "N: continue from stop N, as a branch",
    "state": "show the state of the discussion",
    "history": "list all stops, with what ran before each and what runs next",
    "help": "show this list",
    "quit": "end here; so does the end of stdin",
}


def step_through(scheme: str, settings: Settings, options: QuestionOptions) -> None:
    """Run a discussion of a scheme step by step, by commands from stdin.

    Raises:
        UsageError: the request cannot be met, or is for several discussions.
    """
    check_trained(scheme, settings, options.question)
    questions, origin = questions_of(options, settings)
    if len(questions) * max(len(options.seeds), 1) > 1:
        raise UsageError("the stepper takes one discussion, and several were requested; give one question and one seed")
    settings = settings.model_copy(update={"seed": options.seeds[0]}) if options.seeds else settings
    # Late: torch takes seconds, and errors in the request are reported first.
    from sottovoce.cli.step_stops import Stops
    from sottovoce.graphs import scheme as of_name
    from sottovoce.runs.runner import payload_store

    console = console_of()
    with payload_store(None) as store:
        stops = Stops(of_name(scheme).create(settings, store=store), questions[0])
        told = f" ({origin.words})" if origin.words else ""
        console.print(f"{one_line(questions[0]['question'])}{told}", style="bold", soft_wrap=True)
        for line in knowledge(settings.model, origin.words):
            console.print(line, style="dim", soft_wrap=True)
        Session(console, stops).run()


def _told(error: Exception) -> str | None:
    """Return the line for an expected error, ours or of a hosted model's provider; None for any other."""
    from sottovoce.agents.hosted import failure

    return str(error) if isinstance(error, SottovoceError) else failure(error)


class Session:
    """A loop that reads commands and executes them."""

    def __init__(self, console: Console, stops: Stops) -> None:
        """Start at the first stop, before any node has run."""
        self._console, self._stops, self._over = console, stops, False
        self._commands: dict[str, Callable[[str], None]] = {
            name: getattr(self, f"_{name}") for name in HELP if name != "quit"
        }

    def run(self) -> None:
        """Run until the user quits or stdin ends."""
        from sottovoce.cli.human_input import read_line

        self._where()
        while True:
            if sys.stdin.isatty():
                print(PROMPT, end="", flush=True)
            line = read_line()
            if line is None or line.strip() == "quit":
                return self._say(f"ended at {self._stops.here}")
            try:
                self.do(line)
            except Exception as error:
                if not (told := _told(error)):
                    raise
                self._say(one_line(told))

    def do(self, line: str) -> None:
        """Execute one command.

        Raises:
            SottovoceError: the command fails; the state does not change.
        """
        name, _, rest = line.strip().partition(" ")
        name = name or "next"
        if name not in self._commands:
            raise UsageError(f"{nearest('command', name, HELP)}; `help` lists all")
        self._commands[name](rest.strip())

    def _next(self, rest: str) -> None:
        self._changed(self._stops.next)

    def _go(self, rest: str) -> None:
        self._next(rest)
        while self._stops.here.next:
            self._next(rest)

    def _edit(self, rest: str) -> None:
        agent, _, text = rest.partition(" ")
        if not text.strip():
            raise UsageError(f"edit is {rest!r}; expected an agent and a text, e.g. edit agent_1 The answer is 5.")
        self._changed(lambda: self._stops.edit(agent, text.strip()))

    def _back(self, rest: str) -> None:
        self._stops.back()
        self._where()

    def _fork(self, rest: str) -> None:
        try:
            number = int(rest)
        except ValueError as error:  # also of more digits than Python reads
            raise UsageError(f"fork is {rest[:20]!r}; expected a stop's number, as `history` shows them") from error
        self._stops.fork(number)
        self._where()

    def _state(self, rest: str) -> None:
        from sottovoce.cli.step_changes import at

        for line in at(self._stops.values):
            self._say(line)
        self._where()

    def _history(self, rest: str) -> None:
        for stop in self._stops.all:
            mark = "*" if stop is self._stops.here else " "
            before = "" if stop.before is None else f" (from stop {stop.before})"
            self._say(f"{mark} {stop}{before}")

    def _help(self, rest: str) -> None:
        for name, told in HELP.items():
            self._say(f"{name:9}{told}")

    def _changed(self, do: Callable[[], None]) -> None:
        """Execute a change, and show its effect on the state."""
        from sottovoce.cli.step_changes import changes, new_messages
        from sottovoce.report import transcript
        from sottovoce.report.blocks import Part

        before = self._stops.values
        do()
        after = self._stops.values
        if said := new_messages(before, after):
            self._console.print(transcript.part(self._console, Part("", tuple(said))))
        for line in changes(before, after):
            self._say(line)
        self._where()

    def _where(self) -> None:
        self._say(f"{self._stops.here}", style="dim")

    def _say(self, line: Any, style: str = "") -> None:  # Any: whatever has words
        self._console.print(str(line), style=style, soft_wrap=True)


STEP = "Run a discussion step by step: see the changes of each step, edit, go back, fork."
commands = SchemeCommands("step", STEP, step_through, QuestionOptions)
