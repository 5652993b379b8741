"""Discussions unrolled: every model call of a fixed number of rounds, and what each hears (CMD, Appendix A).

Early stops are left out, and so are edges that only carry an agent's own history: its memory goes
without saying. Who sums up, judges or keeps the secretary's book is an agent too, of its own name.
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

    def agents(self) -> list[str]:
        """Who is called, in the order of their first calls."""
        return list(dict.fromkeys(call.agent for call in self.calls))

    def told(self, texts: Mapping[str, str]) -> Unrolled:
        """The same where the prompts of each agent also hold what it alone is told."""

        def fuller(call: Call | None) -> Any:  # Any: None stays None
            text = texts.get(call.agent) if call else None
            return replace(call, prompt=f"{call.prompt}; {text}") if call and text else call

        edges = tuple(Edge(fuller(edge.speaker), fuller(edge.hearer), edge.carries) for edge in self.edges)
        return Unrolled(tuple(map(fuller, self.calls)), edges)


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


# Schemes as their papers have them


def mad(rounds: int = 3) -> Unrolled:
    """MAD: affirmative, negative, moderator, one after another; a judge reads all at the end (Liang et al. 2023)."""
    pairs = [(Call("affirmative", r, "debate"), Call("negative", r, "debate")) for r in range(rounds)]
    moderators, judge = [Call("moderator", r, "moderate") for r in range(rounds)], Call("judge", rounds, "judge")
    edges = [Edge(affirmative, negative, "full") for affirmative, negative in pairs]
    edges += [Edge(before[1], now[0], "full") for before, now in pairwise(pairs)]
    for pair, moderator in zip(pairs, moderators, strict=True):
        edges += [Edge(call, hearer, "full") for call in pair for hearer in (moderator, judge)]
    return framed(edges, chain.from_iterable(pairs), [*moderators, judge])


def reconcile(agents: int = 3, rounds: int = 3) -> Unrolled:
    """ReConcile: all hear all answers of the round before, with reasons and confidence (Chen et al. 2023)."""
    rows = [[Call(name, r, "discuss" if r else "answer") for name in named(agents)] for r in range(rounds)]
    edges = [edge for before, now in pairwise(rows) for edge in hears_all_others(before, now)]
    return framed(edges, chain.from_iterable(rows), rows[-1])


def groups_of(agents: int, largest: int = 3) -> list[int]:
    """Sizes of groups, as equal as possible and none above `largest`: 7 agents are 3, 2 and 2."""
    number = -(-agents // largest)
    return [agents // number + (i < agents % number) for i in range(number)]


def cmd(sizes: Sequence[int], rounds: int = 3, *, secretary: bool = False) -> Unrolled:
    """CMD: full answers within a group, viewpoints between groups; at a tie a secretary decides (arXiv 2402.18272)."""
    group = dict(zip(named(sum(sizes)), [g for g, size in enumerate(sizes) for _ in range(size)], strict=True))
    rows = [[Call(name, r, "discuss" if r else "answer") for name in group] for r in range(rounds)]
    heard = [edge for before, now in pairwise(rows) for edge in hears_all_others(before, now)]
    edges = [
        replace(edge, carries="full" if group[edge.speaker.agent] == group[edge.hearer.agent] else "viewpoint")
        for edge in heard
        if edge.speaker and edge.hearer
    ]
    last = [Call("secretary", rounds, "decide")] if secretary else []
    return framed([*edges, *hears_all_others(rows[-1], last)], chain.from_iterable(rows), [*rows[-1], *last])


def madra(agents: int = 2, rounds: int = 3) -> Unrolled:
    """MADRA: simultaneous talk in round 1, orderly talk after it; each selects its evidence (arXiv 2312.04854)."""
    talks = [[Call(name, r, "talk") for name in named(agents)] for r in range(rounds)]
    edges = [Edge(Call(call.agent, r, "select"), call, "evidence") for r, row in enumerate(talks) for call in row]
    for before, now in pairwise(talks):
        for seat, call in enumerate(now):
            edges += hears_others([*before, *now[:seat]], call)
    judges, summarizer = [Call("judge", r, "judge") for r in range(rounds)], Call("summarizer", rounds, "summarize")
    edges += [edge for row, judge in zip(talks, judges, strict=True) for edge in hears_others(row, judge)]
    return framed([*edges, *hears_others(talks[-1], summarizer)], chain.from_iterable(talks), [*judges, summarizer])


def in_turn(agents: int, turns: int) -> Unrolled:
    """One speaks after another and hears all that was said: ReAct relay (one turn each), WhoDunit's round robin."""
    names = named(agents)
    calls = [Call(names[turn % agents], turn, "step") for turn in range(turns)]
    return framed([edge for i, call in enumerate(calls) for edge in hears_others(calls[:i], call)], calls, calls[-1:])
