"""ReConcile (Chen et al. 2023, arXiv 2309.13007): a round table of different models that weigh confidences.

All agents answer with a confidence. In each round of discussion every agent reads all answers,
grouped, and answers again. The discussion ends when all agree or the rounds are over; recalibrated
confidences weight the votes.
"""

from __future__ import annotations

from typing import Literal, Unpack

from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.settings import ReConcile


def after_vote(state: State) -> Literal["next_round", "decide"]:
    """End on consensus or after the last round of discussion; round 0, the first answers, does not count."""
    from sottovoce.nodes.reconcile import agreed

    return "decide" if agreed(state) or state["round"] >= state["settings"]["rounds"] else "next_round"


def create_reconcile(settings: ReConcile | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of ReConcile. Models by agent name may be local or hosted; else see `GraphInputs`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
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
