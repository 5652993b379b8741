"""A discussion as a chat: the question, what each agent said, and the answer, for front ends that show `messages`."""

from __future__ import annotations

from langgraph.config import get_config

from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import JSON, Decision, Discussion, heard

DECISION = "decision"
"""The name under which the answer stands, last."""


def chat_of(state: Discussion, decision: Decision | None, *, asked: bool = True) -> list[JSON]:
    """Return the messages of a discussion as far as it is, as JSON that LangChain reads; `asked`: with the question.

    They are made of board and decision wherever they are shown, and no checkpoint holds them.
    """
    name = question_id(state)
    question = {"type": "human", "content": state["question"], "id": f"{name}/question"}
    said = [
        {
            "type": "ai",
            "name": message.agent,
            "content": message.whole if message.public is None else message.public,
            "id": "/".join(map(str, (name, *message.place))),
        }
        for message in heard(state)
    ]
    chat = [*([question] if asked else []), *said]
    if decision:
        answer = decision["answer"] or f"No answer: {decision['why']}"
        chat.append({"type": "ai", "name": DECISION, "content": answer, "id": f"{name}/{DECISION}"})
    return chat


def is_inside() -> bool:
    """Return True where this graph is a node of another one: LangGraph joins the names of nested graphs by |."""
    return "|" in get_config().get("configurable", {}).get("checkpoint_ns", "")
