"""Probes that need other messages: what a finished run says about other questions, in the place of messages' own.

Under `shuffled` each question hears another one's messages: at each place (agent, act, round) the questions of the
donor run stand in the order of their messages' lengths there, and neighbours change places, so that every question
gives once, gets once, and never its own. The lengths are those of the donor run; ties are ordered by the run's seed,
the word "probe" and the place, never by what a payload holds. A question that this run has besides takes the nearest
length, and so it is where a place lacks another question: from the same act and round by any agent, from the same act,
or from anywhere. Under `noise_cov` up to `SAMPLED` messages of a place are heard as one distribution.

Donors are copied into the run's own store, which then needs that run no more, and named by the messages that heard
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Heard, Message, Part, Turn
from sottovoce.channels.options import ProtocolOptions
from sottovoce.channels.store import PayloadRef
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Question, document_digests, question_digest, question_id
from sottovoce.nodes.state import JSON, Discussion
from sottovoce.regular import text_of

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

LOG, PAYLOADS = "log.jsonl", "payloads"
"""The files of a run's folder (evaluation/runs/log.py has the lines)."""
SAMPLED = 8
"""Messages from which `noise_cov` takes mean and covariance, at most."""
Where = tuple[str, str, int]
"""Agent, act and round."""
Said = Mapping[Where, Mapping[str, PayloadRef]]
"""By place and question (`content_of`); only the last of several attempts."""


@dataclass(frozen=True)
class Donors:
    """The messages of a finished run that carry a payload."""

    folder: Path
    protocol: str
    said: Mapping[int, Said]
    """By seed."""
    asked: Mapping[str, tuple[str, str]]
    """Text and content of the questions by id; the log has a game as it began, the state as it stands."""

    def question(self, state: Discussion) -> str:
        """Return the key of a discussion's question in `said`, whether or not the donor run asked it."""
        text, content = self.asked.get(question_id(state), ("", ""))
        return content if text == state["question"] else content_of(state)

    def of(self, message: Message, question: str, seed: int) -> PayloadRef:
        """Return the payload that is heard in the place of a message's own; `question` is its key.

        Raises:
            UsageError: there is none.
        """
        here, pool = self._pool(message, question, seed)
        if here and question in pool:
            return pool[deranged({each: ref.tokens for each, ref in pool.items()}, _name(message, seed))[question]]
        length = message.payload.tokens if message.payload else 0
        others = {each: ref for each, ref in pool.items() if each != question}
        nearest = min(others, key=lambda each: (abs(others[each].tokens - length), _hash(_name(message, seed), each)))
        return others[nearest]

    def some(self, message: Message, question: str, seed: int) -> tuple[PayloadRef, ...]:
        """Return the payloads of up to `SAMPLED` other questions. Errors: see `of`."""
        _, pool = self._pool(message, question, seed)
        names = sorted(pool, key=lambda each: _hash(_name(message, seed), each))[: SAMPLED + 1]
        return tuple(pool[each] for each in names if each != question)[:SAMPLED]

    def _pool(self, message: Message, question: str, seed: int) -> tuple[bool, Mapping[str, PayloadRef]]:
        """Return whether another question has a message at this very place, and the messages of the nearest place."""
        said = self.said.get(seed) or self.said[min(self.said)]
        own = (message.agent, message.act, message.round)
        for place in (own, own[1:], own[1:2], ()):  # this place, that act and round, that act, any
            places = sorted((where for where in said if _is_of(where, place)), key=lambda at: (at[0] == own[0], at))
            pool = _joined(said[where] for where in places)  # the agent's own stand last, and count
            if pool.keys() - {question}:
                return place == own, pool
        raise UsageError(
            f"run {str(self.folder)!r} has no payload about another question than this one; "
            "give --probe-from a like run of two or more questions"
        )

    def copied(self, ref: PayloadRef, store: PayloadStore | None) -> PayloadRef:
        """Return the payload as it lies in a run's own store, after it was put there."""
        from sottovoce.channels.store import PayloadStore  # late: torch

        return (store or PayloadStore()).put(ref.load(PayloadStore(self.folder / PAYLOADS)))


def content_of(question: Question) -> str:
    """Return the sha256 of what a question asks and of its documents: many questions may share their words."""
    return hashlib.sha256(json.dumps([question_digest(question), *document_digests(question)]).encode()).hexdigest()


def deranged(lengths: Mapping[str, int], seed: str) -> dict[str, str]:
    """Return a permutation of two or more questions without a fixed one, in which lengths are near one another."""
    order = sorted(lengths, key=lambda each: (lengths[each], _hash(seed, each)))
    found, pairs = dict[str, str](), len(order) - 3 if len(order) % 2 else len(order)
    for one, other in zip(order[:pairs:2], order[1:pairs:2], strict=True):
        found |= {one: other, other: one}
    rest = order[pairs:]
    return found | dict(zip(rest, rest[1:] + rest[:1], strict=True))


