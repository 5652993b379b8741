"""Games of WhoDunit: drawn from a seed, and stored as JSON files with the fields of the authors' `env_info`.

{"suspect_count": 2, "suspects": [{"hat": "brown"}, {"hat": "black"}], "culprit": 1, ...}: the culprit is 0-based, and
`agents` has the facts of each agent in the symmetric game. The authors drew games without a seed.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from sottovoce.core.errors import UsageError
from sottovoce.core.validation import Checked
from sottovoce.environments.game_file import Split, read_file
from sottovoce.environments.whodunit.attributes import ALL, Attributes, Name, Text, combinations

Person = dict[Name, Text]
Fact = tuple[str, str]
"""Attribute and value."""
DRAWS = 10_000
"""Most draws of facts until they fit only one character, and most draws per character of a split."""
PARTS: tuple[Split, ...] = ("train",) * 7 + ("validation",) * 3 + ("test",) * 6
"""Splits of the sixteen parts of all characters, in the ratio of the paper's 210, 90 and 180 games."""


class Game(Checked):
    """The characters, the one to find, and in the symmetric game the facts of each agent."""

    model_config = ConfigDict(extra="ignore", frozen=True)  # the authors' files may have more fields

    format: Literal["sottovoce.whodunit"] = "sottovoce.whodunit"
    version: Literal[1] = 1
    suspect_count: int = Field(ge=2)
    suspects: list[Person]
    culprit: int = Field(ge=0)
    """0-based; agents count from 1."""
    task_info: Any = None  # Any: a field of the authors
    previous_turns: list[Any] = Field(default=[])  # Any: as above
    agents: dict[str, list[Fact]] | None = None
    """Facts by agent; None in the asymmetric game."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Game:
        found, names = len(self.suspects), set(self.suspects[0]) if self.suspects else set()
        if found != self.suspect_count:
            raise UsageError(f"a game has {found} suspects, but suspect_count is {self.suspect_count}")
        if self.culprit >= found:
            raise UsageError(f"a game's culprit is {self.culprit}; expected 0 to {found - 1}")
        if not names or any(set(each) != names for each in self.suspects):
            raise UsageError("a game's suspects have different attributes, or none; expected the same for all")
        if len({tuple(sorted(each.items())) for each in self.suspects}) < found:
            raise UsageError("a game has two equal suspects; expected each to differ from all others")
        facts = [fact for own in (self.agents or {}).values() for fact in own]
        if self.agents is not None and fitting(self, facts) != [self.culprit + 1]:
            raise UsageError("the facts of a game's agents do not fit its culprit alone; expected that they do")
        return self

    @property
    def winner(self) -> int:
        """Number of the character to find, 1-based."""
        return self.culprit + 1

    @property
    def names(self) -> list[str]:
        """Names of the attributes, in order."""
        return list(self.suspects[0])

    def person(self, number: int) -> Person:
        """Return a character by its 1-based number."""
        return self.suspects[number - 1]

    def has(self, number: int, attribute: str, value: str) -> bool:
        """Return whether a character has a value, ignoring case."""
        return self.person(number)[attribute].casefold() == value.casefold()

    def meant(self, attribute: str, value: str) -> str | None:
        """Return the value of an attribute that a text names ("a brown hat", "hat-brown"); None for none or several."""
        named = [each for each in self.values(attribute) if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", value, re.I)]
        return named[0] if len(named) == 1 else None

    def values(self, attribute: str) -> list[str]:
        """Return the values of an attribute: the published ones, and those in this game."""
        return [*dict.fromkeys([*ALL.get(attribute, ()), *(each[attribute] for each in self.suspects)])]

    def to_json(self) -> str:
        """Return the text of the game's file."""
        return self.model_dump_json(indent=1) + "\n"


def fitting(game: Game, facts: Sequence[Fact]) -> list[int]:
    """Return the numbers of the characters that fit all facts."""
    numbers = range(1, game.suspect_count + 1)
    return [number for number in numbers if all(game.person(number).get(name) == value for name, value in facts)]


def split_of(person: Person) -> Split:
    """Return the only split in which a character may occur, so that splits share neither suspects nor culprits."""
    told = json.dumps(sorted(person.items()))
    return PARTS[hashlib.sha256(told.encode()).digest()[0] % len(PARTS)]


def drawn(
    seed: str, of: Attributes, suspects: int, agents: Sequence[str] = (), facts: int = 3, split: Split | None = None
) -> Game:
    """Draw a game from a seed; with `agents` a symmetric one, in which each agent knows this many facts.

    Raises:
        UsageError: there are fewer combinations than suspects, or too few in the `split`, or no drawn facts fit
            only one character.
    """
    if suspects > combinations(of):
        found, most = len(of), combinations(of)
        raise UsageError(f"suspects is {suspects}, but {found} attributes make {most} different ones; give fewer")
    rng = random.Random(f"whodunit/{seed}")
    people = _people(rng, of, suspects, split)
    game = Game(suspect_count=suspects, suspects=people, culprit=rng.randrange(suspects))
    return _with_facts(game, rng, agents, facts) if agents else game


def _people(rng: random.Random, of: Attributes, n: int, split: Split | None) -> list[Person]:
    """Draw n different characters, all from the same split if one is named."""
    people: list[Person] = []
    draws = 0
    while len(people) < n:
        person = {name: rng.choice(values) for name, values in of.items()}
        new = person not in people and split in (None, split_of(person))
        people += [person] if new else []
        draws += 1
        if split is not None and draws > DRAWS * n:
            raise UsageError(
                f"suspects is {n}, but of {combinations(of):,} characters split {split} has fewer; "
                "give fewer suspects, or more attributes"
            )
    return people


def _with_facts(game: Game, rng: random.Random, agents: Sequence[str], n: int) -> Game:
    """Draw the agents' facts: those of one agent have different attributes, but agents may share facts."""
    person = game.person(game.winner)
    if n > len(person):
        raise UsageError(f"facts is {n}, but there are {len(person)} attributes; give fewer facts, or more attributes")
    for _ in range(DRAWS):
        told = {agent: [(name, person[name]) for name in rng.sample(game.names, n)] for agent in agents}
        if len(fitting(game, [fact for own in told.values() for fact in own])) == 1:
            return game.model_copy(update={"agents": told})
    raise UsageError(
        f"{len(agents)} agents with {n} facts each never fit one of {game.suspect_count} suspects alone "
        f"in {DRAWS:,} draws; give more facts or agents, or fewer suspects"
    )


def read_game(path: Path | str) -> Game:
    """Read a game from its file; the authors' format works too, optionally under the key "env_info".

    Raises:
        UsageError: the file cannot be read, or is not JSON or not a game; the message says what is wrong.
    """
    return read_file(path, _game)


def _game(found: Any) -> Game:  # Any: JSON
    return Game.model_validate(found["env_info"] if isinstance(found, dict) and "env_info" in found else found)
