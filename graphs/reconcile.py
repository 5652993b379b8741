"""ReConcile (Chen et al. 2023, arXiv 2309.13007): a round table of different models that weigh confidences.

All agents answer with a confidence; in each round of discussion every one reads all answers,
grouped, and answers again. It ends when all agree or the rounds are over; recalibrated
confidences weigh the votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.decide import vote
from sottovoce.nodes.reconcile import agreed, ballot, by_weight, speak
from sottovoce.nodes.settings import ReConcile
from sottovoce.nodes.state import Discussion, Outcome, Question

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = ReConcile


def after_vote(state: Discussion) -> Literal["next_round", "decide"]:
    """Consensus ends it; so does the last round of discussion, which come after round 0."""
    return "decide" if agreed(state) or state["round"] >= state["settings"]["rounds"] else "next_round"


def create_reconcile(
    settings: ReConcile | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, ReConcile, Question, Outcome]:
    """The graph of ReConcile, uncompiled. `models` by agent name may be local and hosted ones side by side."""
    settings = settings or ReConcile()
    company = Company(ReConcile, settings, models, store)
    graph = framed(company, by_weight)
    graph.add_node("vote", vote(ballot))
    for agent in settings.speakers():
        graph.add_node(agent, node(speak(company, agent), agent), metadata={"role": "agent"})
        graph.add_edge("next_round", agent)
        graph.add_edge(agent, "vote")
    graph.add_conditional_edges("vote", after_vote)
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, ReConcile, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_reconcile(of_config(ReConcile, config)).compile(name="reconcile")
