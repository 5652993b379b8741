"""Self-consistency (Wang et al. 2023): k independent samples of one agent, and the most frequent answer.

The Majority@k baseline of Du et al. and CIPHER; like `single`, every sample has all documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.answer import answer
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.settings import SelfConsistency
from sottovoce.nodes.state import Discussion, Outcome, Question

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = SelfConsistency


def create_self_consistency(
    settings: SelfConsistency | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, SelfConsistency, Question, Outcome]:
    """The graph of k samples, uncompiled."""
    settings = settings or SelfConsistency()
    company = Company(SelfConsistency, settings, models, store)
    graph = framed(company)
    for sample in settings.names():
        graph.add_node(sample, node(answer(company, sample, speaks="nl"), sample), metadata={"role": "sample"})
        graph.add_edge("next_round", sample)
        graph.add_edge(sample, "decide")
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, SelfConsistency, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_self_consistency(of_config(SelfConsistency, config)).compile(name="self_consistency")
