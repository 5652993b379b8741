"""Kinds of subjects, their relations, and the sentences that state them in articles.

In a sentence {s} is the subject and {o} the object of the relation. Each sentence of a relation contains one of its
cues: the word that a reader of the question would look up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["person", "town", "country", "river", "book", "firm"]
KINDS: tuple[Kind, ...] = ("person", "town", "country", "river", "book", "firm")


class Relation(NamedTuple):
    """One relation; a subject has at most one object in it."""

    of: Kind
    to: str
    """Kind of the object, or "year", "number" or "word" for a value without an article."""
    said: tuple[str, ...]
    cues: tuple[str, ...]
    claim: str
    """Template of a claim to be checked."""


RELATIONS: dict[str, Relation] = {
    "born_in": Relation(
        "person",
        "town",
        (
            "{s} was born in {o}.",
            "The parish books have {s} born in {o}, the third of five children.",
            "{s} was born in {o}, in a house that is still shown to visitors.",
        ),
        ("born",),
        "{s} was born in {o}.",
    ),
    "born": Relation(
        "person",
        "year",
        (
            "{s} was born in the winter of {o}.",
            "The year in which {s} was born is given as {o}.",
            "{s}, born in {o}, outlived two doctors.",
        ),
        ("born",),
        "{s} was born in the year {o}.",
    ),
    "profession": Relation(
        "person",
        "word",
        (
            "{s} earned a living as {o}.",
            "By trade {s} was {o}, and never wished to be anything else.",
            "{s} worked as {o} for most of a long life.",
        ),
        ("living", "trade", "worked"),
        "{s} worked as {o}.",
    ),
    "studied_under": Relation(
        "person",
        "person",
        (
            "As a pupil of {o}, {s} learned to work slowly.",
            "{s} was a pupil of {o} for three years.",
            "The best known pupil of {o} was {s}, who later denied having learned anything.",
        ),
        ("pupil",),
        "{s} was a pupil of {o}.",
    ),
    "moved_to": Relation(
        "person",
        "town",
        (
            "In middle age {s} moved to {o} and stayed there.",
            "{s} moved to {o} after a quarrel over an inheritance.",
            "Later {s} moved to {o}, where rooms were cheap.",
        ),
        ("moved",),
        "{s} moved to {o}.",
    ),
    "river": Relation(
        "town",
        "river",
        (
            "{s} stands on the river {o}.",
            "The river {o} runs through {s} in two arms.",
            "{s} grew up around a ford over the river {o}.",
        ),
        ("river",),
        "{s} lies on the river {o}.",
    ),
    "country": Relation(
        "town",
        "country",
        (
            "{s} belongs to the country of {o}.",
            "{s} is a town in the country of {o}.",
            "Since the last treaty {s} has been part of the country of {o}.",
        ),
        ("country",),
        "{s} is in {o}.",
    ),
    "founded": Relation(
        "town",
        "year",
        (
            "{s} was founded in {o}.",
            "A stone over the gate says that {s} was founded in {o}.",
            "Chronicles agree that {s} was founded in {o}, after the great flood.",
        ),
        ("founded",),
        "{s} was founded in {o}.",
    ),
    "known_for": Relation(
        "town",
        "word",
        (
            "{s} is known for its {o}.",
            "Abroad {s} is known for little but its {o}.",
            "Travellers know {s} as the town known for {o}.",
        ),
        ("known",),
        "{s} is known for its {o}.",
    ),
    "capital": Relation(
        "country",
        "town",
        (
            "The capital of {s} is {o}.",
            "Its parliament sits in {o}, the capital.",
            "{o} has been the capital of {s} since the union.",
        ),
        ("capital",),
        "The capital of {s} is {o}.",
    ),
    "currency": Relation(
        "country",
        "word",
        (
            "The currency of {s} is the {o}.",
            "Prices are given in the {o}, its currency.",
            "The {o} has been the currency of {s} for two centuries.",
        ),
        ("currency",),
        "The currency of {s} is the {o}.",
    ),
    "language": Relation(
        "country",
        "word",
        (
            "The language of schools and courts in {s} is {o}.",
            "Most people in {s} speak {o}, a language with few written rules.",
            "{o} is the only language in which laws of {s} are printed.",
        ),
        ("language",),
        "The language of {s} is {o}.",
    ),
    "mouth": Relation(
        "river",
        "word",
        (
            "{s} flows into the {o}.",
            "After its last bend {s} flows into the {o}.",
            "{s} flows into the {o} between two lighthouses.",
        ),
        ("flows",),
        "The river {s} flows into the {o}.",
    ),
    "length": Relation(
        "river",
        "number",
        (
            "{s} is {o} kilometres long.",
            "Surveyors made {s} {o} kilometres long.",
            "From source to mouth {s} is {o} kilometres long.",
        ),
        ("long",),
        "The river {s} is {o} kilometres long.",
    ),
    "rises_in": Relation(
        "river",
        "word",
        (
            "{s} rises in the {o}.",
            "The highest of the springs from which {s} rises is in the {o}.",
            "{s} rises in the {o}, under a chapel.",
        ),
        ("rises",),
        "The river {s} rises in the {o}.",
    ),
    "author": Relation(
        "book",
        "person",
        (
            "{s} is a book by the author {o}.",
            "The author of {s} is {o}.",
            "{s} was written by {o}, an author of few other books.",
        ),
        ("author",),
        "The author of {s} is {o}.",
    ),
    "published": Relation(
        "book",
        "year",
        (
            "{s} was published in {o}.",
            "It was first published in {o}, in a printing of three hundred.",
            "{s} was published in the spring of {o}.",
        ),
        ("published",),
        "{s} was published in {o}.",
    ),
    "publisher": Relation(
        "book",
        "firm",
        (
            "The publisher was {o}.",
            "{o} was the publisher, after two others had declined.",
            "Its publisher, {o}, printed it on thin paper.",
        ),
        ("publisher",),
        "The publisher of {s} is {o}.",
    ),
    "set_in": Relation(
        "book",
        "town",
        (
            "It is set in {o}.",
            "The story is set in {o}, in a single week.",
            "All but one chapter is set in {o}.",
        ),
        ("set",),
        "{s} is set in {o}.",
    ),
    "founder": Relation(
        "firm",
        "person",
        (
            "The founder of {s} was {o}.",
            "{s} owes its name and its debts to its founder, {o}.",
            "{o}, its founder, kept the keys of {s} to the end.",
        ),
        ("founder",),
        "The founder of {s} was {o}.",
    ),
    "seat": Relation(
        "firm",
        "town",
        (
            "{s} has its seat in {o}.",
            "The seat of {s} is in {o}, behind the corn market.",
            "{s} has had its seat in {o} from the beginning.",
        ),
        ("seat",),
        "{s} has its seat in {o}.",
    ),
    "established": Relation(
        "firm",
        "year",
        (
            "{s} was established in {o}.",
            "{s} was established in {o} with borrowed money.",
            "The sign at the door reads: established in {o}.",
        ),
        ("established",),
        "{s} was established in {o}.",
    ),
    "makes": Relation(
        "firm",
        "word",
        (
            "{s} makes {o}.",
            "{s} makes {o}, and has never made anything else.",
            "Today {s} makes {o} for buyers abroad.",
        ),
        ("makes",),
        "{s} makes {o}.",
    ),
}
OF: dict[Kind, tuple[str, ...]] = {
    kind: tuple(name for name, relation in RELATIONS.items() if relation.of == kind) for kind in KINDS
}
"""Relations of each kind; the first one is stated in the first sentence and never left out."""
