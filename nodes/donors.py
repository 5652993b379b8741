"""The probe `shuffled`: in the place of what a message carries, the same speaker's payload of another question.

The donors are what a finished run left in its folder: its log tells who said what, about which question and
with which payload. One is chosen by the message itself and copied into this run's store, which then needs that
run no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message, Part, Turn
from sottovoce.channels.options import ProtocolOptions
from sottovoce.channels.store import PayloadRef
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import JSON, Discussion
from sottovoce.regular import text_of

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

LOG, PAYLOADS = "log.jsonl", "payloads"
"""What a run's folder holds (evaluation/runs/log.py has the lines)."""
Where = tuple[str, str, int]
"""Agent, act and round."""
Said = Mapping[Where, list[tuple[str, Message]]]
"""What was said there: the question's id, and the message."""


@dataclass(frozen=True)
class Donors:
    """The messages of a finished run that carry a payload."""

    folder: Path
    protocol: str
    said: Said

    def of(self, message: Message, question: str) -> PayloadRef:
        """The payload that is heard in the place of a message's own: of another question, chosen by the message.

        Raises:
            UsageError: there is none.
        """
        there = self.said.get((message.agent, message.act, message.round), [])
        own = {question, *(asked for asked, said in there if said.text == message.text)}
        found = {said.payload.sha256: said.payload for asked, said in there if asked not in own and said.payload}
        if not found or message.payload is None:
            raise UsageError(
                f"run {str(self.folder)!r} holds no payload that {message.agent!r} made in round {message.round}, act "
                f"{message.act!r}, for another question; give --probe-from a like run of more questions"
            )
        return found[sorted(found)[int(message.payload.sha256, 16) % len(found)]]

    def copied(self, ref: PayloadRef, store: PayloadStore | None) -> PayloadRef:
        """The payload, put into a run's own store."""
        from sottovoce.channels.store import PayloadStore  # late: torch

        return (store or PayloadStore()).put(ref.load(PayloadStore(self.folder / PAYLOADS)))


def check_probes(run: RunContext[Any]) -> list[str]:  # Any: of every scheme
    """What a reader must know: who hears under which probe.

    Raises:
        UsageError: the payloads of another run are to be heard, and cannot be.
    """
    notes = []
    for name in run.models:
        options = _options(run, name)
        if options.probe != "none":
            donors_of(run, name)
            told = f", from the run {options.probe_from!r}" if options.probe_from else ""
            notes.append(f"{name} hears others under the probe {options.probe!r}{told}")
    return notes


def with_donors(run: RunContext[Any], state: Discussion, agent: str, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """A prompt in which the messages of others have their donors, where the agent hears by the probe `shuffled`."""
    donors = donors_of(run, agent)
    if donors is None:
        return turns
    store, question = run.store_of(agent), question_id(state)

    def given(part: Part) -> Part:
        if (
            isinstance(part, str)
            or part.own
            or part.plain
            or (ref := part.message.latent) is None
            or ref.protocol != donors.protocol
        ):
            return part
        return replace(part, donor=donors.copied(donors.of(part.message, question), store))

    return tuple(replace(turn, parts=tuple(map(given, turn.parts))) for turn in turns)


def donors_of(run: RunContext[Any], agent: str) -> Donors | None:
    """The donors of the probe by which an agent hears; None where it hears by another, or by none.

    Raises:
        UsageError: there is no such run, it is not over, or it holds no payload of this protocol.
    """
    name, model = _options(run, agent).probe_from, run.model(agent)
    if not name or not isinstance(model, HookedChatModel):
        return None
    key = f"donors {model.protocol} {name}"
    if key not in run.memo:
        run.memo[key] = read_donors(run_of(name, run.store_of(agent)), model.protocol)
    found: Donors = run.memo[key]
    return found


def _options(run: RunContext[Any], agent: str) -> ProtocolOptions:
    """The options of the protocol by which an agent hears."""
    model = run.model(agent)
    return model.channel.options if isinstance(model, HookedChatModel) else ProtocolOptions()


def read_donors(folder: Path, protocol: str) -> Donors:
    """What was said by a protocol in a finished run. Errors: see `donors_of`."""
    try:
        lines = [json.loads(line) for line in text_of(folder / LOG).splitlines()]
        if not lines or not _is_over(lines[-1]):
            raise UsageError(f"run {str(folder)!r} is not over, and --probe-from takes a finished one; resume it first")
        said: dict[Where, list[tuple[str, Message]]] = {}
        for question, message in _messages(lines):
            if message.latent is not None and message.latent.protocol == protocol and message.latent.tokens:
                said.setdefault((message.agent, message.act, message.round), []).append((question, message))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the run of --probe-from cannot be read from {str(folder / LOG)!r}: {error}") from error
    if not said:
        raise UsageError(f"run {str(folder)!r} holds no payload of protocol {protocol!r}; give --probe-from another")
    return Donors(folder, protocol, said)


def _is_over(last: JSON) -> bool:
    """Whether a log ends so that each discussion ended, some of them in a failure."""
    counts: dict[str, int] = last.get("counts", {})
    ended = counts.get("done", 0) + counts.get("failed", 0) == counts.get("discussions")
    return last["line"] == "done" or bool(last["line"] == "stopped" and ended)


def _messages(lines: list[JSON]) -> Iterator[tuple[str, Message]]:
    """All messages of a log, each with its question; not those of a discussion that began again afterwards."""
    by_discussion: dict[tuple[str, int], list[JSON]] = {}
    for line in lines:
        if line["line"] in ("step", "again"):
            steps = by_discussion.setdefault((line["of"][0], line["of"][1]), [])
            steps.extend(line["events"]) if line["line"] == "step" else steps.clear()
    for (question, _), events in by_discussion.items():
        for event in events:
            if event["event"] == "said":
                yield question, Message.from_dict({name: value for name, value in event.items() if name != "event"})


def run_of(name: str, store: PayloadStore | None) -> Path:
    """A run beside that whose store is given, or a folder by its path."""
    beside = [store.root.parent.parent / name] if store is not None and Path(name).name == name else []
    return next((folder for folder in beside if (folder / LOG).exists()), Path(name))
