"""What happens in a discussion, as its record, the log and the views take it in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from sottovoce.channels.message import Message, Place
from sottovoce.nodes.state import JSON, Decision, Intervened, Update, Vote

ROLES = {"human": "user", "ai": "assistant"}
"""What LangChain calls otherwise."""


class Opened(BaseModel):
    """Question, models and edges were checked; the agents begin."""

    settings: JSON
    """As the run has them: given models bring some of their own."""
    notes: list[str]


class Asked(BaseModel):
    """An agent was asked to say something; the fields but the last are that message's place."""

    epoch: int
    round: int
    turn: int
    agent: str
    act: str
    attempt: int
    turns: list[tuple[str, str]]
    """Role and words of each turn: heard messages stand in them as words, whatever they carried."""

    @property
    def place(self) -> Place:
        """Where the message will stand that is asked for."""
        return Place(**{name: getattr(self, name) for name in Place._fields})


@dataclass(frozen=True)
class Speaking:
    """What an agent has said so far of a message. It is shown, and neither recorded nor logged."""

    message: Message
    """As it would be if it ended here."""


class Count(BaseModel):
    """The votes of a round that was counted."""

    epoch: int
    round: int
    votes: list[Vote]


class Level(BaseModel):
    """Who discusses with whom, until groups send representatives to the next level (CMD)."""

    level: int
    """0-based."""
    epoch: int
    round: int
    """The first on this level."""
    groups: list[list[str]]


class Reset(BaseModel):
    """The discussion was taken back, which began the next epoch."""

    cut: list[int]
    """The round and turn from which on nothing is heard that was said before."""
    why: str = ""


class Intervention(BaseModel):
    """A watch intervened: what it looked at was withdrawn, or all was taken back."""

    told: Intervened


class Decided(BaseModel):
    """The discussion ended."""

    decision: Decision


Kept = Opened | Asked | Message | Count | Level | Intervention | Reset | Decided
"""What record and log keep. A message that a watch held back comes too, as withdrawn."""
Event = Kept | Speaking
NAMES: dict[str, type[BaseModel]] = {
    "opened": Opened,
    "asked": Asked,
    "counted": Count,
    "level": Level,
    "intervened": Intervention,
    "reset": Reset,
    "decided": Decided,
}
SAID = "said"


def to_json(event: Kept) -> JSON:
    """An event as the log has it."""
    if isinstance(event, Message):
        return {"event": SAID, **event.to_dict()}
    name = next(name for name, kind in NAMES.items() if isinstance(event, kind))
    return {"event": name, **event.model_dump(mode="json")}


def from_json(data: JSON) -> Kept:
    """Read what `to_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is no event.
    """
    fields = {name: value for name, value in data.items() if name != "event"}
    if data["event"] == SAID:
        return Message.from_dict(fields)
    event: Any = NAMES[data["event"]].model_validate(fields)  # Any: one of `Kept`
    return event  # type: ignore[no-any-return]


class Listener(BaseCallbackHandler):
    """Tells what chat models are asked; those that a graph was given too."""

    raise_error = True  # a full disk is found here first
    run_inline = True  # else an async run might tell of a call after its reply

    def __init__(self, tell: Callable[[Asked], None]) -> None:
        self._tell = tell

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **told: Any
    ) -> None:  # Any: as LangChain has it
        """The place is in the metadata of each call of ours; other calls are a model's own affair."""
        about = told.get("metadata") or {}
        if all(name in about for name in Place._fields):
            turns = [(ROLES.get(message.type, message.type), str(message.text)) for message in messages[0]]
            self._tell(Asked(**{name: about[name] for name in Place._fields}, turns=turns))


class Reading:
    """Reads updates of a graph's nodes as events, in order of time."""

    def __init__(self) -> None:
        """At the beginning of a discussion."""
        self._epoch, self._round, self._why = 0, -1, ""

    def events(self, update: Update) -> Iterator[Kept]:
        """The events of one node's update; of a watched act nothing before it is published."""
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
            yield Intervention(told=entry)
        if "decision" in update:
            yield Decided(decision=update["decision"])
