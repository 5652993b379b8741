"""Games of worlds as the questions of a run: drawn from a seed, or stored in files. A scheme plays its own alone."""

from __future__ import annotations

from pathlib import Path

from sottovoce.environments.game_file import SPLITS, Split
from sottovoce.errors import UsageError
from sottovoce.evaluation import codegen, govsim, whodunit
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import CodeGen, GovSim, Settings, WhoDunit

WORLDS = {"whodunit": "whodunit", "govsim": "govsim", "problems": "codegen"}
"""By sample, the scheme that plays it."""


def check_sample(name: str, settings: Settings) -> None:
    """Refuse a world's sample elsewhere, and another one in a world.

    Raises:
        UsageError: says who plays it.
    """
    asked, own = name.partition("/")[0], settings.sample
    if asked != own and (world := next((each for each in (asked, own) if each in WORLDS), None)):
        who = f"`{WORLDS[world]}` plays --sample {world}, and it alone does"
        raise UsageError(f"--sample {name} cannot be asked here; {who}")


def drawn(name: str, n: int, settings: Settings, seed: int) -> list[Question] | None:
    """The first `n` games of a seed, as the settings have them; None where the scheme is no world."""
    if isinstance(settings, WhoDunit):
        return whodunit.games(n, settings, seed, split_of(name))
    if isinstance(settings, GovSim):
        return govsim.games(n, settings, seed, split_of(name))
    if isinstance(settings, CodeGen):
        return codegen.problems(n, seed)
    return None


def split_of(name: str) -> Split | None:
    """The split that a sample is named for: "whodunit/test"."""
    return next((split for split in SPLITS if name.partition("/")[2] == split), None)


def stored(path: Path, settings: Settings) -> Question:
    """The game of a file.

    Raises:
        UsageError: it is none of the scheme's.
    """
    if isinstance(settings, WhoDunit):
        return whodunit.stored(path, settings)
    if isinstance(settings, GovSim):
        return govsim.stored(path)
    raise UsageError("--game is for whodunit and govsim, and this is another scheme; drop it")
