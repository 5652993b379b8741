"""The common frame of all graphs: first and last nodes, and methods that add acts of agents as nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from langgraph.graph import END, START
from langgraph.types import RetryPolicy

from sottovoce.agents.hosted import passes
from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState, Unimported, Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Allow, Allowed
from sottovoce.graphs.compiled import FIRST, DiscussionGraph
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.act import Act, Node, Step, node, plain
from sottovoce.nodes.context import Contexts, GivenModels, as_model
from sottovoce.nodes.decide import Rule, by_majority
from sottovoce.nodes.monitor_node import Effect, approval, checked, checked_together, deferred, reset_pending
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.setup import Begin, deciding, next_round, nothing, setup
from sottovoce.nodes.state import RESTORED, Discussion, outcome_of
from sottovoce.nodes.watch import MONITORS, Silent, Watch, restricted

Spread = Callable[[Any], str | Sequence[str]]
"""A router to one node, or to several that run in parallel."""
Labels = Mapping[str, str]
"""The reason that a router leads to a node, by node, as drawings show it; unique within a router."""
PLAIN: Labels = MappingProxyType({})
RESET, AGAIN = "reset", "again"
RETRY = RetryPolicy(max_attempts=3, jitter=False, retry_on=passes)  # waits 0.5 s, then 1 s; clients add jitter
"""The retries of an act: only hosted models have transient failures."""


class Frame:
    """A graph with START -> opening -> next_round and decide -> END; a scheme adds the agents between them."""

    def __init__(
        self,
        scheme: Scheme,
        settings: Settings,
        models: GivenModels = None,
        store: Unimported = None,
        watch: Watch | str | None = None,
        allow: Allow | None = None,
        *,
        rule: Rule = by_majority,
        begin: Begin = nothing,
        state: type[Any] = Discussion,
        question: type[Any] = Question,
        back_to: int = -1,
    ) -> None:
        """Create the graph with its first and last nodes.

        Args:
            scheme: The scheme's record.
            settings: The defaults of the graph's runs; the graph's nodes depend on them.
            models: See `GraphInputs`, as for `store`, `watch` and `allow`.
            rule: The rule that decides.
            begin: Returns the first values of the scheme's own state keys.
            state: `Discussion`, or a subclass of the scheme; `question` likewise.
            back_to: The mark that a reset returns to: -1, the beginning of the last round, or 0, that of the first.
        """
        self._gates: dict[str, str] = {}
        hints = get_type_hints(state, include_extras=True)
        restored = tuple(name for name, hint in hints.items() if RESTORED in getattr(hint, "__metadata__", ()))
        allowed = Allowed.of(allow, scheme.settings)
        self.watch, self.back_to = _watch_of(watch, allowed.resolved(settings)), back_to
        self._approves = bool(settings.approve)
        self._defers = self._approves or self.watch is not None
        self.contexts: Contexts[Any] = Contexts(
            scheme.settings,
            settings,
            as_model(models),
            store,
            scheme.answers,
            restored,
            state,
            scheme.own_prompts,
            allowed=allowed,
        )
        graph = DiscussionGraph(
            state,
            self.contexts.check,
            context_schema=scheme.settings,
            input_schema=question,
            output_schema=outcome_of(state, question),
        )
        self.graph: Graph = graph
        self.graph.add_node(FIRST, setup(self.contexts, begin, question, self.watch, graph.cleared))
        self.graph.add_node("next_round", next_round(self.contexts, watched=self.watch is not None))
        self.graph.add_node("decide", self.step(deciding(rule), "decide"), defer=self._defers)
        self.graph.add_edge(START, FIRST)
        self.graph.add_edge(FIRST, "next_round")
        self.graph.add_edge("decide", END)
        if self.watch is not None:
            self.graph.add_node(RESET, self.step(reset_pending, RESET))
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
        effect: Effect = lambda update: "",
        silent: Silent | None = None,
        labels: Labels = PLAIN,
    ) -> None:
        """Add a node that performs an agent's act, and the edges that follow it.

        `agent` is by default the node's name. `to` is a node, or a router to one or several of `ends`. The default
        `ends` are in the router's `Literal` return type; `labels` give the reason for each. A watched act has two
        nodes, and the edges follow the second; a node that waits for several acts is a `join`. Monitors only stop acts
        that are `watched`, and people only approve acts that are `approved`; `effect` describes the act to them.
        `silent` updates the world if the act is muted.
        """
        watch = restricted(self.watch) if self.watch and watched else None
        if self._approves and approved:
            watch = approval(watch, name, effect)
        spoken = act if watch is None else deferred(act, name)
        self.graph.add_node(
            name,
            node(self.contexts, spoken, agent or name, name),
            metadata={"role": role},
            retry_policy=RETRY,
        )
        if watch is None:
            self._follow(name, to, ends, labels)
        else:
            self.graph.add_edge(name, f"watch_{name}")
            self._watch(name, checked(watch, name, silent, self.back_to), to, ends, labels)

    def join(
        self,
        name: str,
        step: Untyped,
        *,
        to: str | Spread,
        ends: Sequence[str] = (),
        together: Callable[[Any], list[Message]] | None = None,
        labels: Labels = PLAIN,
    ) -> None:
        """Add a node without an agent that waits for all agents before it, and the edges that follow it.

        Under a watch the node also waits for agents that are asked again or restarted by a reset. So it must not be on
        the path of agents that run in parallel; else it would run at the same time as the node that waits for them.
        `together` returns the messages that a watch judges together before the step uses them; add such a node before
        the nodes that lead to it.
        """
        self.graph.add_node(name, step, defer=self._defers)
        self._follow(name, to, ends, labels)
        if self.watch is not None and together is not None:
            check = checked_together(restricted(self.watch), name, together, self.back_to)
            self._watch(name, check, name, (), defer=True)
            self._gates[name] = f"watch_{name}"

    def step(self, step: Step, name: str = "") -> Node:
        """Return the node of a step without an agent, for `join` or LangGraph's `add_node`."""
        return Node(lambda state: plain(step(self.contexts.of(state), state)))

    def _watch(
        self,
        name: str,
        check: Step,
        to: str | Spread,
        ends: Sequence[str],
        labels: Labels = PLAIN,
        *,
        defer: bool = False,
    ) -> None:
        """Add the watching node before or after `name`, and the edges that follow it."""
        node = self.step(check, f"watch_{name}")
        self.graph.add_node(f"watch_{name}", node, metadata={"role": "monitor"}, defer=defer)
        onwards, targets = self._targets(to, ends, labels)
        again = name if name in targets else AGAIN

        def after_watch(state: AnyState) -> str | Sequence[str]:
            match state.get("pending", {}).get(name, {}).get("next", "publish"):
                case "again":
                    return again
                case "reset":
                    return RESET
                case "nothing":
                    return []
            return onwards(state)

        back: dict[Hashable, str] = {} if self.watch is None else {RESET: RESET}
        self.graph.add_conditional_edges(
            f"watch_{name}", Node(after_watch, quick=True), {**targets, again: name, **back}
        )

    def _follow(self, name: str, to: str | Spread, ends: Sequence[str], labels: Labels) -> None:
        onwards, targets = self._targets(to, ends, labels)
        if callable(to):
            self.graph.add_conditional_edges(name, Node(onwards, quick=True), targets)
        else:
            self.graph.add_edge(name, *targets.values())

    def _targets(self, to: str | Spread, ends: Sequence[str], labels: Labels) -> tuple[Spread, dict[Hashable, str]]:
        """Return a router to labels, and the node of each label: the watching node before it if it has one."""

        def onwards(state: AnyState) -> str | Sequence[str]:
            found = to(state) if callable(to) else to
            return labels.get(found, found) if isinstance(found, str) else [labels.get(each, each) for each in found]

        targets = list(ends or get_args(get_type_hints(to)["return"])) if callable(to) else [to]
        # Only the gates that exist by now: a watch must not lead to itself.
        return onwards, {labels.get(each, each): self._gates.get(each, each) for each in targets}


def _watch_of(watch: Any, settings: Settings) -> Watch | None:  # Any: a user's argument
    """Return the given watch, or one that asks the monitors of the settings.

    Raises:
        UsageError: the argument is not a watch, or the settings name monitors too.
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
