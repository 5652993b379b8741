"""Games of WhoDunit: drawn from a seed, and stored as JSON files with the fields of the authors' `env_info`.

{"suspect_count": 2, "suspects": [{"hat": "brown"}, {"hat": "black"}], "culprit": 1, ...}: the culprit is 0-based, and
`agents` has the facts of each agent in the symmetric game. The authors drew games without a seed. Attributes come from
the published sets or a custom list.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.files import read_json_file
from sottovoce.core.validation import Checked, first_wrong
from sottovoce.environments import Split

Attributes = Mapping[str, tuple[str, ...]]
ALL: Attributes = {
    "hat": ("brown", "black"),
    "mood": ("happy", "sad"),
    "shirt_color": ("pink", "green"),
    "hobby": ("basketball", "dancing"),
    "pants": ("long", "short"),
    "pants_color": ("brown", "black"),
    # Two values in the authors' file of 20 attributes, three in the paper's table.
    "eye_color": ("blue", "brown", "green"),
    "eye_glasses": ("circular", "square"),
    "shirt": ("button-up", "tee"),
    "shoe_color": ("red", "white"),
    "hair": ("long", "short"),
    "watch": ("bronze", "silver"),
    "socks": ("dotted", "white"),
    "jacket": ("yellow", "jean"),
    "height": ("short", "tall"),
    "age": ("young", "old"),
    "build": ("medium", "muscular"),
    "personality": ("introverted", "extroverted"),
    "interests": ("sports", "arts"),
    "occupation": ("professional", "student"),
}
"""The set of 20; the first 12 are the set of the asymmetric game (appendix B of arXiv 2502.05986)."""
# No quotes and backslashes: names and values are put into JSON.
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40, pattern=r'^[^"\\\n]+$')]
Name = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^\w+$")]
_LIST: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(
    Annotated[dict[Name, Annotated[tuple[Text, ...], Field(min_length=2)]], Field(min_length=1)]
)


def attributes(n: int, of: Attributes = ALL) -> dict[str, tuple[str, ...]]:
    """Return the first `n` attributes of a set; a UsageError if it has fewer."""
    if n > len(of):
        raise UsageError(f"attributes is {n}, but the list has {len(of)}; give fewer, or a longer list")
    return dict(list(of.items())[:n])


def read_attributes(path: Path | str) -> dict[str, tuple[str, ...]]:
    """Read a custom list from a JSON file: {"car": ["red", "blue"], ...}.

    Names are words without spaces and without "-", which separates name and value in Intel's replies.

    Raises:
        UsageError: the file cannot be read or is not JSON, or an attribute has fewer than two values, or one twice.
    """
    return read_json_file(path, "attribute list", _listed)


def _listed(content: JSONValue) -> dict[str, tuple[str, ...]]:
    try:
        found = _LIST.validate_python(content)
    except ValidationError as error:
        raise UsageError(f'{first_wrong(error, "it")}, as in {{"car": ["red", "blue"]}}') from error
    if wrong := next((attribute for attribute, values in found.items() if len({*values}) < len(values)), None):
        raise UsageError(f"{wrong!r} has a value twice; expected different values")
    return found


def combinations(of: Attributes) -> int:
    """Return the number of different characters: 6,144 with the 12 published attributes."""
    return prod(map(len, of.values()))


Person = dict[Name, Text]
Fact = tuple[str, str]
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
    task_info: JSONValue = None
    previous_turns: list[JSONValue] = Field(default=[])
    agents: dict[str, list[Fact]] | None = None
    """Facts by agent; None in the asymmetric game."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Game:
        count, names = len(self.suspects), set(self.suspects[0]) if self.suspects else set()
        if count != self.suspect_count:
            raise UsageError(f"a game has {count} suspects, but suspect_count is {self.suspect_count}")
        if self.culprit >= count:
            raise UsageError(f"a game's culprit is {self.culprit}; expected 0 to {count - 1}")
        if not names or any(set(suspect) != names for suspect in self.suspects):
            raise UsageError("a game's suspects have no attributes, or not all the same ones; expected equal ones")
        if len({tuple(sorted(suspect.items())) for suspect in self.suspects}) < count:
            raise UsageError("a game has two equal suspects; expected each to differ from all others")
        facts = [fact for own in (self.agents or {}).values() for fact in own]
        if self.agents is not None and fitting(self, facts) != [self.culprit + 1]:
            raise UsageError("the facts of a game's agents must fit the culprit and nobody else; change them")
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
        known = self.values(attribute)
        named = [each for each in known if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", value, re.I)]
        return named[0] if len(named) == 1 else None

    def values(self, attribute: str) -> list[str]:
        """Return the values of an attribute: the published ones, and those in this game."""
        return [*dict.fromkeys([*ALL.get(attribute, ()), *(suspect[attribute] for suspect in self.suspects)])]


def fitting(game: Game, facts: Sequence[Fact]) -> list[int]:
    """Return the numbers of the characters that fit all facts."""
    numbers = range(1, game.suspect_count + 1)
    return [number for number in numbers if all(game.person(number).get(name) == value for name, value in facts)]


def split_of(person: Person) -> Split:
    """Return the only split in which a character may occur, so that splits share neither suspects nor culprits."""
    content = json.dumps(sorted(person.items()))
    return PARTS[hashlib.sha256(content.encode()).digest()[0] % len(PARTS)]


def drawn(
    seed: str, of: Attributes, suspects: int, agents: Sequence[str] = (), facts: int = 3, split: Split | None = None
) -> Game:
    """Draw a game from a seed; with `agents` a symmetric one, in which each agent knows this many facts.

    Raises:
        UsageError: there are fewer combinations than suspects, or too few in the `split`, or no drawn facts fit
            only one character.
    """
    if suspects > combinations(of):
        number, most = len(of), combinations(of)
        raise UsageError(f"suspects is {suspects}, but {number} attributes make {most} different ones; give fewer")
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
                f"suspects is {n}, but split {split} of {combinations(of):,} characters has fewer; "
                "give fewer suspects, or more attributes"
            )
    return people


def _with_facts(game: Game, rng: random.Random, agents: Sequence[str], n: int) -> Game:
    """Draw the agents' facts. An agent's facts have different attributes; agents may share facts."""
    person = game.person(game.winner)
    if n > len(person):
        raise UsageError(f"facts is {n}, but there are {len(person)} attributes; give fewer facts, or more attributes")
    for _ in range(DRAWS):
        dealt = {agent: [(name, person[name]) for name in rng.sample(game.names, n)] for agent in agents}
        if len(fitting(game, [fact for own in dealt.values() for fact in own])) == 1:
            return game.model_copy(update={"agents": dealt})
    raise UsageError(
        f"in {DRAWS:,} draws, the facts of {len(agents)} agents ({n} each) never fitted just one of "
        f"{game.suspect_count} suspects; give more facts or agents, or fewer suspects"
    )


def read_game(path: Path | str) -> Game:
    """Read a game from its file, or of the authors' under the key "env_info". Errors: see `read_json_file`."""

    def game(content: JSONValue) -> Game:
        return Game.model_validate(content.get("env_info", content) if isinstance(content, dict) else content)

    return read_json_file(path, "game file", game)
