"""Sum up answers before they are heard (Du et al. 2023): one summary of the others' for each, or one for all.

A summariser hears messages by the protocol and speaks in words.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message
from sottovoce.nodes.act import Act, Steps, message_of
from sottovoce.nodes.company import Company
from sottovoce.nodes.settings import Debate
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Discussion, said

SUMMARISER = "summariser"
"""Who the shared summary is by, on the board and in the graph."""


def summary_of(
    state: Discussion, stage: Stage[Debate], agent: str, messages: list[Message]
) -> Generator[Ask, AIMessage, Message]:
    """`agent` sums up messages; filed under the round they are of."""
    turns = stage.view(state, agent, agent).summarise(messages)
    question = stage.ask(state, agent, turns, "summarise", speaks="nl")
    return replace(message_of(question, (yield question)), round=messages[0].round)


def summarise(company: Company[Debate]) -> Act:
    """One shared summary of the round, made by the first agent's model."""

    def act(state: Discussion) -> Steps:
        stage = company.stage(state)
        names = stage.settings.names()
        answers = [message for name in names if (message := said(state, name, state["round"]))]
        summary = yield from summary_of(state, stage, names[0], answers)
        return {"board": [replace(summary, agent=SUMMARISER)]}

    return act
