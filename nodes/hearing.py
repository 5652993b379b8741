"""Hearing: agents hear one another by the protocol, as control messages, or as text while they agree.

With escalation, a message is heard as its tokens alone, unless the votes of its round differ (an abstention differs
from every answer), or the mean entropy of its tokens is above a threshold. Both are read from the state. So a resumed
discussion hears the same, and all later rounds hear a message in the same form as the first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from typing_extensions import TypedDict

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import NOTHING, Message, MessageRef, Part, Place, Turn
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import ProtocolError, UsageError, command
from sottovoce.nodes.decide import abstaining, viewpoints, votes_of
from sottovoce.nodes.state import Discussion

if TYPE_CHECKING:
    from sottovoce.agents.local import LocalModel
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext
    from sottovoce.nodes.settings import Settings

DOT, REPEATED = " .", 64
"""The text that filler repeats, and the number of repetitions used to measure its tokens."""


def others_of(
    run: RunContext[Any],
    state: Discussion,
    spoken: Mapping[str, Message],
    agent: Agent,
    senders: Sequence[str] | None = None,
) -> list[Message]:
    """Return the messages of a round that an agent hears, by the setting `control`: of `senders`, or all others."""
    speakers = run.settings.speakers() if senders is None else senders
    others = [spoken[other] for other in speakers if other != agent.name]
    match run.settings.control:
        case "own":
            return [spoken[agent.name] for _ in others]
        case "empty":
            texts = ["" for _ in others]
        case "filler":
            texts = [filler(said, agent.local) for said in others]
        case "decoy":  # another question's solution, a fixed one for each speaker; `setup` checked that there are any
            texts = [state["decoys"][said.order % len(state["decoys"])] for said in others]
        case _:
            return list(map(or_nothing, others))
    return [
        replace(said, text=text, begun="", public=None, payload=None) for said, text in zip(others, texts, strict=True)
    ]


def or_nothing(message: Message, *, plain: bool = False) -> Message:
    """Return a message. One that is empty and hands over nothing, or is read as words (`plain`), says "(nothing)"."""
    heard = message.full_text if message.public is None else message.public
    if heard.strip() or (message.latent and message.latent.positions and not plain):
        return message
    return replace(message, text=NOTHING, begun="", public=None, payload=None)


def filler(said: Message, model: LocalModel | None) -> str:
    """Return dots in place of a message: about as many tokens as its text or its positions, or as many as its words."""
    text, each = said.full_text, 1.0
    if said.payload and not text:
        wanted = said.payload.length
    elif model is not None:
        chat = model.loaded.chat
        wanted, each = len(chat.ids(text, plain=True)), len(chat.ids(DOT * REPEATED, plain=True)) / REPEATED
    else:
        wanted = len(text.split())
    return (DOT * round(wanted / each)).strip()


class Hearing(TypedDict):
    """A message of another agent in a prompt, as the log records it with the prompt."""

    place: Place
    form: Literal["words", "payload", "replaced"]
    """How it is read: as words, with its payload, or with another payload in its place, under a probe."""
    part: bool
    """True if only a part of it is read."""
    new: bool
    """True if it is of the round before this one, or of this one."""
    nbytes: float
    """Bytes of the payload as this agent reads it, or of the words in UTF-8."""


def check_escalation(run: RunContext[Any]) -> list[str]:
    """Return a note on when payloads are heard.

    Raises:
        UsageError: the protocol sends only text.
    """
    if not escalates(run):
        return []
    when = run.settings.escalate
    if run.settings.protocol == WORDS:
        raise UsageError(
            f"escalate is {when!r}, but protocol {WORDS!r} sends only text; leave it out, or choose cipher, "
            "sde, hidden, kv, thoughts or graft"
        )
    at = "of a round whose votes differ" if when == "disagreement" else f"above {run.settings.escalate_above:g} nats"
    return [f"messages are heard as words, and by {run.settings.protocol} those {at}"]


def escalates(run: RunContext[Any]) -> bool:
    """Return True if messages are heard as text unless something calls for more, by a setting of `Controlled`."""
    return getattr(run.settings, "escalate", "never") != "never"


def escalated(run: RunContext[Any], state: Discussion, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt with others' messages as text alone, unless the settings escalate them."""
    if not escalates(run):
        return turns
    above: float | None = run.settings.escalate_above  # None escalates by disagreement

    def read(part: Part) -> Part:
        if isinstance(part, str) or part.own or part.message.latent is None:
            return part
        if above is not None:
            return replace(part, plain=not part.message.stats.get("mean_entropy", 0.0) > above)
        votes = votes_of(run, state, part.message.round)
        return replace(part, plain=len(viewpoints(votes, state)) <= 1 and not abstaining(votes))

    return tuple(replace(turn, parts=tuple(map(read, turn.parts))) for turn in turns)


def heard_in(run: RunContext[Any], agent: str, reader: LocalModel | None, ask: Ask) -> list[Hearing]:
    """Return the messages of others in a request, each once, in the order of the prompt.

    `reader` is the model that reads payloads; None for a hosted model or a person. What a control puts in place of
    messages is not heard.
    """
    turns = () if is_controlled(run.settings, agent) else (*ask.turns, Turn("assistant", tuple(ask.prefill)))
    refs = [part for turn in turns for part in turn.parts if isinstance(part, MessageRef) and not part.own]
    heard = dict[Hashable, Hearing]()
    for ref in refs:
        if ref.message.agent != agent:
            size = reader.heard_bytes(ref) if reader else 0
            heard[ref.message.place, ref.spans, ref.latest] = Hearing(
                place=ref.message.place,
                form=("replaced" if ref.chance else "payload") if size else "words",
                part=bool(ref.spans),
                new=ref.latest,
                nbytes=size or len(ref.body.encode()),
            )
    return [*heard.values()]


