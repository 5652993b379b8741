"""A monitor: from the features of a turn to a failure score, and a threshold above which it triggers.

A file of JSON holds all of it, with the data and the settings it was fitted on. Scoring needs numpy alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, FiniteFloat, model_validator

from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.monitors.features import logged
from sottovoce.monitors.rows import Floats
from sottovoce.monitors.settings import CHANCE, TURN, Measure
from sottovoce.outputs import write
from sottovoce.regular import text_of

FORMAT: Literal[1] = 1
Bounds = tuple[FiniteFloat, FiniteFloat]
Power = Annotated[int, Field(ge=0, le=20)]
"""Of a feature; more than this would leave a float's range beyond the bounds."""


class Fitted(Checked):
    """Of what a monitor was made, and how."""

    data: str
    """The file's name, without its folders."""
    sha256: str
    games: int
    failed: int
    turns: int
    validation: int
    """Games that were held back, to choose features, degree and threshold; the others were fitted to."""
    seed: int
    alpha: FiniteFloat
    """Of the ridge."""
    candidates: int
    """How many were compared."""
    rank: str
    """Which of them this is: best, second, worst; or random, which is none of them."""
    gain: FiniteFloat
    """At the monitor's threshold, on the validation games that chose, as a share of 1; expected, of a random one."""
    chosen_by: str
    """What set the threshold: gain, or the rate of false alarms that was asked for."""
    random_threshold: FiniteFloat
    """Threshold of a random monitor: that of the largest gain on the same games."""
    made_by: dict[str, str]
    """Versions."""


class Monitor(Checked):
    """What foretells failure of one role's turns; higher scores are worse."""

    format: Literal[1] = FORMAT
    role: str
    features: tuple[str, ...] = Field(min_length=1)
    """In the order of bounds and exponents; the last is `turn`. A random monitor has `chance` alone."""
    log_features: bool
    """True where entropy and varentropy enter as their logarithms, floored at 1e-7."""
    bounds: tuple[Bounds, ...]
    """By feature, what becomes -1 and 1; values beyond are not cut."""
    exponents: tuple[tuple[Power, ...], ...] = Field(min_length=1)
    """By term, a power of each feature."""
    coefficients: tuple[FiniteFloat, ...]
    """By term."""
    intercept: FiniteFloat
    threshold: FiniteFloat
    measured: Measure | None = None
    """How the features were measured, where the rows told."""
    fitted: Fitted | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        widths = {len(self.bounds), *map(len, self.exponents)}
        if widths != {len(self.features)} or len(self.exponents) != len(self.coefficients):
            raise UsageError("bounds, exponents and coefficients do not fit the features")
        return self

    @property
    def degree(self) -> int:
        """Of the polynomial."""
        return max(sum(term) for term in self.exponents)

    @property
    def is_random(self) -> bool:
        """True of a monitor that draws a number and measures nothing (`chance.random_monitor`)."""
        return self.features == (CHANCE,)

    def scores(self, columns: Mapping[str, ArrayLike]) -> Floats:
        """A failure score for each turn, from the features as they were measured, a value a turn by name.

        0 is what successful games were fitted to, 1 what failed ones were; nothing is cut.

        Raises:
            UsageError: a feature is missing.
        """
        x = matrix(logged(columns) if self.log_features else columns, self.features, self.bounds)
        terms = np.stack([np.prod(x**powers, axis=1) for powers in np.array(self.exponents)], axis=1)
        found: Floats = terms @ np.array(self.coefficients) + self.intercept
        return found

    def score(self, features: Mapping[str, float] | None, turn: int) -> float | None:
        """The failure score of one turn, from its features as they were measured; None where there are none.

        Raises:
            UsageError: a feature is missing.
        """
        if features is None:
            return None
        columns = {name: [value] for name, value in {**features, TURN: turn}.items()}
        return float(self.scores(columns)[0])

    def triggers(self, features: Mapping[str, float] | None, turn: int) -> bool:
        """Whether to intervene: the score is above the threshold."""
        score = self.score(features, turn)
        return score is not None and score > self.threshold

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            UsageError: its folder cannot be made.
            RecordError: it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"monitor file {str(path)!r} cannot be written: {error.strerror}") from error
        write(path, self.to_json())

    def to_json(self) -> str:
        """Return the text of its file, a line a field."""
        lines = ",\n".join(f' "{name}": {json.dumps(value)}' for name, value in self.model_dump(mode="json").items())
        return f"{{\n{lines}\n}}\n"

    @classmethod
    def read(cls, path: Path, measured: Measure | None = None) -> Monitor:
        """Read a file; with `measured`, one that is to serve features that are measured so.

        Raises:
            UsageError: it cannot be read, has another version, or serves features that are measured otherwise.
        """
        name = f"monitor file {str(path)!r}"
        found = cls._of_json(_json(path, name), name)
        if measured is not None:
            found.check_measured(measured, name)
        return found

    def check_measured(self, measured: Measure | None, name: str = "the monitor") -> None:
        """Refuse features that were measured otherwise than those it was fitted on.

        Raises:
            UsageError: both are known and differ.
        """
        if measured is not None and self.measured is not None and measured != self.measured:
            raise UsageError(f"{name} serves features of {self.measured}; found {measured}; train one on such rows")

    @classmethod
    def _of_json(cls, values: Any, name: str) -> Monitor:  # Any: JSON
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise UsageError(f"{name} has format {version!r}; this version reads {FORMAT}; train the monitor again")
        try:
            return cls.model_validate(values)
        except UsageError as error:
            raise UsageError(f"{name} is no monitor: {error}") from error


def matrix(columns: Mapping[str, ArrayLike], features: tuple[str, ...], bounds: tuple[Bounds, ...]) -> Floats:
    """The features of each turn (n, f), their bounds at -1 and 1; one whose bounds are equal is only moved.

    Raises:
        UsageError: a feature is missing, or not finite.
    """
    if missing := [name for name in features if name not in columns]:
        known = ", ".join(sorted(columns)) or "none"
        raise UsageError(f"the monitor needs feature {missing[0]!r}; found {known}; it is one of another feature set")
    x = np.stack([np.asarray(columns[name], dtype=np.float64) for name in features], axis=1)
    if not np.isfinite(x).all():
        raise UsageError("a feature is no finite number; expected entropy and the like of a distribution")
    low, high = np.array(bounds).T
    scaled: Floats = 2 * (x - low) / np.where(high > low, high - low, 1.0) - 1
    return scaled


def _json(path: Path, name: str) -> Any:  # Any: JSON
    try:
        return json.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}") from error
