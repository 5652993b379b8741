"""Information asymmetry (SDE, Tang et al. 2025, arXiv 2506.19209): each agent knows some of the passages.

In each round all agents reply in parallel, to the question and to the others' messages of the previous round. The
first round in which an agent gives a well-formed answer is the last one, and all its agents speak.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack

from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import IA


def another_round(state: Any) -> Literal["next_round", "decide"]:
    """Continue until an agent has answered, or no round is left."""
    from sottovoce.nodes.ia import answered

    over = answered(state) or state["round"] + 1 >= state["settings"]["rounds"]
    return "decide" if over else "next_round"


def create_ia(settings: IA | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of information asymmetry. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import ia as acts
    from sottovoce.nodes.setup import close_round

    settings = IA.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_box, begin=acts.begin)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, acts.talk, to="close_round")
    frame.join(
        "close_round",
        close_round,
        to=another_round,
        labels={"next_round": "no answer", "decide": "answered, or last round"},
    )
    return frame.graph


def manner(settings: IA) -> str:
    """Return a phrase that describes the discussion."""
    return f"{settings.agents} agents, each with passages of its own, at most {settings.rounds} rounds"


SCHEME = Scheme(
    "ia",
    IA,
    create_ia,
    sample="world",
    answers=("talk",),
    headings={"deal": "Passages"},
    manner=manner,
    first_options="--sample facts/20 --guide on --rounds 2 --max-tokens 48",
)
make_graph = SCHEME.make_graph
