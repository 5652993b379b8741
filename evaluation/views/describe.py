"""A message in words: who made it, what it carried, what is to be known of it. Views and Markdown share them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sottovoce.channels.message import EDITED, Message, latest
from sottovoce.errors import PayloadError
from sottovoce.evaluation.views.printable import counted, one_line, shortened

DOES = {"summarise": "sums up", "select": "chooses evidence", "retrieve": "finds"}
"""Acts beside which an agent does others, told apart by these words."""


def shades(message: Message) -> Iterator[tuple[str, float | None]]:
    """A message's text in pieces, one a token, each with the entropy (nats) of the distribution it was drawn from.

    One piece without an entropy where there is no payload, or the text was edited since. Tokens may share a
    character; each character is given once, to the first of them.
    """
    at = 0
    try:
        payload = message.latent.load() if message.latent else None
    except PayloadError:  # a moved run; its words can still be read
        payload = None
    if payload is not None and "entropy" in payload.tensors:
        for (start, end), entropy in zip(payload.spans, payload.tensors["entropy"].tolist(), strict=True):
            yield message.text[at:start], None
            yield message.text[max(at, start) : end], entropy
            at = max(at, end)
    yield message.text[at:], None


def speaker(message: Message) -> str:
    """Who says it: agent, act where it is a summary, and source where it is no local model."""
    agent = one_line(message.agent)
    name = f"{agent} {DOES[message.act]}" if message.act in DOES else agent
    source = "hosted model" if message.source == "hosted" else message.source
    return name if source == "model" else f"{name} ({source})"


def carried(message: Message) -> str:
    """Kind and size of what the message carried besides its words: "cipher: 57 rows x 128, float32, 74 kB"."""
    ref = message.payload
    if ref is None or ref.hidden is None:
        return "words"
    return ref.summary if message.latent or EDITED in message.notes else f"{ref.summary}; {EDITED}"


def footer(message: Message) -> str:
    """What stands under a message: what it carried, how it was spoken, and what to know of it."""
    edited = message.payload is not None and message.latent is None
    stats, facts = {} if edited else message.stats, [carried(message)]  # they are of what was said before
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
    """Of each act the latest reply, in the board's order, with the notes of those before it.

    What was said in an answer turn stands among the notes of its reply.
    """
    acts = defaultdict[tuple[Any, ...], list[Message]](list)  # Any: a place without its attempt
    for each in messages:
        acts[each.place[:-1]].append(each)
    spoken = latest(each for each in messages if each.asked != "answer")
    return [_with_notes(message, acts[message.place[:-1]]) for message in spoken]


def _with_notes(message: Message, here: Sequence[Message]) -> Message:
    """A reply with what is to be known of its act, all of whose messages are `here`."""
    before = [each for each in here if each.attempt < message.attempt and each.asked != "answer"]
    earlier = "; ".join(note for each in before for note in each.notes)
    which = "first attempt" if len(before) == 1 else "earlier attempts"
    notes = [*([f"{which}: {earlier}"] if earlier else []), *message.notes]
    for turn in (each for each in here if each.asked == "answer" and each.attempt > message.attempt):
        notes += [f'it says "{shortened(turn.text)}"', *(note for note in turn.notes if note not in notes)]
    return replace(message, notes=tuple(notes))
