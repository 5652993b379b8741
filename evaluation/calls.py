"""Every model call of a discussion and what it hears (CMD, arXiv 2402.18272, Appendix A), read from a scripted run.

The scheme's own graph is run once by agents that never agree, so that no round is left out and a tie goes to whoever
is asked at one; their prompts say who hears what. Edges that only carry an agent's own history are left out: its
memory goes without saying, and with it all that it read before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from pydantic import PrivateAttr

from sottovoce.agents.scripted import Asked, ScriptedChatModel
from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.errors import UsageError
from sottovoce.nodes.settings import Settings, validated

Carries = Literal["question", "full", "viewpoint", "summary", "evidence", "vote"]
"""What an edge carries: a message, an answer alone, what somebody makes of messages, ..."""
Create = Callable[..., Any]  # Any: a scheme's `create(settings, models=...)`, which returns an uncompiled graph
Key = tuple[str, int, int, str]
"""Agent, round, turn and act: where a call's reply stands, whatever the attempt."""

MOST_AGENTS = 100
MOST_READ = 50_000  # messages and texts between them in all prompts together: half a minute
FEWER = "give fewer agents or rounds"
OTHER_RUNS = 3
FIRST_VALUE = 813_000_000_000
VALUE = re.compile(r"\b813\d{9}\b")
QUESTION = {"question": "How many?", "solution": "The answer is 1.", "decoys": ["The answer is 2."]}
SAID = "<...>"
"""Stands for a message or an answer in what a call is told."""


@dataclass(frozen=True)
class Call:
    """One model call, an inference node."""

    agent: str
    round: int
    """0-based; `turn` is too, within the round."""
    prompt: str
    """What it is told, whoever said it."""
    turn: int = 0


@dataclass(frozen=True)
class Edge:
    """What one call says is part of what another reads."""

    speaker: Call | None
    """None is the question, the source x."""
    hearer: Call | None
    """None is the decision, the sink y."""
    carries: Carries


@dataclass(frozen=True)
class Unrolled:
    """The calls of a discussion, in order of time, and the edges between them."""

    calls: tuple[Call, ...]
    edges: tuple[Edge, ...]
    others: tuple[str, ...] = ()
    """Who is called and does not discuss, each named by its role: nobody takes its place."""
    left_out: str = ""
    """What a reader must know of calls that are made and are not here."""

    def agents(self) -> list[str]:
        """Who discusses, in the order of their first calls."""
        return [name for name in dict.fromkeys(call.agent for call in self.calls) if name not in self.others]


class NeverAgreeing(ScriptedChatModel):
    """States a value of its own in each answer, in the form that was asked for; in all else it leaves things open."""

    answers: tuple[str, ...]
    """The acts that hold answers."""
    undecided: frozenset[str] = frozenset()
    """Agents that have no answer either."""
    _read: int = PrivateAttr(default=0)

    def _next(self, agent: str) -> str:
        asked = self._asked[-1]
        self._read += sum(len(turn.parts) for turn in asked.turns)
        if self._read > MOST_READ:
            raise UsageError(f"symmetry: found prompts of more than {MOST_READ:,} parts; {FEWER}")
        states = asked.act in self.answers and agent not in self.undecided
        value = str(FIRST_VALUE + len(self._asked)) if states else "unknown"
        schema = (asked.options.get("form") or {}).get("schema")
        if schema is None:
            return f"The answer is {value}."
        return json.dumps({name: _filled(name.lower(), value) for name in schema["properties"]})


def _filled(field: str, value: str) -> str:
    return value if "answer" in field else "0.5" if "confidence" in field else "as said"


@dataclass(frozen=True)
class _Run:
    """A discussion as it was held."""

    asked: list[Asked]
    """First attempts alone, in order of time."""
    values: dict[str, Key]
    """Where each answer was stated."""
    board: list[Message]
    decision: Mapping[str, Any]

    def speakers(self) -> list[frozenset[str]]:
        """Who is asked in each round."""
        rounds = [set[str]() for _ in range(1 + max((each.round for each in self.asked), default=-1))]
        for each in self.asked:
            rounds[each.round].add(each.agent)
        return [frozenset(each) for each in rounds]


def unroll(
    create: Create,
    settings: Settings,
    answers: tuple[str, ...] = ("answer", "revise"),
    question: Mapping[str, Any] | None = None,
) -> Unrolled:
    """The calls of a discussion with these settings, as its graph makes them.

    Args:
        create: Builds the graph: a scheme's `create`, or `partial(create_discussion, rule)`.
        settings: The models that they name are not loaded.
        answers: The scheme's acts that hold answers.
        question: Fields of the question that agents are told apart by: documents, wordings, starting views.

    Raises:
        UsageError: the discussion is too large.
    """

    def held(**other: Any) -> _Run:
        return _held(create, settings, answers, question or {}, **other)

    run = held()
    end = _open_from(run, held)
    calls = _calls(run, settings, end)
    edges = [Edge(None, call, "question") for call in calls.values()]
    for one, other, carries in _edges(run, answers):
        if one in calls and other in calls:
            edges.append(Edge(calls[one], calls[other], carries))
    last = {call.agent: call for call in calls.values()}
    edges += [Edge(last[name], None, "vote") for name in _deciding(run, end) if name in last]
    others = tuple(name for name in last if name not in settings.speakers())
    left_out = "" if end is None else f"all from round {end + 1} on: who speaks there depends on the answers"
    return Unrolled(tuple(calls.values()), tuple(edges), others, left_out)


