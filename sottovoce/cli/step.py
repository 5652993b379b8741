"""The command `step`: a discussion runs one step of its graph at a time, and steps can be undone or forked.

Commands are lines of stdin, typed or from a pipe; so are the replies of people who take part. Each step ends at a stop,
which is a checkpoint of the graph: the discussion can continue from any stop, as a branch of its own.

Nothing here imports torch or langgraph before a discussion is stepped through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from sottovoce.cli.command import SchemeCommands
from sottovoce.core.errors import SottovoceError, UsageError, nearest
from sottovoce.core.text import one_line
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained, knowledge
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.cli.step_stops import Stop, Stops

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
    """Run a discussion of a scheme step by step, by commands from stdin."""
    check_trained(scheme, settings, options.question)
    questions, origin = questions_of(options, settings)
    if len(questions) * max(len(options.seeds), 1) > 1:
        raise UsageError("the stepper takes one discussion, and several were requested; give one question and one seed")
    settings = settings.model_copy(update={"seed": options.seeds[0]}) if options.seeds else settings
    # Late: torch takes seconds, and errors in the request are reported first.
    from sottovoce.cli.step_stops import Stops
    from sottovoce.graphs import scheme as scheme_named
    from sottovoce.report.console import console_of
    from sottovoce.runs.runner import payload_store

    console = console_of()
    with payload_store(None) as store:
        stops = Stops(scheme_named(scheme).create(settings, store=store), questions[0])
        source = f" ({origin.words})" if origin.words else ""
        console.print(f"{one_line(questions[0]['question'])}{source}", style="bold", soft_wrap=True)
        for line in knowledge(settings.model, origin.words):
            console.print(line, style="dim", soft_wrap=True)
        Session(console, stops).run()


class Session:
    """A loop that reads commands and executes them."""

    def __init__(self, console: Console, stops: Stops) -> None:
        """Start at the first stop, before any node has run."""
        self._console, self._stops = console, stops

    def run(self) -> None:
        """Run until the user quits or stdin ends."""
        from sottovoce.agents.hosted import failure
        from sottovoce.cli.human_input import read_line

        self._say(str(self._stops.current), style="dim")
        while True:
            if sys.stdin.isatty():
                print(PROMPT, end="", flush=True)
            line = read_line()
            if line is None or line.strip() == "quit":
                return self._say(f"ended at {self._stops.current}")
            try:
                self.do(line)
            except Exception as error:
                expected = str(error) if isinstance(error, SottovoceError) else failure(error)
                if not expected:
                    raise
                self._say(one_line(expected))

    def do(self, line: str) -> None:
        """Execute one command."""
        from sottovoce.cli.step_stops import state_lines

        name, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        match name or "next":
            case "next":
                return self._next()
            case "go":
                self._next()
                while self._stops.current.next:
                    self._next()
                return None
            case "edit":
                agent, _, text = rest.partition(" ")
                if not text:
                    example = "edit agent_1 The answer is 5."
                    raise UsageError(f"edit is {rest!r}; expected an agent and a text, e.g. {example}")
                return self._show_change(lambda: self._stops.edit(agent, text.strip()))
            case "back":
                self._stops.back()
            case "fork":
                self._stops.fork(_number(rest))
            case "state":
                self._say(*state_lines(self._stops.values))
            case "history":
                return self._say(*map(self._in_history, self._stops.all))
            case "help":
                return self._say(*(f"{command:9}{text}" for command, text in HELP.items()))
            case _:
                raise UsageError(f"{nearest('command', name, HELP)}; `help` lists all")
        self._say(str(self._stops.current), style="dim")

    def _next(self) -> None:
        self._show_change(self._stops.next)

    def _show_change(self, change: Callable[[], None]) -> None:
        from sottovoce.cli.step_stops import changes, new_messages
        from sottovoce.report import transcript
        from sottovoce.report.blocks import Block

        before = self._stops.values
        change()
        after = self._stops.values
        if messages := new_messages(before, after):
            self._console.print(transcript.block(self._console, Block("", tuple(messages))))
        self._say(*changes(before, after))
        self._say(str(self._stops.current), style="dim")

    def _in_history(self, stop: Stop) -> str:
        mark = "*" if stop is self._stops.current else " "
        return f"{mark} {stop}" + ("" if stop.before is None else f" (from stop {stop.before})")

    def _say(self, *lines: str, style: str = "") -> None:
        for line in lines:
            self._console.print(line, style=style, soft_wrap=True)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:  # also of more digits than Python reads
        raise UsageError(f"fork is {text[:20]!r}; expected a stop's number, as `history` shows them") from error


STEP = "Run a discussion step by step: see the changes of each step, edit, go back, fork."
commands = SchemeCommands("step", STEP, step_through, QuestionOptions)
