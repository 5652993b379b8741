"""The generated part of the encyclopedia: facts drawn from a seed, and articles that state them.

`names.yaml` has the parts of names and the values, `sentences.yaml` the relations and the sentences that state them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from sottovoce.environments.encyclopedia.articles import Article, Fact

FOLDER = Path(__file__).parent
Kind = Literal["person", "town", "country", "river", "book", "firm"]
KINDS: tuple[Kind, ...] = ("person", "town", "country", "river", "book", "firm")
HOW_MANY: dict[Kind, int] = {"person": 120, "town": 60, "country": 10, "river": 20, "book": 120, "firm": 70}
UNTOLD = 0.12
"""Probability that a fact is left out of an article."""
FIRST, LAST = 1690, 1890  # years of birth

Truth = dict[str, dict[str, str]]
"""Objects by subject and relation."""


class Relation(NamedTuple):
    """One relation; a subject has at most one object in it."""

    of: Kind
    to: str
    """Kind of the object, or "year", "number" or "word" for a value without an article."""
    sentences: tuple[str, ...]
    cues: tuple[str, ...]
    """Words that a reader of the question would look up; each sentence contains one."""
    claim: str
    """Template of a claim to be checked."""


def read_data(name: str) -> Any:  # Any: YAML
    """Read a data file of the encyclopedia."""
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


NAMES: dict[str, list[str]] = read_data("names.yaml")
_SENTENCES = read_data("sentences.yaml")
RELATIONS = {
    name: Relation(kind, data["object"], tuple(data["sentences"]), tuple(data["cues"]), data["claim"])
    for kind in KINDS
    for name, data in _SENTENCES[kind]["relations"].items()
}
OF: dict[Kind, tuple[str, ...]] = {kind: tuple(_SENTENCES[kind]["relations"]) for kind in KINDS}
"""Relations of each kind; the first one is stated in the first sentence and never left out."""
DISTRACTORS: dict[Kind, list[str]] = {kind: [*_SENTENCES[kind]["distractors"]] for kind in KINDS}


def generate(seed: int, taken: Sequence[str] = ()) -> list[Article]:
    """Generate the articles of a seed, by kind; no title is in `taken`."""
    rng = random.Random(f"encyclopedia/{seed}")
    titles = _titles(rng, set(taken))
    truth = _truth(rng, titles)
    return [_article(rng, title, kind, truth[title]) for kind in KINDS for title in titles[kind]]


def _titles(rng: random.Random, taken: set[str]) -> dict[Kind, list[str]]:
    """Draw titles without repetition, joined from one random item of each of their parts."""
    parts: dict[Kind, tuple[str, str, tuple[str, ...]]] = {  # text before, text between, names of the parts
        "person": ("", " ", ("first_names", "last_names")),
        "town": ("", "", ("town_beginnings", "town_endings")),
        "country": ("", "", ("countries",)),
        "river": ("", "", ("rivers",)),
        "book": ("The ", " ", ("book_adjectives", "book_nouns")),
        "firm": ("", "", ("last_names", "firm_endings")),
    }
    titles: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        before, between, names = parts[kind]
        while len(titles[kind]) < HOW_MANY[kind]:
            title = before + between.join(rng.choice(NAMES[name]) for name in names)
            if title not in taken:
                titles[kind].append(title)
                taken.add(title)
    return titles


def _truth(rng: random.Random, titles: Mapping[Kind, Sequence[str]]) -> Truth:
    """Draw all facts; years are consistent: nobody writes as a child, or learns from a younger person."""
    born = dict(zip(titles["person"], rng.choices(range(FIRST, LAST), k=len(titles["person"])), strict=True))
    truth: Truth = {person: _life(rng, person, born, titles) for person in titles["person"]}
    currencies, languages = (iter(rng.sample(NAMES[name], len(NAMES[name]))) for name in ("currencies", "languages"))
    land = {town: titles["country"][i % len(titles["country"])] for i, town in enumerate(titles["town"])}
    for town in titles["town"]:
        founded, specialty = rng.randrange(900, 1600), rng.choice(NAMES["specialties"])
        river = rng.choice(titles["river"])
        truth[town] = {"river": river, "country": land[town], "founded": str(founded), "known_for": specialty}
    for country in titles["country"]:
        capital = rng.choice([town for town in titles["town"] if land[town] == country])
        truth[country] = {"capital": capital, "currency": next(currencies), "language": next(languages)}
    for river, length in zip(titles["river"], rng.sample(range(60, 900), len(titles["river"])), strict=True):
        sea, highland = rng.choice(NAMES["seas"]), rng.choice(NAMES["highlands"])
        truth[river] = {"mouth": sea, "length": str(length), "rises_in": highland}
    for firm in titles["firm"]:
        founder = rng.choice(titles["person"])
        year, seat = born[founder] + rng.randrange(22, 55), rng.choice(titles["town"])
        product = rng.choice(NAMES["products"])
        truth[firm] = {"founder": founder, "seat": seat, "established": str(year), "makes": product}
    for book in titles["book"]:
        author = rng.choice(titles["person"])
        year, firm, place = born[author] + rng.randrange(24, 62), rng.choice(titles["firm"]), rng.choice(titles["town"])
        truth[book] = {"author": author, "published": str(year), "publisher": firm, "set_in": place}
    return truth


def _life(
    rng: random.Random, person: str, born: Mapping[str, int], titles: Mapping[Kind, Sequence[str]]
) -> dict[str, str]:
    town, later = rng.sample(titles["town"], 2)
    profession = rng.choice(NAMES["professions"])
    life = {"born_in": town, "born": str(born[person]), "profession": profession, "moved_to": later}
    older = [teacher for teacher in titles["person"] if 15 <= born[person] - born[teacher] <= 45]
    return life | ({"studied_under": rng.choice(older)} if older else {})


def _article(rng: random.Random, title: str, kind: Kind, truth: Mapping[str, str]) -> Article:
    """Generate an article: the first relation comes first, then the others and some distractors in random order."""
    lead, *others = (relation for relation in OF[kind] if relation in truth)
    stated = [relation for relation in others if rng.random() >= UNTOLD]
    distractors = list[str | None](rng.sample(DISTRACTORS[kind], rng.randrange(3, 6)))
    rest = [(relation, None) for relation in stated] + [("", text) for text in distractors]
    rng.shuffle(rest)
    sentences, facts = list[str](), dict[str, Fact]()
    for relation, distractor in [(lead, None), *rest]:
        subject = title if not sentences else _short(title, kind)
        if relation:
            facts[relation] = Fact(truth[relation], truth[relation], len(sentences))
        template = distractor or rng.choice(RELATIONS[relation].sentences)
        sentence = template.format(s=subject, o=truth.get(relation), n=rng.randrange(3, 40))
        sentences.append(sentence[:1].upper() + sentence[1:])
    untold = {relation: truth[relation] for relation in others if relation not in stated}
    return Article(title, kind, tuple(sentences), facts, untold)


def _short(title: str, kind: Kind) -> str:
    """Return how a subject is referred to after the first sentence."""
    return (
        title.rpartition(" ")[2] if kind == "person" else f"the {kind}" if kind in ("book", "firm", "river") else title
    )
