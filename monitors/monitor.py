"""A monitor: it maps the features of a turn to a failure score and triggers above a threshold.

A JSON file stores the monitor and describes the data and settings it was fitted on. Scoring needs only numpy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, FiniteFloat, model_validator

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.files import read_json_file, write
from sottovoce.core.validation import Checked
from sottovoce.monitors.dataset import Floats
from sottovoce.monitors.features import logged
from sottovoce.monitors.settings import ALL, CHANCE, RANDOM, TURN, Measure

FORMAT: Literal[1] = 1
RANDOM_RATE = 0.1
"""Share of turns at which `random` triggers if it has no rate."""
Bounds = tuple[FiniteFloat, FiniteFloat]
Power = Annotated[int, Field(ge=0, le=20)]
"""Power of a feature; larger ones could overflow a float for values outside the bounds."""


class Fitted(Checked):
    """Data and settings that a monitor was fitted on."""

    data: str
    """Name of the file of rows, without its directories."""
    sha256: str
    games: int
    failed: int
    turns: int
    validation: int
    """Number of games used to choose features, degree and threshold; the monitor was fitted on the others."""
    seed: int
    alpha: FiniteFloat
    """Strength of the ridge regression's penalty."""
    candidates: int
    """Number of candidates that were compared."""
    rank: str
    """Rank of this one among the candidates: best, second or worst; or random, which is not a candidate."""
    gain: FiniteFloat
    """Gain at the monitor's threshold on the games used for choosing, as a fraction; expected for a random monitor."""
    chosen_by: str
    """Criterion that set the threshold: gain, or the requested rate of false alarms."""
    random_threshold: FiniteFloat
    """Threshold at which a random monitor has its largest expected gain on the same games."""
    made_by: dict[str, str]
    """Versions of sottovoce, scikit-learn and numpy."""


