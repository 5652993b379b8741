"""Optimal steps for finding the facts of articles in ReAct's world: those of an agent that knows where to look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sottovoce.environments.encyclopedia.articles import Article
from sottovoce.environments.encyclopedia.library import Encyclopedia
from sottovoce.environments.encyclopedia.relations import RELATIONS
from sottovoce.environments.pages import SHOWN

MOST_STEPS = 7
"""Most steps of a relay (SDE), including the last one, which answers."""


class Gold(NamedTuple):
    """The location of a fact."""

    title: str
    sentence: int | None
    """0-based; None if the article does not state the fact, which is what has to be found out."""


class Trail(NamedTuple):
    """A sequence of facts, each found from the one before."""

    gold: tuple[Gold, ...]
    steps: tuple[str, ...]
    """Searches and lookups."""
    end: str
    """Object of the last fact, as written in the article."""


def trail(world: Encyclopedia, subject: str, relations: Sequence[str]) -> Trail | None:
    """Follow relations from a subject, each from the object found last; None if an article does not state one."""
    gold, steps, name = list[Gold](), list[str](), subject
    for relation in relations:
        opened = _opened(world, name, subject)
        article = world.by_title[subject]
        if relation not in article.facts or (looked := look_up(article, relation)) is None:
            return None
        fact = article.facts[relation]
        gold.append(Gold(subject, fact.at))
        steps += [*opened, *looked]
        subject, name = fact.object, fact.shown
    return Trail(tuple(gold), tuple(steps), name)


def absent(world: Encyclopedia, subject: str, relation: str) -> Trail:
    """Return the trail that shows that an article lacks a fact: it looks up the relation's cue to the end."""
    cue = RELATIONS[relation].cues[0]
    looked = (f"Lookup[{cue}]",) * (len(_hits(world.by_title[subject], cue)) + 1)
    return Trail((Gold(subject, None),), (*_opened(world, subject, subject), *looked), "")


def look_up(article: Article, relation: str) -> tuple[str, ...] | None:
    """Return the fewest lookups that show a fact of an open page; None if no cue leads to it."""
    at = article.facts[relation].at
    if at < SHOWN:
        return ()
    ways = [(hits.index(at) + 1, cue) for cue in RELATIONS[relation].cues if at in (hits := _hits(article, cue))]
    if not ways:
        return None
    times, cue = min(ways)
    return (f"Lookup[{cue}]",) * times


def _opened(world: Encyclopedia, name: str, title: str) -> tuple[str, ...]:
    """Return the searches that open an article; an ambiguous name needs a second one, by title."""
    found = world.article(name)
    if found is not None and found.title == title:
        return (f"Search[{name}]",)
    return (f"Search[{name}]", f"Search[{title}]")


def _hits(article: Article, word: str) -> list[int]:
    return [at for at, sentence in enumerate(article.sentences) if word in sentence.casefold()]
