"""Samples: questions generated from a seed, by the name that --sample takes."""

from __future__ import annotations

import re
from typing import get_args

from sottovoce.core.bounds import MOST_STEPS
from sottovoce.core.errors import UsageError
from sottovoce.datasets.arithmetic import CHAINS, MADE, made_arithmetic, questions, split_knowledge
from sottovoce.datasets.encyclopedia import about_the_world
from sottovoce.datasets.facts import two_facts
from sottovoce.datasets.games import check_sample, split_of, world_of, worlds
from sottovoce.datasets.trained import HELD_OUT
from sottovoce.environments.encyclopedia.questions import Type
from sottovoce.nodes.question import Question
from sottovoce.settings import Settings

SAMPLES = {
    "arithmetic": "arithmetic, for the bundled model",
    "arithmetic_cipher": "six two-digit numbers with + - *, as in CIPHER's paper",
    "arithmetic_files": "a + b * c + d - e * f with numbers from 0 to 29, as in the files of CIPHER's experiments",
    **{name: f"arithmetic with {operations} operations" for name, operations in CHAINS.items()},
    "split": "arithmetic with the values dealt to the agents",
    "facts": "a question that two facts answer, dealt to the agents; for real language models",
    "world": "questions of the next four types in turn about the invented encyclopedia, with six of its passages",
    "world/bridge": "a fact in one article, which another article must identify first",
    "world/comparison": "which of two came first, or is longer",
    "world/strategy": "yes-or-no questions about years and places that no article compares",
    "world/claim": "claims that the encyclopedia supports, refutes, or says nothing about",
    "world/fact": "a fact in one article, which only has to be found and read",
    **{name: told for world in worlds().values() for name, told in world.samples.items()},
}
"""What is generated from a seed, by the name that --sample takes."""
MAX_SAMPLES = {"split": 3_000, "facts": 288, "world": 800, "world/bridge": 800}
MAX_SAMPLES |= {"world/comparison": 200, "world/strategy": 200, "world/claim": 500, "world/fact": 400}
"""Largest number of different samples of a seed; arithmetic has no such limit, and stops at `MOST_STEPS`."""
OF_WORLD: dict[str, Type] = {f"world/{type}": type for type in get_args(Type)}
DECOYS = 3  # solutions of other samples, for dummy debaters


def samples(name: str, n: int, settings: Settings, seed: int) -> list[Question]:
    """Return the first `n` samples of a seed; a larger `n` does not change the earlier ones.

    An id is name, seed and 0-based index, such as "split/3/0". Documents are dealt to the agents of `settings`.

    Raises:
        UsageError: a seed does not have so many samples, or the scheme needs other ones.
    """
    world = world_of(settings)
    if n > (most := (world.most if world else MAX_SAMPLES).get(name, MOST_STEPS)):
        raise UsageError(f"--limit is {n:,}; --sample {name} has at most {most:,} different ones for a seed")
    questions_made = _generated(name, n + DECOYS, seed, settings)
    return [{**each, "decoys": _decoys(questions_made, i)} for i, each in enumerate(questions_made[:n])]


def known(settings: Settings) -> dict[str, str]:
    """Return all names that --sample takes with these settings, with what each generates."""
    world = world_of(settings)
    return {**SAMPLES, **(world.samples if world else {})}


def read_name(text: str, settings: Settings) -> tuple[str, int]:
    """Return the name and the seed of a sample: "split/3", or "split" for seed 0.

    Raises:
        UsageError: there is no such sample.
    """
    match = re.fullmatch(r"(.+?)(?:/(\d+))?", text)
    if not match or match[1] not in (names := known(settings)):
        raise UsageError(f"sample is {text!r}; expected {', '.join(names)}, each with a number or without: split/3")
    return match[1], int(match[2] or 0)


def origin(name: str, n: int, seed: int) -> str:
    """Return a phrase for the origin of samples: "held-out sample arithmetic/0 of the bundled set"."""
    generated = name not in ("arithmetic", "split")
    noun = f"{'' if generated else 'held-out '}sample{'' if n == 1 else 's'}"
    return f"{'' if n == 1 else f'{n:,} '}{noun} {name}/{seed} {'made from a seed' if generated else HELD_OUT}"


def _decoys(samples: list[Question], at: int) -> list[str]:
    """Return the solutions of the next samples, starting over at the end."""
    return [samples[(at + 1 + k) % len(samples)]["solution"] for k in range(DECOYS)]


def _generated(name: str, n: int, seed: int, settings: Settings) -> list[Question]:
    check_sample(name, settings)
    if (world := world_of(settings)) is not None:
        return world.draw(n, settings, seed, split_of(name))
    agents = settings.speakers()
    if name == "arithmetic":
        return questions(n, seed)
    if name in MADE:
        return made_arithmetic(name, n, seed)
    if name.startswith("world"):
        return about_the_world(OF_WORLD.get(name), n, seed)
    return split_knowledge(n, agents, seed) if name == "split" else two_facts(n, agents, seed)
