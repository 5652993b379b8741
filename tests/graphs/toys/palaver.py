"""Palaver: agents speak three times in a round, one after another, in an order that is drawn as the round begins."""

from __future__ import annotations

import random
from typing import Annotated, Any

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


class Palaver(Settings):
    """Agents speak whenever it is their turn."""

    agents: int = Field(default=3, description="how many")
    rounds: int = Field(default=2, description="in each of which everybody speaks three times")


class Talk(Discussion):
    queue: Annotated[list[str], RESTORED]


async def speak(run: RunContext[Palaver], state: Talk, agent: Agent) -> dict[str, Any]:
    spoken = [
        MessageRef(each, latest=each.round == state["round"], own=each.agent == agent.name)
        for each in current_messages(state)
    ]
    turns = (*agent.prompt_builder(state).independent(), Turn("user", ("So far:\n", *spoken, "\nGo on.")))
    board = await say(run, state, agent, Ask("speak", turns))
    return {"board": board, "turn": state["turn"] + 1, "queue": state["queue"][1:]}


def draw(state: Talk) -> dict[str, Any]:
    names = [f"agent_{i + 1}" for i in range(state["settings"]["agents"])] * 3
    return {"queue": random.Random(f"{state['settings']['seed']}/{state['round']}").sample(names, len(names))}


def next_speaker(state: Talk) -> str:
    if state["queue"]:
        return state["queue"][0]
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "decide"


def create_palaver(settings: Palaver | None = None, **inputs: Any) -> Any:
    settings = Palaver.parse(settings)
    frame = Frame(SCHEME, settings, state=Talk, **inputs)
    frame.join("draw", draw, to=next_speaker, ends=settings.speakers())
    frame.graph.add_edge("next_round", "draw")
    for agent in settings.speakers():
        frame.act(agent, speak, to=next_speaker, ends=[*settings.speakers(), "next_round", "decide"])
    return frame.graph


SCHEME = Scheme("palaver", Palaver, create_palaver, answers=("speak",))
