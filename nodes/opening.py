"""The nodes that frame a discussion: it opens, and each round begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.errors import UsageError
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.donors import check_probes
from sottovoce.nodes.edges import check_edges
from sottovoce.nodes.escalate import check_escalation
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.state import Discussion, Update, marked
from sottovoce.nodes.watch import Watch, check_watch

Begin = Callable[[RunContext[Any], Any], Update]  # Any: the settings and the state of every scheme
"""The first values of a scheme's own keys; what it cannot begin with it refuses."""


def nothing(run: RunContext[Any], state: Discussion) -> Update:
    """A scheme without keys of its own."""
    return {}


def opening(
    contexts: Contexts[Any], begin: Begin = nothing, schema: type[Any] = Question, watch: Watch | None = None
) -> RunnableLambda[Discussion, Update]:
    """Check the question, and copy the run's settings from the runtime context into state.

    Everything that can be refused is refused here, before any model speaks.
    """

    def opening(state: Discussion, config: RunnableConfig) -> Update:
        if state.get("board"):
            raise UsageError("this thread holds a discussion already; ask each question in a thread of its own")
        settings = contexts.settings()
        check_question(state, settings.owners(), settings.needs(), settings.names(), schema)
        first: Update = {"settings": settings.model_dump(mode="json"), "round": -1, "turn": 0}
        first |= {"epochs": [], "marks": [], "votes": []}
        opened: Any = {**state, **first}
        run = contexts.of(opened)
        told = [] if watch is None else check_watch(watch, run, config)
        begun = begin(run, opened)
        notes = [*check_edges(run), *check_probes(run), *check_escalation(run), *told, *begun.get("notes", [])]
        return {**first, **begun, "notes": notes}

    return RunnableLambda(opening, name="opening")


def next_round(contexts: Contexts[Any], *, watched: bool) -> RunnableLambda[Discussion, Update]:
    """Begin the next round: all agents of it hear the round before. Where it is watched, a reset can come back here."""

    def next_round(state: Discussion) -> Update:
        began = {"round": state["round"] + 1, "turn": 0}
        mark = marked(state, contexts.restored, (state["round"] + 1, 0)) if watched else {}
        return {**began, **mark}

    return RunnableLambda(next_round, name="next_round")


def close_round(state: Discussion) -> Update:
    """All agents of the round have spoken; where the discussion goes from here is a router's question."""
    return {}
