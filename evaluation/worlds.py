"""Games of worlds as the questions of a run: drawn from a seed, or stored in files. A scheme plays its own alone.

The settings of a scheme name its `World`; nothing here knows which worlds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from sottovoce.environments.game_file import SPLITS, Split
from sottovoce.errors import UsageError
from sottovoce.graphs import shipped
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings


@dataclass(frozen=True)
class World:
    """The games that a scheme plays; its settings name it: `world = "module:attribute"`."""

    samples: Mapping[str, str]
    """By the name that --sample takes: what is drawn, in a phrase."""
    draw: Callable[[int, Any, int, Split | None], list[Question]]  # Any: its own settings
    """The first n games of a seed as the settings have them, of a split or of all; each has a solution."""
    read: Callable[[Path, Any], Question] | None = None  # Any: its own settings
    """The game of a file; None where games are no files."""
    most: Mapping[str, int] = field(default_factory=dict)
    """How many different ones a seed makes at most, by name; of others there is no end."""


def world_of(settings: Settings | type[Settings]) -> World | None:
    """Return the world of a scheme; None where it plays no games."""
    module, _, attribute = settings.world.partition(":")
    found: World | None = getattr(import_module(module), attribute) if module else None
    return found


def worlds() -> dict[str, World]:
    """Return the worlds of the schemes that ship, by command."""
    return {each.command: world for each in shipped() if (world := world_of(each.settings)) is not None}


def check_sample(name: str, settings: Settings) -> None:
    """Refuse a world's sample elsewhere, and another one in a world.

    Raises:
        UsageError: says who plays it.
    """
    own = world_of(settings)
    if name in (own.samples if own else {}):
        return
    players = {sample: f"`{command}`" for command, world in worlds().items() for sample in world.samples}
    game = name if name in players else settings.sample if own else ""
    if game:
        who, game = players.get(game, "this scheme"), game.partition("/")[0]
        raise UsageError(f"--sample {name} cannot be asked here; {who} plays --sample {game}, and it alone does")


def split_of(name: str) -> Split | None:
    """The split that a sample is named for: "whodunit/test"."""
    return next((split for split in SPLITS if name.partition("/")[2] == split), None)


def stored(path: Path, settings: Settings) -> Question:
    """The game of a file.

    Raises:
        UsageError: it is none of the scheme's.
    """
    world = world_of(settings)
    if world is None or world.read is None:
        who = " and ".join(command for command, each in worlds().items() if each.read)
        raise UsageError(f"--game is for {who}, and this is another scheme; drop it")
    return world.read(path, settings)
