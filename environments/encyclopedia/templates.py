"""Templates of questions, several for each, so that a question need not share its words with the article."""

from __future__ import annotations

from typing import NamedTuple


class Compared(NamedTuple):
    """Questions that compare a number of two subjects."""

    least: bool
    """True if the subject with the smaller number is the answer."""
    wordings: tuple[str, ...]


BRIDGES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("author", "born_in"): (
        "In which town was the author of {s} born?",
        "Where did the person who wrote {s} come into the world?",
        "What is the birthplace of the author of {s}?",
    ),
    ("author", "profession"): (
        "What did the author of {s} do for a living?",
        "By which trade did the person who wrote {s} live?",
    ),
    ("publisher", "seat"): (
        "In which town does the publisher of {s} have its seat?",
        "Where is the house that brought out {s} based?",
    ),
    ("set_in", "river"): (
        "On which river lies the town in which {s} is set?",
        "The story of {s} takes place in a town; which river runs through it?",
    ),
    ("founder", "born_in"): (
        "In which town was the founder of {s} born?",
        "Where was whoever founded {s} born?",
    ),
    ("founder", "studied_under"): (
        "Whose pupil was the founder of {s}?",
        "Who taught the person that founded {s}?",
    ),
    ("seat", "river"): (
        "On which river lies the town where {s} has its seat?",
        "Which river runs through the home town of {s}?",
    ),
    ("born_in", "river"): (
        "On which river lies the birthplace of {s}?",
        "Which river runs through the town where {s} was born?",
    ),
    ("born_in", "country"): (
        "In which country is the town where {s} was born?",
        "To which country does the birthplace of {s} belong?",
    ),
    ("studied_under", "born_in"): (
        "Where was the teacher of {s} born?",
        "In which town was the person born whose pupil {s} was?",
    ),
    ("country", "currency"): (
        "With which currency does one pay in {s}?",
        "What money is used in the country that {s} belongs to?",
    ),
    ("river", "mouth"): (
        "Into which water flows the river on which {s} lies?",
        "Where does the river of {s} end?",
    ),
    ("seat", "country", "currency"): (
        "What is the currency of the country in which {s} has its seat?",
        "In which money would one settle a bill at the home of {s}?",
    ),
    ("author", "born_in", "river"): (
        "Which river runs through the town where the author of {s} was born?",
        "On which river lies the birthplace of the person who wrote {s}?",
    ),
    ("born_in", "country", "capital"): (
        "What is the capital of the country in which {s} was born?",
        "Which town is the capital of the country that the birthplace of {s} belongs to?",
    ),
    ("publisher", "founder", "born_in"): (
        "Where was the founder of the house that published {s} born?",
        "In which town was the person born who founded the publisher of {s}?",
    ),
    ("founder", "studied_under", "born_in"): (
        "Where was the teacher of the founder of {s} born?",
        "In which town was the person born whose pupil founded {s}?",
    ),
    ("born_in", "river", "mouth"): (
        "Into which water flows the river that runs through the birthplace of {s}?",
        "Where does the river end on which the birthplace of {s} lies?",
    ),
}
"""Templates by the relations that lead from the subject to the answer."""
FACTS: dict[str, tuple[str, ...]] = {
    "born_in": ("In which town was {s} born?", "What is the birthplace of {s}?"),
    "profession": ("What did {s} do for a living?", "By which trade did {s} live?"),
    "studied_under": ("Whose pupil was {s}?", "Who taught {s}?"),
    "author": ("Who wrote {s}?", "Who is the author of {s}?"),
    "publisher": ("Which house brought out {s}?", "Who published {s}?"),
    "founder": ("Who founded {s}?", "By whom was {s} set up?"),
    "river": ("On which river does {s} lie?", "Which river runs through {s}?"),
    "mouth": ("Into which water does {s} flow?", "Where does {s} end?"),
    "currency": ("With which currency does one pay in {s}?", "What money is used in {s}?"),
    "capital": ("Which town is the capital of {s}?", "What is the capital of {s}?"),
}
"""Templates by the relation that is asked about."""
COMPARED: dict[str, Compared] = {
    "born": Compared(True, ("Who was born earlier, {a} or {b}?", "Of {a} and {b}, who was born first?")),
    "founded": Compared(True, ("Which town is older, {a} or {b}?", "Which was founded first, {a} or {b}?")),
    "established": Compared(True, ("Which firm is older, {a} or {b}?", "Which was set up first, {a} or {b}?")),
    "published": Compared(True, ("Which book came out first, {a} or {b}?", "Which is the older book, {a} or {b}?")),
    "length": Compared(False, ("Which river is longer, the {a} or the {b}?",)),
}
"""Templates by the relation that is compared."""
