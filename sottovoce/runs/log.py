"""The log of a run, `RUN/log.jsonl`: one line of JSON for each thing that happened, only ever added to.

    {"line": "run", ...}                        the run's manifest, always first (`RunManifest`)
    {"line": "question", "question": {...}}     every question, before the first is asked
    {"line": "asked", "of": [id, seed], ...}    an agent was asked to say something (`Asked`)
    {"line": "step", "of": ..., "task": "3/agent_1", "seconds": ..., "events": [...], "update": {...}}
                                                a step of the graph: superstep and node, its events, and its update
                                                without messages, by which a resumed run repeats it
    {"line": "replied", "of": ..., "task": ..., "reply": ...}
                                                a human replied to a request of a step
    {"line": "again", "of": ...}                the discussion restarts
    {"line": "failed", "of": ..., "error": ..., "seconds": ...}
    {"line": "stopped", "why": ..., "nbytes": ..., "digest": ...}, {"line": "resumed"}, {"line": "done", ...}
                                                nbytes: of all payloads; digest: the sha256 of all bytes before it

The types below are the format. `encoded` writes a line, and `check` turns a written line into its type, both before it
goes to the disk (`run_directory`) and after it was read. So observers see live the same as a later reader. Types are
strict; unknown fields are ignored. A killed process leaves at most an incomplete line at the end, which is cut off when
the run is resumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from sottovoce.channels.message import Message, Place
from sottovoce.channels.store import DIGEST
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import MAX_COUNT
from sottovoce.core.errors import NotInstalled, RecordError, SottovoceError
from sottovoce.core.validation import first_wrong
from sottovoce.nodes.hearing import Hearing
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Intervened, Vote
from sottovoce.retrievers.pool import Origin
from sottovoce.runs.manifest import FORMAT, VERSION, RunManifest
from sottovoce.runs.run_directory import LOG, REPAIR, first_line, lines_of, without_surrogates

ENCODER = json.JSONEncoder(separators=(",", ":"))
MOST_PLACES = 1_000_000
"""Limit on rounds, turns, epochs and attempts; lists of that length are made."""
KIND = re.compile(r"^[a-z]+\.")
"""Pydantic names the kind of a line before its fields."""
Key = tuple[str, int]
"""A discussion: the question's id, and the seed."""
Index = Annotated[int, Field(ge=0, lt=MOST_PLACES)]
Counted = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Seconds = Annotated[float, Field(ge=0, le=MAX_COUNT)]


# Events: what observers see, and what the lines of steps have


class _Placed(BaseModel):
    epoch: Index
    round: Index


def _finite(decision: Decision) -> Decision:
    """Check that the score is between 0 and 1, and that all measures are finite."""
    score = decision["score"]
    if score is not None and not 0 <= score <= 1:
        raise PydanticCustomError("score", "its score should be from 0 to 1, or null")
    for name, value in decision.get("measures", {}).items():
        if value is not None and not -MAX_COUNT <= value <= MAX_COUNT:
            raise PydanticCustomError("measures", f"its measures.{name} should be a finite number, or null")
    return decision


class Opened(BaseModel):
    """The question, models and edges were checked; the agents start."""

    event: Literal["opened"] = Field(default="opened", exclude=True)
    settings: JSON
    """The settings in effect: models given in code bring some of their own."""
    notes: list[str]


@with_config(ConfigDict(extra="allow"))
class _Passage(TypedDict):
    title: str
    origins: Annotated[list[Origin], Field(min_length=1)]


@dataclass(frozen=True)
class _Said(Message):
    """A message in a line's format; readers get the `Message`."""

    round: Index
    attempt: Index = 0
    epoch: Index = 0
    turn: Index = 0
    evidence: tuple[_Passage, ...] = ()
    event: Literal["said"] = "said"


