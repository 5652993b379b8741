"""The nodes that frame a discussion: it opens, and each round begins."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.errors import UsageError
from sottovoce.nodes.act import Update
from sottovoce.nodes.company import Company
from sottovoce.nodes.state import Discussion, check_question


def opening(company: Company[Any]) -> RunnableLambda[Discussion, Update]:  # Any: of every scheme
    """Check the question, and copy the run's settings from the runtime context into state.

    Everything that can be refused is refused here, before any model speaks.
    """

    def opening(state: Discussion) -> Update:
        if state.get("board"):
            raise UsageError("this thread holds a discussion already; ask each question in a thread of its own")
        settings = company.settings()
        check_question(state, settings.owners(), settings.needs(), settings.names())
        opened: Discussion = {**state, "settings": settings.model_dump(mode="json")}
        return {
            "settings": opened["settings"],
            "round": -1,
            "notes": company.stage(opened).check_edges(),
            "groups": settings.groups(),
            "level": 0,
            "votes": [],
        }

    return RunnableLambda(opening, name="opening")


def next_round(state: Discussion) -> Update:
    """Begin the next round: all agents of it hear the round before, and nothing of their own."""
    return {"round": state["round"] + 1}


def close_round(state: Discussion) -> Update:
    """All agents of the round have spoken; where the discussion goes from here is a router's question."""
    return {}
