"""The record of a discussion, which is a fold over its lines of the log, and its result: one row of a table.

Comparisons, cards and exports are made of results; screens and transcripts show records.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from statistics import fmean
from types import MappingProxyType
from typing import Literal, cast

from pydantic import BaseModel, Field, field_serializer

from sottovoce.channels.board import Board
from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.core.display import html
from sottovoce.core.text import figure, one_line
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import Content, Question, document_digests, question_digest, question_id, same_questions
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Decision, Discussion, Intervened, Update, Vote, current_messages
from sottovoce.prompts import kinds
from sottovoce.runs.cost import MONEY, THOUGHTS, Cost, Prices, flops, money, payload_measures
from sottovoce.runs.log import (
    Asked,
    AskedLine,
    Count,
    Decided,
    DiscussionLine,
    FailedLine,
    Intervention,
    Key,
    Level,
    Opened,
    RepliedLine,
    Reset,
    StepEvent,
    StepLine,
)
from sottovoce.runs.manifest import FORMAT, VERSION, AgentModel, versions
from sottovoce.runs.measures import SHARES, ParseStatistics, answer_measures, parse_statistics, retrieval

Status = Literal["waiting", "running", "done", "failed", "stopped"]
Scores = dict[Key, float]
"""Scores by question and seed."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""The beginning of a text that a spreadsheet would compute, after any number of quotes."""


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

    def _repr_html_(self) -> str:
        return html(self)

    def to_json(self) -> str:
        """Return the record as it is printed and exported."""
        return self.model_dump_json(indent=2) + "\n"

    def restarted(self) -> DiscussionRecord:
        """Return the record of the same discussion before anybody spoke."""
        kept = {"scheme", "settings", "question", "seed", "origin", "versions", "models"}
        return DiscussionRecord(**{name: getattr(self, name) for name in kept})

    def apply(self, line: DiscussionLine) -> None:
        """Add a line of the log about this discussion."""
        match line:
            case AskedLine():
                self.status, self.error = "running", None
                # Without an earlier call for the same message: it was asked again after a stop.
                self.prompts = [*(each for each in self.prompts if each.place != line.place), line]
            case StepLine():
                self.seconds = line.seconds
                for event in line.events:
                    self._take(event)
                board = [event.to_dict() for event in line.events if isinstance(event, Message)]
                self.steps[line.task] = {**line.update, "board": board} if board else line.update
                if self.decision is not None:
                    self.steps, self.replies = {}, {}
            case RepliedLine():
                self.replies.setdefault(line.task, []).append(line.reply)
            case FailedLine():
                self.status, self.error, self.seconds, self.outside = "failed", line.error, line.seconds, line.outside

    def _take(self, event: StepEvent) -> None:
        self.status, self.error = "running", None
        match event:
            case Opened():
                self.settings, self.notes = event.settings, event.notes
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
        """Return the part of the state that is needed to read answers."""
        cuts = [reset.cut for reset in self.resets]
        return cast(Discussion, {**self.question, "board": self.messages, "epochs": cuts})

    def result(self) -> Result:
        """Return the result of the discussion so far."""
        decision, cost = self.decision, self.cost
        return Result(
            question=question_id(self.question),
            seed=self.seed,
            answer=decision["answer"] if decision else None,
            abstained=decision is not None and abstains(decision),
            score=decision["score"] if decision else None,
            target=kinds.target_of(self.question),
            kind=kinds.kind_of(self.question),
            failed=decision is None,
            outside=decision is None and self.outside,
            digest=question_digest(self.question),
            documents=document_digests(self.question),
            shares=SHARES | scheme(self.scheme).shares,
            measures={
                **(decision.get("measures", {}) if decision else {}),
                **(answer_measures(self.question, decision) if decision else {}),
                **payload_measures(
                    self.messages, self.prompts, escalates=self.settings.get("escalate", "never") != "never"
                ),
                **({THOUGHTS: None if cost.uncounted else cost.tokens_thoughts} if cost.tokens_thoughts else {}),
                **({MONEY: self.money} if self.prices else {}),
                **retrieval(self.question, self.messages),
            },
            **cost.model_dump(include={"calls", "tokens_in", "tokens_reused", "tokens_out"}),
            flops=flops(self.messages, self.models),
            seconds=self.seconds,
        )

    @property
    def money(self) -> float | None:
        """The cost of all calls by `prices`; see `runs.cost.money`."""
        return money(self.messages, self.model_of, self.prices)

    def model_of(self, agent: str) -> str:
        """Return the name of an agent's model; guests use the first agent's."""
        settings = self.chosen()
        return str(settings.of("model", agent if agent in settings.names() else settings.names()[0]))

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
        """Return the messages of `answered`, each with its vote.

        This is the vote that the scheme counted. If it counted none, the scheme's rule reads the vote from the message.
        """
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


# Results


