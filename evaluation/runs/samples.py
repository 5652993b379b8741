"""Questions made from a seed, by the name that --sample takes: one, or a set of them."""

from __future__ import annotations

import re
from typing import get_args

from sottovoce.bounds import MOST_STEPS
from sottovoce.environments.encyclopedia.questions import Type
from sottovoce.errors import UsageError
from sottovoce.evaluation.arithmetic import CHAINS, MADE, made_arithmetic, questions, split_knowledge
from sottovoce.evaluation.facts import two_facts
from sottovoce.evaluation.trained import HELD_OUT
from sottovoce.evaluation.world import about_the_world
from sottovoce.evaluation.worlds import check_sample, split_of, world_of, worlds
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings

SAMPLES = {
    "arithmetic": "arithmetic, for the bundled model",
    "arithmetic_cipher": "six numbers of two digits and + - *, as CIPHER's paper says",
    "arithmetic_files": "a + b * c + d - e * f with numbers from 0 to 29, as the files of CIPHER's experiments are",
    **{name: f"arithmetic of {operations} operations" for name, operations in CHAINS.items()},
    "split": "arithmetic with the values dealt to the agents",
    "facts": "a question that two facts answer, dealt to the agents: for real language models",
    "world": "questions of the next four types in turn, about the invented encyclopedia, with six passages of it",
    "world/bridge": "what one article tells, and another one must be read first to know which",
    "world/comparison": "which of two came first, or is longer",
    "world/strategy": "yes or no, of years and places that no article compares",
    "world/claim": "claims that the encyclopedia supports, refutes, or says nothing about",
    "world/fact": "what one article tells: the article has but to be found and read",
    **{name: told for world in worlds().values() for name, told in world.samples.items()},
}
"""By the name that --sample takes: what is made, all of it from a seed."""
MOST = {"split": 3_000, "facts": 288, "world": 800, "world/bridge": 800}
MOST |= {"world/comparison": 200, "world/strategy": 200, "world/claim": 500, "world/fact": 400}
"""How many different ones a seed makes at most; of arithmetic there is no end, and `MOST_STEPS` are made."""
OF_WORLD: dict[str, Type] = {f"world/{type}": type for type in get_args(Type)}
DECOYS = 3  # solutions of other samples, for dummy debaters


def samples(name: str, n: int, settings: Settings, seed: int) -> list[Question]:
    """The first `n` samples of a seed; each begins as it is alone, so more of them change none.

    Ids are "split/3/0" and so on: name, seed, and the place from 0. Documents are dealt to the agents of `settings`.

    Raises:
        UsageError: a seed does not make so many, or the scheme is for others.
    """
    world = world_of(settings)
    if n > (most := (world.most if world else MOST).get(name, MOST_STEPS)):
        raise UsageError(f"--limit is {n:,}; --sample {name} makes at most {most:,} different ones of a seed")
    made = _made(name, n + DECOYS, seed, settings)
    return [{**each, "decoys": _decoys(made, i)} for i, each in enumerate(made[:n])]


def known(settings: Settings) -> dict[str, str]:
    """Return all that --sample takes with these settings: what is made, by name."""
    world = world_of(settings)
    return {**SAMPLES, **(world.samples if world else {})}


def read_name(written: str, settings: Settings) -> tuple[str, int]:
    """A sample's name and seed: "split/3", or "split" for seed 0.

    Raises:
        UsageError: there is no such sample.
    """
    found = re.fullmatch(r"(.+?)(?:/(\d+))?", written)
    if not found or found[1] not in (names := known(settings)):
        raise UsageError(f"sample is {written!r}; expected {', '.join(names)}, each with a number or without: split/3")
    return found[1], int(found[2] or 0)


def origin(name: str, n: int, seed: int) -> str:
    """What is said of where samples come from: "held-out sample arithmetic/0 of the bundled set"."""
    made = name not in ("arithmetic", "split")
    noun = f"{'' if made else 'held-out '}sample{'' if n == 1 else 's'}"
    return f"{'' if n == 1 else f'{n:,} '}{noun} {name}/{seed} {'made from a seed' if made else HELD_OUT}"


def _decoys(made: list[Question], at: int) -> list[str]:
    """Solutions of the next ones; those that come to an end begin again."""
    return [made[(at + 1 + k) % len(made)]["solution"] for k in range(DECOYS)]


def _made(name: str, n: int, seed: int, settings: Settings) -> list[Question]:
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
