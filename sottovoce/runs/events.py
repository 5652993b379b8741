"""Events of a discussion, for its record, the log and the views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import JSON
from sottovoce.core.bounds import MAX_COUNT
from sottovoce.nodes.state import Decision, Intervened, Update, Vote

ROLES = {"human": "user", "ai": "assistant"}
"""Names of roles as we record them, by LangChain's."""


MOST_PLACES = 1_000_000
"""Limit on rounds, turns, epochs and attempts; lists of that length are made."""


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


class Asked(BaseModel):
    """An agent was asked to speak; all fields but the last are the place of its message."""

    event: Literal["asked"] = Field(default="asked", exclude=True)
    epoch: int
    round: int
    turn: int
    agent: str
    act: str
    attempt: int
    turns: list[tuple[str, str]]
    """Role and text of each turn; heard messages appear as words, whatever they carried."""

    @property
    def place(self) -> Place:
        """The place of the requested message."""
        return Place(**{name: getattr(self, name) for name in Place._fields})


@dataclass(frozen=True)
class Speaking:
    """The part of a message that has been streamed; it is shown, but neither recorded nor logged."""

    message: Message
    """The message as if it ended here."""


class Count(BaseModel):
    """The votes of a round that was counted."""

    event: Literal["counted"] = Field(default="counted", exclude=True)
    epoch: int
    round: int
    votes: list[Vote]


class Level(BaseModel):
    """The groups that discuss until they send representatives to the next level (CMD)."""

    event: Literal["level"] = Field(default="level", exclude=True)
    level: int
    """0-based."""
    epoch: int
    round: int
    """The first round on this level."""
    groups: list[list[str]]


class Reset(BaseModel):
    """The discussion was reset, which started the next epoch."""

    event: Literal["reset"] = Field(default="reset", exclude=True)
    cut: Annotated[list[Annotated[int, Field(ge=0, lt=MOST_PLACES)]], Field(min_length=2, max_length=2)]
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


LoggedEvent = Opened | Asked | Message | Count | Level | Intervention | Reset | Decided
"""The events that the record and the log have; a message that a watch withdrew is among them."""
Event = LoggedEvent | Speaking
NAMES: dict[str, type[BaseModel]] = {
    str(kind.model_fields["event"].default): kind
    for kind in (Opened, Asked, Count, Level, Intervention, Reset, Decided)
}
SAID = "said"


def to_json(event: LoggedEvent) -> JSON:
    """Return an event as the log has it."""
    if isinstance(event, Message):
        return {"event": SAID, **event.to_dict()}
    return {"event": event.event, **event.model_dump(mode="json")}


def from_json(data: JSON) -> LoggedEvent:
    """Read what `to_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: the data is not an event.
    """
    fields = {name: value for name, value in data.items() if name != "event"}
    if data["event"] == SAID:
        return Message.from_dict(fields)
    event: Any = NAMES[data["event"]].model_validate(fields)  # Any: one of `LoggedEvent`
    return event  # type: ignore[no-any-return]


class Listener(BaseCallbackHandler):
    """A callback handler that reports the prompts of all chat models, including those given in code."""

    raise_error = True  # a full disk is noticed here first
    run_inline = True  # otherwise an async run might report a call after its reply
    ignore_chain = ignore_llm = True  # these events are many

    def __init__(self, report: Callable[[Asked], None]) -> None:
        self._report = report

    # Any: as LangChain has it
    def on_chat_model_start(self, serialized: Any, messages: list[list[BaseMessage]], **options: Any) -> None:
        """Report a call whose metadata has a place; other calls are made by a model itself."""
        about = options.get("metadata") or {}
        if all(name in about for name in Place._fields):
            turns = [(ROLES.get(message.type, message.type), str(message.text)) for message in messages[0]]
            self._report(Asked(**{name: about[name] for name in Place._fields}, turns=turns))


class Reading:
    """A reader that turns updates of a graph's nodes into events, in order of time."""

    def __init__(self) -> None:
        """Start at the beginning of a discussion."""
        self._epoch, self._round, self._why = 0, -1, ""

    def events(self, update: Update) -> Iterator[LoggedEvent]:
        """Yield the events of one node's update; a watched act has none before it is published."""
        self._round = update.get("round", self._round)
        if update.get("epochs"):
            self._epoch = len(update["epochs"])
            yield Reset(cut=update["epochs"][-1], why=self._why)
            return
        if "groups" in update:
            first = self._round + 1
            yield Level(level=update["level"], epoch=self._epoch, round=first, groups=update["groups"])
        if "settings" in update:
            yield Opened(settings=update["settings"], notes=list(update["notes"]))
        elif "votes" in update:
            yield Count(epoch=self._epoch, round=self._round, votes=update["votes"])
        yield from map(Message.from_dict, update.get("board", []))
        for entry in update.get("interventions", []):
            self._why = entry["why"]
            yield Intervention(intervention=entry)
        if "decision" in update:
            yield Decided(decision=update["decision"])
