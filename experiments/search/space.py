"""The search space of temperatures: a grid, or proposals of optuna based on earlier trials."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce.core.errors import UsageError
from sottovoce.experiments.rows import Row

PLACES = 2
"""Decimal places of a temperature, as in the papers' tables."""
Temperatures = tuple[float, ...]
"""One temperature for each agent that discusses, in their order."""


@dataclass(frozen=True)
class Space:
    """A range of temperatures, in hundredths."""

    low: float
    high: float
    grid: int | None
    """Number of values for each agent, tried in all combinations; None lets optuna choose."""
    trials: int

    def check(self, row: Row, *, wants_map: bool) -> None:
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
        if not 0 <= self.low < self.high:
            raise UsageError(f"temperatures are searched from {self.low:g} to {self.high:g}; expected 0 <= from < to")
        if (self.low, self.high) != _rounded((self.low, self.high)):
            raise UsageError(f"temperatures are searched from {self.low} to {self.high}; expected hundredths")
        if self.grid is not None and len({*(self.values() or ())}) < self.grid:
            raise UsageError(f"--grid {self.grid} is finer than hundredths from {self.low:g} to {self.high:g}")

    def values(self) -> Temperatures | None:
        """Return an agent's temperatures in a grid, both ends included; None without a grid."""
        if self.grid is None:
            return None
        step = (self.high - self.low) / (self.grid - 1)
        return _rounded([self.low + step * n for n in range(self.grid)])

    def propose(
        self, speakers: Sequence[str], results: Sequence[tuple[Temperatures, float]], seed: int
    ) -> Temperatures:
        """Return the temperatures that optuna proposes after trials with these results.

        They follow from the results and the seed alone, so that a resumed search continues like an uninterrupted one.
        """
        import optuna

        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.FloatDistribution(self.low, self.high, step=10**-PLACES) for name in speakers
        }
        sampler = optuna.samplers.TPESampler(seed=random.Random(f"tune/{seed}/{len(results)}").getrandbits(32))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for temperatures, value in results:
            params = dict(zip(speakers, temperatures, strict=True))
            study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
        proposal = study.ask(distributions)
        return _rounded([proposal.params[name] for name in speakers])


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence optuna's log while the context is open.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise UsageError("tune needs the extra 'eval', which is not installed: pip install optuna") from error
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _rounded(values: Sequence[float]) -> Temperatures:
    return tuple(round(value, PLACES) for value in values)