def _held(
    create: Create,
    settings: Settings,
    answers: tuple[str, ...],
    question: Mapping[str, Any],
    *,
    undecided: frozenset[str] = frozenset(),
    seed: int = 0,
) -> _Run:
    """Hold the discussion once; no model that the settings name is loaded, and `seed` is added to theirs."""
    if (agents := len(settings.speakers())) > MOST_AGENTS:
        raise UsageError(f"symmetry: found {agents} agents, expected at most {MOST_AGENTS}; {FEWER}")
    fields = settings.model_dump(include=settings.model_fields_set - settings.of_models())
    model = NeverAgreeing(answers=answers, undecided=undecided)
    graph = create(validated(type(settings), {**fields, "seed": settings.seed + seed}), models=model).compile()
    config = {"recursion_limit": 10**6, "max_concurrency": 1}
    state = graph.invoke({**QUESTION, **question}, config, output_keys=["board", "decision"])
    values = {str(FIRST_VALUE + i): _key(each.place) for i, each in enumerate(model.asked, 1)}
    first = [each for each in model.asked if not each.place["attempt"]]
    return _Run(first, values, state["board"], state["decision"])


def _open_from(run: _Run, held: Callable[..., _Run]) -> int | None:
    """The first round in which others speak if answers are others, or lots fall otherwise; None where there is none.

    Looked for where somebody falls silent: those who go on have no answer the next time.
    """
    speaking = run.speakers()
    going_on = [now for before, now in pairwise(speaking) if now < before]
    for seed in range(1, OTHER_RUNS + 1 if going_on else 0):
        again = held(undecided=frozenset[str]().union(*going_on), seed=seed)
        for round, (one, other) in enumerate(zip(speaking, again.speakers(), strict=False)):
            if one != other:
                return round
    return None


def _calls(run: _Run, settings: Settings, end: int | None) -> dict[Key, Call]:
    """What was asked before round `end`, and what agents said without being asked: experts, dummies."""
    order, names = [*settings.names(), *(each.agent for each in run.asked)], _either(settings.names())
    calls = {
        _key(each.place): Call(each.agent, each.round, _told(each, names), each.place["turn"]) for each in run.asked
    }
    for message in run.board:
        if message.agent in settings.speakers():
            given = Call(message.agent, message.round, message.source, message.turn)
            calls.setdefault(_key(message.place._asdict()), given)
    kept = [(key, call) for key, call in calls.items() if end is None or call.round < end]
    return dict(sorted(kept, key=lambda pair: (pair[1].round, pair[1].turn, order.index(pair[1].agent))))


def _edges(run: _Run, answers: Collection[str]) -> Iterator[tuple[Key, Key, Carries]]:
    """Who hears whom, and what; what an agent has read before adds nothing."""
    read: dict[str, set[tuple[Key, Carries]]] = {}
    for asked in run.asked:
        memory, hearer = read.setdefault(asked.agent, set()), _key(asked.place)
        for speaker, carries in dict.fromkeys(_heard(asked, run.values, answers)):
            if (speaker, carries) not in memory:
                memory.add((speaker, carries))
                yield speaker, hearer, carries


def _heard(asked: Asked, values: Mapping[str, Key], answers: Collection[str]) -> Iterator[tuple[Key, Carries]]:
    """Messages in a prompt, and answers in its words whose messages are not; nothing of the agent's own history."""
    parts = [part for turn in asked.turns for part in turn.parts]
    messages = [part for part in parts if isinstance(part, Heard)]
    for each in messages:
        if not each.own:
            yield _key(each.message.place._asdict()), "full" if each.message.act in answers else "summary"
    whole = {_key(each.message.place._asdict()) for each in messages}
    stated = (values.get(value) for part in parts if isinstance(part, str) for value in VALUE.findall(part))
    for key in stated:
        if key and key not in whole and key[0] != asked.agent:
            yield key, "viewpoint"


def _deciding(run: _Run, end: int | None) -> list[str]:
    """Whose words the decision looks at; before an open end all that speak last."""
    if end is not None:
        return sorted(run.speakers()[end - 1])
    counted = [vote["agent"] for vote in run.decision["votes"] if vote["counts"]]
    return [*dict.fromkeys([*counted, *([run.decision["by"]] if "by" in run.decision else [])])]


def _told(asked: Asked, names: re.Pattern[str]) -> str:
    """The lines of a prompt, each once, without what depends on who said it; their order is left out."""

    def named(match: re.Match[str]) -> str:
        return "<you>" if match[0].replace(" ", "_") == asked.agent else "<another>"

    lines = {f"{turn.role}: {line}" for turn in asked.turns for line in _general(turn).split("\n")}
    return "\n".join([asked.act, *sorted({names.sub(named, line) for line in lines})])


def _general(turn: Turn) -> str:
    return VALUE.sub(SAID, "".join(part if isinstance(part, str) else SAID for part in turn.parts))


def _either(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names, as settings or as prompts write them: "debater_3", "debater 3"."""
    return re.compile(rf"\b(?:{'|'.join(re.escape(name).replace('_', '[_ ]') for name in names)})\b")


def _key(place: Mapping[str, Any]) -> Key:
    return place["agent"], place["round"], place["turn"], place["act"]
