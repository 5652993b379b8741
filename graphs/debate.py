"""Debate (Du et al. 2023; with CIPHER, arXiv 2310.06272, and SDE, arXiv 2506.19209).

All agents first answer alone. In every further round each agent hears the others' answers of the
previous round and answers again. There is no early stop: after the last round a rule decides.
Agents hear nothing of their own round, so they run in parallel.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.shared_settings import Controlled, Order, Voting

FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]


class Debate(Controlled, Voting):
    """Agents answer, read each other, answer again (Du, 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "summarise")

    agents: Agents = Field(default=2, ge=1, description="Number of agents.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of rounds, including the first.")
    shape: Literal["history", "fresh"] = Field(
        default="history",
        description="Prompt of later rounds: history (a growing chat) or fresh (one prompt for each round, as in "
        "CIPHER).",
    )
    order: Order | None = Field(
        default=None,
        description="Repeat an agent's own answer after (others_first) or before (own_first) the others'. "
        "If not set: do not repeat it in a history; others_first in a fresh prompt.",
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none",
        description="Summaries that agents read instead of answers: each (every agent sums up the others' answers) "
        "or shared (one summary of all answers).",
    )
    role: list[Role] = Field(
        default=[],
        description="Role of an agent: debater, expert (states the solution) or dummy (states the solution of another "
        "question). One for all agents, or one each.",
    )
    rule: FinalRule | None = Field(
        default=None,
        description="Decision rule: majority, lowest_temperature (the answer of that agent) or average (no answer; "
        "the share of right ones is the score). If not set: the protocol's.",
    )
    last_round: Literal["all", "deciding"] = Field(
        default="all",
        description="Agents that speak in the last round: all, or deciding (only the one with the lowest temperature).",
    )

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a shared summary: each has a node."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """Return the role of each agent."""
        return dict(zip(self.speakers(), self.per_agent("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """Return the solution for experts and the decoys for dummies (CIPHER's bounds) or for the control."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.per_agent("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} reads all agents, but with last_round 'deciding' only one of them speaks; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries replace the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to summarize; use --agents 2 or more")
        if self.control != "none" and (self.agents == 1 or self.summarise == "shared"):
            raise UsageError(
                f"the control {self.control!r} replaces messages that agents read from one another; "
                "use it with --agents 2 or more and without --summarise shared"
            )
        return self


LAST_OR_NOT = {"next_round": "rounds left", "summarise": "rounds left", "decide": "last round"}
"""The reason for each edge, as drawings show it."""


def another_round(state: State) -> Literal["next_round", "decide"]:
    """Continue until all rounds are over; the independent first answers are one of them."""
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "decide"


def summary_or_end(state: State) -> Literal["summarise", "decide"]:
    """Summarize each round except the last."""
    return "summarise" if another_round(state) == "next_round" else "decide"


def create_debate(settings: Debate | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a debate.

    Args:
        settings: The defaults of its runs; the graph has nodes for their number of agents.
        inputs: `models`, `store` and `watch`, see `GraphInputs`.
    """
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import debate as acts
    from sottovoce.nodes.setup import close_round

    settings = Debate.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_rule)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, acts.take_turn, role="debater", to="close_round")
    if settings.summarise == "shared":
        frame.join("close_round", close_round, to=summary_or_end, labels=LAST_OR_NOT)
        frame.act("summarise", acts.summarise, agent=acts.SUMMARISER, role="summariser", to="next_round")
    else:
        frame.join("close_round", close_round, to=another_round, labels=LAST_OR_NOT)
    return frame.graph


SCHEME = Scheme("debate", Debate, create_debate, headings={"summarise": "Summaries, round {round}"})
make_graph = SCHEME.make_graph
