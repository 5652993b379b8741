"""Probes that replace payloads by a finished run's payloads about other questions (docs/howto/probes.md).

Under `shuffled` each question hears another question's messages of about the same length. Under `noise_cov` up to
`SAMPLED` messages of a place are heard as one distribution. No choice depends on a payload's content. Donors are copied
into the run's own store, so the donor run is no longer needed. Messages that heard donors name them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.channels.options import ProtocolOptions
from sottovoce.channels.store import PayloadRef
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import UsageError
from sottovoce.core.files import RUN
from sottovoce.nodes.question import Question, document_digests, question_digest, question_id
from sottovoce.nodes.state import Discussion

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

READER = "sottovoce.runs.probe_source"
"""The module that reads donors from a run; it is above all that runs, so it is imported where a probe needs it."""
SAMPLED = 8
"""Maximum number of messages from which `noise_cov` computes mean and covariance."""
COMPARE = "to see the effect of a probe, compare with the same run without it"
"""A note on runs under a probe, which start no baseline of their own."""
Where = tuple[str, str, int]
"""Agent, act and round."""
Said = Mapping[Where, Mapping[str, PayloadRef]]
"""Payloads by place and question (`content_of`); only those of the last attempt."""


@dataclass(frozen=True)
class Donors:
    """The payloads in the messages of a finished run."""

    folder: Path
    """The run's."""
    payloads: Path
    protocol: str
    said: Mapping[int, Said]
    """Payloads by seed."""
    questions: Mapping[str, tuple[str, str]]
    """Text and content of the questions by id; the log has a game's beginning, the state its current form."""

    def question(self, state: Discussion) -> str:
        """Return the key of a discussion's question in `said`, whether or not the donor run asked it."""
        text, content = self.questions.get(question_id(state), ("", ""))
        return content if text == state["question"] else content_of(state)

    def of(self, message: Message, question: str, seed: int) -> PayloadRef:
        """Return the payload that replaces a message's own; `question` is the key of the message's question.

        Raises:
            UsageError: the donor run has no payload about another question.
        """
        here, pool = self._pool(message, question, seed)
        if here and question in pool:
            return pool[deranged({each: ref.length for each, ref in pool.items()}, _name(message, seed))[question]]
        length = message.payload.length if message.payload else 0
        others = {each: ref for each, ref in pool.items() if each != question}
        nearest = min(others, key=lambda key: (abs(others[key].length - length), _hash(_name(message, seed), key)))
        return others[nearest]

    def some(self, message: Message, question: str, seed: int) -> tuple[PayloadRef, ...]:
        """Return the payloads of up to `SAMPLED` other questions. Errors: see `of`."""
        _, pool = self._pool(message, question, seed)
        names = sorted(pool, key=lambda key: _hash(_name(message, seed), key))[: SAMPLED + 1]
        return tuple(pool[each] for each in names if each != question)[:SAMPLED]

    def _pool(self, message: Message, question: str, seed: int) -> tuple[bool, Mapping[str, PayloadRef]]:
        """Return True if another question has a message at this very place, and the messages of the nearest place."""
        said = self.said.get(seed) or self.said[min(self.said)]
        own, key = (message.agent, message.act, message.round), (message.act, message.round)
        for here, places in (
            (True, [own] if own in said else []),
            (False, [where for where in said if where[1:] == key]),
            (False, [where for where in said if where[1] == message.act]),
            (False, [*said]),
        ):
            # The agent's own come last, and override others.
            ordered = sorted(places, key=lambda at: (at[0] == message.agent, at))
            pool = {each: ref for where in ordered for each, ref in said[where].items()}
            if pool.keys() - {question}:
                return here, pool
        raise UsageError(
            f"run {str(self.folder)!r} has no payload about another question than this one; "
            "pass `probe_from=` a similar run of two or more questions"
        )

    def copied(self, ref: PayloadRef, store: PayloadStore | None) -> PayloadRef:
        """Copy a payload to a run's own store, and return its reference there."""
        from sottovoce.channels.store import PayloadStore  # late: torch

        return (store or PayloadStore()).put(ref.load(PayloadStore(self.payloads)))


def content_of(question: Question) -> str:
    """Return the sha256 of a question and its documents, since many questions may share their text."""
    return hashlib.sha256(json.dumps([question_digest(question), *document_digests(question)]).encode()).hexdigest()


