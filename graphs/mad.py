"""MAD (Liang et al. 2023, arXiv 2305.19118): debate before a moderator, with adaptive break and a judge.

Affirmative, negative and further debaters speak one after another, each after all that was said
since its own last statement; then the moderator names an answer, or leaves it open for the next
round. After the last round a fresh judge lists the candidates and chooses one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.company import Company, Models, of_config
from sottovoce.nodes.moderate import by_verdict, debate, judge, list_candidates, moderate, settled
from sottovoce.nodes.settings import MAD
from sottovoce.nodes.state import Discussion, Outcome, Question

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore

SETTINGS = MAD


def after_verdict(state: Discussion) -> Literal["decide", "next_round", "list_candidates"]:
    """The moderator's answer ends it; so does the last round, with the judge."""
    if settled(state) is not None:
        return "decide"
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "list_candidates"


def create_mad(
    settings: MAD | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, MAD, Question, Outcome]:
    """The graph of MAD, uncompiled. `models` by name: the debaters', "moderator", "judge"; or one for all."""
    settings = settings or MAD()
    company = Company(MAD, settings, models, store)
    graph = framed(company, by_verdict)
    debaters = settings.speakers()
    for name in debaters:
        graph.add_node(name, node(debate(company, name), name), metadata={"role": "debater"})
    graph.add_node("moderator", node(moderate(company), "moderator"), metadata={"role": "moderator"})
    for before, after in pairwise(["next_round", *debaters, "moderator"]):
        graph.add_edge(before, after)
    graph.add_conditional_edges("moderator", after_verdict)
    for name, act in (("list_candidates", list_candidates), ("judge", judge)):
        graph.add_node(name, node(act(company), name), metadata={"role": "judge"})
    graph.add_edge("list_candidates", "judge")
    graph.add_edge("judge", "decide")
    return graph


def make_graph(config: RunnableConfig) -> CompiledStateGraph[Discussion, MAD, Question, Outcome]:
    """For langgraph.json: the compiled graph for an assistant's settings. Loads no model."""
    return create_mad(of_config(MAD, config)).compile(name="mad")
