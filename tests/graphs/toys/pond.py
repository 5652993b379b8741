"""Pond: agents fish side by side, season by season; the pond is a world, of which a reset restores the fish."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Heard, Turn
from sottovoce.graphs.debate import another_round
from sottovoce.graphs.frame import Frame
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Discussion, Update, heard, said


class Pond(Settings):
    """Agents take fish from one pond."""

    agents: int = Field(default=2, description="how many")
    rounds: int = Field(default=3, description="seasons")


class World(Discussion):
    fish: Annotated[int, RESTORED]
    resets: int
    """Counted over all epochs."""


async def take(run: RunContext[Pond], state: World, agent: str) -> Update:
    told = Turn("user", (f"There are {state['fish']} fish. ", *map(Heard, heard(state)), "How many?"))
    return {"board": await say(run, state, Ask(agent, "take", (told,), max_tokens=8, stop=("\n",)))}


def harvest(state: World) -> Update:
    names = [f"agent_{i + 1}" for i in range(state["settings"]["agents"])]
    taken = [message.text for name in names if (message := said(state, name, state["round"], ("take",)))]
    return {"fish": max(state["fish"] - sum(int(text) for text in taken if text.isdecimal()), 0)}


def create_pond(settings: Pond | None = None, **given: Any) -> Graph:
    frame = Frame(SCHEME, settings or Pond(), begin=lambda *_: {"fish": 10, "resets": 0}, state=World, **given)
    for agent in (settings or Pond()).speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, take, to="harvest")
    frame.join("harvest", harvest, to=another_round)
    return frame.graph


SCHEME = Scheme("pond", Pond, create_pond, answers=("take",))
