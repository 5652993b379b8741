"""Questions whose facts are dealt to different agents, generated from a seed, for real language models.

`facts`, `work_facts`, `leisure_facts` and `home_facts`: a question needs two facts, each dealt to another agent. One
sample: "On which river does the town where Mira Dolan was born lie?", target "Orn", from "Mira Dolan was born in
Kestrel Bay." and "Kestrel Bay lies on the river Orn.".

`briefing`: a question about one of several facts, which only the agents that do not answer know. One sample with four
facts: "What does Mira Dolan work as?", target "baker", from "Mira Dolan works as a baker. Mira Dolan keeps 47 hens.
Alder Ford lies on the river Orn. The sister of Mira Dolan is called Anna." An agent that summarizes its facts does not
know which one will be asked.

Names are invented, so that no model can know an answer, and the words are everyday ones. The bundled model does not
know such words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from sottovoce.datasets.arithmetic import unlike
from sottovoce.nodes.question import Document, Question


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
ABOUT_LEISURE = (
    Pair(
        "{middle} is the mountain that {person} climbs each summer.",
        "Hikers on {middle} can see {end}.",
        "Which lake can be seen by hikers on the mountain that {person} climbs each summer?",
        ("Mount Ardal", "Mount Keswin", "Mount Solvay", "Mount Tarrick", "Mount Hessel", "Mount Brona"),
        ("Lake Ilmar", "Lake Corvin", "Lake Sanna", "Lake Thule", "Lake Merrow", "Lake Dunmore"),
    ),
    Pair(
        "The dancing partner of {person} is {middle}.",
        "The hobby of {middle} is {end}.",
        "What is the hobby of the dancing partner of {person}?",
        ("Anna Frey", "Ruth Calder", "Nora Penn", "Greta Voss", "Ada Lorne", "Vera Tully"),
        ("chess", "fishing", "knitting", "archery", "juggling", "rowing"),
    ),
    Pair(
        "{middle} have {person} as a soloist.",
        "In {end} {middle} perform.",
        "In which building does the choir of the soloist {person} perform?",
        ("Silver Voices", "Northern Larks", "Harbour Singers", "Velvet Choir", "Hillside Singers", "Evening Chorus"),
        ("Marble Hall", "Cedar Chapel", "Linden Hall", "Rose Chapel", "Granite Hall", "Bell Chapel"),
    ),
)
ABOUT_HOMES = (
    Pair(
        "{person} plays chess in {middle}.",
        "Everybody in {middle} has a {end} tie.",
        "Which colour has the tie of the group in which {person} plays chess?",
        ("Rook Circle", "Knight Lodge", "Castle Union", "Queen Society", "Pawn Corner", "Bishop Hall"),
        ("red", "green", "blue", "white", "black", "yellow"),
    ),
    Pair(
        "{middle} coaches {person} in tennis.",
        "Breakfast for {middle} is {end}.",
        "What is breakfast for the tennis coach of {person}?",
        ("Anna Frey", "Ruth Calder", "Nora Penn", "Greta Voss", "Ada Lorne", "Vera Tully"),
        ("porridge", "toast", "yogurt", "pancakes", "muesli", "omelette"),
    ),
    Pair(
        "The ferry that {person} steers is the {middle}.",
        "The {middle} carries {end}.",
        "What is carried by the ferry that {person} steers?",
        ("Sea Otter", "Grey Gull", "Morning Star", "Blue Heron", "North Wind", "Silver Fin"),
        ("timber", "salt", "wool", "copper", "oranges", "paper"),
    ),
)
PAIRS = {
    "facts": ABOUT_PEOPLE,
    "work_facts": ABOUT_WORK,
    "leisure_facts": ABOUT_LEISURE,
    "home_facts": ABOUT_HOMES,
}
"""The relations of each sample. No prompt was chosen on those of `home_facts`."""


def two_facts(
    n: int, agents: Sequence[str] = ("agent_1", "agent_2"), seed: int = 0, name: str = "facts"
) -> list[Question]:
    """Return up to 288 questions of a sample, each about another person; equal arguments give equal questions.

    Two agents, drawn at random, get one fact each; further agents know nothing, and a single agent knows both. The
    solution uses both facts.
    """
    people = [*_people(FIRST, f"{name}/{seed}"), *_people(MORE, f"{name}/{seed}/more")]
    questions = []
    for i, person in enumerate(people[:n]):
        rng = random.Random(f"{name}/{seed}/{i}")
        pair = rng.choice(PAIRS[name])
        known = {"person": person, "middle": rng.choice(pair.middles), "end": rng.choice(pair.ends)}
        facts = [pair.first.format(**known), pair.second.format(**known)]
        holders = rng.sample(list(agents), 2) if len(agents) > 1 else [agents[0], agents[0]]
        dealt = list(zip(facts, holders, strict=True))
        question = Question(
            id=f"{name}/{seed}/{i}",
            question=pair.question.format(**known),
            kind="text",
            target=known["end"],
            solution=f"{' '.join(facts)} The answer is {known['end']}.",
            documents={agent: [fact for fact, holder in dealt if holder == agent] for agent in agents},
        )
        questions.append(question)
    return questions


def _people(first_names: Sequence[str], seed: str) -> list[str]:
    people = [f"{first} {last}" for first in first_names for last in LAST]
    random.Random(seed).shuffle(people)
    return people


BRIEFINGS = {"briefing": 4, **{f"briefing_{facts}": facts for facts in (1, 2, 8, 16)}}
"""Number of facts of a question, by the name of the sample."""
GROUP = 4  # facts about one person and one town


class Attribute(NamedTuple):
    """Templates of a fact and of its question; `subject` is person or town, `values` names a pool."""

    subject: str
    fact: str
    question: str
    values: str


ATTRIBUTES = (
    Attribute("person", "{person} was born in {value}.", "In which town was {person} born?", "towns"),
    Attribute("person", "{person} works as a {value}.", "What does {person} work as?", "jobs"),
    Attribute("person", "{person} keeps {value} hens.", "How many hens does {person} keep?", "numbers"),
    Attribute("person", "{person} is {value} years old.", "How old is {person}?", "numbers"),
    Attribute("person", "{person} plays the {value}.", "Which instrument does {person} play?", "instruments"),
    Attribute("person", "The sister of {person} is called {value}.", "What is {person}'s sister called?", "names"),
    Attribute("person", "The front door of {person} is {value}.", "What color is {person}'s front door?", "colors"),
    Attribute("person", "{person} hides the key in a {value}.", "What does {person} hide the key in?", "places"),
    Attribute("town", "{town} lies on the river {value}.", "On which river does {town} lie?", "rivers"),
    Attribute("town", "{town} has {value} bridges.", "How many bridges does {town} have?", "numbers"),
    Attribute("town", "The mayor of {town} is called {value}.", "What is the mayor of {town} called?", "names"),
    Attribute("town", "{town} is known for its {value}.", "What is {town} known for?", "goods"),
)
LANDMARKS = (
    "Kestrel Alder Hollow Tarn Birch Sable Marrow Fenwick Otter Thistle Raven Cedar Willow Heron Flint Bramble".split()
)
ENDINGS = "Bay Ford Cross Hill End Point Gate Mill Brook Haven Dale Reach".split()
VALUES = {
    "jobs": "baker tailor potter carpenter gardener painter weaver miller cobbler dentist plumber librarian pilot "
    "surgeon teacher butcher",
    "numbers": " ".join(map(str, range(21, 99))),
    "instruments": "violin trumpet harp flute cello drums banjo piano oboe guitar tuba clarinet accordion bagpipes "
    "trombone mandolin",
    "names": "Anna Ruth Nora Greta Ada Vera Clara Maud Elsa Doris Freya Judith Paula Sofia Tilda Winnie",
    "colors": "red blue green yellow purple orange brown pink gray white black beige turquoise crimson violet silver",
    "places": "teapot boot vase basket kettle jar bucket drawer lantern barrel clock pillow hat bottle suitcase mug",
    "rivers": "Orn Velda Issel Tamsin Brue Carrow Lethe Wenlock Aske Tolle Murrow Sefton Dray Yarrick Ostra Pellin",
    "goods": "cheese lace honey soap cider pottery rope candles bread paper mustard ribbons plums beer salt carpets",
}
"""The pools of values; no word is in two of them, nor in a name or a template."""


def briefings(name: str, n: int, agents: Sequence[str] = ("agent_1", "agent_2"), seed: int = 0) -> list[Question]:
    """Return `n` different questions of one of `BRIEFINGS`; equal arguments give equal questions.

    Each fact is about another subject or attribute, and the target occurs only in the asked fact: a town that has facts
    is nobody's birthplace. The facts are dealt in turn to all agents but the last, who knows nothing; a single agent
    knows all. The solution is the asked fact.
    """
    draw = partial(_about_one_of, k=BRIEFINGS[name], agents=agents)
    # By text: nobody's attribute is asked twice.
    drawn = unlike(random.Random(f"{name}/{seed}"), draw, lambda question: question["question"])
    return [{**question, "id": f"{name}/{seed}/{i}"} for i, question in enumerate(islice(drawn, n))]


def _about_one_of(rng: random.Random, k: int, agents: Sequence[str]) -> Question:
    groups = -(-k // GROUP)
    # Within a question no name and no value occurs twice.
    people = zip(rng.sample(FIRST + MORE, groups), rng.sample(LAST, groups), strict=True)
    towns = [f"{landmark} {rng.choice(ENDINGS)}" for landmark in rng.sample(LANDMARKS, 2 * groups)]
    values = {pool: rng.sample(words.split(), k) for pool, words in VALUES.items()} | {"towns": towns[groups:]}
    subjects = [{"person": " ".join(person), "town": town} for person, town in zip(people, towns, strict=False)]
    briefing = [
        (attribute, {**subject, "value": values[attribute.values].pop()})
        for subject in subjects
        for attribute in rng.sample(ATTRIBUTES, min(k, GROUP))
    ]
    attribute, known = briefing[rng.randrange(k)]
    facts = [each.fact.format(**of_fact) for each, of_fact in briefing]
    return Question(
        id="",
        question=attribute.question.format(**known),
        kind="number" if attribute.values == "numbers" else "text",
        target=known["value"],
        solution=f"{attribute.fact.format(**known)} The answer is {known['value']}.",
        documents=to_senders(facts, agents),
    )


def to_senders(documents: Sequence[Document], agents: Sequence[str]) -> dict[str, Sequence[Document]]:
    """Deal documents in turn to all agents but the last, which answers; a single agent gets all."""
    senders = agents[:-1] or agents
    dealt = {sender: documents[place :: len(senders)] for place, sender in enumerate(senders)}
    return {agent: dealt.get(agent, []) for agent in agents}