@dataclass(frozen=True)
class Result:
    """The result of one discussion: a question under one seed."""

    question: str
    """The question's id."""
    seed: int = 0
    answer: str | None = None
    """None if it failed or abstained, or if each agent's answer counts by itself (rule `average`)."""
    abstained: bool = False
    """True if it ended with a decision that has no answer."""
    score: float | None = None
    """In [0, 1]; None if there is no target or it failed."""
    target: str | None = None
    """The right answer in canonical form; scores against different targets are not compared."""
    kind: str = "text"
    """The kind of its answer."""
    failed: bool = False
    """True if it ended without a decision."""
    outside: bool = False
    """True if it failed, and not by scheme or protocol but by a server, a file or a disk."""
    digest: str = ""
    """The sha256 of what is asked (`question_digest`); equal digests mean equal questions in two runs."""
    documents: tuple[str, ...] = ()
    """The sha256 of each text that agents were dealt."""
    shares: frozenset[str] = SHARES
    """The measures that are shares or grades in [0, 1]; others may be any number."""
    measures: Mapping[str, int | float | None] = field(default_factory=dict)
    """By name: of a game, of retrieval, of payloads, and EM, F1 and named; None if a measure does not apply."""
    calls: int = 0
    tokens_in: int | None = 0
    """None, like the next two, if a hosted model's server did not report it."""
    tokens_reused: int | None = 0
    """Tokens of `tokens_in` that came from the prefix cache."""
    tokens_out: int | None = 0
    flops: float | None = None
    """Approximate floating-point operations of all calls; None if a hosted model spoke."""
    seconds: float = 0.0

    @property
    def content(self) -> Content:
        """The content of its question; without a digest, the id identifies the question."""
        return Content(self.digest or self.question, frozenset(self.documents), self.kind, self.target)

    @property
    def failed_wrong(self) -> float | None:
        """The score, with a failed discussion as wrong; None without a target."""
        return 0.0 if self.failed and self.target is not None else self.score

    @property
    def comparable_score(self) -> float | None:
        """The score that verdicts use: failures that scheme and protocol can cause are wrong, others are left out."""
        return None if self.failed and self.outside else self.failed_wrong

    def to_dict(self) -> JSON:
        """Return the fields; the score is followed by the score that counts a failure as wrong."""
        row: JSON = {}
        for each in (each for each in fields(self) if each.name != "shares"):
            row[each.name] = getattr(self, each.name)
            if each.name == "score":
                row["score_failed_wrong"] = self.failed_wrong
        return row


COLUMNS = frozenset(each.name for each in fields(Result)) - {"shares"} | {"score_failed_wrong"}
"""The columns of tables of results, besides measures."""


class Results(list[Result]):
    """The results of discussions, such as the results of a run: a table with a row for each."""

    def scores(self, column: str = "score") -> Scores:
        """Return the known values of `score`, `failed_wrong` or `comparable_score`, by question and seed."""
        values = ((result.question, result.seed, getattr(result, column)) for result in self)
        return {(question, seed): value for question, seed, value in values if value is not None}

    @property
    def clusters(self) -> dict[str, str]:
        """The question of each id: the first id with the same content; their discussions form one cluster."""
        return same_questions({result.question: result.content for result in self})

    @property
    def measures(self) -> dict[str, Scores]:
        """The known values of each measure, in order of first appearance; {} if a measure applies to none."""
        known = {(each.question, each.seed): each.measures for each in self}
        names = dict.fromkeys(chain.from_iterable(known.values()))
        return {
            name: {key: value for key, of in known.items() if (value := of.get(name)) is not None} for name in names
        }

    @property
    def shares(self) -> frozenset[str]:
        """The measures that are shares or grades in [0, 1]."""
        return SHARES.union(*(result.shares for result in self))

    @property
    def mean_line(self) -> str:
        """The means of all measures in a line: "success 0.6, precision 0.75 (in 16 of 20), turns 12.4"."""
        means, most = [], max(map(len, self.measures.values()), default=0)
        for name, values in self.measures.items():
            fewer = f" (in {len(values)} of {most})" if len(values) < most else ""
            mean = f"{figure(fmean(values.values()))}{fewer}" if values else "in none"
            means.append(f"{one_line(name)} {mean}")
        return ", ".join(means)

    def to_csv(self, names: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return a row for each result; each measure has its own column after the others.

        `names` are those of questions whose ids are digests: their rows and beginnings, in the column `asked`.
        """
        columns = dict.fromkeys(["question", *(["asked"] if names else []), *Result("").to_dict(), *self.measures])
        shown = [name for name in columns if name not in ("measures", "documents")]
        asked = ({"asked": names.get(result.question, "")} for result in self)
        rows = zip(self, asked, strict=True)
        return csv_of(shown, ({**result.to_dict(), **name, **result.measures} for result, name in rows))


def csv_of(columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return these columns of rows as CSV, without cells that a spreadsheet computes."""
    written = io.StringIO()
    file = csv.DictWriter(written, [*columns], extrasaction="ignore", lineterminator="\n")
    file.writeheader()
    file.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes: a text like a formula gets a quote before it (OWASP)."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
