"""Samples: questions generated from a seed, by the name that --sample takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sottovoce.core.bounds import MOST_STEPS
from sottovoce.core.errors import UsageError
from sottovoce.datasets.arithmetic import CHAINS, MADE, made_arithmetic, questions, split_knowledge
from sottovoce.datasets.briefing import BRIEFINGS, briefings
from sottovoce.datasets.facts import PAIRS, two_facts
from sottovoce.datasets.trained import HELD_OUT
from sottovoce.environments import SPLITS
from sottovoce.graphs import Scheme, record_of, shipped
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings

GAMES = {each.command: each.games for each in shipped() if each.games}
"""The games of the bundled schemes, by command."""
STORED = [command for command, games in GAMES.items() if games.read]
"""The commands of schemes that play games from files."""
SAMPLES = (
    *("arithmetic", "arithmetic_cipher", "arithmetic_files", *CHAINS, "split", "facts", "work_facts", *BRIEFINGS),
    *("world", "world/bridge", "world/comparison", "world/strategy", "world/claim", "world/fact"),
    *(name for games in GAMES.values() for name in games.samples),
)
"""All names that --sample takes."""
MAX_SAMPLES = {"split": 3_000, "facts": 288, "work_facts": 288, "world": 800, "world/bridge": 800}
MAX_SAMPLES |= dict.fromkeys(BRIEFINGS, 1_000)
MAX_SAMPLES |= {"world/comparison": 200, "world/strategy": 200, "world/claim": 500, "world/fact": 400}
"""Largest number of different samples of a seed; arithmetic has no such limit, and stops at `MOST_STEPS`."""
DECOYS = 3  # solutions of other samples, for dummy debaters


def samples(name: str, n: int, settings: Settings, seed: int) -> list[Question]:
    """Return the first `n` samples of a seed; a larger `n` does not change the earlier ones.

    An id is name, seed and 0-based index, such as "split/3/0". Documents are dealt to the agents of `settings`.

    Raises:
        UsageError: a seed does not have so many samples, or the scheme needs other ones.
    """
    games = record_of(settings).games
    if n > (most := (games.most if games else MAX_SAMPLES).get(name, MOST_STEPS)):
        raise UsageError(f"--limit is {n:,}; --sample {name} has at most {most:,} different ones for a seed")
    made = _generated(name, n + DECOYS, seed, settings)
    decoys = [[made[(i + k) % len(made)]["solution"] for k in range(1, 1 + DECOYS)] for i in range(len(made))]
    return [{**question, "decoys": others} for question, others in zip(made[:n], decoys, strict=False)]


def read_name(text: str, settings: Settings) -> tuple[str, int]:
    """Return the name and seed of a sample, "split/3", or "split" for seed 0; a UsageError if it is unknown."""
    match, games = re.fullmatch(r"(.+?)(?:/(\d+))?", text), record_of(settings).games
    names = dict.fromkeys([*SAMPLES, *(games.samples if games else ())])  # a package's scheme has its own games
    if not match or match[1] not in names:
        raise UsageError(f"sample is {text!r}; expected {', '.join(names)}, each with a number or without: split/3")
    return match[1], int(match[2] or 0)


def origin(name: str, n: int, seed: int) -> str:
    """Return a phrase for the origin of samples: "held-out sample arithmetic/0 of the bundled set"."""
    generated = name not in ("arithmetic", "split")
    noun = f"{'' if generated else 'held-out '}sample{'' if n == 1 else 's'}"
    return f"{'' if n == 1 else f'{n:,} '}{noun} {name}/{seed} {'made from a seed' if generated else HELD_OUT}"


def stored_game(path: Path, settings: Settings) -> Question:
    """Return the game of a file as a question; a UsageError if there is none, or the scheme plays none of files."""
    games = record_of(settings).games
    if games is None or games.read is None:
        raise UsageError(f"--game is only for {' and '.join(STORED)}; drop it")
    return games.read(path, settings)


def _generated(name: str, n: int, seed: int, settings: Settings) -> list[Question]:
    record, agents = record_of(settings), settings.speakers()
    _check_sample(name, record)
    if record.games:
        split = next((split for split in SPLITS if name.endswith(f"/{split}")), None)
        return record.games.draw(n, settings, seed, split)
    if name == "arithmetic":
        return questions(n, seed)
    if name in MADE:
        return made_arithmetic(name, n, seed)
    if name in BRIEFINGS:
        return briefings(name, n, agents, seed)
    if name.startswith("world"):
        from sottovoce.datasets.encyclopedia import about_the_world  # late: it reads the encyclopedia's data

        type: Any = name.partition("/")[2] or None  # Any: a `Type`, by its name
        return about_the_world(type, n, seed)
    return two_facts(n, agents, seed, name) if name in PAIRS else split_knowledge(n, agents, seed)


def _check_sample(name: str, record: Scheme) -> None:
    """Check that games are drawn only by the scheme that plays them, which asks nothing else."""
    if name in (record.games.samples if record.games else {}):
        return
    players = {sample: f"`{command}`" for command, games in GAMES.items() for sample in games.samples}
    game = name if name in players else record.sample if record.games else ""
    if game:
        who, game = players.get(game, "this scheme"), game.partition("/")[0]
        raise UsageError(f"--sample {name} cannot be used here; --sample {game} belongs to {who}")
