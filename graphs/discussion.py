"""Discussions described by a rule: message passing (CMD, arXiv 2402.18272, Algorithm 2, "MesSync").

In each round every agent that received a message answers it. The rule chooses who hears the answer in the
next round, and who stores it for later. This continues until nothing is sent or the rule ends it.

>>> from sottovoce.agents.scripted import ScriptedChatModel
>>> from sottovoce.nodes.rules import DiscussionRule
>>> class Relay(DiscussionRule):
...     '''The first agent answers, and each further agent continues from the one before.'''
...
...     def first_speakers(self, agents):
...         return agents[:1]
...
...     def receivers(self, message, state, agents):
...         return agents[message.round + 1 : message.round + 2]
>>> model = ScriptedChatModel(["The answer is 21.", "No, the answer is 22.", "The answer is 22."])
>>> relay = create_discussion(Relay(), models=model).compile()
>>> relay.invoke({"question": "What is 14 + 3 * 5 - 7?"})["decision"]["answer"]
'22'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.shared_settings import SECRETARY

if TYPE_CHECKING:
    from sottovoce.nodes.rules import DiscussionRule


class MesSync(Settings):
    """A rule passes messages on, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")

    agents: Agents = Field(default=3, ge=1, description="Number of agents.")
    depth: Rounds = Field(
        default=100, ge=1, description="Maximum number of rounds; a rule that has not ended by then is an error."
    )
    secretary: bool = Field(default=False, description="Let a secretary decide a tie.")

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a secretary: each has a node."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"


SENT = {"next_round": "sent to somebody", "secretary": "a tie", "decide": "sent to nobody"}


def another_round(state: State) -> Literal["next_round", "decide"]:
    """Continue as long as any message was sent."""
    return "next_round" if len(state["heard"]) > state["round"] + 1 else "decide"


def tie_or_end(state: State) -> Literal["next_round", "secretary", "decide"]:
    """Continue as long as any message was sent; then ask the secretary if there is a tie."""
    from sottovoce.nodes.decide import is_tie

    if another_round(state) == "next_round":
        return "next_round"
    return "secretary" if is_tie(state["votes"], state) else "decide"


def create_discussion(rule: DiscussionRule, settings: MesSync | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a discussion. Names in `models`: the agents, and "secretary" if there is one."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import discussion as acts
    from sottovoce.nodes.cmd import secretary
    from sottovoce.nodes.rules import check_rule

    settings = MesSync.parse(settings)
    check_rule(rule, settings.speakers())
    passing = acts.Passing(rule)
    frame = Frame(SCHEME, settings, **inputs, rule=passing.decide, begin=passing.begin, state=acts.Passed)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, passing.reply, to="pass_on")
    if settings.secretary:
        frame.join("pass_on", frame.step(passing.pass_on), to=tie_or_end, labels=SENT)
        frame.act(SECRETARY, secretary(passing.last_words), role="secretary", to="decide")
    else:
        frame.join("pass_on", frame.step(passing.pass_on), to=another_round, labels=SENT)
    return frame.graph


SCHEME = Scheme("discussion", MesSync, create_discussion, headings={"decide": "The secretary's answer"})
