"""A graph of somebody else's with a debate as one of its nodes, as a server serves it."""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from sottovoce.graphs.debate import SCHEME, Debate
from sottovoce.nodes.state import Decision


class Desk(TypedDict):
    """What comes in, and what was decided."""

    question: str
    decision: Decision


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Desk, Debate, Desk, Desk]:
    """With the settings of an assistant, as the debate's own."""
    given = config.get("configurable") or {}
    known = {name: value for name, value in given.items() if name in Debate.model_fields}
    graph = StateGraph(Desk, context_schema=Debate)
    graph.add_node("discuss", SCHEME.served({"configurable": known}).compile())
    graph.add_edge(START, "discuss")
    graph.add_edge("discuss", END)
    return graph.compile(name="inside")
