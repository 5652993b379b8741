"""A message in words: its speaker, what it carried, and notes on it. Terminal views and Markdown share them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sottovoce.channels.message import EDITED, Message, latest
from sottovoce.core.errors import PayloadError
from sottovoce.core.text import counted, one_line, shortened

DOES = {"summarise": "sums up", "select": "chooses evidence", "retrieve": "finds"}
"""Words for acts whose agents do other acts too."""


def shades(message: Message) -> Iterator[tuple[str, float | None]]:
    """Yield a message's text in pieces, one per token, with the entropy (nats) of the distribution it was drawn from.

    Yield one piece without an entropy if there is no payload, or the text was edited. A character that tokens share
    goes to the first of them.
    """
    at = 0
    try:
        entropies = message.latent.entropies() if message.latent else []
    except PayloadError:  # a moved run; its words can still be read
        entropies = []
    for (start, end), entropy in entropies:
        yield message.text[at:start], None
        yield message.text[max(at, start) : end], entropy
        at = max(at, end)
    yield message.text[at:], None


def speaker(message: Message) -> str:
    """Return the agent, with its act if that is in `DOES`, and its source if that is not a local model."""
    agent = one_line(message.agent)
    name = f"{agent} {DOES[message.act]}" if message.act in DOES else agent
    source = "hosted model" if message.source == "hosted" else message.source
    return name if source == "model" else f"{name} ({source})"


def carried(message: Message) -> str:
    """Return kind and size of what the message carried besides words: "cipher: 57 rows x 128, float32, 74 kB"."""
    ref = message.payload
    if ref is None or ref.hidden is None:
        return "words"
    return ref.summary if message.latent or EDITED in message.notes else f"{ref.summary}; {EDITED}"


def footer(message: Message) -> str:
    """Return the line under a message: what it carried, how it was generated, and notes on it."""
    edited = message.payload is not None and message.latent is None
    stats, facts = {} if edited else message.stats, [carried(message)]  # they belong to the text before the edit
    if "temperature" in stats:
        facts.append(f"temperature {stats['temperature']:.4g}")
    if "tokens_out" in stats:
        facts.append(counted(int(stats["tokens_out"]), "token"))
    if "mean_entropy" in stats:
        facts.append(f"entropy {stats['mean_entropy']:.2f} nats")
    if "shared_mass" in stats:
        facts.append(f"bridge: {stats['shared_mass']:.0%} of the mass shared, {stats['as_words']:.0%} heard as words")
    return " · ".join([*facts, *map(one_line, message.notes)])


def last_attempts(messages: Sequence[Message]) -> list[Message]:
    """Return the latest reply of each act, in the board's order, with the notes of earlier attempts.

    The text of an answer turn is among the notes of its reply.
    """
    acts = defaultdict[tuple[Any, ...], list[Message]](list)  # Any: a place without its attempt
    for each in messages:
        acts[each.place[:-1]].append(each)
    spoken = latest(each for each in messages if each.asked != "answer")
    return [_with_notes(message, acts[message.place[:-1]]) for message in spoken]


def _with_notes(message: Message, here: Sequence[Message]) -> Message:
    """Return a reply with the notes of its act; `here` has all messages of the act."""
    before = [each for each in here if each.attempt < message.attempt and each.asked != "answer"]
    earlier = "; ".join(note for each in before for note in each.notes)
    which = "first attempt" if len(before) == 1 else "earlier attempts"
    notes = [*([f"{which}: {earlier}"] if earlier else []), *message.notes]
    for turn in (each for each in here if each.asked == "answer" and each.attempt > message.attempt):
        notes += [f'it says "{shortened(turn.text)}"', *(note for note in turn.notes if note not in notes)]
    return replace(message, notes=tuple(notes))
