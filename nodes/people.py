"""People in a discussion: the graph stops with what is asked (LangGraph's `interrupt`), and goes on with the reply.

What a run is stopped with (`Interrupt.value`) is plain JSON, and so is what it is resumed with: a text, or an object
that holds one under "text".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from sottovoce.agents.ask import Call
from sottovoce.channels.message import words
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import JSON, Discussion

HUMAN = "human"
"""The source of messages that a person wrote."""
SAVER = "__pregel_checkpointer"
"""Where LangGraph (1.2) keeps a run's saver in its configuration; without one an interrupt ends a run for good."""
EXPECTED = 'a text, or {"text": "..."}'
Reply = bool | str
BEGINNING = "as the settings have it"


def check_people(run: RunContext[Any], config: RunnableConfig) -> list[str]:  # Any: of every scheme
    """What a reader must know: whose seats are people's.

    Raises:
        UsageError: nothing keeps the discussion until they answer.
    """
    if run.settings.asks_people:
        check_saver("a person takes part", config)
    return [f"the seat of {agent} is a person's" for agent in run.settings.human]


def check_saver(why: str, config: RunnableConfig) -> None:
    """Refuse a graph that could not go on after an interrupt.

    Raises:
        UsageError: it has no saver.
    """
    if not config.get("configurable", {}).get(SAVER):
        raise UsageError(f"{why}, but the graph has no saver; compile it with a checkpointer")


def by_person(state: Discussion, call: Call, node: str) -> AIMessage | None:
    """The reply of a person: of one who holds the agent's seat, or wrote anew what was to be approved; None of none.

    The person is told agent, act, why the seat is theirs, and the turns that a model would have read. Each call is
    asked by itself: a reply that cannot be read is asked for again as a model's would be.
    """
    ask, why = call.ask, _why(state, call.ask.agent)
    written = state.get("pending", {}).get(node, {}).get("written", {})
    if ask.act in written and not call.asked:
        return AIMessage(written[ask.act], additional_kwargs={"source": HUMAN})
    if why is None:
        return None
    turns = [[turn.role, words(turn.parts)] for turn in ask.turns]
    value = {"agent": ask.agent, "act": ask.act, "why": why, "turns": turns, "begun": ask.beginning}
    return AIMessage(str(asked(value, text_of)), additional_kwargs={"source": HUMAN})


def asked(
    value: JSON, read: Callable[[Any], Reply | None], expected: str = EXPECTED
) -> Reply:  # Any: what somebody resumes the graph with
    """Stop with `value` until it is resumed with what can be read; else again, with what was "wrong" besides.

    What a graph was resumed with stays in its checkpoints: an error would leave the thread without a way on.
    """
    found = read(reply := interrupt(value))
    while found is None:
        found = read(reply := interrupt({**value, "wrong": f"found {reply!r}; expected {expected}"}))
    return found


def _why(state: Discussion, agent: str) -> str | None:
    """Why a person is asked: from the beginning, or since an intervention handed the seat over for good."""
    if agent in state["settings"].get("human", []):
        return BEGINNING
    handed = [each for each in state.get("interventions", []) if each["what"] == HUMAN]
    return next((each["why"] for each in handed if agent in each["agent"].split(", ")), None)


def text_of(reply: Any) -> str | None:  # Any: as above
    """The text that a reply is; None where it is none."""
    text = reply.get("text") if isinstance(reply, dict) else reply
    return text if isinstance(text, str) else None
