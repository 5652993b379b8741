"""The view of a discussion in streams: progress events, and its messages as a chat."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, NotRequired

from langgraph.config import get_config, get_stream_writer
from typing_extensions import TypedDict

from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import Decision, Discussion, current_messages


class Progress(TypedDict):
    """One event."""

    type: Literal["round", "act", "decided"]
    """A round begins; an agent is asked; the discussion is decided."""
    round: NotRequired[int]
    """0-based; for rounds and acts."""
    turn: NotRequired[int]
    """0-based, within the round; for acts, as the next four."""
    agent: NotRequired[str]
    act: NotRequired[str]
    attempt: NotRequired[int]
    asked: NotRequired[str]
    """The reason for a repeated request: see `Message.asked`."""
    answer: NotRequired[str | None]
    """For a decision."""
    why: NotRequired[str]
    """For a decision: an explanation in one line."""


def report(progress: Progress) -> None:
    """Write an event; without a `custom` stream, or outside a graph, it is discarded."""
    with suppress(KeyError, RuntimeError):  # the node runs outside a graph
        get_stream_writer()(progress)


DECISION = "decision"
"""The author's name of the last message, the answer."""


def chat_of(state: Discussion, decision: Decision | None, *, with_question: bool = True) -> list[JSON]:
    """Return the messages of a discussion so far, as JSON that LangChain reads; `with_question`: include the question.

    They are derived from board and decision when they are shown, and are not stored in checkpoints.
    """
    name = question_id(state)
    question = {"type": "human", "content": state["question"], "id": f"{name}/question"}
    said = [
        {
            "type": "ai",
            "name": message.agent,
            "content": (message.full_text if message.public is None else message.public) or _wordless(message),
            "id": "/".join(map(str, (name, *message.place))),
        }
        for message in current_messages(state)
    ]
    chat = [*([question] if with_question else []), *said]
    if decision:
        answer = decision["answer"] or f"No answer: {decision['why']}"
        chat.append({"type": "ai", "name": DECISION, "content": answer, "id": f"{name}/{DECISION}"})
    return chat


def _wordless(message: Message) -> str:
    """Describe the payload of a message without words. Return an empty text if it has no payload."""
    return f"({message.payload.summary})" if message.payload and message.payload.positions is not None else ""


def is_inside() -> bool:
    """Return True if this graph is a node of another one: LangGraph joins the names of nested graphs by |."""
    return "|" in (get_config().get("metadata") or {}).get("langgraph_checkpoint_ns", "")