def deranged(lengths: Mapping[str, int], seed: str) -> dict[str, str]:
    """Return a permutation of two or more questions without fixed points, between similar lengths."""
    order = sorted(lengths, key=lambda key: (lengths[key], _hash(seed, key)))
    found, pairs = dict[str, str](), len(order) - 3 if len(order) % 2 else len(order)
    for one, other in zip(order[:pairs:2], order[1:pairs:2], strict=True):
        found |= {one: other, other: one}
    rest = order[pairs:]
    return found | dict(zip(rest, rest[1:] + rest[:1], strict=True))


def _name(message: Message, seed: int) -> str:
    return json.dumps([seed, "probe", message.agent, message.act, message.round])


def _hash(seed: str, question: str) -> str:
    return hashlib.sha256(f"{seed} {question}".encode()).hexdigest()


def check_probes(run: RunContext[AnyState]) -> list[str]:
    """Return notes on the probe under which each agent hears others.

    Raises:
        UsageError: the payloads of another run are needed, but cannot be used.
    """
    notes = []
    for name, agent in run.agents.items():
        options = _options(agent)
        if options.probe != "none":
            donors_of(run, agent)
            told = f", from the run {options.probe_from!r}" if options.probe_from else ""
            notes.append(f"{name} hears others under the probe {options.probe!r}{told}")
    return [*notes, COMPARE] if notes else []


def with_donors(run: RunContext[Any], state: Discussion, agent: Agent, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt with the donors or seeds of the agent's probe in others' messages."""
    if (probe := _options(agent).probe) == "none":
        return turns
    donors = donors_of(run, agent)
    store, seed = agent.store, run.settings.seed
    question = donors.question(state) if donors else ""

    def with_donor(part: Part) -> Part:
        if isinstance(part, str) or part.own or part.plain or (ref := part.message.latent) is None:
            return part
        part = replace(part, chance=json.dumps([seed, question_id(state)]))
        if donors is None or ref.protocol != donors.protocol:
            return part
        message = part.message
        one = probe == "shuffled"
        refs = (donors.of(message, question, seed),) if one else donors.some(message, question, seed)
        return replace(part, donors=tuple(donors.copied(each, store) for each in refs))

    return tuple(replace(turn, parts=tuple(map(with_donor, turn.parts))) for turn in turns)


def donated(turns: tuple[Turn, ...]) -> tuple[tuple[PayloadRef, ...], tuple[str, ...]]:
    """Return the donors of a prompt, each once, and notes on the messages that they replace, with both lengths."""
    parts = [part for turn in turns for part in turn.parts if isinstance(part, MessageRef) and part.donors]
    refs = {ref.sha256: ref for part in parts for ref in part.donors}
    notes = dict[str, None]()
    for part in parts:
        if (own := part.message.payload) is not None:
            counted, lengths = "tokens" if own.positions is None else "positions", [ref.length for ref in part.donors]
            heard = f"hears {part.message.agent} of round {part.message.round + 1} ({own.length} {counted})"
            notes[f"{heard} by another question's {' + '.join(map(str, lengths))} {counted}"] = None
    return tuple(refs.values()), tuple(notes)


def donors_of(run: RunContext[Any], agent: Agent) -> Donors | None:
    """Return the donors for an agent's probe, or None if the probe does not need any.

    Raises:
        UsageError: there is no such run, it is not finished, or it has no payload of this protocol.
    """
    name, model = _options(agent).probe_from, agent.local
    if not name or model is None:
        return None
    folder, protocol = run_of(name, agent.store), model.protocol
    read = import_module(READER).read_donors
    donors: Donors = run.once(f"donors {protocol} {name}", lambda: read(folder, protocol))
    return donors


def _options(agent: Agent) -> ProtocolOptions:
    return ProtocolOptions() if agent.local is None else agent.local.channel.options


def run_of(name: str, store: PayloadStore | None) -> Path:
    """Return the folder of a run: a sibling of the run that owns `store`, or else the path `name`."""
    beside = [store.root.parent.parent / name] if store is not None and Path(name).name == name else []
    return next((folder for folder in beside if (folder / RUN).exists()), Path(name))
