"""Questions about the encyclopedia, with answers, gold articles and gold steps computed from its facts.

For a bridge, one article tells which one to read next; the other types name their subjects:

    bridge      In which town was the author of The Salt Ledger born?                 a few words
    comparison  Who was born earlier, Ines Halm or Orla Vance?                        a few words
    strategy    Could Lisbet Orne have read The Salt Ledger as a child?               yes or no
    claim       The author of The Salt Ledger was born in Greyholt.                   one of LABELS (as in FEVER)
    fact        Who wrote The Salt Ledger?                                            a few words

The steps are those of an agent in ReAct's world that knows where to look. `questions.yaml` has the templates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

from sottovoce.environments.encyclopedia import Article, Encyclopedia, encyclopedia
from sottovoce.environments.encyclopedia.generate import RELATIONS, Kind, read_data
from sottovoce.environments.pages import SHOWN

Type = Literal["bridge", "comparison", "strategy", "claim", "fact"]
TYPES: tuple[Type, ...] = ("bridge", "comparison", "strategy", "claim")
"""Types that need more than finding and reading one article; a fact needs only that."""
SUPPORTS, REFUTES, NOT_ENOUGH = LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
TEMPLATES = read_data("questions.yaml")
MAX_STEPS = 7
"""Most steps of a relay (SDE), including the last one, which answers."""
EACH = 60
"""Most subjects for each relation, or sequence of relations, that questions are about."""
CHILD, LATE = 9, 20  # reader's age at publication: yes up to the first, no from the second on


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
    by_text = {question.text: question for question in makers[type](world, rng) if len(question.steps) <= MAX_STEPS}
    shuffled = list(by_text.values())
    rng.shuffle(shuffled)
    return tuple(shuffled)


def _bridges(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield bridges, if neither an article on the way nor one that the question names contains the answer."""
    for template in TEMPLATES["bridge"]:
        relations, texts = template["relations"], template["questions"]
        for subject in _some(world, RELATIONS[relations[0]].of, rng):
            path, text = trail(world, subject.title, relations), rng.choice(texts).format(s=subject.title)
            if path and _apart(world, text, path):
                yield _question("bridge", text, path.end, len(relations), path)


