"""Who heard which message of a discussion, and in which form: the edges of hearing, as far as its log shows them.

A message was heard where its words are in a later prompt of an agent that hears the speaker; one without words, by the
next message of such an agent. The form is that of the message's payload, unless the run says that it was replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sottovoce.channels.message import Message, Place
from sottovoce.nodes.hearing import HEARD_LATENT, HEARD_PLAIN, in_words
from sottovoce.report import describe
from sottovoce.runs.record import DiscussionRecord

PART = 12
"""Characters of a line that is recognized in a prompt that quotes only a part of a message."""
WORDS = "words"
INJECT = "all"
"""The value of the option `inject` by which earlier messages too are heard with what a protocol carries by layer."""


class Heard(NamedTuple):
    """One edge: a message, the message before which it was heard, and the form."""

    said: Message
    before: Message
    form: str


def heard(record: DiscussionRecord) -> Sequence[Heard]:
    """Return all edges of a discussion, in the order of the messages that were said after hearing."""
    prompts = {asked.place: "\n".join(text for _, text in asked.turns) for asked in record.prompts}
    edges = set(record.chosen().edges())
    before = ((message, record.messages[:at]) for at, message in enumerate(record.messages))
    return [edge for message, earlier in before for edge in _of(message, earlier, record, prompts, edges)]


def by_place(edges: Sequence[Heard]) -> tuple[Mapping[Place, list[Heard]], Mapping[Place, list[Heard]]]:
    """Return the edges by the place of the message that was heard, and by that of the message after it."""
    of, by = defaultdict[Place, list[Heard]](list), defaultdict[Place, list[Heard]](list)
    for edge in edges:
        of[edge.said.place].append(edge)
        by[edge.before.place].append(edge)
    return of, by


def _of(
    message: Message,
    earlier: Sequence[Message],
    record: DiscussionRecord,
    prompts: Mapping[Place, str],
    edges: set[tuple[str, str]],
) -> Iterator[Heard]:
    prompt, nearer = prompts.get(message.place, ""), set[str]()
    for said in reversed([each for each in earlier if _moment(each) != _moment(message)]):
        own, heard = said.agent == message.agent, (said.agent, message.agent) in edges and not said.withdrawn
        words = (said.full_text if own or said.public is None else said.public).strip()
        part = _quoted(words, prompt) if words and (own or heard) else None
        if part == "":  # each quotation is of one message; equal words may have been said twice
            before, _, after = prompt.rpartition(words)
            prompt = before + after
        latest = said.agent not in nearer
        if heard and part is not None:
            yield Heard(said, message, f"{part}{_form(said, message, record, latest=latest)}")
        elif heard and not words and said.latent is not None and latest:
            yield Heard(said, message, _form(said, message, record, latest=True))
        nearer |= {said.agent} if heard else set()


def _moment(message: Message) -> tuple[object, ...]:
    """Return what messages that are said in parallel have in common."""
    return message.epoch, *message.time, message.act


def _quoted(words: str, prompt: str) -> str | None:
    """Return how a prompt quotes a text: whole (""), in part, or not at all (None)."""
    if words in prompt:
        return ""
    lines = (line.strip() for line in words.splitlines())
    return "a part of it: " if any(len(line) >= PART and line in prompt for line in lines) else None


def _form(said: Message, hearer: Message, record: DiscussionRecord, *, latest: bool) -> str:
    if (
        said.payload
        and said.payload.layers
        and not latest
        and INJECT != record.chosen().options(hearer.agent).get("inject")
    ):
        return WORDS
    plain, latent = hearer.stats.get(HEARD_PLAIN, 0), hearer.stats.get(HEARD_LATENT, 0)
    if said.public is not None or (plain and not latent) or in_words(record.notes, said.agent, hearer.agent):
        return WORDS
    if record.models and hearer.agent not in record.models:  # a hosted model, or a person
        return WORDS
    form = describe.carried(said)
    if form != WORDS and hearer.donors:
        return f"{form}, replaced by another question's"
    return f"{form}, or words" if plain and form != WORDS else form
