"""Published claims in WhoDunit, true or not, and what follows from them for the Accuser and for blunders."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from sottovoce.environments.whodunit.actions import is_of_intel
from sottovoce.environments.whodunit.games import Game


class Claim(TypedDict):
    """A statement of Intel, true or not."""

    attribute: str
    value: str
    people: list[int]
    truth: bool
    """False if the claim says that the characters do not have the value."""
    broad: bool
    """True for a list of all who have the value."""


def claimed(game: Game, claim: Claim) -> str | None:
    """Return the value that a claim is about; None if it names no value at all, as in "does 3 wear a yes hat?".

    A value that no character has is returned as written: a claim that a character has it is false.
    """
    value = game.meant(claim["attribute"], claim["value"])
    return value if value or is_of_intel(claim["value"], game.names) else claim["value"]


def believed(game: Game, claims: Sequence[Claim]) -> dict[tuple[str, str, int], bool]:
    """Return by attribute, value and character whether the claims say so; if two differ, the later one counts."""
    said: dict[tuple[str, str, int], bool] = {}
    for claim in claims:
        value = claimed(game, claim)
        if value is None:
            continue
        numbers = range(1, game.suspect_count + 1) if claim["broad"] else claim["people"]
        said |= {(claim["attribute"], value, each): (each in claim["people"]) == claim["truth"] for each in numbers}
    return said


def ruled_out(game: Game, claims: Sequence[Claim]) -> set[int]:
    """Return the characters that differ from the winner according to the claims."""
    sought = game.person(game.winner)
    said = believed(game, claims).items()
    return {number for (name, value, number), so in said if so != (sought[name] == value)}
