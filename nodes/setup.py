"""The first node of a discussion with its checks of a run, and the nodes that begin and end a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.config import get_config

from sottovoce.agents.person import check_saver
from sottovoce.channels.board import OVERWRITE
from sottovoce.core.any_types import AnyState, JSONValue
from sottovoce.nodes.act import RUNNING, Node, Step, plain
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.decide import Rule
from sottovoce.nodes.hearing import check_alone, check_edges, check_escalation
from sottovoce.nodes.probes import check_probes
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.state import Discussion, Update, marked
from sottovoce.nodes.streams import chat_of, is_inside, report
from sottovoce.nodes.watch import Watch, check_watch

Begin = Callable[[RunContext[AnyState], AnyState], Update]
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
) -> Node:
    """Return the node that checks the question and copies the run's settings from the runtime context into state.

    All checks are made here, before any model runs. `cleared` returns the update that removes an earlier discussion
    of the same thread.
    """

    def setup(state: Discussion) -> Update:
        config, before = get_config(), cleared() if state.get("settings") else {}
        asked: JSONValue = {key: value for key, value in state.items() if key not in before}
        settings = contexts.settings()
        check_question(asked, settings.owners(), settings.needs(), settings.names(), schema)
        first: Update = {"settings": settings.model_dump(mode="json"), "round": -1, "turn": 0}
        first |= {"epochs": [], "marks": [], "votes": []}
        opened: Any = {**asked, **first}
        # The discussions of a saved run share its context.
        run = contexts.of(opened, settings, new=RUNNING.get() is None)
        if settings.asks_people:
            check_saver("a person takes part", config)
        told = [f"a person plays {agent}" for agent in settings.human]
        told += [] if watch is None else check_watch(watch, run, config)
        begun = plain(begin(run, opened))
        checks = [*check_edges(run), *check_alone(run), *check_probes(run), *check_escalation(run)]
        notes = [*checks, *told, *begun.get("notes", [])]
        # Earlier values are overwritten, also those to which a reducer would add.
        gathered = {key for key, nothing in before.items() if nothing is not None}
        update = {**first, **begun, "notes": notes}
        return {**before, **{key: {OVERWRITE: value} if key in gathered else value for key, value in update.items()}}

    return Node(setup)


def next_round(contexts: Contexts[Any], *, watched: bool) -> Node:
    """Return the node that begins a round; agents hear the previous round. If watched, a reset returns here."""

    def next_round(state: Discussion) -> Update:
        began = {"round": state["round"] + 1, "turn": 0}
        report({"type": "round", "round": began["round"]})
        mark = marked(state, contexts.restored, (state["round"] + 1, 0)) if watched else {}
        return {**began, **mark}

    return Node(next_round, quick=True)


close_round = Node(lambda state: {}, quick=True)
"""Joins the agents of a round; a router chooses the next step."""


def deciding(rule: Rule) -> Step:
    """Return the step that decides by the scheme's rule. An answer that cannot be read is an abstention."""

    def decide(run: RunContext[Any], state: Discussion) -> Update:
        decision = rule(run, state)
        report({"type": "decided", "answer": decision["answer"], "why": decision["why"]})
        return {"decision": decision, "messages": chat_of(state, decision, with_question=not is_inside())}

    return decide
