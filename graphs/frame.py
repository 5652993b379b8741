"""What every discussion begins and ends with: opening, the next round, and the decision."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import Rule, by_majority, decide
from sottovoce.nodes.opening import next_round, opening
from sottovoce.nodes.settings import AnySettings
from sottovoce.nodes.state import Discussion, Outcome, Question


def framed(
    company: Company[AnySettings], rule: Rule = by_majority
) -> StateGraph[Discussion, AnySettings, Question, Outcome]:
    """A graph with START -> opening -> next_round and decide -> END; a scheme adds who speaks between them."""
    graph = StateGraph(Discussion, context_schema=company.kind, input_schema=Question, output_schema=Outcome)
    graph.add_node("opening", opening(company))
    graph.add_node("next_round", next_round)
    graph.add_node("decide", decide(company, rule))
    graph.add_edge(START, "opening")
    graph.add_edge("opening", "next_round")
    graph.add_edge("decide", END)
    return graph
