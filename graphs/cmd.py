"""CMD, the Conquer-and-Merge discussion (arXiv 2402.18272): groups, a vote, and a secretary at a tie.

Each agent hears its own group in full and of the other groups a tally alone. After R answers all
vote; at a tie the secretary decides, or each group sends a representative to the next level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.cmd import by_vote, decide_tie, discuss, is_last, is_tied, send_representatives
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.decide import vote
from sottovoce.nodes.settings import CMD
from sottovoce.nodes.settings.cmd import SECRETARY
from sottovoce.nodes.state import Discussion, Outcome, Question

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = CMD


def tie_or_end(state: Discussion) -> Literal["next_round", "secretary", "decide"]:
    """The secretary is asked at a tie alone."""
    if not is_last(state):
        return "next_round"
    return "secretary" if is_tied(state) else "decide"


def level_or_end(state: Discussion) -> Literal["next_round", "send_representatives", "decide"]:
    """One group is the highest level: there the first of the tied answers wins."""
    if not is_last(state):
        return "next_round"
    return "send_representatives" if is_tied(state) and len(state["groups"]) > 1 else "decide"


def create_cmd(
    settings: CMD | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, CMD, Question, Outcome]:
    """The graph of CMD, uncompiled. `models` by name: the agents' and, where there is one, "secretary"."""
    settings = settings or CMD()
    company = Company(CMD, settings, models, store)
    graph = framed(company, by_vote)
    graph.add_node("vote", vote())
    for agent in settings.speakers():
        graph.add_node(agent, node(discuss(company, agent), agent), metadata={"role": "agent"})
        graph.add_edge("next_round", agent)
        graph.add_edge(agent, "vote")
    if settings.secretary:
        graph.add_node(SECRETARY, node(decide_tie(company), SECRETARY), metadata={"role": "secretary"})
        graph.add_conditional_edges("vote", tie_or_end)
        graph.add_edge(SECRETARY, "decide")
    else:
        graph.add_node("send_representatives", send_representatives(company))
        graph.add_conditional_edges("vote", level_or_end)
        graph.add_edge("send_representatives", "next_round")
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, CMD, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_cmd(of_config(CMD, config)).compile(name="cmd")
