"""The generated part of the encyclopedia: facts drawn from a seed, and articles that state them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from sottovoce.environments.encyclopedia import names
from sottovoce.environments.encyclopedia.articles import Article, Fact
from sottovoce.environments.encyclopedia.distractors import ASIDES
from sottovoce.environments.encyclopedia.relations import KINDS, OF, RELATIONS, Kind

HOW_MANY: dict[Kind, int] = {"person": 120, "town": 60, "country": 10, "river": 20, "book": 120, "firm": 70}
UNTOLD = 0.12
"""Probability that a fact is left out of an article."""
FIRST, LAST = 1690, 1890  # years of birth

Truth = dict[str, dict[str, str]]
"""Objects by subject and relation."""


def made(seed: int, taken: Sequence[str] = ()) -> list[Article]:
    """Generate the articles of a seed, by kind; no title is in `taken`."""
    rng = random.Random(f"encyclopedia/{seed}")
    titles = _titles(rng, taken)
    truth = _truth(rng, titles)
    return [_article(rng, title, kind, truth[title]) for kind in KINDS for title in titles[kind]]


def _titles(rng: random.Random, taken: Sequence[str]) -> dict[Kind, list[str]]:
    draw = names.Draw(rng, taken)
    one_of = {
        "person": draw.person,
        "town": draw.town,
        "country": lambda: draw.of(names.COUNTRIES),
        "river": lambda: draw.of(names.RIVERS),
        "book": draw.book,
        "firm": draw.firm,
    }
    return {kind: [one_of[kind]() for _ in range(HOW_MANY[kind])] for kind in KINDS}


def _truth(rng: random.Random, titles: Mapping[Kind, Sequence[str]]) -> Truth:
    """Draw all facts; years are consistent: nobody writes as a child, or learns from a younger person."""
    born = dict(zip(titles["person"], rng.choices(range(FIRST, LAST), k=len(titles["person"])), strict=True))
    truth: Truth = {person: _life(rng, person, born, titles) for person in titles["person"]}
    money, tongues = (iter(rng.sample(each, len(each))) for each in (names.CURRENCIES, names.LANGUAGES))
    land = {town: titles["country"][i % len(titles["country"])] for i, town in enumerate(titles["town"])}
    for town in titles["town"]:
        founded, fame = rng.randrange(900, 1600), rng.choice(names.FAME)
        river = rng.choice(titles["river"])
        truth[town] = {"river": river, "country": land[town], "founded": str(founded), "known_for": fame}
    for country in titles["country"]:
        capital = rng.choice([town for town in titles["town"] if land[town] == country])
        truth[country] = {"capital": capital, "currency": next(money), "language": next(tongues)}
    for river, length in zip(titles["river"], rng.sample(range(60, 900), len(titles["river"])), strict=True):
        sea, heights = rng.choice(names.SEAS), rng.choice(names.HEIGHTS)
        truth[river] = {"mouth": sea, "length": str(length), "rises_in": heights}
    for firm in titles["firm"]:
        founder = rng.choice(titles["person"])
        year, seat, goods = born[founder] + rng.randrange(22, 55), rng.choice(titles["town"]), rng.choice(names.GOODS)
        truth[firm] = {"founder": founder, "seat": seat, "established": str(year), "makes": goods}
    for book in titles["book"]:
        author = rng.choice(titles["person"])
        year, firm, place = born[author] + rng.randrange(24, 62), rng.choice(titles["firm"]), rng.choice(titles["town"])
        truth[book] = {"author": author, "published": str(year), "publisher": firm, "set_in": place}
    return truth


def _life(
    rng: random.Random, person: str, born: Mapping[str, int], titles: Mapping[Kind, Sequence[str]]
) -> dict[str, str]:
    first, later = rng.sample(titles["town"], 2)
    life = {"born_in": first, "born": str(born[person]), "profession": rng.choice(names.TRADES), "moved_to": later}
    older = [other for other in titles["person"] if 15 <= born[person] - born[other] <= 45]
    return life | ({"studied_under": rng.choice(older)} if older else {})


def _article(rng: random.Random, title: str, kind: Kind, truth: Mapping[str, str]) -> Article:
    """Generate an article: the first relation comes first, then the others and some distractors in random order."""
    lead, *others = (relation for relation in OF[kind] if relation in truth)
    told = [relation for relation in others if rng.random() >= UNTOLD]
    asides = list[str | None](rng.sample(ASIDES[kind], rng.randrange(3, 6)))
    rest = [(relation, None) for relation in told] + [("", aside) for aside in asides]
    rng.shuffle(rest)
    sentences, facts = list[str](), dict[str, Fact]()
    for relation, aside in [(lead, None), *rest]:
        subject = title if not sentences else _short(title, kind)
        if relation:
            facts[relation] = Fact(truth[relation], truth[relation], len(sentences))
        said = aside or rng.choice(RELATIONS[relation].said)
        sentences.append(_sentence(said.format(s=subject, o=truth.get(relation), n=rng.randrange(3, 40))))
    untold = {relation: truth[relation] for relation in others if relation not in told}
    return Article(title, kind, tuple(sentences), facts, untold)


def _short(title: str, kind: Kind) -> str:
    """Return how a subject is referred to after the first sentence."""
    return {"person": title.rpartition(" ")[2], "book": "the book", "firm": "the firm", "river": "the river"}.get(
        kind, title
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
