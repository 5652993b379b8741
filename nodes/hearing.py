"""How an agent hears the messages of others: as they are, as control messages, or as text while the agents agree.

With escalation, a message is heard as its tokens alone, unless the votes of its round differ (an abstention differs
from every answer), or the mean entropy of its tokens is above a threshold. Both are read from the state, so that a
resumed discussion hears the same, and a message is heard in all later rounds as in the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.agents.ask import WORDS
from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import UsageError
from sottovoce.nodes.decide import abstaining, viewpoints, votes_of
from sottovoce.nodes.shared_settings import Escalate
from sottovoce.nodes.state import Discussion

if TYPE_CHECKING:
    from sottovoce.agents.local import LocalModel
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

DOT, REPEATED = " .", 64
"""The text that filler repeats, and the number of repetitions used to measure its tokens."""


def others_of(run: RunContext[Any], state: Discussion, spoken: Mapping[str, Message], agent: Agent) -> list[Message]:
    """Return the messages of a round that an agent hears, one of each other agent, by the setting `control`."""
    others = [spoken[other] for other in run.settings.speakers() if other != agent.name]
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
            return others
    return [
        replace(said, text=text, begun="", public=None, payload=None) for said, text in zip(others, texts, strict=True)
    ]


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


HEARD_LATENT, HEARD_PLAIN = "heard_latent", "heard_plain"
"""Statistics of a message: how many messages of the round before it heard with and without their payload."""


def check_escalation(run: RunContext[AnyState]) -> list[str]:
    """Return a note on when payloads are heard.

    Raises:
        UsageError: the protocol sends only text.
    """
    when = _when(run)
    if when == "never":
        return []
    if run.settings.protocol == WORDS:
        raise UsageError(
            f"escalate is {when!r}, but protocol {WORDS!r} sends only text; leave it out, or choose cipher, "
            "sde, hidden, kv, thoughts or graft"
        )
    at = "of a round whose votes differ" if when == "disagreement" else f"above {run.settings.escalate_above:g} nats"
    return [f"messages are heard as words, and by {run.settings.protocol} those {at}"]


def escalated(run: RunContext[Any], state: Discussion, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt in which others' messages are text alone, unless the settings escalate them."""
    if _when(run) == "never":
        return turns

    def read(part: Part) -> Part:
        if isinstance(part, str) or part.own or part.message.latent is None:
            return part
        return replace(part, plain=not _needed(run, state, part.message))

    return tuple(replace(turn, parts=tuple(map(read, turn.parts))) for turn in turns)


def hearing(run: RunContext[Any], turns: Iterable[Turn]) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return a note and statistics for the reply to a prompt: how it heard the messages of the round before."""
    if _when(run) == "never":
        return (), {}
    parts = [part for turn in turns for part in turn.parts if isinstance(part, MessageRef)]
    new = {part.message.place: part for part in parts if part.latest and not part.own and part.message.latent}
    if not new:
        return (), {}
    by = {plain: [each.message.agent for each in new.values() if each.plain == plain] for plain in (False, True)}
    told = [f"heard {', '.join(by[True])} in words"] if by[True] else []
    told += [f"heard {', '.join(by[False])} by {run.settings.protocol}"] if by[False] else []
    return tuple(told), {HEARD_LATENT: float(len(by[False])), HEARD_PLAIN: float(len(by[True]))}


def _when(run: RunContext[Any]) -> Escalate:
    when: Escalate = getattr(run.settings, "escalate", "never")  # of `Controlled`
    return when


def _needed(run: RunContext[Any], state: Discussion, message: Message) -> bool:
    if _when(run) == "uncertainty":
        above: float = run.settings.escalate_above
        return message.stats.get("mean_entropy", 0.0) > above
    votes = votes_of(run, state, message.round)
    return len(viewpoints(votes, state)) > 1 or bool(abstaining(votes))


def with_thoughts(run: RunContext[Any], turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt in which the thoughts of others stand before their messages, by the setting `share_thoughts`.

    Not before quoted parts of a message, and not where others hear a public text instead of all of it.
    """
    if not run.settings.share_thoughts:
        return turns

    def parts_of(part: Part) -> tuple[Part, ...]:
        if isinstance(part, str) or part.own or part.spans or part.in_public or not part.message.thoughts:
            return (part,)
        return replace(part, message=part.message.aloud), "\n\n", part

    return tuple(replace(turn, parts=tuple(each for part in turn.parts for each in parts_of(part))) for turn in turns)
