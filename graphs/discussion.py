"""Any discussion that a rule describes: message passing (CMD, arXiv 2402.18272, Algorithm 2, "MesSync").

In each round every agent that was sent something answers it; the rule says who hears that in the next
round, and who keeps it for later. It goes on until nothing is sent or the rule says that it is over.

>>> from sottovoce.agents.scripted import ScriptedChatModel
>>> from sottovoce.nodes.rules import DiscussionRule
>>> class Relay(DiscussionRule):
...     '''The first agent answers, and each further one goes on from the one before.'''
...
...     def first_speakers(self, agents):
...         return agents[:1]
...
...     def receivers(self, sender, depth, agents):
...         return agents[depth : depth + 1]
>>> model = ScriptedChatModel(["It is 21.", "No, it is 22.", "It is 22."])
>>> relay = create_discussion(Relay(), models=model).compile()
>>> relay.invoke({"question": "What is 14 + 3 * 5 - 7?"})["decision"]["answer"]
'22'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langgraph.graph import StateGraph

from sottovoce.graphs.frame import framed
from sottovoce.nodes.act import node
from sottovoce.nodes.cmd import decide_tie
from sottovoce.nodes.company import Company, Models
from sottovoce.nodes.discussion import by_rule, goes_on, last_words, pass_on, speak
from sottovoce.nodes.rules import DiscussionRule, check_rule
from sottovoce.nodes.settings import MesSync
from sottovoce.nodes.settings.cmd import SECRETARY
from sottovoce.nodes.state import Discussion, Outcome, Question
from sottovoce.nodes.tally import is_tie

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore


def another_round(state: Discussion) -> Literal["next_round", "decide"]:
    """As long as anything was sent."""
    return "next_round" if goes_on(state) else "decide"


def tie_or_end(state: Discussion) -> Literal["next_round", "secretary", "decide"]:
    """The secretary is asked at a tie alone."""
    if goes_on(state):
        return "next_round"
    return "secretary" if is_tie(state["votes"], state) else "decide"


def create_discussion(
    rule: DiscussionRule, settings: MesSync | None = None, *, models: Models = None, store: PayloadStore | None = None
) -> StateGraph[Discussion, MesSync, Question, Outcome]:
    """The graph of a discussion, uncompiled. `models` by name: the agents' and, where there is one, "secretary"."""
    settings = settings or MesSync()
    check_rule(rule, settings.speakers())
    company = Company(MesSync, settings, models, store)
    graph = framed(company, by_rule(rule))
    graph.add_node("pass_on", pass_on(company, rule))
    for agent in settings.speakers():
        graph.add_node(agent, node(speak(company, rule, agent), agent), metadata={"role": "agent"})
        graph.add_edge("next_round", agent)
        graph.add_edge(agent, "pass_on")
    if settings.secretary:
        graph.add_node(
            SECRETARY, node(decide_tie(company, last_words(rule)), SECRETARY), metadata={"role": "secretary"}
        )
        graph.add_conditional_edges("pass_on", tie_or_end)
        graph.add_edge(SECRETARY, "decide")
    else:
        graph.add_conditional_edges("pass_on", another_round)
    return graph
