"""The first node of a discussion with its checks of a run, and the nodes that begin and end a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from langchain_core.language_models.chat_models import BaseChatModel
from langgraph.config import get_config

from sottovoce.agents.ask import Person
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.channels.board import OVERWRITE
from sottovoce.core.any_types import AnyState, JSONValue
from sottovoce.core.errors import ProtocolError, command
from sottovoce.nodes.act import Node, plain
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.hearing import check_escalation
from sottovoce.nodes.human_input import check_saver
from sottovoce.nodes.probes import check_probes
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.state import Discussion, Update, marked
from sottovoce.nodes.streams import report
from sottovoce.nodes.watch import Watch, check_watch


class Edge(NamedTuple):
    """How one agent hears another."""

    note: str = ""
    """A remark for the run's notes; empty if the protocol is carried as in its paper."""
    in_words: bool = False
    """True if it is sent as text instead of the protocol."""


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
        run = contexts.of(opened)
        if settings.asks_people:
            check_saver("a person takes part", config)
        told = [f"a person plays {agent}" for agent in settings.human]
        told += [*_alone(run), *([] if watch is None else check_watch(watch, run, config))]
        begun = plain(begin(run, opened))
        notes = [
            *check_edges(run),
            *_alone(run),
            *check_probes(run),
            *check_escalation(run),
            *told,
            *begun.get("notes", []),
        ]
        # Earlier values are overwritten, also those to which a reducer would add.
        gathered = {key for key, nothing in before.items() if nothing is not None}
        update = {**first, **begun, "notes": notes}
        return {**before, **{key: {OVERWRITE: value} if key in gathered else value for key, value in update.items()}}

    return Node(setup)


def _alone(run: RunContext[Any]) -> list[str]:
    """Return notes on agents whose models run one request at a time."""
    models = {name: run.model(name) for name in run.models}
    hooked = {name: model for name, model in models.items() if isinstance(model, HookedChatModel)}
    if not hooked:
        return []
    from sottovoce.models.batch_check import ONE_BY_ONE  # late: torch

    return [f"{name}: {ONE_BY_ONE}" for name, model in hooked.items() if model.loaded.network.one_by_one]


def next_round(contexts: Contexts[Any], *, watched: bool) -> Node:
    """Return the node that begins a round, in which agents hear the one before; if watched, a reset returns here."""

    def next_round(state: Discussion) -> Update:
        began = {"round": state["round"] + 1, "turn": 0}
        report({"type": "round", "round": began["round"]})
        mark = marked(state, contexts.restored, (state["round"] + 1, 0)) if watched else {}
        return {**began, **mark}

    return Node(next_round, quick=True)


close_round = Node(lambda state: {}, quick=True)
"""Joins the agents of a round; a router chooses the next step."""


def check_edges(run: RunContext[AnyState]) -> list[str]:
    """Return notes on edges that are sent as text or differ from a paper, and on settings without effect.

    Raises:
        ProtocolError: the protocol cannot carry an edge, and the settings do not allow text.
    """
    settings = run.settings
    local = [model for model in run.models.values() if isinstance(model, HookedChatModel)]
    notes = []
    if not local and settings.protocol != WORDS:
        notes.append(f"no local model takes part: all messages are text, and none uses {settings.protocol}")
    for name in dict.fromkeys(name for model in local for name in model.channel.ignores):
        if getattr(settings, name) is not None:
            notes.append(f"{name} has no effect on messages by {settings.protocol}")
    notes += [*_unnamed(run), *_cold(run), *_thinking(run)]
    edges = _edges(run)
    alike = {*edges.values()}
    if len(edges) > 1 and len(alike) == 1 and not (same := alike.pop()).in_words and same.note:
        return [*notes, f"agents hear one another {same.note}"]
    return [
        *notes,
        *(f"{hearer} hears {speaker} {edge.note}" for (speaker, hearer), edge in edges.items() if edge.note),
    ]


def carries_all(run: RunContext[AnyState], agent: str) -> bool:
    """Return True if the protocol carries all edges from an agent, so that it may leave out words."""
    return not any(edge.in_words for edge in _edges(run, agent).values())


