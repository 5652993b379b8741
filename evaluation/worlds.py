"""Games of worlds as the questions of a run: drawn from a seed, or stored in files. A scheme plays its own alone."""

from __future__ import annotations

from pathlib import Path

from sottovoce.errors import UsageError
from sottovoce.evaluation import govsim, whodunit
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import GovSim, Settings, WhoDunit

WORLDS = ("whodunit", "govsim")
"""Their schemes, which have samples of that name."""


def check_sample(name: str, settings: Settings) -> None:
    """Refuse a world's sample elsewhere, and another one in a world.

    Raises:
        UsageError: says who plays it.
    """
    asked, own = name.partition("/")[0], settings.sample
    if asked != own and (world := next((each for each in (asked, own) if each in WORLDS), None)):
        raise UsageError(f"--sample {name} cannot be asked here; `{world}` plays --sample {world}, and it alone does")


def drawn(name: str, n: int, settings: Settings, seed: int) -> list[Question] | None:
    """The first `n` games of a seed, as the settings have them; None where the scheme is no world."""
    if isinstance(settings, WhoDunit):
        return whodunit.games(n, settings, seed)
    if isinstance(settings, GovSim):
        return govsim.games(n, settings, seed, govsim.split_of(name))
    return None


def stored(path: Path, settings: Settings) -> Question:
    """The game of a file.

    Raises:
        UsageError: it is none of the scheme's.
    """
    if isinstance(settings, WhoDunit):
        return whodunit.stored(path, settings)
    if isinstance(settings, GovSim):
        return govsim.stored(path)
    raise UsageError(f"--game is for {' and '.join(WORLDS)}, and this is another scheme; drop it")
