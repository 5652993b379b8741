"""Invented names, drawn without repetition: no model has read about them, so answers must be looked up."""

from __future__ import annotations

import random
from collections.abc import Sequence

FIRST = tuple(
    "Aldo Berrin Calla Dorrit Edvin Fenna Gorm Hesper Ivo Jorun Kestin Linnea Maris Nolle Ottil Perrin Quill Runa "
    "Sorrel Tamsel Ulric Vesna Wendel Ysolde".split()
)
LAST = tuple(
    "Abberly Brask Corvane Dunlow Elsgood Farrand Grimwade Hollis Ingram Jessop Kellaway Lorimer Maddern Norrey "
    "Oxley Pellow Quarles Rendell Sallow Thrale Umber Vantry Wexcombe Yarrow Zeal Ashdown Birkwith Cragg".split()
)
TOWN_BEGINS = tuple(
    "Amber Barrow Copper Dray Elder Flint Gannet Harrow Iron Juniper Kiln Larch Mallow Nettle Otter Pewter".split()
)
TOWN_ENDS = ("bridge", "combe", "dale", " Ferry", "gate", " Haven", "mouth", " Quay", "stead", "wick")
COUNTRIES = tuple("Averne Brandel Corrimar Dastland Elvoria Fennmark Gallowen Hestria Isleworn Jorvane".split())
RIVERS = tuple(
    "Arlo Bresk Calwe Dorn Enner Farrow Gleam Hesk Irwe Jorl Kenn Lammer Morwe Nadder Osk Parrow Quern Rill Senn "
    "Tarwe".split()
)
CURRENCIES = tuple("bellin corvat dranic eskel florat grotel hallin jarrow kreft lumer".split())
LANGUAGES = tuple("Avernish Brandic Corrish Dastic Elvoric Fennic Gallish Hestric Islic Jorvic".split())
SEAS = ("Sea of Glass", "Grey Sound", "Lantern Sea", "Gulf of Herons", "Salt Lake", "Long Firth", "Bay of Reeds")
HEIGHTS = ("Ash Hills", "Candle Mountains", "Low Fells", "Marl Ridge", "Sheep Downs", "Wether Alps", "Owl Heights")
TRADES = (
    "a bell founder",
    "a bookbinder",
    "a cartographer",
    "a clockmaker",
    "a glass blower",
    "a lighthouse keeper",
    "a midwife",
    "an organ builder",
    "a printer",
    "a saddler",
    "a schoolteacher",
    "a surveyor",
)
FAME = ("blue glass", "cider", "eel pies", "felt hats", "lace", "paper kites", "pears", "rope", "salt", "violins")
GOODS = ("barometers", "bicycles", "buttons", "globes", "inks", "looms", "maps", "pianos", "pumps", "type and books")
BOOK_ADJECTIVES = tuple(
    "Crooked Drowned Early Frozen Golden Hidden Idle Last Mended Narrow Quiet Second Silent Stolen Tin".split()
)
BOOK_NOUNS = tuple(
    "Almanac Bellman Candle Ditch Errand Ferryman Garden Harvest Island Juror Keeper Lantern Mirror Orchard "
    "Passage Road Sexton Tithe".split()
)
FIRM_ENDS = (" & Sons", " & Daughters", " Brothers", " Works", " and Company", " Press")


class Draw:
    """A generator of names that never returns a name twice, or one that is taken."""

    def __init__(self, rng: random.Random, taken: Sequence[str]) -> None:
        self._rng, self._taken = rng, set(taken)

    def of(self, *parts: Sequence[str], between: str = "", before: str = "") -> str:
        """Return a new name, joined from one random item of each of these parts, in order."""
        while True:
            name = before + between.join(self._rng.choice(part) for part in parts)
            if name not in self._taken:
                self._taken.add(name)
                return name

    def person(self) -> str:
        """Return a first and a last name."""
        return self.of(FIRST, LAST, between=" ")

    def town(self) -> str:
        """Return a town's name of one or two words."""
        return self.of(TOWN_BEGINS, TOWN_ENDS)

    def book(self) -> str:
        """Return a book's title, which starts with "The"."""
        return self.of(BOOK_ADJECTIVES, BOOK_NOUNS, between=" ", before="The ")

    def firm(self) -> str:
        """Return a firm's name, which contains a family's."""
        return self.of(LAST, FIRM_ENDS)
