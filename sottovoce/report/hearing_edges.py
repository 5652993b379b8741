"""The edges of hearing of a discussion: who heard which message, and in which form, as far as its log shows it.

A message was heard where its words are in a later prompt of an agent that hears the speaker; one without words, by the
next message of such an agent. The form is that of the message's payload, unless the run says that it was replaced.
"""

from __future__ import annotations

from typing import NamedTuple

from sottovoce.channels.message import Message
from sottovoce.nodes.hearing import HEARD, HEARD_LATENT, heard_edges
from sottovoce.report import describe
from sottovoce.runs.record import DiscussionRecord

PART = 12
"""Least characters of a line by which a prompt is seen to quote a part of a message."""
WORDS = "words"
INJECT = "all"
"""The value of the option `inject` by which earlier messages too are heard with what a protocol carries by layer."""


class Edge(NamedTuple):
    """One edge: a message, the message before which its agent heard it, and the form."""

    message: Message
    before: Message
    form: str


def hearing_edges(record: DiscussionRecord) -> list[Edge]:
    """Return all edges of a discussion, in the order of the messages that were said after hearing."""
    prompts = {asked.place: "\n".join(text for _, text in asked.turns) for asked in record.prompts}
    hears, edges = heard_edges(record.chosen()), list[Edge]()
    for at, message in enumerate(record.messages):
        prompt, nearer = prompts.get(message.place, ""), set[str]()
        for other in reversed([each for each in record.messages[:at] if _moment(each) != _moment(message)]):
            own, heard = other.agent == message.agent, (other.agent, message.agent) in hears and not other.withdrawn
            words = (other.full_text if own or other.public is None else other.public).strip()
            part = _quoted(words, prompt) if words and (own or heard) else None
            if part == "":  # each quotation is of one message; equal words may have been said twice
                prompt = "".join(prompt.rpartition(words)[::2])
            latest = other.agent not in nearer
            if heard and (part is not None or (not words and other.latent is not None and latest)):
                edges.append(Edge(other, message, f"{part or ''}{_form(other, message, record, latest=latest)}"))
            nearer |= {other.agent} if heard else set()
    return edges


def _moment(message: Message) -> tuple[object, ...]:
    """Return what messages that are said in parallel have in common."""
    return message.epoch, *message.time, message.act


def _quoted(words: str, prompt: str) -> str | None:
    """Return how a prompt quotes a text: whole (""), in part, or not at all (None)."""
    if words in prompt:
        return ""
    lines = (line.strip() for line in words.splitlines())
    return "a part of it: " if any(len(line) >= PART and line in prompt for line in lines) else None


def _form(message: Message, hearer: Message, record: DiscussionRecord, *, latest: bool) -> str:
    form, heard = describe.carried(message), hearer.stats.get(HEARD, 0)
    carried = hearer.stats.get(HEARD_LATENT, heard)
    by_layer = message.payload is not None and bool(message.payload.layers)
    as_words = (
        message.public is not None
        or (heard and not carried)
        or (by_layer and not latest and record.chosen().options(hearer.agent).get("inject") != INJECT)
    )
    if as_words or form == WORDS:
        return WORDS
    if hearer.donors:
        return f"{form}, replaced by another question's"
    return f"{form}, or words" if carried < heard else form
