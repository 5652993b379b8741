"""How agents hear one another: the checks of a run's edges, with notes for its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sottovoce.agents.ask import WORDS
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import ProtocolError, command

if TYPE_CHECKING:
    from sottovoce.agents.local import LocalModel
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext


class Edge(NamedTuple):
    """How one agent hears another."""

    note: str = ""
    """A remark for the run's notes; empty if the protocol is carried as in its paper."""
    in_words: bool = False
    """True if it is sent as text instead of the protocol."""


def check_alone(run: RunContext[Any]) -> list[str]:
    """Return notes on agents whose models run one request at a time."""
    if not (local := local_models(run)):
        return []
    from sottovoce.models.load import ONE_BY_ONE  # late: torch

    return [f"{name}: {ONE_BY_ONE}" for name, model in local.items() if model.loaded.network.one_by_one]


def check_edges(run: RunContext[AnyState]) -> list[str]:
    """Return notes on edges that are sent as text or differ from a paper, and on settings without effect.

    Raises:
        ProtocolError: the protocol cannot carry an edge, and the settings do not allow text.
    """
    settings = run.settings
    local = local_models(run).values()
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
    return run.once(f"edges from {agent}", lambda: not any(edge.in_words for edge in _edges(run, agent).values()))


def local_models(run: RunContext[Any]) -> dict[str, LocalModel]:
    """Return the local models, by agent."""
    return {name: agent.local for name, agent in run.agents.items() if agent.local is not None}


def _edges(run: RunContext[AnyState], agent: str = "") -> dict[tuple[str, str], Edge]:
    """Return how each hearer hears each speaker, or only `agent`."""
    words, edges = run.settings.fallback == WORDS, run.settings.edges()
    return {
        (speaker, hearer): _edge(run.agents[speaker], run.agents[hearer], words=words)
        for speaker, hearer in edges
        if agent in ("", speaker)
    }


def _thinking(run: RunContext[AnyState]) -> list[str]:
    """Return notes on who thinks before it replies and how long, and on shared thoughts."""
    local = local_models(run)
    limits = {name: most for name, model in local.items() if (most := model.most_thoughts)}
    if not limits and not run.settings.share_thoughts:
        return []
    who = (
        {"all agents": max(limits.values())}
        if len({*limits.values()}) == 1 and len(limits) == len(run.agents)
        else limits
    )
    notes = [f"{name} may think before each reply, for at most {most:,} tokens" for name, most in who.items()]
    heard = "agents hear the thoughts of the others too, which no paper's scheme does"
    return [*notes, heard] if run.settings.share_thoughts else notes


def _unnamed(run: RunContext[AnyState]) -> list[str]:
    """Return a note on each default that is missing in a model's files: the value, and its source."""
    notes = dict[str, None]()
    for name, model in local_models(run).items():
        agent = run.agents[name]
        if (base := agent.base) and base.why:
            said = f"{model.loaded.name} names no temperature: {model.protocol} starts from {base.value:g}, {base.why}"
            if not base.sure:
                measure = f"{command('models', 'doctor', model.model)} finds the highest at which it can be read"
                said += f"; {measure if model.channel.averages else 'set another with --temperature'}"
            notes[said] = None
        unset = run.settings.top_p is None and model.top_p is None
        if unset and agent.temperature and (top_p := model.channel.known_top_p(model.loaded)):
            notes[f"{model.loaded.name} names no top_p: {model.protocol} takes {top_p.value:g}, {top_p.why}"] = None
    return list(notes)


def _cold(run: RunContext[AnyState]) -> list[str]:
    """Return a note if mean embeddings are those of single tokens, so that messages carry only text."""
    local = local_models(run)
    # Temperature 0 reduces a mean to one token; the published code uses 1 instead.
    averaging = [
        name for name, model in local.items() if model.channel.averages and model.channel.rules.cold_is_one_hot
    ]
    senders = {*run.settings.speakers(), *(speaker for speaker, _ in run.settings.edges())}  # a judge's reply is text
    cold = [name for name in averaging if name in senders and run.agents[name].temperature == 0]
    if not cold:
        return []
    protocol = local[cold[0]].protocol
    return [f"at temperature 0 {protocol} equals nl: each mean is one token's embedding ({', '.join(cold)})"]


def _edge(speaker: Agent, hearer: Agent, *, words: bool) -> Edge:
    """Return how one agent hears another.

    Raises:
        ProtocolError: the protocol cannot carry the edge, and `words` does not allow text.
    """
    if (said_by := speaker.local) is None or (heard_by := hearer.local) is None:
        other = "a person" if speaker.person or hearer.person else "a hosted model"
        latent = any(each.local is not None and each.local.channel.latent for each in (speaker, hearer))
        return Edge(f"in words: one of them is {other}", in_words=True) if latent else Edge()
    if said_by.protocol != heard_by.protocol:
        return Edge(f"in words: they speak {said_by.protocol} and {heard_by.protocol}", in_words=True)
    try:
        return Edge(said_by.channel.check(said_by.loaded, heard_by.loaded) or "")
    except ProtocolError as problem:
        if not words:
            raise
        return Edge(f"in words: {problem.reason}", in_words=True)  # without the advice, to set what is set
