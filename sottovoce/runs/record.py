"""The record of a discussion: its question, prompts, messages and end.

It is built from events: those of a running discussion, or the same ones read from the log of its run.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import BaseModel, Field, field_serializer

from sottovoce.channels.board import Board
from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import Question, document_digests, question_digest, question_id
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Decision, Discussion, Intervened, Update, Vote, current_messages
from sottovoce.runs.cost import MONEY, THOUGHTS, Cost, Prices, flops, money, payload_measures
from sottovoce.runs.events import Asked, Count, Decided, Intervention, Level, LoggedEvent, Opened, Reset
from sottovoce.runs.log import FORMAT, VERSION
from sottovoce.runs.manifest import AgentModel, versions
from sottovoce.runs.measures import ParseStatistics, answer_measures, parse_statistics, retrieval
from sottovoce.runs.results import Result

Status = Literal["waiting", "running", "done", "failed", "stopped"]


class DiscussionRecord(BaseModel):
    """One discussion of a run: a question under one seed."""

    format: str = FORMAT
    version: int = VERSION
    status: Status = "waiting"
    error: str | None = None
    """One line that says why it failed."""
    outside: bool = False
    """True if scheme and protocol are not the cause, but a server, a file or a disk."""
    scheme: str
    settings: JSON
    question: Question
    seed: int = 0
    origin: str | None = None
    """Where the question is from; None if a human asked it."""
    versions: dict[str, str] = Field(default_factory=versions)
    """Versions of this package, Python and the libraries that the run depends on."""
    models: dict[str, AgentModel] = {}
    """By agent; hosted models have no entry."""
    messages: list[Message] = []
    """All messages in board order, including earlier attempts and withdrawn messages."""
    prompts: list[Asked] = []
    """The prompts of the agents, in the order of the calls."""
    interventions: list[Intervened] = []
    """Interventions of a watch, in order of time; a reset removes none of them."""
    resets: list[Reset] = []
    levels: list[Level] = []
    """Only in schemes with groups."""
    counts: list[Count] = []
    """Only in schemes that vote after a round."""
    notes: list[str] = []
    decision: Decision | None = None
    parsing: ParseStatistics = ParseStatistics()
    cost: Cost = Field(default_factory=Cost)
    seconds: float = 0.0
    """How long it ran, including the time before it was resumed."""
    prices: Prices = Field(default={}, exclude=True, repr=False)
    """Prices of models' tokens, if a reader of the run named a file of prices."""
    steps: dict[str, Update] = Field(default={}, exclude=True, repr=False)
    """The updates of the graph's steps before the decision, by which they are repeated."""
    replies: dict[str, list[str | JSON]] = Field(default={}, exclude=True, repr=False)
    """The replies of humans by step."""

    @field_serializer("messages")
    def _plain(self, messages: list[Message]) -> list[JSON]:
        """Serialize messages by `to_dict`; pydantic alone would write token counts as floats."""
        return [message.to_dict() for message in messages]

    def to_json(self) -> str:
        """Return the record as it is printed and exported."""
        return self.model_dump_json(indent=2) + "\n"

    def restarted(self) -> DiscussionRecord:
        """Return the record of the same discussion before anybody spoke."""
        kept = {"scheme", "settings", "question", "seed", "origin", "versions", "models"}
        return DiscussionRecord(**{name: getattr(self, name) for name in kept})

    def step(self, step: str, events: list[LoggedEvent], update: Update, seconds: float) -> None:
        """Add the events of a step of the graph, and its update, whose messages are those of the events."""
        self.seconds = seconds
        for event in events:
            self.take(event)
        board = [event.to_dict() for event in events if isinstance(event, Message)]
        self.steps[step] = {**update, "board": board} if board else update
        if self.decision is not None:
            self.steps, self.replies = {}, {}

    def take(self, event: LoggedEvent) -> None:
        """Add one event."""
        self.status, self.error = "running", None
        match event:
            case Opened():
                self.settings, self.notes = event.settings, event.notes
            case Asked():
                kept = [each for each in self.prompts if each.place != event.place]  # asked again after a stop
                self.prompts = [*kept, event]
            case Message():
                self.messages = ordered([*self.messages, event])
                self.cost.add(event)
            case Count():
                self.counts = [*self.counts, event]
            case Level():
                self.levels = [*self.levels, event]
            case Intervention():
                self.interventions = [*self.interventions, event.intervention]
            case Reset():
                self.resets = [*self.resets, event]
            case Decided():
                self.decision, self.status = event.decision, "done"
                self.parsing = parse_statistics(self._state(), self.counts, scheme(self.scheme).answers)

    def _state(self) -> Discussion:
        """Return the part of the state from which answers are read."""
        cuts = [reset.cut for reset in self.resets]
        return cast(Discussion, {**self.question, "board": self.messages, "epochs": cuts})

    def fail(self, error: str, seconds: float, *, outside: bool = False) -> None:
        """Record that it ended without a decision."""
        self.status, self.error, self.seconds, self.outside = "failed", error, seconds, outside

    def result(self) -> Result:
        """Return the result of the discussion so far."""
        decision, cost = self.decision, self.cost
        return Result(
            question=question_id(self.question),
            seed=self.seed,
            answer=decision["answer"] if decision else None,
            abstained=decision is not None and abstains(decision),
            score=decision["score"] if decision else None,
            target=self.question.get("target"),
            failed=decision is None,
            outside=decision is None and self.outside,
            digest=question_digest(self.question),
            documents=document_digests(self.question),
            measures={
                **(decision.get("measures", {}) if decision else {}),
                **(answer_measures(self.question, decision) if decision else {}),
                **payload_measures(self.messages),
                **({THOUGHTS: cost.tokens_thoughts} if cost.tokens_thoughts else {}),
                **({MONEY: self.money} if self.prices else {}),
                **retrieval(self.question, self.messages),
            },
            calls=cost.calls,
            tokens_in=None if cost.uncounted else cost.tokens_in,
            tokens_reused=None if cost.uncounted else cost.tokens_reused,
            tokens_out=None if cost.uncounted else cost.tokens_out,
            flops=flops(self.messages, self.models),
            seconds=self.seconds,
        )

    @property
    def money(self) -> float | None:
        """The cost of all calls by `prices`; see `runs.cost.money`."""
        settings = self.chosen()
        names = settings.names()
        return money(
            self.messages, lambda agent: str(settings.of("model", agent if agent in names else names[0])), self.prices
        )

    def chosen(self) -> Settings:
        """Return the settings as the scheme's class, unchecked: a run is shown even if this version would refuse it."""
        return scheme(self.scheme).settings.model_construct(**self.settings)

    def answered(self) -> list[dict[str, Message]]:
        """Return the messages that state answers and are heard, by round and agent, the agents in their order."""
        spoken = [each for each in current_messages(self._state()) if each.act in scheme(self.scheme).answers]
        rounds: list[dict[str, Message]] = [{} for _ in range(1 + max((each.round for each in spoken), default=-1))]
        for each in spoken:
            rounds[each.round][each.agent] = each
        return rounds

    def answered_as(self) -> list[dict[str, tuple[Message, Vote]]]:
        """Return the same, each with its vote: as the scheme counted it, or as the scheme's rule reads the message."""
        state = self._state()
        counted = {(each.epoch, each.round, vote["agent"]): vote for each in self.counts for vote in each.votes}
        return [
            {
                agent: (said, counted.get((said.epoch, said.round, agent)) or voted(said, state))
                for agent, said in round.items()
            }
            for round in self.answered()
        ]

    def withdrew(self, message: Message) -> bool:
        """Return whether a later reset withdrew a message; a reset keeps messages from before its cut."""
        return any(message.time >= tuple(reset.cut) for reset in self.resets[message.epoch :])

    def said(self, agent: str) -> Message | None:
        """Return an agent's last message that states an answer: the last attempt, not the answer turn after it."""
        answers = scheme(self.scheme).answers
        spoken = [each for each in self.messages if each.agent == agent and each.act in answers]
        replies = (message for message in reversed(spoken) if message.asked != "answer")
        return next((message for message in replies if not self.withdrew(message)), None)


def ordered(messages: list[Message]) -> list[Message]:
    """Return messages in board order; if two have the same place, only the later one."""
    return Board(list[Message]).from_checkpoint(messages).get()


def abstains(decision: Decision) -> bool:
    """Return whether a decision has no answer; under the rule `average`, whether no agent gave one."""
    alone = decision["rule"] == "average" and any(vote["answer"] is not None for vote in decision["votes"])
    return decision["answer"] is None and not alone
