"""A saved run, scored again: this version's readers, rules and scorers read its replies, without asking a model.

The graph of each discussion runs on its recorded steps. Agents' messages, searches and actions are taken from the log;
only the steps that read them (they count votes or decide) run again. If another step than the recorded one follows, for
instance because a vote is now a tie, a model would have to be asked. Such a discussion keeps its recorded answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from langchain_core.runnables import RunnableConfig

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place
from sottovoce.core.errors import SottovoceError
from sottovoce.core.event_loop import wait
from sottovoce.core.trust import NO_TRUST, Trust
from sottovoce.graphs import scheme
from sottovoce.nodes.act import running
from sottovoce.nodes.state import Update
from sottovoce.runs.discussion import Graph, StepReader
from sottovoce.runs.log import AgainLine, Count, Decided, Key, Line, StepLine, check, checked, encoded
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run


class _OtherStep(SottovoceError):
    """A step that is not recorded: the discussion would take another course."""


@dataclass
class Reading:
    """A recorded discussion with its graph run again; it replaces a `LiveDiscussion`."""

    record: DiscussionRecord
    steps: dict[str, StepLine]
    """The recorded steps by name."""
    repeats: bool = False
    """A `LiveDiscussion` checks the state after its recorded steps; here none follow."""
    divergence: str = ""
    """The reason why it cannot be read to its end; empty if it was."""
    _read_lines: dict[str, StepLine] = field(default_factory=dict)
    _reader: StepReader = field(default_factory=StepReader)

    async def read(self, graph: Graph) -> None:
        """Run the graph, with recorded replies instead of models."""
        config: RunnableConfig = {"configurable": {"thread_id": "score"}}
        try:
            with running((graph.builder, self)):
                await graph.ainvoke(self.record.question, config, output_keys=[], context={"seed": self.record.seed})
        except Exception as error:  # also a reader that fails on these replies
            self.divergence = str(error) or type(error).__name__

    def repeat(self, step: str) -> Update | None:
        """Return the recorded update of a step, or None for a step that reads replies and therefore runs."""
        if (line := self.steps.get(step)) is None:
            raise _OtherStep(f"another step would follow than the recorded ones: {step}")
        messages = [event.to_dict() for event in line.events if isinstance(event, Message)]
        if not messages and any(isinstance(event, (Count, Decided)) for event in line.events):
            return None
        update = {**line.update, "board": messages} if messages else line.update
        self._reader.line(line.of, step, line.seconds, update)  # for the epoch and round of later events
        return update

    def take(self, step: str, update: Update) -> None:
        """Take the update of a step that read replies."""
        line = check(encoded(self._reader.line(self.steps[step].of, step, self.steps[step].seconds, update)))
        assert isinstance(line, StepLine), "its type"
        self._read_lines[step] = line

    def ask(self, place: Place, *prompt: object) -> None:
        """Refuse a call: only recorded replies are read."""
        raise _OtherStep(f"another reply would be asked for: that of {place}")

    def grows(self, ask: Ask) -> None:
        """Ignore the text of a growing reply: nobody watches."""

    def line(self, line: Line) -> Line:
        """Return a line of the log as this version reads it."""
        return self._read_lines.get(line.task, line) if isinstance(line, StepLine) and not self.divergence else line


def scored_again(run: Run, trust: Trust = NO_TRUST) -> tuple[Run, Mapping[Key, str]]:
    """Return a saved run as this version reads its replies, and why some discussions could not be read again.

    Raises:
        UsageError: the run names monitors, prompts or indexes that `trust` does not allow to open.
        RecordError: the log is damaged.
    """
    assert run.folder is not None, "read from a folder"
    settings = run.manifest.own_settings()
    usual = type(settings)()
    models = {name: getattr(usual, name) for name in settings.of_models()}  # nobody opens them
    trust.check_paths(settings.model_copy(update=models), "the run", run.folder.parent)
    lines = [line for _, line in checked(run.folder)]
    steps: dict[Key, dict[str, StepLine]] = {}  # the last ones, by name
    for line in lines:
        if isinstance(line, AgainLine):
            steps.pop(line.of, None)
        elif isinstance(line, StepLine):
            steps.setdefault(line.of, {})[line.task] = line
    ended = {key: record for key, record in run.records.items() if record.decision is not None}
    discussions = {key: Reading(ended[key], by_name) for key, by_name in steps.items() if key in ended}
    nobody = ScriptedChatModel()  # it has no replies, so a call is an error
    graph = scheme(run.manifest.scheme).create(settings, models=nobody, store=run.store()).compile()
    wait(_read(discussions.values(), graph))
    again = Run(run.manifest, folder=run.folder)
    for line in lines:
        again.apply(discussions[line.of].line(line) if isinstance(line, StepLine) and line.of in discussions else line)
    ends = (of.records.items() for of in (run, again))
    before, now = ({key: each.decision["answer"] for key, each in of if each.decision} for of in ends)
    for judge, given in run.verdicts.items():  # a judge saw the recorded answer
        again.verdicts[judge] = {key: said for key, said in given.items() if before.get(key) == now.get(key)}
    return again, {key: reading.divergence for key, reading in discussions.items() if reading.divergence}


async def _read(discussions: Iterable[Reading], graph: Graph) -> None:
    for reading in discussions:
        await reading.read(graph)
