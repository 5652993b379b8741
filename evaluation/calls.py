"""Discussions unrolled: every model call of a fixed number of rounds, and what each hears (CMD, Appendix A).

Early stops are left out, and so are edges that only carry an agent's own history: its memory goes
without saying, and with it all that it read before. Who sums up, moderates, judges or is the
secretary is an agent too, of its own name, and one of the staff.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Literal

Carries = Literal["question", "full", "viewpoint", "summary", "evidence", "vote"]


@dataclass(frozen=True)
class Call:
    """One model call, an inference node: who is asked, in which round (0-based), with which prompt."""

    agent: str
    round: int
    prompt: str


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
    """The calls of a discussion and the edges between them."""

    calls: tuple[Call, ...]
    edges: tuple[Edge, ...]
    staff: tuple[str, ...] = ()
    """Agents with an office: they do not discuss, and nobody takes their place."""
    left_out: str = ""
    """What a reader must know of calls that are made and are not here."""

    def agents(self) -> list[str]:
        """Who is called, in the order of their first calls."""
        return list(dict.fromkeys(call.agent for call in self.calls))

    def told(self, texts: Mapping[str, str]) -> Unrolled:
        """The same where the prompts of each agent also hold what it alone is told."""

        def fuller(call: Call | None) -> Any:  # Any: None stays None
            text = texts.get(call.agent) if call else None
            return replace(call, prompt=f"{call.prompt}; {text}") if call and text else call

        edges = tuple(Edge(fuller(edge.speaker), fuller(edge.hearer), edge.carries) for edge in self.edges)
        return replace(self, calls=tuple(map(fuller, self.calls)), edges=edges)


def framed(edges: Iterable[Edge], calls: Iterable[Call], deciding: Iterable[Call]) -> Unrolled:
    """With the question before every call and the decision after the last; further calls are those that hear."""
    heard = list(edges)
    ends = [call for edge in heard for call in (edge.speaker, edge.hearer) if call]
    every = tuple(dict.fromkeys([*calls, *ends]))
    asked = [Edge(None, call, "question") for call in every]
    return Unrolled(every, (*asked, *heard, *(Edge(call, None, "vote") for call in deciding)))


def named(n: int) -> list[str]:
    """agent_1 .. agent_n."""
    return [f"agent_{i + 1}" for i in range(n)]


def hears_others(speakers: Iterable[Call], hearer: Call, carries: Carries = "full") -> list[Edge]:
    """What a call hears of the calls of other agents."""
    return [Edge(speaker, hearer, carries) for speaker in speakers if speaker.agent != hearer.agent]


def hears_all_others(before: Sequence[Call], now: Sequence[Call], carries: Carries = "full") -> list[Edge]:
    """Every call of a round hears the other agents' calls of the round before."""
    return [edge for hearer in now for edge in hears_others(before, hearer, carries)]


def hears_in_groups(groups: Sequence[Sequence[str]], before: Sequence[Call], now: Sequence[Call]) -> list[Edge]:
    """Full answers within a group, viewpoints between groups; of agents in no group nothing (CMD, section 3.2)."""
    group = {name: number for number, names in enumerate(groups) for name in names}
    speaking = [call for call in before if call.agent in group]

    def carries(speaker: Call, hearer: Call) -> Carries:
        return "full" if group[speaker.agent] == group[hearer.agent] else "viewpoint"

    return [edge for hearer in now for one in speaking for edge in hears_others([one], hearer, carries(one, hearer))]


# Schemes as their papers have them, until their graphs are there


def madra(agents: int = 2, rounds: int = 3) -> Unrolled:
    """MADRA: simultaneous talk in round 1, orderly talk after it; each selects its evidence (arXiv 2312.04854)."""
    talks = [[Call(name, r, "talk") for name in named(agents)] for r in range(rounds)]
    edges = [Edge(Call(call.agent, r, "select"), call, "evidence") for r, row in enumerate(talks) for call in row]
    for before, now in pairwise(talks):
        for seat, call in enumerate(now):
            edges += hears_others([*before, *now[:seat]], call)
    judges, summarizer = [Call("judge", r, "judge") for r in range(rounds)], Call("summarizer", rounds, "summarize")
    edges += [edge for row, judge in zip(talks, judges, strict=True) for edge in hears_others(row, judge)]
    edges += hears_others(talks[-1], summarizer)
    return replace(framed(edges, chain.from_iterable(talks), [summarizer]), staff=("judge", "summarizer"))


def in_turn(agents: int, turns: int) -> Unrolled:
    """One speaks after another and hears all that was said: ReAct relay (one turn each), WhoDunit's round robin."""
    names = named(agents)
    calls = [Call(names[turn % agents], turn, "step") for turn in range(turns)]
    return framed([edge for i, call in enumerate(calls) for edge in hears_others(calls[:i], call)], calls, calls[-1:])