def _edges(run: RunContext[AnyState], agent: str = "") -> dict[tuple[str, str], Edge]:
    """Return how each hearer hears each speaker, or only `agent`."""
    words, edges = run.settings.fallback == WORDS, run.settings.edges()
    return {
        (speaker, hearer): _edge(run.models[speaker], run.models[hearer], words=words)
        for speaker, hearer in edges
        if agent in ("", speaker)
    }


def _thinking(run: RunContext[AnyState]) -> list[str]:
    """Return notes on who thinks before it replies and how long, and on shared thoughts."""
    local = {name: model for name, model in run.models.items() if isinstance(model, HookedChatModel)}
    limits = {name: most for name, model in local.items() if (most := model.most_thoughts)}
    if not limits and not run.settings.share_thoughts:
        return []
    who = (
        {"all agents": max(limits.values())}
        if len({*limits.values()}) == 1 and len(limits) == len(run.models)
        else limits
    )
    notes = [f"{name} may think before each reply, for at most {most:,} tokens" for name, most in who.items()]
    heard = "agents hear the thoughts of the others too, which no paper's scheme does"
    return [*notes, heard] if run.settings.share_thoughts else notes


def _unnamed(run: RunContext[AnyState]) -> list[str]:
    """Return a note on each default that is missing in a model's files: the value, and its source."""
    notes = dict[str, None]()
    for name, model in run.models.items():
        if not isinstance(model, HookedChatModel):
            continue
        if (base := run.base(name)) and base.why:
            said = f"{model.loaded.name} names no temperature: {model.protocol} starts from {base.value:g}, {base.why}"
            if not base.sure:
                measure = f"{command('models', 'doctor', model.model)} finds the highest at which it can be read"
                said += f"; {measure if model.channel.averages else 'set another with --temperature'}"
            notes[said] = None
        unset = run.settings.top_p is None and model.top_p is None
        if unset and run.temperature(name) and (top_p := model.channel.known_top_p(model.loaded)):
            notes[f"{model.loaded.name} names no top_p: {model.protocol} takes {top_p.value:g}, {top_p.why}"] = None
    return list(notes)


def _cold(run: RunContext[AnyState]) -> list[str]:
    """Return a note if mean embeddings are those of single tokens, so that messages carry only text."""
    local = {name: model for name, model in run.models.items() if isinstance(model, HookedChatModel)}
    # Temperature 0 reduces a mean to one token; the published code uses 1 instead.
    averaging = [
        name for name, model in local.items() if model.channel.averages and model.channel.rules.cold_is_one_hot
    ]
    senders = {*run.settings.speakers(), *(speaker for speaker, _ in run.settings.edges())}  # a judge's reply is text
    cold = [name for name in averaging if name in senders and run.temperature(name) == 0]
    if not cold:
        return []
    protocol = local[cold[0]].protocol
    return [f"at temperature 0 {protocol} equals nl: each mean is one token's embedding ({', '.join(cold)})"]


def _edge(speaker: BaseChatModel, hearer: BaseChatModel, *, words: bool) -> Edge:
    """Return how one model hears another.

    Raises:
        ProtocolError: the protocol cannot carry the edge, and `words` does not allow text.
    """
    if not isinstance(speaker, HookedChatModel) or not isinstance(hearer, HookedChatModel):
        other = "a person" if any(isinstance(each, Person) for each in (speaker, hearer)) else "a hosted model"
        latent = any(isinstance(each, HookedChatModel) and each.channel.latent for each in (speaker, hearer))
        return Edge(f"in words: one of them is {other}", in_words=True) if latent else Edge()
    if speaker.protocol != hearer.protocol:
        return Edge(f"in words: they speak {speaker.protocol} and {hearer.protocol}", in_words=True)
    try:
        return Edge(speaker.channel.check(speaker.loaded, hearer.loaded) or "")
    except ProtocolError as problem:
        if not words:
            raise
        return Edge(f"in words: {problem.reason}", in_words=True)  # without the advice, to set what is set
