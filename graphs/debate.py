"""Debate (Du et al. 2023; with CIPHER, arXiv 2310.06272, and SDE, arXiv 2506.19209).

All agents answer alone; in every further round each hears the others' answers of the round before
and answers again. No early stop: after the last round a rule decides. Agents of one round hear
nothing of it, so they run side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.debate import by_rule, debate
from sottovoce.nodes.opening import close_round
from sottovoce.nodes.settings import Debate
from sottovoce.nodes.state import Discussion, Outcome, Question
from sottovoce.nodes.summarise import summarise

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = Debate


def another_round(state: Discussion) -> Literal["next_round", "decide"]:
    """Rounds are counted with the independent one."""
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "decide"


def summary_or_end(state: Discussion) -> Literal["summarise", "decide"]:
    """The last round is not summed up."""
    return "summarise" if another_round(state) == "next_round" else "decide"


def create_debate(
    settings: Debate | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, Debate, Question, Outcome]:
    """The graph of a debate, uncompiled. `models` are any chat models: one for all agents, or by agent name."""
    settings = settings or Debate()
    company = Company(Debate, settings, models, store)
    graph = framed(company, by_rule)
    graph.add_node("close_round", close_round)
    for agent in settings.names():
        graph.add_node(agent, node(debate(company, agent), agent), metadata={"role": "debater"})
        graph.add_edge("next_round", agent)
        graph.add_edge(agent, "close_round")
    if settings.summarise == "shared":
        graph.add_node("summarise", node(summarise(company), "summarise"), metadata={"role": "summariser"})
        graph.add_conditional_edges("close_round", summary_or_end)
        graph.add_edge("summarise", "next_round")
    else:
        graph.add_conditional_edges("close_round", another_round)
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, Debate, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_debate(of_config(Debate, config)).compile(name="debate")