def notes_on(run: RunContext[Any], hearings: Sequence[Hearing]) -> tuple[str, ...]:
    """Return notes on how new messages were heard, where that depends on the round. Elsewhere there are none."""
    if not escalates(run):
        return ()
    new = {each["place"]: each["form"] == "words" for each in hearings if each["new"]}
    by = {f"by {run.settings.protocol}": False, "in words": True}
    names = {how: ", ".join(place.agent for place, plain in new.items() if plain == so) for how, so in by.items()}
    return tuple(f"heard {speakers} {how}" for how, speakers in names.items() if speakers)


CONTROLS = {"own": "their own", "empty": "nothing", "filler": "dots", "decoy": "another question's solution"}
"""The texts in place of others' messages, by the setting `control`."""


def is_controlled(settings: Settings, agent: str) -> bool:
    """Return True if an agent reads something else in place of all messages, by the setting `control`."""
    return getattr(settings, "control", "none") != "none" and agent in settings.speakers()


def heard_edges(settings: Settings) -> set[tuple[str, str]]:
    """Return the pairs (speaker, hearer) of all messages that are heard in a discussion."""
    return {edge for edge in settings.edges() if not is_controlled(settings, edge[1])}


def with_thoughts(run: RunContext[Any], agent: str, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt with the thoughts of others before their messages, by the setting `share_thoughts`.

    Quoted parts of a message and public texts get no thoughts. An empty message is heard as "(nothing)", unless it is a
    control message.
    """
    controlled = is_controlled(run.settings, agent)

    def parts_of(part: Part) -> tuple[Part, ...]:
        if isinstance(part, str) or part.own or part.spans:
            return (part,)
        said = part if controlled else replace(part, message=or_nothing(part.message, plain=part.plain))
        if part.in_public or not part.message.thoughts or not run.settings.share_thoughts:
            return (said,)
        return replace(part, message=part.message.aloud), "\n\n", said

    return tuple(replace(turn, parts=tuple(each for part in turn.parts for each in parts_of(part))) for turn in turns)


class Edge(NamedTuple):
    """The way in which one agent hears another."""

    note: str = ""
    """A remark for the run's notes, or an empty text if the protocol is carried as in its paper."""
    in_words: bool = False
    """True if it is sent as text instead of the protocol."""


def check_alone(run: RunContext[Any]) -> list[str]:
    """Return a note for each agent whose model runs one request at a time."""
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
        if getattr(settings, name) is not None and not in_words_alone(run):
            notes.append(f"{name} has no effect on messages by {settings.protocol}")
    notes += [*_unnamed(run), *_cold(run), *_thinking(run)]
    if (control := getattr(settings, "control", "none")) != "none":
        notes.append(f"control {control}: agents read {CONTROLS[control]} in place of the others' messages")
    edges = {
        (speaker, hearer): edge
        for (speaker, hearer), edge in _edges(run).items()
        if not is_controlled(settings, hearer)
    }
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


def in_words_alone(run: RunContext[AnyState]) -> bool:
    """Return True if all agents hear one another in words, so that the protocol of the run has no effect."""
    return run.once("words alone", lambda: {edge.in_words for edge in _edges(run).values()} == {True})


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
    alike = len({*limits.values()}) == 1 and len(limits) == len(run.agents)
    who = {"all agents": max(limits.values())} if alike else limits
    notes = [f"{name} may think before each reply, for at most {most:,} tokens" for name, most in who.items()]
    thinkers = {*limits, *run.agents.keys() - local.keys()}  # a hosted model may think
    heard = "agents hear the thoughts of the others too, which no paper's scheme does"
    if not any(speaker in thinkers for speaker, _ in heard_edges(run.settings)):
        heard = "share_thoughts has no effect: no agent that others hear thinks"
    return [*notes, heard] if run.settings.share_thoughts else notes


def _unnamed(run: RunContext[AnyState]) -> list[str]:
    """Return a note on each default that is missing in a model's files: the value, and its source."""
    from sottovoce.channels import create  # late: torch

    notes = dict[str, None]()
    for name, model in local_models(run).items():
        agent, channel = run.agents[name], model.channel
        if in_words_alone(run):
            channel = create(WORDS, compat=channel.compat)
        if agent.base and (base := channel.base(model.loaded)).why:
            said = f"{model.loaded.name} names no temperature: {channel.name} starts from {base.value:g}, {base.why}"
            if not base.sure:
                measure = f"{command('models', 'doctor', model.model)} finds the highest at which it can be read"
                said += f"; {measure if channel.averages else 'set another temperature'}"
            notes[said] = None
        unset = run.settings.top_p is None and model.top_p is None
        if unset and agent.temperature and (top_p := channel.known_top_p(model.loaded)):
            notes[f"{model.loaded.name} names no top_p: {channel.name} takes {top_p.value:g}, {top_p.why}"] = None
    return list(notes)


def _cold(run: RunContext[AnyState]) -> list[str]:
    """Return a note if mean embeddings equal single tokens' embeddings, so that messages carry only text."""
    local = local_models(run)
    # Temperature 0 reduces a mean to one token; the published code uses 1 instead.
    averaging = [
        name for name, model in local.items() if model.channel.averages and model.channel.rules.cold_is_one_hot
    ]
    senders = {*run.settings.speakers(), *(speaker for speaker, _ in run.settings.edges())}  # a judge's reply is text
    cold = [name for name in averaging if name in senders and run.agents[name].temperature == 0]
    if not cold or in_words_alone(run):
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