def _comparisons(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    for relation, template in TEMPLATES["comparison"].items():
        some = _some(world, RELATIONS[relation].of, rng)
        # Text in brackets after a name is not part of an answer.
        stating = [article for article in some if relation in article.facts and "(" not in article.title]
        for a, b in pairwise(stating):
            trails = [trail(world, article.title, [relation]) for article in (a, b)]
            first, second = (int(article.facts[relation].object) for article in (a, b))
            if first != second and all(trails):
                is_first = (first < second) == (template["answer"] == "least")
                text = rng.choice(template["questions"]).format(a=a.title, b=b.title)
                answer = a.title if is_first else b.title
                yield _question("comparison", text, answer, 1, *(path for path in trails if path))


def _strategies(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield yes-or-no questions, with about as many of each answer."""
    readers, books = _some(world, "person", rng, 4 * EACH), _some(world, "book", rng, 4 * EACH)
    for i, reader in enumerate(readers):
        for book in books[i::7][:3]:
            trails = [trail(world, reader.title, ["born"]), trail(world, book.title, ["published"])]
            if not all(trails):
                continue
            age = int(book.facts["published"].object) - int(reader.facts["born"].object)
            if age <= CHILD or age >= LATE:
                text = f"Could {reader.title} have read {book.title} as a child?"
                answer = "yes" if age <= CHILD else "no"
                yield _question("strategy", text, answer, 1, *(path for path in trails if path))
    yield from _same_river(world, rng)


def _same_river(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    towns: dict[str, set[str]] = {}
    for town in (article for article in world.articles if article.kind == "town" and "river" in article.facts):
        towns.setdefault(town.facts["river"].object, set()).add(town.title)
    natives = [article for article in world.articles if "born_in" in article.facts]
    people = {river: [a for a in natives if a.facts["born_in"].object in on] for river, on in towns.items()}
    rivers = [river for river, born in people.items() if len(born) >= 4]
    for river in rivers:
        first_native, two, three = rng.sample(people[river], 3)
        stranger = rng.choice(people[rng.choice([name for name in rivers if name != river])])
        for first, second, answer in ((first_native, two, "yes"), (three, stranger, "no")):
            trails = [trail(world, article.title, ["born_in", "river"]) for article in (first, second)]
            if all(trails):
                text = f"Do the towns in which {first.title} and {second.title} were born lie on the same river?"
                yield _question("strategy", text, answer, 2, *(path for path in trails if path))


def _claims(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    """Yield for each relation claims that an article states, that one contradicts, and that none states."""
    for name, relation in RELATIONS.items():
        some = _some(world, relation.of, rng)
        stating = [article for article in some if name in article.facts]
        objects = sorted({article.facts[name].object for article in stating})
        for i, article in enumerate(stating[:24]):
            if (path := trail(world, article.title, [name])) is None:
                continue
            truth = article.facts[name].object
            wrong = rng.choice([value for value in objects if value != truth])
            value, label = (truth, SUPPORTS) if i % 2 else (wrong, REFUTES)
            yield _question("claim", relation.claim.format(s=article.title, o=value), label, 1, path)
        for article in [article for article in some if article.silent(name)][:12]:
            text = relation.claim.format(s=article.title, o=rng.choice(objects))
            yield _question("claim", text, NOT_ENOUGH, 1, absent(world, article.title, name))


def _facts(world: Encyclopedia, rng: random.Random) -> Iterator[Asked]:
    for relation, texts in TEMPLATES["fact"].items():
        for subject in _some(world, RELATIONS[relation].of, rng):
            if path := trail(world, subject.title, [relation]):
                yield _question("fact", rng.choice(texts).format(s=subject.title), path.end, 1, path)


def _question(type: Type, text: str, answer: str, hops: int, *trails: Trail) -> Asked:
    gold = tuple(place for path in trails for place in path.gold)
    steps = tuple(step for path in trails for step in path.steps)
    return Asked(type, text, answer, gold, (*steps, f"Finish[{answer}]"), hops)


def _some(world: Encyclopedia, kind: Kind, rng: random.Random, most: int = EACH) -> list[Article]:
    articles = [article for article in world.articles if article.kind == kind]
    rng.shuffle(articles)
    return articles[:most]


def _apart(world: Encyclopedia, text: str, path: Trail) -> bool:
    """Return whether neither a page before the last one nor one that the question names contains the answer."""
    named = [page for page in world.articles if any(name in text for name in (page.title, *page.aliases))]
    pages = [*named, *(world.by_title[title] for title, _ in path.gold[:-1])]
    return not any(path.end.casefold() in f"{page.title} {page.text}".casefold() for page in pages)


def trail(world: Encyclopedia, subject: str, relations: Sequence[str]) -> Trail | None:
    """Follow relations from a subject, each from the object found last; None if an article does not state one."""
    gold, steps, name = list[Gold](), list[str](), subject
    for relation in relations:
        searches = _searches(world, name, subject)
        article = world.by_title[subject]
        if relation not in article.facts or (lookups := look_up(article, relation)) is None:
            return None
        fact = article.facts[relation]
        gold.append(Gold(subject, fact.at))
        steps += [*searches, *lookups]
        subject, name = fact.object, fact.shown
    return Trail(tuple(gold), tuple(steps), name)


def absent(world: Encyclopedia, subject: str, relation: str) -> Trail:
    """Return the trail that shows that an article lacks a fact: it looks up the relation's cue to the end."""
    cue = RELATIONS[relation].cues[0]
    lookups = (f"Lookup[{cue}]",) * (len(_hits(world.by_title[subject], cue)) + 1)
    return Trail((Gold(subject, None),), (*_searches(world, subject, subject), *lookups), "")


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


def _searches(world: Encyclopedia, name: str, title: str) -> tuple[str, ...]:
    """Return the searches that open an article; an ambiguous name needs a second one, by title."""
    article = world.article(name)
    if article is not None and article.title == title:
        return (f"Search[{name}]",)
    return (f"Search[{name}]", f"Search[{title}]")


def _hits(article: Article, word: str) -> list[int]:
    return [at for at, sentence in enumerate(article.sentences) if word in sentence.casefold()]
