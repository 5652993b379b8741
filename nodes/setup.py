"""The first node of a discussion, and those that begin and end a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.channels.board import OVERWRITE
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.edges import check_edges
from sottovoce.nodes.escalate import check_escalation
from sottovoce.nodes.human_input import check_people
from sottovoce.nodes.monitor_node import Watch, check_watch
from sottovoce.nodes.probes import check_probes
from sottovoce.nodes.progress import round_begins
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.state import Discussion, Update, marked

Begin = Callable[[RunContext[Any], Any], Update]  # Any: the settings and the state of every scheme
"""Returns the first values of a scheme's own keys, or raises an error."""


def nothing(run: RunContext[Any], state: Discussion) -> Update:
    """Return no update: for a scheme without keys of its own."""
    return {}


def setup(
    contexts: Contexts[Any],
    begin: Begin = nothing,
    schema: type[Any] = Question,
    watch: Watch | None = None,
    cleared: Callable[[], Update] = dict,
) -> RunnableLambda[Discussion, Update]:
    """Return the node that checks the question and copies the run's settings from the runtime context into state.

    All checks are made here, before any model runs. `cleared` returns the update that removes an earlier discussion
    of the same thread.
    """

    def setup(state: Discussion, config: RunnableConfig) -> Update:
        before = cleared() if state.get("settings") else {}
        asked: Any = {key: value for key, value in state.items() if key not in before}  # Any: some keys of a TypedDict
        settings = contexts.settings()
        check_question(asked, settings.owners(), settings.needs(), settings.names(), schema)
        first: Update = {"settings": settings.model_dump(mode="json"), "round": -1, "turn": 0}
        first |= {"epochs": [], "marks": [], "votes": []}
        opened: Any = {**asked, **first}
        run = contexts.of(opened)
        told = [*check_people(run, config), *([] if watch is None else check_watch(watch, run, config))]
        begun = begin(run, opened)
        notes = [*check_edges(run), *check_probes(run), *check_escalation(run), *told, *begun.get("notes", [])]
        return _over(before, {**first, **begun, "notes": notes})

    return RunnableLambda(setup, name="opening")


def _over(before: Update, update: Update) -> Update:
    """Return an update that overwrites earlier values, also those to which a reducer would add."""
    gathered = {key for key, nothing in before.items() if nothing is not None}
    return {**before, **{key: {OVERWRITE: value} if key in gathered else value for key, value in update.items()}}


def next_round(contexts: Contexts[Any], *, watched: bool) -> RunnableLambda[Discussion, Update]:
    """Return the node that begins a round, in which agents hear the one before; if watched, a reset returns here."""

    def next_round(state: Discussion) -> Update:
        began = {"round": state["round"] + 1, "turn": 0}
        round_begins(began["round"])
        mark = marked(state, contexts.restored, (state["round"] + 1, 0)) if watched else {}
        return {**began, **mark}

    return RunnableLambda(next_round, name="next_round")


def close_round(state: Discussion) -> Update:
    """Join the agents of a round; a router chooses the next step."""
    return {}