def _message(said: _Said) -> Message:
    """Return a message after checking that statistics are finite and payloads have a valid address."""
    for name, value in said.stats.items():
        if not -MAX_COUNT <= value <= MAX_COUNT:  # also refuses NaN
            raise PydanticCustomError("stats", f"its stats.{name} should be a finite number of ordinary size")
    for ref in said.own_refs:
        if not all(map(DIGEST.fullmatch, (ref.sha256, ref.text_sha256))):
            digits = "its payload's sha256 and text_sha256 should be 64 hexadecimal digits each"
            raise PydanticCustomError("payload", digits)
        if not all(0 <= number <= MAX_COUNT for number in (ref.tokens, ref.nbytes, ref.hidden or 0, *ref.layers)):
            raise PydanticCustomError("payload", "its payload's sizes should be numbers from 0 on")
    values = {name: value for name, value in vars(said).items() if name != "event"}
    return Message(**values)


class Count(_Placed):
    """The votes of a round that was counted."""

    event: Literal["counted"] = Field(default="counted", exclude=True)
    votes: list[Vote]


class Level(_Placed):
    """The groups that discuss until they send representatives to the next level (CMD), from a round on."""

    event: Literal["level"] = Field(default="level", exclude=True)
    level: int
    """0-based."""
    groups: list[list[str]]


class Reset(BaseModel):
    """The discussion was reset, which started the next epoch."""

    event: Literal["reset"] = Field(default="reset", exclude=True)
    cut: Annotated[list[Index], Field(min_length=2, max_length=2)]
    """Round and turn: messages of earlier epochs are heard only from before it."""
    why: str = ""


class Intervention(BaseModel):
    """A watch intervened: it withdrew the messages that it checked, or reset the discussion."""

    event: Literal["intervened"] = Field(default="intervened", exclude=True)
    intervention: Intervened


class Decided(BaseModel):
    """The discussion ended."""

    event: Literal["decided"] = Field(default="decided", exclude=True)
    decision: Annotated[Decision, AfterValidator(_finite)]


class Asked(_Placed):
    """An agent was asked to speak: the place of its message, and its prompt. It has a line of its own."""

    turn: Index
    agent: str
    act: str
    attempt: Index
    turns: list[tuple[str, str]]
    """Role and text of each turn; heard messages appear as words, whatever they carried."""
    heard: list[Hearing]
    """The messages of others in the prompt."""

    @property
    def place(self) -> Place:
        """The place of the requested message."""
        return Place(**{name: getattr(self, name) for name in Place._fields})


@dataclass(frozen=True)
class Speaking:
    """The part of a message that has been streamed; it is shown, but neither recorded nor logged."""

    message: Message
    """The message as if it ended here."""


StepEvent = Opened | Message | Count | Level | Reset | Intervention | Decided
"""An event of a step; a message that a watch withdrew is among them."""
Event = StepEvent | Asked | Speaking


# Lines


def _as_written(value: JSONValue, check: Callable[[JSONValue], object]) -> JSONValue:
    """Check a value and return it unchanged: digests cover all of a question, also fields of other versions."""
    check(value)
    return value


class Counts(BaseModel):
    """Counts of how a run's discussions ended; the log's last line has them, so that listing runs is quick."""

    discussions: Counted = 0
    done: Counted = 0
    failed: Counted = 0
    abstained: Counted = 0
    scored: Counted = 0
    """Discussions that are done and have a target."""
    score: float = Field(default=0.0, ge=0, le=MAX_COUNT)
    """Sum of their scores."""


class RunLine(RunManifest):
    """The first line."""

    line: Literal["run"]


class QuestionLine(BaseModel):
    """A question, which is discussed under each seed."""

    line: Literal["question"]
    question: Annotated[Question, WrapValidator(_as_written)]


class AskedLine(Asked):
    """An agent of a discussion was asked to speak."""

    line: Literal["asked"]
    of: Key


class StepLine(BaseModel):
    """A step of a discussion's graph."""

    line: Literal["step"]
    of: Key
    task: str
    seconds: Seconds
    events: list[
        Annotated[
            Annotated[_Said, AfterValidator(_message)] | Opened | Count | Level | Reset | Intervention | Decided,
            Field(discriminator="event"),
        ]
    ]
    update: JSON


class RepliedLine(BaseModel):
    """A human's reply to a request of a step."""

    line: Literal["replied"]
    of: Key
    task: str
    reply: str | JSON


