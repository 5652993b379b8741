"""The search space of temperatures: a grid, or proposals of optuna based on earlier trials."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.core.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.experiments.rows import Prepared

PLACES = 2
"""Decimal places of a temperature, as in the papers' tables."""
NAME = "temperatures"
Tell = Callable[[float], None]
"""Takes the value of a trial."""
Asked = Iterator[tuple[int, tuple[float, ...], Tell]]


@dataclass(frozen=True)
class Space:
    """A range of temperatures, in hundredths."""

    low: float
    high: float
    grid: int | None
    """Number of values for each agent, tried in all combinations; None lets optuna choose."""
    trials: int

    def told(self, *, final: bool) -> dict[str, Any]:  # Any: plain JSON
        """Return what identifies this search; `trials` is part of it only if held-out questions get a `final` test."""
        kept = {"trials": self.trials} if final and self.grid is None else {}
        return {"from": self.low, "to": self.high, "grid": self.grid, **kept}

    def check(self, row: Prepared, *, wants_map: bool) -> None:
        """Check that these temperatures can be searched.

        Raises:
            UsageError: the range or grid is invalid, there is only one agent, or temperatures are already set.
        """
        speakers = row.settings.speakers()
        if len(speakers) < 2:
            raise UsageError(
                f"{row.scheme} has {len(speakers)} agent that discusses; expected at least two: "
                "choose another scheme, or raise --agents"
            )
        if row.settings.temperature:
            raise UsageError("--temperature was given, but temperatures are searched; drop it, or use --from and --to")
        if wants_map and len(speakers) != 2:
            raise UsageError(f"a temperature map needs two agents, and {len(speakers)} discuss; drop --map")
        self._check_range()

    def _check_range(self) -> None:
        if not 0 <= self.low < self.high:
            raise UsageError(f"temperatures are searched from {self.low:g} to {self.high:g}; expected 0 <= from < to")
        if (self.low, self.high) != temperatures_of((self.low, self.high)):
            raise UsageError(f"temperatures are searched from {self.low} to {self.high}; expected hundredths")
        if self.grid is not None and len({*(self.values() or ())}) < self.grid:
            raise UsageError(f"--grid {self.grid} is finer than hundredths from {self.low:g} to {self.high:g}")

    def values(self) -> tuple[float, ...] | None:
        """Return an agent's temperatures in a grid, both ends included; None without a grid."""
        if self.grid is None:
            return None
        step = (self.high - self.low) / (self.grid - 1)
        return temperatures_of([self.low + step * n for n in range(self.grid)])

    @contextmanager
    def journal(self, file: Path, row: Prepared) -> Iterator[Asked]:
        """Yield an iterator of trials that optuna proposes, those of its journal first; report each trial's value.

        The sampler is seeded again for each trial, so that a resumed search continues like an uninterrupted one.

        Raises:
            UsageError: the extra `eval` is not installed.
        """
        try:
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise UsageError("tune needs the extra 'eval', which is not installed: pip install optuna") from error
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            kept = JournalStorage(JournalFileBackend(str(file)))
            study = optuna.create_study(storage=kept, study_name=NAME, direction="maximize", load_if_exists=True)
            yield self._asked(study, row)
        finally:
            optuna.logging.set_verbosity(before)

    def _asked(self, study: Any, row: Prepared) -> Asked:  # Any: an optuna Study; naming it would import optuna
        from optuna.samplers import TPESampler

        step = 10**-PLACES
        space = self._distributions(row.settings.speakers(), step)
        old, n = [each for each in study.trials if each.params.keys() == space.keys()], 0
        while n < self.trials:
            study.sampler = TPESampler(seed=random.Random(f"tune/{row.settings.seed}/{n}").getrandbits(32))
            trial = old[n] if n < len(old) else study.ask(space)  # one without parameters was interrupted
            yield n, temperatures_of([trial.params[name] for name in space]), _teller(study, trial.number)
            n += 1

    def _distributions(self, speakers: Sequence[str], step: float) -> dict[str, Any]:  # Any: see `_asked`
        from optuna.distributions import FloatDistribution

        return {name: FloatDistribution(self.low, self.high, step=step) for name in speakers}


def temperatures_of(values: Sequence[float]) -> tuple[float, ...]:
    """Round values to hundredths."""
    return tuple(round(value, PLACES) for value in values)


def _teller(study: Any, number: int) -> Tell:  # Any: see `Space._asked`
    return lambda value: study.tell(number, value, skip_if_finished=True)
