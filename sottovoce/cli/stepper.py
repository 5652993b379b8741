"""The stepper: a discussion runs one step of its graph at a time, and steps can be edited, undone or forked.

Commands are lines of stdin, typed or from a pipe; so are the replies of people who take part. Each step ends at a stop,
which is a checkpoint of the graph: the discussion can continue from any stop, as a branch of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot, StateUpdate
from rich.console import Console

from sottovoce.agents.ask import HUMAN
from sottovoce.agents.hosted import failure
from sottovoce.channels.message import Message
from sottovoce.cli.live import person, read_line
from sottovoce.cli.options import as_options
from sottovoce.core.any_types import JSON, AnyState, Untyped
from sottovoce.core.errors import SottovoceError, UsageError, nearest
from sottovoce.core.text import one_line, shortened
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import current_messages
from sottovoce.report import describe, transcript
from sottovoce.report.blocks import Block
from sottovoce.runs.discussion import Graph, HumanReply

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
THREAD: RunnableConfig = {"configurable": {"thread_id": "step"}}
NOT_LISTED = {
    *("settings", "marks", "board", "messages", "pending", "interventions", "epochs", "votes", "notes", "decision"),
    *Question.__annotations__,
}
"""Keys that have lines of their own, or are of no interest."""


class Stop(NamedTuple):
    """A checkpoint between two steps."""

    number: int
    state: StateSnapshot
    before: int | None = None
    """The number of the stop that it came from; None for the first."""
    ran: tuple[str, ...] = ()
    """The nodes that ran in parallel to make it; for an edited stop, those of the stop before."""
    edited: str = ""
    """The agent whose message was edited to make it; empty otherwise."""

    @property
    def next(self) -> tuple[str, ...]:
        """The nodes that run in the next step; none at the end."""
        return self.state.next

    def __str__(self) -> str:
        made = f"the message of {one_line(self.edited)} was edited" if self.edited else f"{_names(self.ran)} ran"
        following = f"next: {_names(self.next)}" if self.next else "the discussion is over"
        return f"stop {self.number}: {f'{made}; ' if self.ran else ''}{following}"


class Stops:
    """A discussion with all stops so far, which are LangGraph's checkpoints of one thread."""

    def __init__(self, graph: AnyState, question: Question, answer: HumanReply | None = None) -> None:
        """Run to the first stop; `answer` replies for people who take part, by default from the terminal."""
        self._graph: Graph = graph.compile(checkpointer=InMemorySaver())
        self._answer = answer or person(hint=lambda: "give the replies among the commands")
        self._graph.invoke(question, THREAD, interrupt_before="*", output_keys=[], durability="sync")
        self.current = Stop(0, self._graph.get_state(THREAD))
        self.all = [self.current]

    @property
    def values(self) -> JSON:
        """The state at this stop, with its messages as `Message`."""
        values: JSON = self.current.state.values
        return {**values, "board": [Message.from_dict(each) for each in values.get("board", [])]}

    def next(self) -> None:
        """Run one step; people who take part in it are asked, one after another."""
        if not self.current.next:
            raise UsageError("the discussion is over; `back` or `fork N` continues from an earlier stop")
        self._run(None, self.current.state.config)
        while waiting := self._graph.get_state(THREAD).interrupts:
            self._run(Command(resume={waiting[0].id: self._answer(waiting[0].value)}), THREAD)
        self._add(THREAD, self.current.next)

    def edit(self, agent: str, text: str) -> None:
        """Replace an agent's last message, as if the step before had written the new text.

        Its payload no longer fits the text, so it is read in words.
        """
        last = {message.agent: message for message in current_messages(self.values)}  # type: ignore[arg-type]  # as a checkpoint has it
        if not last:
            raise UsageError("no agent has said anything yet; continue with `next`")
        if agent not in last:
            raise UsageError(nearest("agent among those who spoke:", agent, last))
        message, ran = last[agent], self.current.ran
        public = None if message.public is None else text
        edited = replace(message, text=text, public=public, attempt=message.attempt + 1, source=HUMAN, cut=False)
        updates = [StateUpdate({"board": [edited.to_dict()]}, ran[0]), *(StateUpdate({}, name) for name in ran[1:])]
        self._add(self._graph.bulk_update_state(self.current.state.config, [updates]), ran, agent)

    def back(self) -> None:
        """Go back to the stop that this one came from."""
        if self.current.before is None:
            raise UsageError("this is the first stop; there is no earlier one")
        self.current = self.all[self.current.before]

    def fork(self, number: int) -> None:
        """Go to any stop; the next step starts a branch from it."""
        if not 0 <= number < len(self.all):
            raise UsageError(f"fork is {number}; the stops are 0 to {len(self.all) - 1}")
        self.current = self.all[number]

    def _run(self, value: Untyped, config: RunnableConfig) -> None:
        self._graph.invoke(value, config, interrupt_after="*", output_keys=[], durability="sync")

    def _add(self, config: RunnableConfig, ran: tuple[str, ...], edited: str = "") -> None:
        self.current = Stop(len(self.all), self._graph.get_state(config), self.current.number, ran, edited)
        self.all.append(self.current)


