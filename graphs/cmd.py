"""CMD, the Conquer-and-Merge discussion (arXiv 2402.18272): groups, a vote, and a secretary for ties.

Figure 3: agents discuss in groups, round by round. Each hears its own group in full, and only a tally of
the other groups. After R rounds all vote; on a tie the secretary decides, or each group sends a
representative to the next level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.shared_settings import SECRETARY, Voting

LARGEST = 3


class CMD(Voting):
    """Groups discuss, and hear only tallies of others (CMD).

    A group hears how many members of other groups hold which view (arXiv 2402.18272).
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")
    default_temperature: ClassVar[float | None] = 0.25

    agents: Agents = Field(default=6, ge=1, description="Number of agents, in groups of at most three.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of answers of each agent, including the first.")
    secretary: bool = Field(
        default=True,
        description="Let a secretary decide a tie; otherwise groups send representatives to a higher level.",
    )
    representative: Literal["tied", "first", "random"] = Field(
        default="tied",
        description="Agent that a group sends: tied (the first with a tied answer), first (its first agent) or random.",
    )

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Return the agents in consecutive groups of at most three, as equal as possible."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Return edges within groups and to the secretary; all edges without one: representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and secretary or representatives: each has a node."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but the secretary decides a tie; add --secretary off"
            )
        return self


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Return consecutive groups of at most three, of nearly equal size: 7 are 3, 2 and 2 (CMD, section 3)."""
    number = -(-len(agents) // LARGEST)
    starts = [i * (len(agents) // number) + min(i, len(agents) % number) for i in range(number + 1)]
    return [list(agents[start:end]) for start, end in pairwise(starts)]


ON_TIE = {"next_round": "rounds left", "secretary": "a tie", "send_representatives": "a tie"}


def after_round(state: State) -> Literal["next_round", "secretary", "decide"]:
    """Continue for R rounds; then ask the secretary if there is a tie."""
    if (state["round"] + 1) % state["settings"]["rounds"]:
        return "next_round"
    return "secretary" if tied(state) else "decide"


def after_level(state: State) -> Literal["next_round", "send_representatives", "decide"]:
    """Continue for R rounds on each level. On the highest level, a single group, the first of the tied answers wins."""
    if (state["round"] + 1) % state["settings"]["rounds"]:
        return "next_round"
    return "send_representatives" if tied(state) and len(state["groups"]) > 1 else "decide"


def tied(state: State) -> bool:
    """Return whether several answers have the most votes."""
    from sottovoce.nodes.decide import is_tie

    return is_tie(state["votes"], state)


def create_cmd(settings: CMD | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of CMD. Names in `models`: the agents, and "secretary" if there is one."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import cmd as acts
    from sottovoce.nodes.decide import vote

    settings = CMD.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_vote, begin=acts.begin, state=acts.Grouped)
    for number, group in enumerate(settings.groups(), 1):
        for agent in group:  # in parallel, in each round
            frame.graph.add_edge("next_round", agent)
            frame.act(agent, acts.discuss, role=f"group {number}", to="vote")
    if settings.secretary:
        frame.join("vote", frame.step(vote), to=after_round, labels={**ON_TIE, "decide": "no tie"})
        frame.act(SECRETARY, acts.decide_tie, role="secretary", to="decide")
    else:
        frame.join("vote", frame.step(vote), to=after_level, labels={**ON_TIE, "decide": "no tie, or one group"})
        frame.graph.add_node("send_representatives", frame.step(acts.send_representatives))
        frame.graph.add_edge("send_representatives", "next_round")
    return frame.graph


SENT = {"tied": "its first agent with a tied answer", "first": "its first agent", "random": "an agent by lot"}
"""The agent that a group sends to the next level, in words."""


def manner(settings: CMD) -> str:
    """Return a phrase that describes the discussion."""
    held = f"{counted(settings.agents, 'agent')}, {counted(settings.rounds, 'round')}"
    if settings.secretary:
        return f"{held} · at a tie a secretary decides"
    return f"{held} on each level · at a tie each group sends {SENT[settings.representative]}"


SCHEME = Scheme(
    "cmd", CMD, create_cmd, headings={"decide": "The secretary's answer after round {round}"}, manner=manner
)
make_graph = SCHEME.make_graph
