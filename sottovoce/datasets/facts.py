"""Questions that need two facts, each dealt to a different agent, generated from a seed.

One sample: "On which river does the town where Mira Dolan was born lie?", target "Orn", from "Mira Dolan
was born in Kestrel Bay." and "Kestrel Bay lies on the river Orn.".

For real language models: names are invented, so that no model can know an answer, and the words are everyday
ones. The bundled model does not know such words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from sottovoce.nodes.question import Question


class Pair(NamedTuple):
    """Templates of two facts that share {middle}, and of the question that needs both."""

    first: str
    second: str
    question: str
    middles: tuple[str, ...]
    ends: tuple[str, ...]


FIRST = tuple("Mira Tobias Ilse Oren Lena Caspar Edda Jonas Nadia Bruno Petra Anselm".split())
MORE = tuple("Selma Viktor Hedda Lukas Irina Matteo Thea Rufus Livia Emil Agnes Konrad".split())
LAST = tuple("Dolan Renn Varga Pike Stroud Holm Marsh Quill Sorel Thorne Ferro Brandt".split())
TOWNS = ("Kestrel Bay", "Alder Ford", "Hollow Cross", "Tarn Hill", "Birch End", "Sable Point", "Marrow Gate", "Fenwick")
ABOUT_PEOPLE = (
    Pair(
        "{person} was born in {middle}.",
        "{middle} lies on the river {end}.",
        "On which river does the town where {person} was born lie?",
        TOWNS,
        ("Orn", "Velda", "Issel", "Tamsin", "Brue", "Carrow", "Lethe", "Wenlock"),
    ),
    Pair(
        "{person} lives in {middle}.",
        "Market day in {middle} is {end}.",
        "On which day of the week is market day in the town where {person} lives?",
        TOWNS,
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    ),
    Pair(
        "The sister of {person} is {middle}.",
        "{middle} works as a {end}.",
        "What does the sister of {person} work as?",
        ("Anna Frey", "Ruth Calder", "Nora Penn", "Greta Voss", "Ada Lorne", "Vera Tully"),
        ("baker", "tailor", "potter", "carpenter", "gardener", "painter"),
    ),
)
ABOUT_WORK = (
    Pair(
        "{person} has a workshop in {middle}.",
        "The people of {middle} speak {end}.",
        "Which language is spoken in the country where {person} has a workshop?",
        ("Marland", "Velmark", "Osterra", "Tuvania", "Corland", "Brenia"),
        ("Danish", "Polish", "Greek", "Turkish", "Welsh", "Finnish"),
    ),
    Pair(
        "{person} works for {middle}.",
        "The head office of {middle} is in {end}.",
        "In which city is the head office of the company that {person} works for?",
        ("Larkin Brothers", "Northgate Mills", "Silverline", "Harrow and Sons", "Bellweather", "Redfern Press"),
        ("Lisbon", "Geneva", "Oslo", "Vienna", "Dublin", "Prague"),
    ),
    Pair(
        "The manager of {person} is {middle}.",
        "The car of {middle} is {end}.",
        "Which colour is the car of the manager of {person}?",
        ("Anna Frey", "Ruth Calder", "Nora Penn", "Greta Voss", "Ada Lorne", "Vera Tully"),
        ("red", "green", "blue", "white", "black", "yellow"),
    ),
)
PAIRS = {"facts": ABOUT_PEOPLE, "work_facts": ABOUT_WORK}
"""The relations of each sample."""


def two_facts(
    n: int, agents: Sequence[str] = ("agent_1", "agent_2"), seed: int = 0, name: str = "facts"
) -> list[Question]:
    """Return up to 288 questions of a sample, each about another person, the same ones for the same arguments.

    Two agents, drawn at random, get one fact each; further agents know nothing, and a single agent knows both. The
    solution uses both facts.
    """
    people = [*_people(FIRST, f"{name}/{seed}"), *_people(MORE, f"{name}/{seed}/more")]
    return [_question(f"{name}/{seed}/{i}", PAIRS[name], person, agents) for i, person in enumerate(people[:n])]


def _people(first_names: Sequence[str], seed: str) -> list[str]:
    people = [f"{first} {last}" for first in first_names for last in LAST]
    random.Random(seed).shuffle(people)
    return people


def _question(id: str, pairs: Sequence[Pair], person: str, agents: Sequence[str]) -> Question:
    rng = random.Random(id)
    pair = rng.choice(pairs)
    known = {"person": person, "middle": rng.choice(pair.middles), "end": rng.choice(pair.ends)}
    facts = [pair.first.format(**known), pair.second.format(**known)]
    holders = rng.sample(list(agents), 2) if len(agents) > 1 else [agents[0], agents[0]]
    return Question(
        id=id,
        question=pair.question.format(**known),
        kind="text",
        target=known["end"],
        solution=f"{' '.join(facts)} The answer is {known['end']}.",
        documents={
            agent: [fact for fact, holder in zip(facts, holders, strict=True) if holder == agent] for agent in agents
        },
    )
