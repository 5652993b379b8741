"""Debate (Du et al. 2023; with CIPHER, arXiv 2310.06272, and SDE, arXiv 2506.19209).

All agents first answer alone. In every further round each agent hears the others' answers of the
previous round and answers again. There is no early stop: after the last round a rule decides.
Agents hear nothing of their own round, so they run in parallel.
"""

from __future__ import annotations

from typing import Literal, Unpack

from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.settings import Debate

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
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
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
