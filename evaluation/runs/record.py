"""A run as a typed record: what was asked, what was said, how it ended; and its file, `RUN/run.json`.

The file is written while the run goes on, whole each time, so that a killed run shows what it had.
Payloads lie beside it under `RUN/payloads`, so that a run's folder holds all of it.
"""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_serializer

import sottovoce
from sottovoce.channels.board import Board
from sottovoce.channels.message import Message
from sottovoce.errors import RecordError
from sottovoce.evaluation.runs.files import FILE, write
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import JSON, Decision, Vote

FORMAT = "sottovoce.run"
VERSION = 2
LIBRARIES = ("torch", "transformers", "langgraph")


def _versions() -> dict[str, str]:
    ours = {"sottovoce": sottovoce.__version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in LIBRARIES}


class ModelOf(BaseModel):
    """The model behind an agent, told apart from others by its weights."""

    model: str
    weights: str
    """`LoadedModel.weights_key`"""
    vocabulary: str
    """`LoadedModel.vocabulary_key`"""


class Cost(BaseModel):
    """What the calls of a run took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Readings(BaseModel):
    """What it took to read the answers of those who discuss, of all rounds; nothing before there is a decision."""

    at_once: int = 0
    repair: int = 0
    """From another reply, in the form."""
    answer_turn: int = 0
    """From the answer turn after a reply."""
    unknown: int = 0
    """An abstention that says so."""
    abstained: int = 0
    """Nothing could be read."""


class Level(BaseModel):
    """Who discusses with whom, until groups send representatives to the next level (CMD)."""

    level: int
    """0-based."""
    epoch: int
    round: int
    """The first on this level."""
    groups: list[list[str]]


class Count(BaseModel):
    """The votes of a round that was counted."""

    epoch: int
    round: int
    votes: list[Vote]


class Reset(BaseModel):
    """The discussion was taken back, which began the next epoch."""

    cut: list[int]
    """The round and turn from which on nothing is heard that was said before."""
    why: str = ""


class Prompt(BaseModel):
    """What an agent was asked before it said something; the fields but the last are that message's place."""

    epoch: int
    round: int
    turn: int
    agent: str
    act: str
    attempt: int
    turns: list[tuple[str, str]]
    """Role and words of each turn: heard messages stand in them as words, whatever they carried."""


class Run(BaseModel):
    """One run of a scheme on one question."""

    format: str = FORMAT
    version: int = VERSION
    status: Literal["running", "done", "failed", "stopped"] = "running"
    error: str | None = None
    """The line that says why it failed."""
    scheme: str
    settings: JSON
    question: Question
    origin: str | None = None
    """Where the question is from; None where a person asked it."""
    versions: dict[str, str] = Field(default_factory=_versions)
    """Of what the run depends on."""
    models: dict[str, ModelOf] = {}
    """By agent; hosted models have no entry."""
    messages: list[Message] = []
    """All that the board held, in its order: earlier attempts and what was withdrawn too."""
    prompts: list[Prompt] = []
    """What agents were asked, in the order of the calls."""
    resets: list[Reset] = []
    levels: list[Level] = []
    """Of schemes with groups."""
    counts: list[Count] = []
    """Of schemes that vote after a round."""
    notes: list[str] = []
    decision: Decision | None = None
    readings: Readings = Readings()
    cost: Cost = Cost()
    started: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0

    @field_serializer("messages")
    def _plain(self, messages: list[Message]) -> list[JSON]:
        """As everywhere else; pydantic alone would write counts of tokens as floats."""
        return [message.to_dict() for message in messages]

    def to_json(self) -> str:
        """The record as it is saved and printed."""
        return self.model_dump_json(indent=2) + "\n"

    def chosen(self) -> Settings:
        """The settings as the scheme's own kind, unchecked: a run is shown whatever this program knows of them."""
        return scheme(self.scheme).settings.model_construct(**self.settings)

    def withdrew(self, message: Message) -> bool:
        """Whether a reset withdrew a message: each later one leaves what was said before its cut."""
        return any(message.time >= tuple(reset.cut) for reset in self.resets[message.epoch :])

    def said(self, agent: str) -> Message | None:
        """An agent's last message that states an answer; of several attempts the last, before its answer turn."""
        answers = scheme(self.scheme).answers
        spoken = [each for each in self.messages if each.agent == agent and each.act in answers]
        replies = (message for message in reversed(spoken) if message.asked != "answer")
        return next((message for message in replies if not self.withdrew(message)), None)


def ordered(messages: list[Message]) -> list[Message]:
    """Messages in the board's order; of two at one place the later."""
    return Board(list[Message]).from_checkpoint(messages).get()


def save(run: Run, folder: Path) -> None:
    """Write the record, making its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FILE, run.to_json())


def load_run(folder: Path | str) -> Run:
    """Read a saved run; `PayloadStore(folder / "payloads")` has its tensors.

    Raises:
        RecordError: there is no run, it is damaged, or it was written by another version.
    """
    path = Path(folder) / FILE
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))  # Any: JSON as it comes
        about = data if isinstance(data, dict) else {}
        if about.get("format") != FORMAT:
            raise RecordError(f"{str(path)!r} is no run: its format is {about.get('format')!r}; expected {FORMAT!r}")
        if about.get("version") != VERSION:
            raise RecordError(
                f"run {str(path)!r} has version {about.get('version')!r} of the format; expected {VERSION}: "
                "ask its question again, or read it with the sottovoce that its field 'versions' names"
            )
        return Run.model_validate(data)
    except OSError as error:
        raise RecordError(f"{str(folder)!r} holds no run: {path.name} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordError(f"run {str(path)!r} is damaged: {where}: {first['msg']}") from error
    except ValueError as error:
        raise RecordError(f"run {str(path)!r} is damaged: {error}") from error
