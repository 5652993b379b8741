"""Questions whose answer takes several steps over facts that only the senders know, generated from a seed.

`briefing_sums`: quantities of four people, and a question about three or all of them, so two or three additions. One
sample: "How many hens do Mira Dolan, Oren Pike and Ilse Varga keep together?", target "34", solution
"12 + 7 = 19; 19 + 15 = 34. The answer is 34." `briefing_sum`: of two of them, and below 20, so one small addition.

`briefing_order`: three comparisons that put four people in order, shuffled, and a question about one end of it. One
sample: "Who is the oldest of Mira Dolan, Oren Pike, Ilse Varga and Lena Holm?", target "Oren Pike". A guess is right in
a quarter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from sottovoce.datasets.arithmetic import solution, unlike
from sottovoce.datasets.facts import FIRST, LAST, MORE, to_senders
from sottovoce.nodes.question import Question

PEOPLE = 4  # people of a question
LARGEST = 20  # largest quantity of one person
THINGS = {"hens": "keep", "boats": "own", "books": "lend", "barrels": "store", "letters": "post", "lamps": "repair"}
"""Things that are counted, and what people do with them."""


class Order(NamedTuple):
    """Words for an order: more than another, less than another, and both ends."""

    more: str
    less: str
    most: str
    least: str


ORDERS = (
    Order("older", "younger", "oldest", "youngest"),
    Order("taller", "shorter", "tallest", "shortest"),
    Order("faster", "slower", "fastest", "slowest"),
    Order("richer", "poorer", "richest", "poorest"),
)


class Drawn(NamedTuple):
    """A question before its documents are dealt."""

    facts: list[str]
    question: str
    target: str
    solution: str


def _sum(rng: random.Random, largest: int = LARGEST, terms: Sequence[int] = (PEOPLE - 1, PEOPLE)) -> Drawn:
    people, thing = _people(rng), rng.choice([*THINGS])
    verb, numbers = THINGS[thing], [rng.randint(2, largest) for _ in range(PEOPLE)]
    facts = [f"{person} {verb}s {number} {thing}." for person, number in zip(people, numbers, strict=True)]
    asked = rng.sample(range(PEOPLE), rng.choice(terms))
    totals = [*accumulate(numbers[at] for at in asked)]
    steps = [(before, "+", numbers[at], after) for at, (before, after) in zip(asked[1:], pairwise(totals), strict=True)]
    names = _joined([people[at] for at in asked])
    return Drawn(facts, f"How many {thing} do {names} {verb} together?", str(totals[-1]), solution(steps))


def _small_sum(rng: random.Random) -> Drawn:
    """Draw one addition below 20; its solution repeats the facts, since so few numbers make equal sums."""
    drawn = _sum(rng, largest=9, terms=(2,))
    needed = [fact for fact in drawn.facts if " ".join(fact.split()[:2]) in drawn.question]
    return drawn._replace(solution=f"{' '.join(needed)} {drawn.solution}")


def _order(rng: random.Random) -> Drawn:
    people, words = _people(rng), rng.choice(ORDERS)
    facts = [
        f"{more} is {words.more} than {less}." if rng.random() < 0.5 else f"{less} is {words.less} than {more}."
        for more, less in pairwise(people)
    ]
    most = rng.random() < 0.5
    target = people[0] if most else people[-1]
    working = f"From the {words.most} to the {words.least}: {', '.join(people)}. The answer is {target}."
    shuffled = _joined(rng.sample(people, PEOPLE))
    question = f"Who is the {words.most if most else words.least} of {shuffled}?"
    return Drawn(rng.sample(facts, len(facts)), question, target, working)


STEPS: Mapping[str, Callable[[random.Random], Drawn]] = {
    "briefing_sum": _small_sum,
    "briefing_sums": _sum,
    "briefing_order": _order,
}
"""The generators, by the name of the sample."""


def steps(name: str, n: int, agents: Sequence[str] = ("agent_1", "agent_2"), seed: int = 0) -> list[Question]:
    """Return `n` different questions of one of `STEPS`; equal arguments give equal questions.

    The facts are dealt in turn to all agents but the last, who knows nothing; a single agent knows all. No name occurs
    twice in a question.
    """
    different = unlike(random.Random(f"{name}/{seed}"), STEPS[name], lambda drawn: drawn.question)
    kind = "text" if name == "briefing_order" else "number"
    return [
        Question(
            id=f"{name}/{seed}/{i}",
            question=drawn.question,
            kind=kind,
            target=drawn.target,
            solution=drawn.solution,
            documents=to_senders(drawn.facts, agents),
        )
        for i, drawn in enumerate(islice(different, n))
    ]


def _people(rng: random.Random) -> list[str]:
    first, last = rng.sample(FIRST + MORE, PEOPLE), rng.sample(LAST, PEOPLE)
    return [" ".join(name) for name in zip(first, last, strict=True)]


def _joined(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
