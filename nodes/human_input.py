"""People in a discussion: the graph stops with a request (LangGraph's `interrupt`), and resumes with the reply.

The request (`Interrupt.value`) is plain JSON, and so is the value to resume with: a text, or an object with one under
"text".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from sottovoce.agents.ask import Call
from sottovoce.channels.message import words
from sottovoce.core.any_types import JSON, AnyState
from sottovoce.core.errors import UsageError
from sottovoce.nodes.state import Discussion

HUMAN = "human"
"""The source of messages that a person wrote."""
SAVER = "__pregel_checkpointer"
"""The key of a run's checkpointer in LangGraph's configuration (1.2); without one an interrupt ends a run for good."""
EXPECTED = 'a text, or {"text": "..."}'
Reply = bool | str
BEGINNING = "by the settings"


def check_saver(why: str, config: RunnableConfig) -> None:
    """Refuse a graph that cannot resume after an interrupt."""
    if not config.get("configurable", {}).get(SAVER):
        raise UsageError(f"{why}, but the graph has no checkpointer; compile it with one")


def by_person(state: Discussion, call: Call, node: str) -> AIMessage | None:
    """Return the reply of a person who plays the agent or rewrote its message; None without one.

    The person sees the agent, the act, the reason, and the turns that a model would have read. Each call is a request
    of its own: a reply that cannot be read is requested again, like a model's.
    """
    ask, written = call.ask, state.get("pending", {}).get(node, {}).get("written", {})
    if ask.act in written and not call.asked:
        return AIMessage(written[ask.act], additional_kwargs={"source": HUMAN})
    handed = (each for each in state.get("interventions", []) if (each["what"], each["agent"]) == (HUMAN, ask.agent))
    why = next((each["why"] for each in handed), None)
    if ask.agent in state["settings"].get("human", []):
        why = BEGINNING
    if why is None:
        return None
    turns = [[turn.role, words(turn.parts)] for turn in ask.turns]
    value = {"agent": ask.agent, "act": ask.act, "why": why, "turns": turns, "begun": words(ask.prefill)}
    return AIMessage(str(ask_person(value, text_of)), additional_kwargs={"source": HUMAN})


def ask_person(value: JSON, read: Callable[[Any], Reply | None], expected: str = EXPECTED) -> Reply:  # Any: any reply
    """Interrupt with `value` until the graph is resumed with a valid reply; the error is added as "wrong".

    The values that a graph was resumed with stay in its checkpoints: an exception would block the thread forever.
    """
    found = read(reply := interrupt(value))
    while found is None:
        found = read(reply := interrupt({**value, "wrong": f"found {reply!r}; expected {expected}"}))
    return found


def text_of(reply: AnyState) -> str | None:
    """Return the text of a reply; None if it has none."""
    text = reply.get("text") if isinstance(reply, dict) else reply
    return text if isinstance(text, str) else None
