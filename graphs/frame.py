"""What every discussion begins and ends with, and how an act becomes the node (or two) of an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

from langgraph.graph import END, START, StateGraph

from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.act import Act, node
from sottovoce.nodes.context import Contexts, Models
from sottovoce.nodes.decide import Rule, by_majority, decide
from sottovoce.nodes.opening import Begin, next_round, nothing, opening
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Discussion, Outcome
from sottovoce.nodes.watch import MONITORS, Watch, go_back, held_back, next_of, watching

Router = Callable[[Any], str]
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
        self.watch = MONITORS[watch] if isinstance(watch, str) else watch
        self.contexts: Contexts[Any] = Contexts(
            scheme.settings, settings, models, store, scheme.answers, restored(state)
        )
        self.graph: Graph = StateGraph(
            state, context_schema=scheme.settings, input_schema=question, output_schema=outcome
        )
        self.graph.add_node("opening", opening(self.contexts, begin, question))
        self.graph.add_node("next_round", next_round(self.contexts, watched=watch is not None))
        self.graph.add_node("decide", decide(self.contexts, rule))
        self.graph.add_edge(START, "opening")
        self.graph.add_edge("opening", "next_round")
        self.graph.add_edge("decide", END)
        if watch is not None:
            self.graph.add_node(RESET, go_back(back_to))
            self.graph.add_edge(RESET, "next_round")

    def act(
        self, name: str, act: Act, *, to: str | Router, ends: Sequence[str] = (), role: str = "agent", agent: str = ""
    ) -> None:
        """Add the node in which an agent (of the node's name unless given) does an act, and what follows it.

        `to` is a node, or a router that chooses among `ends`: those of its `Literal` return unless given. A
        watched act is two nodes, and what follows comes after the second; who waits for several is a `join`.
        """
        spoken = act if self.watch is None else held_back(act, name)
        self.graph.add_node(name, node(self.contexts, spoken, agent or name, name), metadata={"role": role})
        if self.watch is None:
            self._follow(name, to, ends)
            return
        self.graph.add_node(f"watch_{name}", watching(self.contexts, self.watch, name), metadata={"role": "monitor"})
        self.graph.add_edge(name, f"watch_{name}")
        what_next, onwards = next_of(name), to if callable(to) else lambda state: to

        def after_watch(state: Any) -> str:  # Any: the state of every scheme
            return {"again": name, "reset": RESET}.get(what_next(state)) or onwards(state)

        targets = [*(ends or _ends(to)), name, RESET] if callable(to) else [to, name, RESET]
        self.graph.add_conditional_edges(f"watch_{name}", after_watch, list(dict.fromkeys(targets)))

    def join(
        self, name: str, step: Any, *, to: str | Spread, ends: Sequence[str] = ()
    ) -> None:  # Any: what LangGraph takes as a node
        """Add a node in which no agent acts, after all that speak side by side before it, and what follows it."""
        self.graph.add_node(name, step, defer=self.watch is not None)
        self._follow(name, to, ends)

    def _follow(self, name: str, to: str | Spread, ends: Sequence[str] = ()) -> None:
        if callable(to):
            self.graph.add_conditional_edges(name, to, list(ends or _ends(to)))
        else:
            self.graph.add_edge(name, to)


def restored(state: type[Any]) -> tuple[str, ...]:
    """The keys of a state that are annotated as restored by a reset."""
    hints = get_type_hints(state, include_extras=True)
    return tuple(name for name, hint in hints.items() if RESTORED in getattr(hint, "__metadata__", ()))


def _ends(router: Spread) -> tuple[str, ...]:
    return get_args(get_type_hints(router)["return"])