def _names(nodes: tuple[str, ...]) -> str:
    return ", ".join(map(one_line, nodes))


def changes(before: JSON, after: JSON) -> Iterator[str]:
    """Yield a line for every other difference."""
    for key in sorted(after.keys() - NOT_LISTED):
        if key not in before or before[key] != after[key]:
            old = f"{_brief(before[key])} -> " if key in before else ""
            yield one_line(f"{key}: {old}{_brief(after[key])}")
    for name in sorted(_pending(after) - _pending(before)):
        yield one_line(f"waiting for a check: the update of {name}")
    for entry in after.get("interventions", [])[len(before.get("interventions", [])) :]:
        yield describe.intervention(entry)
    for epoch in after.get("epochs", [])[len(before.get("epochs", [])) :]:
        yield f"taken back to round {epoch[0] + 1}, turn {epoch[1] + 1}: later messages are no longer heard"
    yield from (one_line(f"note: {note}") for note in after.get("notes", []) if note not in before.get("notes", []))
    if after.get("votes") and before.get("votes") != after["votes"]:
        yield from describe.count(after["round"], after["votes"], after)  # type: ignore[arg-type]  # a state has a question's keys
    if (decision := after.get("decision")) and before.get("decision") != decision:
        yield one_line(f"decision by {decision['rule']}: {describe.answer(decision['answer'])} ({decision['why']})")


def state_lines(values: JSON) -> Iterator[str]:
    """Yield lines on the state of the discussion: its keys, the messages, and the decision."""
    yield from changes({}, {key: value for key, value in values.items() if key != "interventions"})
    for message in current_messages(values):  # type: ignore[arg-type]  # as a checkpoint has it
        yield one_line(
            f"{describe.speaker(message)} in round {message.round + 1} ({message.act}): {shortened(message.full_text)}"
        )


def _pending(values: JSON) -> set[str]:
    """Return the nodes with pending updates that were not taken back."""
    return {name for name, update in values.get("pending", {}).items() if "next" not in update}


def _brief(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value, default=str))


class Session:
    """A loop that reads commands and executes them."""

    def __init__(self, console: Console, stops: Stops) -> None:
        """Start at the first stop, before any node has run."""
        self._console, self._stops = console, stops

    def run(self) -> None:
        """Run until the user quits or stdin ends."""
        self._say(str(self._stops.current), style="dim")
        if sys.stdin.isatty():
            self._say("Enter runs one step, and help lists all commands", style="dim")
        while True:
            if sys.stdin.isatty():
                print(PROMPT, end="", flush=True)
            line = read_line()
            if line is None or line.strip() == "quit":
                return self._say(f"ended at {self._stops.current}")
            try:
                self.do(line)
            except Exception as error:
                expected = as_options(str(error)) if isinstance(error, SottovoceError) else failure(error)
                if not expected:
                    raise
                self._say(one_line(expected))

    def do(self, line: str) -> None:
        """Execute one command."""
        name, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        match name or "next":
            case "next":
                return self._change(self._stops.next)
            case "go":
                self._change(self._stops.next)
                while self._stops.current.next:
                    self._change(self._stops.next)
                return None
            case "edit":
                agent, _, text = rest.partition(" ")
                if not text:
                    example = "edit agent_1 The answer is 5."
                    raise UsageError(f"edit is {rest!r}; expected an agent and a text, e.g. {example}")
                return self._change(lambda: self._stops.edit(agent, text.strip()))
            case "back":
                self._stops.back()
            case "fork":
                try:
                    self._stops.fork(int(rest))
                except ValueError as error:  # also of more digits than Python reads
                    expected = "expected a stop's number, as `history` shows them"
                    raise UsageError(f"fork is {rest[:20]!r}; {expected}") from error
            case "state":
                self._say(*state_lines(self._stops.values))
            case "history":
                for stop in self._stops.all:
                    came = "" if stop.before is None else f" (from stop {stop.before})"
                    self._say(f"{'*' if stop is self._stops.current else ' '} {stop}{came}")
                return None
            case "help":
                return self._say(*(f"{command:9}{text}" for command, text in HELP.items()))
            case _:
                raise UsageError(nearest("command", name, HELP))
        self._say(str(self._stops.current), style="dim")

    def _change(self, change: Callable[[], None]) -> None:
        before = self._stops.values
        change()
        after = self._stops.values
        withdrawn = {message.place: message.withdrawn for message in before["board"]}
        messages = [each for each in after["board"] if withdrawn.get(each.place) is not each.withdrawn]  # or new
        if messages:
            self._console.print(transcript.block(self._console, Block("", tuple(messages))))
        self._say(*changes(before, after))
        self._say(str(self._stops.current), style="dim")

    def _say(self, *lines: str, style: str = "") -> None:
        for line in lines:
            self._console.print(line, style=style, soft_wrap=True)
