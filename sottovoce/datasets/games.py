"""Games of worlds as the questions of a run: drawn from a seed, or stored in files. A scheme plays only its own.

The settings of a scheme name its `World`; this module does not know any particular one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.environments.game_file import SPLITS, Split
from sottovoce.graphs import shipped
from sottovoce.nodes.question import Question
from sottovoce.settings import Settings


@dataclass(frozen=True)
class World:
    """The games that a scheme plays. The scheme's settings name it: `world = "module:attribute"`."""

    samples: Mapping[str, str]
    """A phrase that describes the games, by the name that --sample takes."""
    draw: Callable[[int, Any, int, Split | None], list[Question]]  # Any: its own settings
    """Draws the first n games of a seed with the settings, of a split or of all; each has a solution."""
    read: Callable[[Path, Any], Question] | None = None  # Any: its own settings
    """Reads the game of a file; None if games are not stored in files."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Maximum number of different games of a seed, by name; names that are missing have no limit."""


def world_of(settings: Settings | type[Settings]) -> World | None:
    """Return the world of a scheme; None if it plays no games."""
    module, _, attribute = settings.world.partition(":")
    found: World | None = getattr(import_module(module), attribute) if module else None
    return found


def worlds() -> dict[str, World]:
    """Return the worlds of the bundled schemes, by command."""
    return {each.command: world for each in shipped() if (world := world_of(each.settings)) is not None}


def check_sample(name: str, settings: Settings) -> None:
    """Check that a sample is not another world's, and that a world's scheme gets one of its own samples.

    Raises:
        UsageError: it does not fit; the message names the scheme that plays it.
    """
    own = world_of(settings)
    if name in (own.samples if own else {}):
        return
    players = {sample: f"`{command}`" for command, world in worlds().items() for sample in world.samples}
    game = name if name in players else settings.sample if own else ""
    if game:
        who, game = players.get(game, "this scheme"), game.partition("/")[0]
        raise UsageError(f"--sample {name} cannot be used here; --sample {game} belongs to {who}")


def split_of(name: str) -> Split | None:
    """Return the split in the name of a sample ("test" of "whodunit/test"), or None."""
    return next((split for split in SPLITS if name.partition("/")[2] == split), None)


def stored(path: Path, settings: Settings) -> Question:
    """Return the game of a file as a question.

    Raises:
        UsageError: the scheme plays no games from files, or see the world's `read`.
    """
    world = world_of(settings)
    if world is None or world.read is None:
        who = " and ".join(command for command, each in worlds().items() if each.read)
        raise UsageError(f"--game is only for {who}; drop it")
    return world.read(path, settings)