def _is_of(where: Where, place: tuple[str | int, ...]) -> bool:
    return place == (where if len(place) == 3 else where[1 : 1 + len(place)])


def _joined(several: Iterable[Mapping[str, PayloadRef]]) -> dict[str, PayloadRef]:
    return {question: ref for refs in several for question, ref in refs.items()}


def _name(message: Message, seed: int) -> str:
    return json.dumps([seed, "probe", message.agent, message.act, message.round])


def _hash(seed: str, question: str) -> str:
    return hashlib.sha256(f"{seed} {question}".encode()).hexdigest()


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
    """Return a prompt in which the messages of others have what the probe needs by which the agent hears."""
    probe, donors = _options(run, agent).probe, donors_of(run, agent)
    if probe == "none":
        return turns
    store, seed = run.store_of(agent), run.settings.seed
    question = donors.question(state) if donors else ""

    def given(part: Part) -> Part:
        if isinstance(part, str) or part.own or part.plain or (ref := part.message.latent) is None:
            return part
        part = replace(part, chance=json.dumps([seed, question_id(state)]))
        if donors is None or ref.protocol != donors.protocol:
            return part
        message = part.message
        one = probe == "shuffled"
        refs = (donors.of(message, question, seed),) if one else donors.some(message, question, seed)
        return replace(part, donors=tuple(donors.copied(each, store) for each in refs))

    return tuple(replace(turn, parts=tuple(map(given, turn.parts))) for turn in turns)


def donated(turns: tuple[Turn, ...]) -> tuple[tuple[PayloadRef, ...], tuple[str, ...]]:
    """Return the donors of a prompt, each once, and notes on whose messages they stand for, with both lengths."""
    parts = [part for turn in turns for part in turn.parts if isinstance(part, Heard) and part.donors]
    refs = {ref.sha256: ref for part in parts for ref in part.donors}
    notes = [
        f"hears {part.message.agent} of round {part.message.round + 1} ({part.message.payload.tokens} tokens) by "
        f"another question's {' + '.join(str(ref.tokens) for ref in part.donors)} tokens"
        for part in parts
        if part.message.payload
    ]
    return tuple(refs.values()), tuple(dict.fromkeys(notes))


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
        said: dict[int, dict[Where, dict[str, PayloadRef]]] = {}
        questions: list[Question] = [line["question"] for line in lines if line["line"] == "question"]
        asked = {question_id(each): (each["question"], content_of(each)) for each in questions}
        for seed, id, message in _messages(lines):
            ref = message.latent
            if ref is not None and ref.protocol == protocol and ref.tokens and not message.withdrawn:
                place = (message.agent, message.act, message.round)
                said.setdefault(seed, {}).setdefault(place, {})[asked[id][1]] = ref
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the run of --probe-from cannot be read from {str(folder / LOG)!r}: {error}") from error
    if not said:
        raise UsageError(f"run {str(folder)!r} holds no payload of protocol {protocol!r}; give --probe-from another")
    if len({question for places in said.values() for refs in places.values() for question in refs}) < 2:
        raise UsageError(f"run {str(folder)!r} has payloads about one question; --probe-from needs two or more")
    return Donors(folder, protocol, said, asked)


def _is_over(last: JSON) -> bool:
    """Whether a log ends so that each discussion ended, some of them in a failure."""
    counts: dict[str, int] = last.get("counts", {})
    ended = counts.get("done", 0) + counts.get("failed", 0) == counts.get("discussions")
    return last["line"] == "done" or bool(last["line"] == "stopped" and ended)


def _messages(lines: list[JSON]) -> Iterator[tuple[int, str, Message]]:
    """Yield all messages of a log with seed and question's id; not those of a discussion that began again."""
    by_discussion: dict[tuple[str, int], list[JSON]] = {}
    for line in lines:
        if line["line"] in ("step", "again"):
            steps = by_discussion.setdefault((line["of"][0], line["of"][1]), [])
            steps.extend(line["events"]) if line["line"] == "step" else steps.clear()
    for (question, seed), events in by_discussion.items():
        for event in events:
            if event["event"] == "said":
                values = {name: value for name, value in event.items() if name != "event"}
                yield seed, question, Message.from_dict(values)


def run_of(name: str, store: PayloadStore | None) -> Path:
    """A run beside that whose store is given, or a folder by its path."""
    beside = [store.root.parent.parent / name] if store is not None and Path(name).name == name else []
    return next((folder for folder in beside if (folder / LOG).exists()), Path(name))
