"""Training data of monitors: one row for each turn, as JSON Lines, and the games that the rows form.

    {"game": "17", "turn": 3, "role": "accuser", "features": {"entropy": 0.8, ...}, "failed": true}

`features` is null if a reply has no selected position; such a row has no score. `failed` refers to the whole game.
`question`, if present, is the subject of the game. Games of one question resemble each other, so they are never on both
sides of a split. `measured`, if present, says how features were measured (`Measure`) and is the same in all rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import bytes_of
from sottovoce.core.validation import Checked
from sottovoce.monitors.settings import ALL, TURN, Measure

Floats = NDArray[np.float64]


class Row(Checked):
    """One turn of one role in one game."""

    game: str | int
    turn: int = Field(ge=0)
    role: str
    features: dict[str, FiniteFloat] | None
    failed: bool
    question: str | int | None = None
    """None if no other game has the same question."""
    measured: Measure | None = None


@dataclass(frozen=True)
class Games:
    """The turns of one role that have features, by game."""

    role: str
    names: list[str | int]
    failed: NDArray[np.bool_]
    """One value for each game."""
    question: NDArray[np.intp]
    """Question of each game, numbered from 0 in the order of the games."""
    game: NDArray[np.intp]
    """Game of each turn, as an index into `names`; a game without turns never triggers."""
    columns: dict[str, Floats]
    """For each feature, including `turn`, one value for each turn."""
    measured: Measure | None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def turns(self) -> NDArray[np.intp]:
        """Number of turns of each game."""
        return np.bincount(self.game, minlength=len(self))

    def highest(self, scores: Floats) -> Floats:
        """Return the highest score over the turns of each game; minus infinity for a game without turns."""
        highest = np.full(len(self), -np.inf)
        np.maximum.at(highest, self.game, scores)
        return highest

    def part(self, games: Sequence[int]) -> Games:
        """Return these games, in this order."""
        new = np.full(len(self), -1, dtype=np.intp)
        new[list(games)] = np.arange(len(games))
        of = new[self.game]
        columns = {name: values[of >= 0] for name, values in self.columns.items()}
        names = [self.names[at] for at in games]
        question = _numbered(self.question[list(games)].tolist())
        return Games(self.role, names, self.failed[list(games)], question, of[of >= 0], columns, self.measured)


@dataclass(frozen=True)
class RowFile:
    """The rows of a file."""

    path: Path
    digest: str
    """SHA-256 of its bytes, in hexadecimal."""
    rows: list[Row]

    @property
    def name(self) -> str:
        """Name in error messages."""
        return _called(self.path)

    def games(self, role: str | None = None) -> Games:
        """Return the games of one role, or of `all` roles together; None selects the only role.

        Raises:
            UsageError: there are several roles and `role` is None, no row has this role, or rows contradict each other.
        """
        roles = list(dict.fromkeys(row.role for row in self.rows))
        if role is None and len(roles) > 1:
            raise UsageError(
                f"{self.name} has rows of {len(roles)} roles; choose one: {', '.join(sorted(roles))}, or {ALL}"
            )
        if role == ALL:
            return replace(games_of(self.rows, self.name), role=ALL)
        role = roles[0] if role is None else role
        if role not in roles:
            raise UsageError(nearest("role", role, roles))
        return games_of([row for row in self.rows if row.role == role], self.name)


def read_rows(path: Path) -> RowFile:
    """Read a file of rows.

    Raises:
        UsageError: it cannot be read, has no rows, or a line is not a row; the message names the line.
    """
    name = _called(path)
    try:
        data = bytes_of(path)
        lines = data.decode("utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
    rows = [_row(line, f"line {number} of {name}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise UsageError(f"{name} is empty; expected a line of JSON for each turn")
    return RowFile(path, hashlib.sha256(data).hexdigest(), rows)


def games_of(rows: Sequence[Row], name: str = "rows") -> Games:
    """Return the games of rows, in order of first appearance."""
    first: dict[str | int, Row] = {}
    for row in rows:
        before = first.setdefault(row.game, row)
        if before.failed is not row.failed:
            raise UsageError(f"{name}: game {row.game!r} failed in one row and not in another; expected all alike")
        _the_only(f"{name}, game {row.game!r}", [before.question, row.question], "question")
    failed = np.array([row.failed for row in first.values()], dtype=bool)
    question = _numbered([game if row.question is None else row.question for game, row in first.items()])
    with_features = [(row, row.features) for row in rows if row.features is not None]
    measured = _the_only(name, [row.measured for row in rows], "measured")
    features = _the_only(name, [tuple(sorted(values)) for _, values in with_features] or [()], "features")
    columns = {name: np.array([values[name] for _, values in with_features]) for name in features}
    columns[TURN] = np.array([float(row.turn) for row, _ in with_features])
    places = {game: at for at, game in enumerate(first)}
    game = np.array([places[row.game] for row, _ in with_features], dtype=np.intp)
    return Games(rows[0].role, list(first), failed, question, game, columns, measured)


def _numbered(keys: Sequence[Hashable]) -> NDArray[np.intp]:
    """Return a number for each key, from 0 in order of first appearance."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.intp)


def _called(path: Path) -> str:
    return f"file of rows {str(path)!r}"


def _row(line: str, where: str) -> Row:
    try:
        values: JSONValue = json.loads(line)
        if not isinstance(values, dict):
            raise UsageError(f"found {type(values).__name__}; expected one JSON object per line")
        return Row.model_validate(values)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}") from error


def _the_only(name: str, values: Sequence[Any], property: str) -> Any:  # Any: a property that all rows share
    if others := [value for value in values if value != values[0]]:
        raise UsageError(f"{name}: {property} is {others[0]} in one row and {values[0]} in another; expected all alike")
    return values[0]
