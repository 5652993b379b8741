"""What monitors are trained on: one row a turn, as JSON Lines, and the games that rows make.

    {"game": "17", "turn": 3, "role": "accuser", "features": {"entropy": 0.8, ...}, "failed": true}

`features` is null where a reply had none of the positions: nothing is foretold from it. `failed` tells of the whole
game. `measured` may say how features were measured (`Measure`), in all rows alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from sottovoce.checked import Checked
from sottovoce.errors import UsageError, choose
from sottovoce.monitors.settings import ALL, TURN, Measure
from sottovoce.regular import bytes_of

Floats = NDArray[np.float64]


class Row(Checked):
    """One turn of one role in one game."""

    game: str | int
    turn: int = Field(ge=0)
    role: str
    features: dict[str, FiniteFloat] | None
    failed: bool
    measured: Measure | None = None


@dataclass(frozen=True)
class Games:
    """The turns of one role, those that have features, by game."""

    role: str
    names: list[str | int]
    failed: NDArray[np.bool_]
    """One a game."""
    game: NDArray[np.intp]
    """The game of each turn, as its place in `names`; a game without a turn is never foretold."""
    columns: dict[str, Floats]
    """By feature, a value a turn; `turn` among them."""
    measured: Measure | None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def turns(self) -> NDArray[np.intp]:
        """How many turns each game has."""
        return np.bincount(self.game, minlength=len(self))

    def highest(self, scores: Floats) -> Floats:
        """The highest of the turns' scores of each game; minus infinity where it has no turn."""
        found = np.full(len(self), -np.inf)
        np.maximum.at(found, self.game, scores)
        return found

    def part(self, games: Sequence[int]) -> Games:
        """Some of the games, in the order given."""
        new = np.full(len(self), -1, dtype=np.intp)
        new[list(games)] = np.arange(len(games))
        of = new[self.game]
        columns = {name: values[of >= 0] for name, values in self.columns.items()}
        names = [self.names[at] for at in games]
        return Games(self.role, names, self.failed[list(games)], of[of >= 0], columns, self.measured)


@dataclass(frozen=True)
class RowFile:
    """The rows of a file."""

    path: Path
    digest: str
    """sha256 of its bytes, in hexadecimal."""
    rows: list[Row]

    @property
    def name(self) -> str:
        """As errors call it."""
        return _called(self.path)

    def games(self, role: str | None = None) -> Games:
        """The games of one role, or of `all` together; None is the only one there is.

        Raises:
            UsageError: rows have several roles and none was named, or not this one, or they contradict one another.
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
            raise UsageError(choose("role", role, roles))
        return games_of([row for row in self.rows if row.role == role], self.name)


def read_rows(path: Path) -> RowFile:
    """Read a file of rows.

    Raises:
        UsageError: it cannot be read, holds none, or a line of it is no row; the line is named.
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
    """The games of rows, in the order in which they first appear.

    Raises:
        UsageError: rows of a game disagree whether it failed, or rows have different features.
    """
    failed: dict[str | int, bool] = {}
    for row in rows:
        if failed.setdefault(row.game, row.failed) is not row.failed:
            raise UsageError(f"{name}: game {row.game!r} failed in one row and not in another; it is told of the game")
    places = {game: at for at, game in enumerate(failed)}
    with_features = [(row, row.features) for row in rows if row.features is not None]
    measured = _the_only(name, [row.measured for row in rows], "measured")
    features = _the_only(name, [tuple(sorted(each)) for _, each in with_features] or [()], "features")
    columns = {each: np.array([found[each] for _, found in with_features]) for each in features}
    columns[TURN] = np.array([float(row.turn) for row, _ in with_features])
    game = np.array([places[row.game] for row, _ in with_features], dtype=np.intp)
    return Games(rows[0].role, list(failed), np.array(list(failed.values()), dtype=bool), game, columns, measured)


def _called(path: Path) -> str:
    return f"file of rows {str(path)!r}"


def _row(line: str, where: str) -> Row:
    try:
        values: Any = json.loads(line)  # Any: JSON
        if not isinstance(values, dict):
            raise UsageError(f"found {type(values).__name__}; expected one JSON object a line")
        return Row.model_validate(values)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON: {error}") from error


def _the_only(name: str, found: Sequence[Any], what: str) -> Any:  # Any: what rows have in common
    if others := [each for each in found if each != found[0]]:
        raise UsageError(f"{name}: {what} is {others[0]} in one row and {found[0]} in another; expected all alike")
    return found[0]
