"""What every discussion begins and ends with, and how an act becomes the node (or two) of an agent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from langgraph.graph import END, START
from langgraph.types import CachePolicy, RetryPolicy

from sottovoce.agents.hosted import passes
from sottovoce.channels.message import Message
from sottovoce.errors import UsageError
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.graphs.threads import DiscussionGraph
from sottovoce.nodes.act import Act, node
from sottovoce.nodes.approve import Approval, Deed, no_deed
from sottovoce.nodes.cached import key_of
from sottovoce.nodes.context import Contexts
from sottovoce.nodes.decide import Rule, by_majority, decide
from sottovoce.nodes.given import Models
from sottovoce.nodes.opening import Begin, next_round, nothing, opening
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Discussion, outcome_of
from sottovoce.nodes.watch import (
    MONITORS,
    Silent,
    Watch,
    go_back,
    held_back,
    judging,
    next_of,
    watching,
    watching_all,
)
from sottovoce.trust import Allow, Allowed

Spread = Callable[[Any], str | Sequence[str]]
"""A router to one node, or to several side by side."""
Labels = Mapping[str, str]
"""By node: why a router leads there, as drawings show it; no two nodes of a router have the same."""
PLAIN: Labels = MappingProxyType({})
RESET, AGAIN = "reset", "again"
RETRY = RetryPolicy(max_attempts=3, jitter=False, retry_on=passes)  # half a second, then one; clients vary theirs
"""Of an act: hosted models alone fail in ways that pass."""


class Frame:
    """A graph with START -> opening -> next_round and decide -> END; a scheme adds who speaks between them."""

    def __init__(
        self,
        scheme: Scheme,
        settings: Settings,
        models: Models = None,
        store: Any = None,  # Any: a PayloadStore; naming its type would import torch
        watch: Watch | str | None = None,
        cached: bool = False,
        allow: Allow | None = None,
        *,
        rule: Rule = by_majority,
        begin: Begin = nothing,
        state: type[Any] = Discussion,
        question: type[Any] = Question,
        back_to: int = -1,
    ) -> None:
        """Begin a graph.

        Args:
            scheme: Its record.
            settings: The defaults of its runs, and what its nodes are made for.
            models: See `Given`, as for `store`, `watch`, `cached` and `allow`.
            rule: How it is decided.
            begin: The first values of the scheme's own keys.
            state: `Discussion`, or what the scheme derives from it; likewise `question`.
            back_to: The mark that a reset goes back to: the last round's beginning, or 0, that of the first.
        """
        self._gates: dict[str, str] = {}
        allowed = Allowed.of(allow, scheme.settings)
        self.watch, self.back_to, self.cached = _watch_of(watch, allowed.resolved(settings)), back_to, cached
        self._approves = bool(settings.approve)
        held = self._held = self._approves or self.watch is not None
        self.contexts: Contexts[Any] = Contexts(
            scheme.settings,
            settings,
            models,
            store,
            scheme.answers,
            restored(state),
            state,
            scheme.own_prompts,
            allowed=allowed,
        )
        graph = DiscussionGraph(
            state,
            self.contexts.of,
            self.contexts.speakers,
            context_schema=scheme.settings,
            input_schema=question,
            output_schema=outcome_of(state, question),
        )
        self.graph: Graph = graph
        self.graph.add_node("opening", opening(self.contexts, begin, question, self.watch, graph.anew))
        self.graph.add_node("next_round", next_round(self.contexts, watched=self.watch is not None))
        self.graph.add_node("decide", decide(self.contexts, rule), defer=held)
        self.graph.add_edge(START, "opening")
        self.graph.add_edge("opening", "next_round")
        self.graph.add_edge("decide", END)
        if self.watch is not None:
            self.graph.add_node(RESET, go_back())
            self.graph.add_edge(RESET, "next_round")

    def act(
        self,
        name: str,
        act: Act,
        *,
        to: str | Spread,
        ends: Sequence[str] = (),
        role: str = "agent",
        agent: str = "",
        watched: bool = True,
        approved: bool = True,
        deed: Deed = no_deed,
        silent: Silent | None = None,
        labels: Labels = PLAIN,
    ) -> None:
        """Add the node in which an agent (of the node's name unless given) does an act, and what follows it.

        `to` is a node, or a router to one or several of `ends`: those of its `Literal` return unless given;
        `labels` tell why, by node. A watched act is two nodes, and what follows comes after the second; who waits
        for several is a `join`. One that is not `watched` is never held back by itself, nor by people one that is not
        `approved`; `deed` tells them what it does. `silent` tells what becomes of the world where it is muted.
        """
        watch = judging(self.watch) if self.watch and watched else None
        if self._approves and approved:
            watch = Approval(watch, name, deed)
        spoken = act if watch is None else held_back(act, name)
        self.graph.add_node(
            name,
            node(self.contexts, spoken, agent or name, name),
            metadata={"role": role},
            retry_policy=RETRY,
            cache_policy=CachePolicy(key_func=key_of(self.contexts, agent or name, name)) if self.cached else None,
        )
        if watch is None:
            self._follow(name, to, ends, labels)
        else:
            self.graph.add_edge(name, f"watch_{name}")
            self._watch(name, watching(self.contexts, watch, name, silent, self.back_to), to, ends, labels)

    def join(
        self,
        name: str,
        step: Any,  # Any: what LangGraph takes as a node
        *,
        to: str | Spread,
        ends: Sequence[str] = (),
        together: Callable[[Any], list[Message]] | None = None,
        labels: Labels = PLAIN,
    ) -> None:
        """Add a node in which no agent acts, after all that speak side by side before it, and what follows it.

        Under a watch it waits for who is asked again, or begins anew after a reset, and must so be no node through
        which those come who speak side by side: it would run together with the one that waits for them.
        `together` tells what a watch looks at all at once before the step acts on it; such a node is added before
        those that lead to it.
        """
        self.graph.add_node(name, step, defer=self._held)
        self._follow(name, to, ends, labels)
        if self.watch is not None and together is not None:
            watch = watching_all(self.contexts, judging(self.watch), name, together, self.back_to)
            self._watch(name, watch, name, (), defer=True)
            self._gates[name] = f"watch_{name}"

    def _watch(
        self,
        name: str,
        watch: Any,
        to: str | Spread,
        ends: Sequence[str],
        labels: Labels = PLAIN,
        *,
        defer: bool = False,
    ) -> None:  # Any: what LangGraph takes as a node
        """Add the node that looks before `name` or at what it made, and what follows it."""
        self.graph.add_node(f"watch_{name}", watch, metadata={"role": "monitor"}, defer=defer)
        what_next, (onwards, targets) = next_of(name), self._targets(to, ends, labels)
        again = name if name in targets else AGAIN

        def after_watch(state: Any) -> str | Sequence[str]:  # Any: the state of every scheme
            match what_next(state):
                case "again":
                    return again
                case "reset":
                    return RESET
                case "nothing":
                    return []
            return onwards(state)

        back: dict[Hashable, str] = {} if self.watch is None else {RESET: RESET}
        self.graph.add_conditional_edges(f"watch_{name}", after_watch, {**targets, again: name, **back})

    def _follow(self, name: str, to: str | Spread, ends: Sequence[str], labels: Labels) -> None:
        onwards, targets = self._targets(to, ends, labels)
        if callable(to):
            self.graph.add_conditional_edges(name, onwards, targets)
        else:
            self.graph.add_edge(name, *targets.values())

    def _targets(self, to: str | Spread, ends: Sequence[str], labels: Labels) -> tuple[Spread, dict[Hashable, str]]:
        """What leads on, by label, and where each label leads: to the watch before a node that has one."""

        def onwards(state: Any) -> str | Sequence[str]:  # Any: the state of every scheme
            found = to(state) if callable(to) else to
            return labels.get(found, found) if isinstance(found, str) else [labels.get(each, each) for each in found]

        targets = list(ends or _ends(to)) if callable(to) else [to]
        # The gates as they are now: a watch must not lead to itself.
        return onwards, {labels.get(each, each): self._gates.get(each, each) for each in targets}


def _watch_of(watch: Any, settings: Settings) -> Watch | None:  # Any: what a user gave
    """The watch that was given, or the one that asks the monitors of the settings.

    Raises:
        UsageError: it is none, or there are two.
    """
    if watch is not None and settings.watch:
        raise UsageError("a watch was given, and the settings name monitors too; choose one of them")
    if settings.watch:
        from sottovoce.nodes.guard import Guard  # late: numpy

        return Guard.of(settings)
    found: Watch | None = MONITORS[watch] if isinstance(watch, str) else watch
    if found is not None and not callable(found):
        raise UsageError(f"watch is of type {type(found).__name__}; expected a watch, its name, or Guard(monitor)")
    return found


def restored(state: type[Any]) -> tuple[str, ...]:
    """The keys of a state that are annotated as restored by a reset."""
    hints = get_type_hints(state, include_extras=True)
    return tuple(name for name, hint in hints.items() if RESTORED in getattr(hint, "__metadata__", ()))


def _ends(router: Spread) -> tuple[str, ...]:
    return get_args(get_type_hints(router)["return"])
