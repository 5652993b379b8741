"""Library: agents choose among the passages they were given, and answer from those alone."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import MessageRef, Turn
from sottovoce.core.response_format import Form
from sottovoce.graphs.debate import another_round
from sottovoce.graphs.frame import Frame
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import passages_of, shown
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion, Update, current_messages


class Library(Settings):
    """Agents read before they answer."""

    agents: int = Field(default=2, description="how many")
    rounds: int = Field(default=2, description="in which each chooses and answers")


async def read_and_answer(run: RunContext[Library], state: Discussion, agent: Agent) -> Update:
    """Two acts in one turn, of which the second answers."""
    passages = passages_of(state, agent.name)
    shelf = "\n".join(shown(passage, number) for number, passage in enumerate(passages, 1))
    wanted = Turn("user", (f"{state['question']}\n{shelf}\nWhich of them do you want?",))
    chosen = await say(
        run,
        state,
        agent,
        Ask("select", (wanted,), Form(pattern=r"[\d ]+"), protocol="nl"),
        validate=lambda message: "" if re.fullmatch(r"[\d ]+", message.text) else "it is no list of numbers",
        requested="Give numbers alone.",
    )
    read = [passages[int(number) - 1]["text"] for number in chosen[-1].text.split() if 0 < int(number) <= len(passages)]
    others = [MessageRef(each) for each in current_messages(state) if each.act == "answer" and each.agent != agent.name]
    turns = (Turn("user", ("\n".join([*read, state["question"]]), "\nOthers say: ", *others)),)
    return {"board": [*chosen, *await say(run, state, agent, Ask("answer", turns, prefill="I found that "))]}


def create_library(settings: Library | None = None, **given: Any) -> Graph:
    frame = Frame(SCHEME, settings or Library(), **given)
    for agent in (settings or Library()).speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, read_and_answer, to="close")
    frame.join("close", lambda state: {}, to=another_round)
    return frame.graph


SCHEME = Scheme("library", Library, create_library, answers=("answer",), headings={"select": "Chosen in round {round}"})
