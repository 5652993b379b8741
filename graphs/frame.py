"""What every discussion begins and ends with, and how an act becomes the node (or two) of an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

from langgraph.graph import END, START, StateGraph

from sottovoce.channels.message import Message
from sottovoce.errors import UsageError
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.act import Act, node
from sottovoce.nodes.context import Contexts, Models
from sottovoce.nodes.decide import Rule, by_majority, decide
from sottovoce.nodes.opening import Begin, next_round, nothing, opening
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Discussion, Outcome
from sottovoce.nodes.watch import MONITORS, Silent, Watch, go_back, held_back, next_of, watching, watching_all

Spread = Callable[[Any], str | Sequence[str]]
"""A router to one node, or to several side by side."""
RESET = "reset"


class Frame:
    """A graph with START -> opening -> next_round and decide -> END; a scheme adds who speaks between them."""

    def __init__(
        self,
        scheme: Scheme,
        settings: Settings,
        models: Models = None,
        store: Any = None,  # Any: a PayloadStore; naming its type would import torch
        watch: Watch | str | None = None,
        *,
        rule: Rule = by_majority,
        begin: Begin = nothing,
        state: type[Any] = Discussion,
        question: type[Any] = Question,
        outcome: type[Any] = Outcome,
        back_to: int = -1,
    ) -> None:
        """Begin a graph.

        Args:
            scheme: Its record.
            settings: The defaults of its runs, and what its nodes are made for.
            models: See `Given`, as for `store` and `watch`.
            rule: How it is decided.
            begin: The first values of the scheme's own keys.
            state: `Discussion`, or what the scheme derives from it; likewise `question` and `outcome`.
            back_to: The mark that a reset goes back to: the last round's beginning, or 0, that of the first.
        """
        self._gates: dict[str, str] = {}
        self.watch, self.back_to = _watch_of(watch, settings), back_to
        self.contexts: Contexts[Any] = Contexts(
            scheme.settings, settings, models, store, scheme.answers, restored(state)
        )
        self.graph: Graph = StateGraph(
            state, context_schema=scheme.settings, input_schema=question, output_schema=outcome
        )
        self.graph.add_node("opening", opening(self.contexts, begin, question, self.watch))
        self.graph.add_node("next_round", next_round(self.contexts, watched=self.watch is not None))
        self.graph.add_node("decide", decide(self.contexts, rule), defer=self.watch is not None)
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
        silent: Silent | None = None,
    ) -> None:
        """Add the node in which an agent (of the node's name unless given) does an act, and what follows it.

        `to` is a node, or a router to one or several of `ends`: those of its `Literal` return unless given. A
        watched act is two nodes, and what follows comes after the second; who waits for several is a `join`. One
        that is not `watched` is never held back by itself. `silent` tells what becomes of the world where it is muted.
        """
        watch = self.watch if watched else None
        spoken = act if watch is None else held_back(act, name)
        self.graph.add_node(name, node(self.contexts, spoken, agent or name, name), metadata={"role": role})
        if watch is None:
            self._follow(name, to, ends)
        else:
            self.graph.add_edge(name, f"watch_{name}")
            self._watch(name, watching(self.contexts, watch, name, silent, self.back_to), to, ends)

    def join(
        self,
        name: str,
        step: Any,  # Any: what LangGraph takes as a node
        *,
        to: str | Spread,
        ends: Sequence[str] = (),
        together: Callable[[Any], list[Message]] | None = None,
    ) -> None:
        """Add a node in which no agent acts, after all that speak side by side before it, and what follows it.

        Under a watch it waits for who is asked again, or begins anew after a reset, and must so be no node through
        which those come who speak side by side: it would run together with the one that waits for them.
        `together` tells what a watch looks at all at once before the step acts on it; such a node is added before
        those that lead to it.
        """
        self.graph.add_node(name, step, defer=self.watch is not None)
        self._follow(name, to, ends)
        if self.watch is not None and together is not None:
            watch = watching_all(self.contexts, self.watch, name, together, self.back_to)
            self._watch(name, watch, name, (), defer=True)
            self._gates[name] = f"watch_{name}"

    def _watch(
        self, name: str, watch: Any, to: str | Spread, ends: Sequence[str], *, defer: bool = False
    ) -> None:  # Any: what LangGraph takes as a node
        """Add the node that looks before `name` or at what it made, and what follows it."""
        self.graph.add_node(f"watch_{name}", watch, metadata={"role": "monitor"}, defer=defer)
        what_next, (onwards, targets) = next_of(name), self._targets(to, ends)

        def after_watch(state: Any) -> str | Sequence[str]:  # Any: the state of every scheme
            match what_next(state):
                case "again":
                    return name
                case "reset":
                    return RESET
                case "nothing":
                    return []
            return onwards(state)

        self.graph.add_conditional_edges(f"watch_{name}", after_watch, list(dict.fromkeys([*targets, name, RESET])))

    def _follow(self, name: str, to: str | Spread, ends: Sequence[str] = ()) -> None:
        onwards, targets = self._targets(to, ends)
        if callable(to):
            self.graph.add_conditional_edges(name, onwards, targets)
        else:
            self.graph.add_edge(name, *targets)

    def _targets(self, to: str | Spread, ends: Sequence[str]) -> tuple[Spread, list[str]]:
        """What leads on, and where to: to the watch before a node that has one."""
        gates = dict(self._gates)  # as they are now: a watch must not lead to itself

        def onwards(state: Any) -> str | Sequence[str]:  # Any: the state of every scheme
            found = to(state) if callable(to) else to
            return gates.get(found, found) if isinstance(found, str) else [gates.get(each, each) for each in found]

        targets = list(ends or _ends(to)) if callable(to) else [to]
        return onwards, [gates.get(each, each) for each in targets]


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