class AgainLine(BaseModel):
    """A discussion restarts."""

    line: Literal["again"]
    of: Key


class FailedLine(BaseModel):
    """A discussion ended without a decision."""

    line: Literal["failed"]
    of: Key
    error: str
    seconds: Seconds
    outside: bool = False
    """True if neither scheme nor protocol is the cause."""


class ClosingLine(BaseModel):
    """The run is over, or stopped."""

    line: Literal["stopped", "done"]
    why: str = ""
    nbytes: Counted = 0
    counts: Counts | None = None
    digest: str | None = None


class ResumedLine(BaseModel):
    """The run continues."""

    line: Literal["resumed"]


DiscussionLine = AskedLine | StepLine | RepliedLine | AgainLine | FailedLine
Line = Annotated[RunLine | QuestionLine | DiscussionLine | ClosingLine | ResumedLine, Field(discriminator="line")]
ADAPTER: TypeAdapter[Any] = TypeAdapter(Line, config=ConfigDict(defer_build=True))  # it takes a tenth of a second


# Writing and checking


def encoded(line: JSON) -> bytes:
    """Return a line in the log's format."""
    return ENCODER.encode(line).encode() + b"\n"


def check(data: bytes) -> Line:
    """Return a line by its type.

    Raises:
        ValueError: the line is invalid; the message names the field, the value found and the expected one.
    """
    try:
        line: Line = ADAPTER.validate_json(without_surrogates(data), strict=True)
    except ValidationError as error:
        raise ValueError(KIND.sub("", first_wrong(error, "it"))) from error
    except SottovoceError as error:  # an unknown kind of answer
        raise ValueError(str(error)) from error
    return line


def checked(folder: Path) -> Iterator[tuple[JSON, Line]]:
    """Yield each line of a log twice: as unchecked JSON, and as a checked object of its type.

    Raises:
        RecordError: a line is damaged, another version wrote the log, or a kind of answer is not installed.
    """
    first = first_line(folder)
    check_version(first, folder)
    for number, (data, line) in enumerate(lines_of(folder), 1):
        yield line, checked_line(data, number, folder, first)


def checked_line(data: bytes, number: int, folder: Path, first: JSON | RunManifest) -> Line:
    """Return a line of a log by its type; `first` is the run's first line. Errors: see `checked`."""
    try:
        line = check(data)
        if isinstance(line, RunLine) != (number == 1):
            raise ValueError(f"its kind is {line.line!r}: expected 'run' in the first line, and only there")
    except ValueError as error:
        if isinstance(error.__cause__, NotInstalled):
            raise lacking(folder, RunManifest.model_validate(first), error.__cause__) from error
        raise damaged(folder, number, str(error)) from error
    return line


def damaged(folder: Path, number: int, why: str) -> RecordError:
    """Return the error about a wrong line."""
    return RecordError(f"run {str(folder / LOG)!r} is damaged: line {number}: {why}; {REPAIR}")


def lacking(folder: Path, manifest: RunManifest, error: NotInstalled) -> RecordError:
    """Return the error for a run with a scheme or kind of answer that is not installed."""
    named = manifest.named(error.missing)
    why = f"cannot be imported: {error}" if error.__cause__ else "is not installed"
    return RecordError(
        f"run {str(folder)!r} needs the {error.missing}, which {why}; install the package that provides it{named}"
    )


def check_version(about: JSON, folder: Path) -> None:
    """Check that the first line is of a run, and of this version of the format.

    Raises:
        RecordError: it is not.
    """
    if about.get("format") != FORMAT:
        raise RecordError(
            f"{str(folder / LOG)!r} is not a run: its format is {about.get('format')!r}; expected {FORMAT!r}"
        )
    if about.get("version") != VERSION:
        versions = about.get("versions")
        program = versions.get("sottovoce") if isinstance(versions, dict) else None
        raise RecordError(
            f"run {str(folder)!r} has format {about.get('version')!r}, written by sottovoce {program!r}; expected "
            f"format {VERSION}: run its questions again, or read it with that version of sottovoce"
        )