class Monitor(Checked):
    """A predictor of failure from the turns of one role; higher scores are worse."""

    format: Literal[1] = FORMAT
    role: str
    features: tuple[str, ...] = Field(min_length=1)
    """Names in the order of bounds and exponents; the last is `turn`. A random monitor has only `chance`."""
    log_features: bool
    """True if logarithms of entropy and varentropy are used, floored at 1e-7."""
    bounds: tuple[Bounds, ...]
    """For each feature, the values that are scaled to -1 and 1; values outside are not clipped."""
    exponents: tuple[tuple[Power, ...], ...] = Field(min_length=1)
    """For each term, a power of each feature."""
    coefficients: tuple[FiniteFloat, ...]
    """One for each term."""
    intercept: FiniteFloat
    threshold: FiniteFloat
    measured: Measure | None = None
    """How the features were measured, if the rows recorded it."""
    fitted: Fitted | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        widths = {len(self.bounds), *map(len, self.exponents)}
        if widths != {len(self.features)} or len(self.exponents) != len(self.coefficients):
            raise UsageError("bounds, exponents and coefficients do not fit the features")
        return self

    @property
    def degree(self) -> int:
        """The polynomial's degree."""
        return max(sum(term) for term in self.exponents)

    @property
    def is_random(self) -> bool:
        """True if the monitor draws a number and measures nothing (`random_monitor`)."""
        return self.features == (CHANCE,)

    def scores(self, columns: Mapping[str, ArrayLike]) -> Floats:
        """Return a failure score for each turn; `columns` are measured features by name, with a value for each turn.

        Successful games were fitted to 0 and failed ones to 1; scores are not clipped.

        Raises:
            UsageError: a feature is missing.
        """
        x = matrix(logged(columns) if self.log_features else columns, self.features, self.bounds)
        terms = np.stack([np.prod(x**powers, axis=1) for powers in np.array(self.exponents)], axis=1)
        scores: Floats = terms @ np.array(self.coefficients) + self.intercept
        return scores

    def score(self, features: Mapping[str, float] | None, turn: int) -> float | None:
        """Return the failure score of one turn from its measured features, or None if it has none.

        Raises:
            UsageError: a feature is missing.
        """
        if features is None:
            return None
        columns = {name: [value] for name, value in {**features, TURN: turn}.items()}
        return float(self.scores(columns)[0])

    def triggers(self, features: Mapping[str, float] | None, turn: int) -> bool:
        """Return True to intervene: if the score is above the threshold."""
        score = self.score(features, turn)
        return score is not None and score > self.threshold

    def save(self, path: Path) -> None:
        """Write the file, completely or not at all.

        Raises:
            UsageError: its directory cannot be made.
            RecordError: the file cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"monitor file {str(path)!r} cannot be written: {error.strerror}") from error
        write(path, self.to_json())

    def to_json(self) -> str:
        """Return the text of its file, with one line for each field."""
        lines = ",\n".join(f' "{name}": {json.dumps(value)}' for name, value in self.model_dump(mode="json").items())
        return f"{{\n{lines}\n}}\n"

    @classmethod
    def read(cls, path: Path, measured: Measure | None = None) -> Monitor:
        """Read a monitor from a file; with `measured`, check that it fits features measured that way.

        Raises:
            UsageError: the file cannot be read, has another version, or its features were measured differently.
        """
        name = f"monitor file {str(path)!r}"
        values: JSONValue = read_json_file(path, "monitor file", lambda content: content)
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise UsageError(f"{name} has format {version!r}; this version reads {FORMAT}; train the monitor again")
        try:
            monitor = cls.model_validate(values)
        except UsageError as error:
            raise UsageError(f"{name} is not a monitor: {error}") from error
        monitor.check_measured(measured, name)
        return monitor

    def check_measured(self, measured: Measure | None, name: str = "the monitor") -> None:
        """Raise an error if features were measured differently from those the monitor was fitted on."""
        if measured is not None and self.measured is not None and measured != self.measured:
            raise UsageError(
                f"{name} was trained on features of {self.measured}; found {measured}; train one on such rows"
            )


def monitor_of(name: str) -> Monitor:
    """Return the monitor that a setting names: `random`, `random:RATE`, or a file.

    Raises:
        UsageError: the rate is not in (0, 1], or the file cannot be read.
    """
    kind, colon, rate = name.partition(":")
    if kind != RANDOM:
        return Monitor.read(Path(name))
    try:
        share = float(rate) if colon else RANDOM_RATE
    except ValueError:
        share = float("nan")
    if not 0 < share <= 1:
        raise UsageError(f"watch is {name!r}; expected random:RATE with a share of turns in (0, 1], e.g. random:0.2")
    return random_monitor(1 - share)


def random_monitor(threshold: float, role: str = ALL) -> Monitor:
    """Return a monitor whose score is a random number."""
    return Monitor(
        role=role,
        features=(CHANCE,),
        log_features=False,
        bounds=((-1.0, 1.0),),  # leaves the number as it is
        exponents=((1,),),
        coefficients=(1.0,),
        intercept=0.0,
        threshold=threshold,
    )


def matrix(columns: Mapping[str, ArrayLike], features: tuple[str, ...], bounds: tuple[Bounds, ...]) -> Floats:
    """Return each turn's features (n, f), scaled so that their bounds are -1 and 1; if bounds are equal, shifted."""
    if missing := [name for name in features if name not in columns]:
        known = ", ".join(sorted(columns)) or "none"
        raise UsageError(f"the monitor needs feature {missing[0]!r}; found {known}; it is for another feature set")
    x = np.stack([np.asarray(columns[name], dtype=np.float64) for name in features], axis=1)
    if not np.isfinite(x).all():
        raise UsageError("a feature is not a finite number; expected statistics of a probability distribution")
    low, high = np.array(bounds).T
    scaled: Floats = 2 * (x - low) / np.where(high > low, high - low, 1.0) - 1
    return scaled
