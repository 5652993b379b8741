"""Questions about the encyclopedia, with answers, gold articles and gold steps computed from its facts.

For a bridge, one article tells which one to read next; the other types name their subjects:

    bridge      In which town was the author of The Salt Ledger born?                 a few words
    comparison  Who was born earlier, Ines Halm or Orla Vance?                        a few words
    strategy    Could Lisbet Orne have read The Salt Ledger as a child?               yes or no
    claim       The author of The Salt Ledger was born in Greyholt.                   one of LABELS (as in FEVER)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from sottovoce.environments.encyclopedia.articles import Article
from sottovoce.environments.encyclopedia.library import Encyclopedia, encyclopedia
from sottovoce.environments.encyclopedia.lookup import MOST_STEPS, Gold, Trail, absent, trail
from sottovoce.environments.encyclopedia.relations import RELATIONS, Kind
from sottovoce.environments.encyclopedia.templates import BRIDGES, COMPARED, FACTS

Type = Literal["bridge", "comparison", "strategy", "claim", "fact"]
TYPES: tuple[Type, ...] = ("bridge", "comparison", "strategy", "claim")
"""Types that need more than finding and reading one article; a fact needs only that."""
SUPPORTS, REFUTES, NOT_ENOUGH = LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
EACH = 60
"""Most subjects for each relation, or sequence of relations, that questions are about."""
CHILD, LATE = 9, 20  # reader's age at publication: yes up to the first, no from the second on


@dataclass(frozen=True)
class Asked:
    """A question with its answer and the steps to it."""

    type: Type
    text: str
    answer: str
    gold: tuple[Gold, ...]
    """Locations of the facts needed, in the order in which they are found."""
    steps: tuple[str, ...]
    """Actions that lead to the answer; the last one states it."""
    hops: int
    """Number of articles that are read in sequence, each leading to the next."""


@cache
def questions(type: Type, seed: int = 0) -> tuple[Asked, ...]:
    """Return all questions of a type, shuffled, without duplicates and without those that need too many steps."""
    world = encyclopedia(seed)
    rng = random.Random(f"questions/{type}/{seed}")
    makers: dict[Type, Callable[[Encyclopedia, random.Random], Iterator[Asked]]] = {
        "bridge": _bridges,
        "comparison": _comparisons,
        "strategy": _strategies,
        "claim": _claims,
        "fact": _facts,
    }
    found = list({asked.text: asked for asked in makers[type](world, rng) if len(asked.steps) <= MOST_STEPS}.values())
    rng.shuffle(found)
    return tuple(found)


def _bridges(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield bridges, if neither an article on the way nor one that the question names contains the answer."""
    for relations, wordings in BRIDGES.items():
        for subject in _some(world, RELATIONS[relations[0]].of, rng):
            found, text = trail(world, subject.title, relations), rng.choice(wordings).format(s=subject.title)
            if found and _apart(world, text, found):
                yield _asked("bridge", text, found.end, len(relations), found)


def _comparisons(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    for relation, compared in COMPARED.items():
        some = _some(world, RELATIONS[relation].of, rng)
        # Text in brackets after a name is not part of an answer.
        told = [article for article in some if relation in article.facts and "(" not in article.title]
        for one, other in pairwise(told):
            trails = [trail(world, each.title, [relation]) for each in (one, other)]
            first, second = (int(each.facts[relation].object) for each in (one, other))
            if first != second and all(trails):
                less = one.title if first < second else other.title
                answer = less if compared.least else ({one.title, other.title} - {less}).pop()
                text = rng.choice(compared.wordings).format(a=one.title, b=other.title)
                yield _asked("comparison", text, answer, 1, *(each for each in trails if each))


def _strategies(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield yes-or-no questions, with about as many of each answer."""
    readers, books = ([a for a in _some(world, kind, rng, 4 * EACH)] for kind in ("person", "book"))
    for i, reader in enumerate(readers):
        for book in books[i::7][:3]:
            found = [trail(world, reader.title, ["born"]), trail(world, book.title, ["published"])]
            if all(found):
                age = int(book.facts["published"].object) - int(reader.facts["born"].object)
                if age <= CHILD or age >= LATE:
                    text = f"Could {reader.title} have read {book.title} as a child?"
                    yield _asked(
                        "strategy", text, "yes" if age <= CHILD else "no", 1, *(each for each in found if each)
                    )
    yield from _same_river(world, rng)


def _same_river(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    towns: dict[str, list[Article]] = {}
    for town in (article for article in world.articles if article.kind == "town" and "river" in article.facts):
        towns.setdefault(town.facts["river"].object, []).append(town)
    people = {
        river: [
            a for a in world.articles if "born_in" in a.facts and a.facts["born_in"].object in {t.title for t in on}
        ]
        for river, on in towns.items()
    }
    rivers = [river for river, born in people.items() if len(born) >= 4]
    for river in rivers:
        one, other, third = rng.sample(people[river], 3)
        stranger = rng.choice(people[rng.choice([each for each in rivers if each != river])])
        for first, second, answer in ((one, other, "yes"), (third, stranger, "no")):
            found = [trail(world, each.title, ["born_in", "river"]) for each in (first, second)]
            if all(found):
                text = f"Do the towns in which {first.title} and {second.title} were born lie on the same river?"
                yield _asked("strategy", text, answer, 2, *(each for each in found if each))


def _claims(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield for each relation claims that an article states, that one contradicts, and that none states."""
    for name, relation in RELATIONS.items():
        some = _some(world, relation.of, rng)
        told = [article for article in some if name in article.facts]
        objects = sorted({article.facts[name].object for article in told})
        for i, article in enumerate(told[:24]):
            if (found := trail(world, article.title, [name])) is None:
                continue
            truth = article.facts[name].object
            other = rng.choice([each for each in objects if each != truth])
            said, label = (truth, SUPPORTS) if i % 2 else (other, REFUTES)
            yield _asked("claim", relation.claim.format(s=article.title, o=said), label, 1, found)
        for article in [each for each in some if each.silent(name)][:12]:
            said = rng.choice(objects)
            found = absent(world, article.title, name)
            yield _asked("claim", relation.claim.format(s=article.title, o=said), NOT_ENOUGH, 1, found)


def _facts(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    for relation, wordings in FACTS.items():
        for subject in _some(world, RELATIONS[relation].of, rng):
            if found := trail(world, subject.title, [relation]):
                yield _asked("fact", rng.choice(wordings).format(s=subject.title), found.end, 1, found)


def _asked(type: Type, text: str, answer: str, hops: int, *trails: Trail) -> Asked:
    gold = tuple(each for found in trails for each in found.gold)
    steps = tuple(step for found in trails for step in found.steps)
    return Asked(type, text, answer, gold, (*steps, f"Finish[{answer}]"), hops)


def _some(world: Encyclopedia, kind: Kind, rng: random.Random, most: int = EACH) -> list[Article]:
    found = [article for article in world.articles if article.kind == kind]
    rng.shuffle(found)
    return found[:most]


def _apart(world: Encyclopedia, text: str, found: Trail) -> bool:
    """Return whether neither a page before the last one nor one that the question names contains the answer."""
    named = [page for page in world.articles if any(name in text for name in (page.title, *page.aliases))]
    pages = [*named, *(world.by_title[title] for title, _ in found.gold[:-1])]
    return not any(found.end.casefold() in f"{page.title} {page.text}".casefold() for page in pages)
