"""How what an article tells is found in the world of ReAct: the steps of somebody who knows where to look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sottovoce.environments.encyclopedia.articles import Article
from sottovoce.environments.encyclopedia.library import Encyclopedia
from sottovoce.environments.encyclopedia.relations import RELATIONS
from sottovoce.environments.pages import SHOWN

MOST_STEPS = 7
"""Of a relay (SDE), the last one to answer."""


class Gold(NamedTuple):
    """Where a fact stands."""

    title: str
    sentence: int | None
    """0-based; None where the article does not tell it, which is what there is to find."""


class Trail(NamedTuple):
    """What is found one after another."""

    gold: tuple[Gold, ...]
    steps: tuple[str, ...]
    """Searches and look-ups."""
    end: str
    """What the last one tells, as it stands there."""


def trail(world: Encyclopedia, subject: str, relations: Sequence[str]) -> Trail | None:
    """From a subject through relations, each of what was found last; None where something is not told."""
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
    """What shows that an article does not tell something: all sentences with the word that would, to the end."""
    cue = RELATIONS[relation].cues[0]
    looked = (f"Lookup[{cue}]",) * (len(_hits(world.by_title[subject], cue)) + 1)
    return Trail((Gold(subject, None),), (*_opened(world, subject, subject), *looked), "")


def look_up(article: Article, relation: str) -> tuple[str, ...] | None:
    """The look-ups that show a fact of an open page, as often as its cue comes before it; None where none does."""
    at = article.facts[relation].at
    if at < SHOWN:
        return ()
    ways = [(hits.index(at) + 1, cue) for cue in RELATIONS[relation].cues if at in (hits := _hits(article, cue))]
    if not ways:
        return None
    times, cue = min(ways)
    return (f"Lookup[{cue}]",) * times


def _opened(world: Encyclopedia, name: str, title: str) -> tuple[str, ...]:
    """The searches that open an article: of an ambiguous name, one that tells what it may mean, and then another."""
    found = world.article(name)
    if found is not None and found.title == title:
        return (f"Search[{name}]",)
    return (f"Search[{name}]", f"Search[{title}]")


def _hits(article: Article, word: str) -> list[int]:
    return [at for at, sentence in enumerate(article.sentences) if word in sentence.casefold()]
