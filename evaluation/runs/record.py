"""The record of a discussion: what was asked and said, and how it ended.

It is made of events: those of a discussion that goes on, or the same ones read from the log of its run.
"""

from __future__ import annotations

from statistics import fmean
from typing import Literal, cast

from pydantic import BaseModel, Field, PrivateAttr, field_serializer

from sottovoce.channels.board import Board
from sottovoce.channels.message import Message
from sottovoce.evaluation.runs.events import Asked, Count, Decided, Intervention, Kept, Level, Opened, Reset
from sottovoce.evaluation.runs.head import ModelOf, versions
from sottovoce.evaluation.runs.log import FORMAT, VERSION
from sottovoce.evaluation.runs.readings import Readings, readings
from sottovoce.evaluation.runs.results import Result
from sottovoce.evaluation.squad import measures
from sottovoce.evaluation.views.printable import counted
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.escalate import HEARD_LATENT, HEARD_PLAIN
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import JSON, Decision, Discussion, Intervened, Vote, heard

LATENT = "latent"
"""A measure of a discussion that escalates: the share of hearings of the round before that were more than words."""
BYTES = "bytes a message"
"""A measure of every discussion in which messages carry more than words."""
Status = Literal["waiting", "running", "done", "failed", "stopped"]


class Cost(BaseModel):
    """What the calls of a discussion took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_reused: int = 0
    """Of those read: taken from the prefix cache, not computed again."""
    tokens_out: int = 0
    uncounted: int = 0
    """Calls of which nobody told the tokens: what is counted lacks theirs."""

    @property
    def tokens(self) -> str:
        """The tokens in words, and of how many calls they are not known."""
        if self.uncounted == self.calls > 0:
            return "tokens not told"
        lacks = f" (not told of {counted(self.uncounted, 'call')})" if self.uncounted else ""
        return f"{counted(self.tokens_in, 'token')} read, {counted(self.tokens_out, 'token')} written{lacks}"

    def add(self, message: Message) -> None:
        """Count the call that made a message, if a model did."""
        if message.source in ("model", "hosted"):
            self.calls += 1
            self.uncounted += "tokens_out" not in message.stats
            for name in ("tokens_in", "tokens_reused", "tokens_out"):
                setattr(self, name, getattr(self, name) + int(message.stats.get(name, 0)))


class Record(BaseModel):
    """One discussion of a run: a question under one seed."""

    format: str = FORMAT
    version: int = VERSION
    status: Status = "waiting"
    error: str | None = None
    """The line that says why it failed."""
    scheme: str
    settings: JSON
    question: Question
    seed: int = 0
    origin: str | None = None
    """Where the question is from; None where a person asked it."""
    versions: dict[str, str] = Field(default_factory=versions)
    """Of what the run depends on."""
    models: dict[str, ModelOf] = {}
    """By agent; hosted models have no entry."""
    messages: list[Message] = []
    """All that the board held, in its order: earlier attempts and what was withdrawn too."""
    prompts: list[Asked] = []
    """What agents were asked, in the order of the calls."""
    interventions: list[Intervened] = []
    """Of a watch, in order of time; a reset takes none back."""
    resets: list[Reset] = []
    levels: list[Level] = []
    """Of schemes with groups."""
    counts: list[Count] = []
    """Of schemes that vote after a round."""
    notes: list[str] = []
    decision: Decision | None = None
    readings: Readings = Readings()
    cost: Cost = Field(default_factory=Cost)
    seconds: float = 0.0
    """How long it ran, all sessions of the run together."""
    _tasks: set[str] = PrivateAttr(default_factory=set)

    @field_serializer("messages")
    def _plain(self, messages: list[Message]) -> list[JSON]:
        """As everywhere else; pydantic alone would write counts of tokens as floats."""
        return [message.to_dict() for message in messages]

    def to_json(self) -> str:
        """The record as it is printed and exported."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def tasks(self) -> frozenset[str]:
        """The graph's tasks whose events it has."""
        return frozenset(self._tasks)

    def anew(self) -> Record:
        """The record of the same discussion before anybody spoke."""
        kept = {"scheme", "settings", "question", "seed", "origin", "versions", "models"}
        return Record(**{name: getattr(self, name) for name in kept})

    def step(self, task: str, events: list[Kept], seconds: float) -> None:
        """Take the events of one task."""
        self._tasks.add(task)
        self.seconds = seconds
        for event in events:
            self.take(event)

    def take(self, event: Kept) -> None:
        """Take one event."""
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
                self.interventions = [*self.interventions, event.told]
            case Reset():
                self.resets = [*self.resets, event]
            case Decided():
                self.decision, self.status = event.decision, "done"
                self.readings = readings(self._state(), self.counts, scheme(self.scheme).answers)

    def _state(self) -> Discussion:
        """As far as answers are read from it."""
        cuts = [reset.cut for reset in self.resets]
        return cast(Discussion, {**self.question, "board": self.messages, "epochs": cuts})

    def fail(self, error: str, seconds: float) -> None:
        """Note that it ended without a decision."""
        self.status, self.error, self.seconds = "failed", error, seconds

    @property
    def flops(self) -> float | None:
        """Floating-point operations of its calls, about: 2 a parameter and computed token (arXiv 2001.08361, 2.1).

        None where a hosted model spoke. Tokens of a prompt that were reused count nothing: their keys and values
        were there. A tied table counts once, as the head that multiplies by it; the head counts for every token of
        a prompt, too, though only the last one has logits (SmolLM2-135M's is 21 % of it), and an untied table
        counts twice. Attention over what was read before is left out (SmolLM2-135M: 13 % at position 500), and so
        are means over the table and the look-up of nearest tokens under CIPHER.
        """
        found = [self.flops_of(message) for message in self.messages]
        known = [each for each in found if each is not None]
        return sum(known, 0.0) if len(known) == len(found) else None

    def flops_of(self, message: Message) -> float | None:
        """The same of one call; 0 of what was given, not computed."""
        if message.source not in ("model", "hosted"):
            return 0.0
        # Who has no model of its own thinks with the first agent's.
        made = self.models.get(message.agent, next(iter(self.models.values()), None))
        if message.source == "hosted" or made is None:
            return None
        return float(2 * made.parameters * computed(message))

    @property
    def carried(self) -> dict[str, float]:
        """Bytes that a message carries beside words and statistics, and the share of messages heard with those.

        The bytes are a mean over the messages that carry any; the share is told where words come first.
        """
        found = [each.stats["carried_bytes"] for each in self.messages if each.stats.get("carried_bytes")]
        return ({BYTES: fmean(found)} if found else {}) | self._escalated()

    def _escalated(self) -> dict[str, float]:
        stats = [each.stats for each in self.messages]
        latent, plain = (sum(each.get(name, 0) for each in stats) for name in (HEARD_LATENT, HEARD_PLAIN))
        return {LATENT: latent / (latent + plain)} if latent + plain else {}

    def _of_decision(self) -> dict[str, int | float | None]:
        """What its world measures of a game, and what a free answer has of its target."""
        decision = self.decision
        return {**decision.get("measures", {}), **measures(self.question, decision)} if decision else {}

    def result(self) -> Result:
        """What it came to."""
        decision, cost = self.decision, self.cost
        return Result(
            question=question_id(self.question),
            seed=self.seed,
            answer=decision["answer"] if decision else None,
            abstained=decision is not None and abstains(decision),
            mined=decision is not None and any(v.get("read") == "mined" and v["counts"] for v in decision["votes"]),
            score=decision["score"] if decision else None,
            target=self.question.get("target"),
            failed=decision is None,
            measures={**self._of_decision(), **self.carried},
            calls=cost.calls,
            tokens_in=None if cost.uncounted else cost.tokens_in,
            tokens_reused=None if cost.uncounted else cost.tokens_reused,
            tokens_out=None if cost.uncounted else cost.tokens_out,
            flops=self.flops,
            seconds=self.seconds,
        )

    def chosen(self) -> Settings:
        """The settings as the scheme's own kind, unchecked: a run is shown whatever this program knows of them."""
        return scheme(self.scheme).settings.model_construct(**self.settings)

    def answered(self) -> list[dict[str, Message]]:
        """What was heard in the acts that state answers, by round and agent, the agents in their order."""
        spoken = [each for each in heard(self._state()) if each.act in scheme(self.scheme).answers]
        rounds: list[dict[str, Message]] = [{} for _ in range(1 + max((each.round for each in spoken), default=-1))]
        for each in spoken:
            rounds[each.round][each.agent] = each
        return rounds

    def answered_as(self) -> list[dict[str, tuple[Message, Vote]]]:
        """The same with what each was read as: the vote that the scheme counted, or as its rule reads the last."""
        state = self._state()
        counted = {(each.epoch, each.round, vote["agent"]): vote for each in self.counts for vote in each.votes}
        return [
            {
                agent: (said, counted.get((said.epoch, said.round, agent)) or voted(said, state))
                for agent, said in round.items()
            }
            for round in self.answered()
        ]

    def last_texts(self) -> list[str]:
        """The replies of the last round in which answers were stated; [] where none were."""
        return [each.whole for each in (self.answered() or [{}])[-1].values()]

    def withdrew(self, message: Message) -> bool:
        """Whether a reset withdrew a message: each later one leaves what was said before its cut."""
        return any(message.time >= tuple(reset.cut) for reset in self.resets[message.epoch :])

    def said(self, agent: str) -> Message | None:
        """An agent's last message that states an answer; of several attempts the last, before its answer turn."""
        answers = scheme(self.scheme).answers
        spoken = [each for each in self.messages if each.agent == agent and each.act in answers]
        replies = (message for message in reversed(spoken) if message.asked != "answer")
        return next((message for message in replies if not self.withdrew(message)), None)


def computed(message: Message) -> float:
    """The tokens of a call that were read and not reused, and those that were written."""
    stats = message.stats
    return stats.get("tokens_in", 0) - stats.get("tokens_reused", 0) + stats.get("tokens_out", 0)


def ordered(messages: list[Message]) -> list[Message]:
    """Messages in the board's order; of two at one place the later."""
    return Board(list[Message]).from_checkpoint(messages).get()


def abstains(decision: Decision) -> bool:
    """Whether no answer came of it; where each agent's counts by itself, whether nobody gave one."""
    alone = decision["rule"] == "average" and any(vote["answer"] is not None for vote in decision["votes"])
    return decision["answer"] is None and not alone
