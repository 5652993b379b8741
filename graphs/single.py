"""Single: one agent answers once, with the documents of all agents. The baseline every scheme is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.answer import answer
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.settings import Single
from sottovoce.nodes.state import Discussion, Outcome, Question

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = Single


def create_single(
    settings: Single | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, Single, Question, Outcome]:
    """The graph of the single agent, uncompiled."""
    settings = settings or Single()
    company = Company(Single, settings, models, store)
    (agent,) = settings.names()
    graph = framed(company)
    graph.add_node(agent, node(answer(company, agent), agent), metadata={"role": "single"})
    graph.add_edge("next_round", agent)
    graph.add_edge(agent, "decide")
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, Single, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_single(of_config(Single, config)).compile(name="single")
