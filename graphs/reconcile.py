"""ReConcile (Chen et al. 2023, arXiv 2309.13007): a round table of different models that weigh confidences.

All agents answer with a confidence. In each round of discussion every agent reads all answers,
grouped, and answers again. The discussion ends when all agree or the rounds are over; recalibrated
confidences weight the votes.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.shared_settings import Voting


class ReConcile(Voting):
    """Agents vote, weighted by their confidence (ReConcile).

    They answer with a confidence, read all answers, and answer again (Chen et al. 2023).
    """

    agents: Agents = Field(default=3, ge=2, description="Number of agents; the paper uses three different models.")
    rounds: Rounds = Field(
        default=3, ge=0, description="Maximum number of rounds of discussion after the first answers."
    )
    vote: Literal["weighted", "plain"] = Field(
        default="weighted",
        description="Count votes weighted (by recalibrated confidence) or plain; the result of the other is reported "
        "too.",
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="Files of convincing samples: one for each agent's model, or one for all."
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.per_agent("convincing")
        return self


def after_vote(state: State) -> Literal["next_round", "decide"]:
    """End on consensus or after the last round of discussion; round 0, the first answers, does not count."""
    from sottovoce.nodes.reconcile import agreed

    return "decide" if agreed(state) or state["round"] >= state["settings"]["rounds"] else "next_round"


def create_reconcile(settings: ReConcile | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of ReConcile. Models by agent name may be local or hosted; else see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import reconcile as acts

    settings = ReConcile.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_weight, begin=acts.begin)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, acts.discuss, to="vote")
    frame.join(
        "vote",
        frame.step(acts.vote),
        to=after_vote,
        labels={"next_round": "not agreed", "decide": "agreed, or last round"},
    )
    return frame.graph


def manner(settings: ReConcile) -> str:
    """Return a phrase that describes the discussion."""
    rounds = counted(settings.rounds, "round")
    return f"{settings.agents} agents, at most {rounds} of discussion · {settings.vote} vote"


SCHEME = Scheme("reconcile", ReConcile, create_reconcile, manner=manner)
make_graph = SCHEME.make_graph
