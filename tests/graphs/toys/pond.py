"""Pond: agents fish side by side, season by season; the pond is a world, of which a reset restores the fish."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sottovoce import (
    RESTORED,
    Ask,
    Discussion,
    Frame,
    MessageRef,
    RunContext,
    Scheme,
    Settings,
    Turn,
    current_messages,
    say,
)
from sottovoce.nodes.agent import Agent


class Pond(Settings):
    """Agents take fish from one pond."""

    agents: int = Field(default=2, description="how many")
    rounds: int = Field(default=3, description="seasons")


class World(Discussion):
    fish: Annotated[int, RESTORED]
    resets: int
    """Counted over all epochs."""


async def take(run: RunContext[Pond], state: World, agent: Agent) -> dict[str, Any]:
    told = Turn("user", (f"There are {state['fish']} fish. ", *map(MessageRef, current_messages(state)), "How many?"))
    return {"board": await say(run, state, agent, Ask("take", (told,), max_tokens=8, stop=("\n",)))}


def harvest(state: World) -> dict[str, Any]:
    taken = [message.text for message in current_messages(state) if message.round == state["round"]]
    return {"fish": max(state["fish"] - sum(int(text) for text in taken if text.isdecimal()), 0)}


def another_season(state: World) -> Literal["next_round", "decide"]:
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "decide"


def create_pond(settings: Pond | None = None, **inputs: Any) -> Any:
    settings = Pond.parse(settings)
    frame = Frame(SCHEME, settings, begin=lambda *_: {"fish": 10, "resets": 0}, state=World, **inputs)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, take, to="harvest")
    frame.join("harvest", harvest, to=another_season)
    return frame.graph


SCHEME = Scheme("pond", Pond, create_pond, answers=("take",))
