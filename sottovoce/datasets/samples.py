"""Samples: questions generated from a seed, by the name that --sample takes.

Questions about the bundled encyclopedia have six passages: the articles that are needed, and distractors. One sample:
"In which town was the author of The Salt Ledger born?", target "Greyholt", with the articles on the book, on Orla
Vance, and on four more books and people. Schemes with retrieval do not show agents these passages.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.core.bounds import MOST_STEPS
from sottovoce.core.errors import UsageError, nearest
from sottovoce.datasets.arithmetic import CHAINS, MADE, made_arithmetic, split_knowledge
from sottovoce.datasets.facts import BRIEFINGS, PAIRS, briefings, two_facts
from sottovoce.datasets.steps import STEPS, steps
from sottovoce.datasets.trained import HELD_OUT
from sottovoce.environments import GAMES, SPLITS, STORED
from sottovoce.graphs import record_of
from sottovoce.nodes.question import Passage, Question
from sottovoce.nodes.settings import Settings

if TYPE_CHECKING:
    from sottovoce.environments.encyclopedia import Asked, Type

SAMPLES = (
    *("arithmetic", "arithmetic_cipher", "arithmetic_files", *CHAINS, "split", *PAIRS),
    *(*BRIEFINGS, *STEPS),
    *("world", "world/bridge", "world/comparison", "world/strategy", "world/claim", "world/fact"),
    *(name for names in GAMES.values() for name in names),
)
"""All names that --sample takes."""
MAX_SAMPLES = {"split": 3_000, **dict.fromkeys(PAIRS, 288), "world": 800, "world/bridge": 800}
MAX_SAMPLES |= dict.fromkeys((*BRIEFINGS, *STEPS), 1_000)
MAX_SAMPLES |= {"world/comparison": 200, "world/strategy": 200, "world/claim": 500, "world/fact": 400}
"""Largest number of different samples of a seed; arithmetic has no such limit, and stops at `MOST_STEPS`."""
PASSAGES = 6
"""Passages of a question, dealt to the agents in a discussion where each knows a part (SDE)."""
KINDS = {"fact": "text", "bridge": "text", "comparison": "text", "strategy": "yes_no", "claim": "label"}
CLAIM = (
    "A claim is held against what is known: SUPPORTS where that says so, REFUTES where it says otherwise, "
    "NOT ENOUGH INFO where it says neither."
)
SOURCE = "encyclopedia"
DECOYS = 3  # solutions of other samples, for dummy debaters


def samples(name: str, n: int, settings: Settings, seed: int) -> list[Question]:
    """Return the first `n` samples of a seed; a larger `n` does not change the earlier ones.

    An id is name, seed and 0-based index, such as "split/3/0". Documents are dealt to the agents of `settings`.

    Raises:
        UsageError: a seed has fewer samples, or the scheme needs other samples.
    """
    games = record_of(settings).games
    if n > (most := (games.most if games else MAX_SAMPLES).get(name, MOST_STEPS)):
        raise UsageError(f"`limit=` is {n:,}; `sample='{name}'` has at most {most:,} different ones for a seed")
    made = _generated(name, n + DECOYS, seed, settings)
    decoys = [[made[(i + k) % len(made)]["solution"] for k in range(1, 1 + DECOYS)] for i in range(len(made))]
    return [{**question, "decoys": others} for question, others in zip(made[:n], decoys, strict=False)]


def read_name(text: str, settings: Settings) -> tuple[str, int]:
    """Return the name and seed of a sample, "split/3", or "split" for seed 0; a UsageError if it is unknown."""
    match, games = re.fullmatch(r"(.+?)(?:/(\d+))?", text), record_of(settings).games
    names = dict.fromkeys([*SAMPLES, *(games.samples if games else ())])  # a package's scheme has its own games
    if not match or match[1] not in names:
        raise UsageError(f"{nearest('sample', text, names)} (--help-all lists them; a seed may follow: split/3)")
    return match[1], int(match[2] or 0)


def origin(name: str, n: int, seed: int) -> str:
    """Return a phrase for the origin of samples: "held-out sample arithmetic/0 of the bundled set"."""
    generated = name not in ("arithmetic", "split")
    noun = f"{'' if generated else 'held-out '}sample{'' if n == 1 else 's'}"
    return f"{'' if n == 1 else f'{n:,} '}{noun} {name}/{seed} {'made from a seed' if generated else HELD_OUT}"


def stored_game(path: Path, settings: Settings) -> Question:
    """Return the game of a file as a question; a UsageError if there is none, or the scheme plays no such games."""
    games = record_of(settings).games
    if games is None or games.read is None:
        raise UsageError(f"`game=` is only for {' and '.join(STORED)}; drop it")
    return games.read(path, settings)


def _generated(name: str, n: int, seed: int, settings: Settings) -> list[Question]:
    record, agents = record_of(settings), settings.speakers()
    # Only the scheme that plays a world draws its games, and it asks nothing else.
    if name not in (record.games.samples if record.games else {}):
        players = {sample: f"`{command}`" for command, names in GAMES.items() for sample in names}
        if game := name if name in players else record.sample if record.games else "":
            who, game = players.get(game, "this scheme"), game.partition("/")[0]
            raise UsageError(f"`sample='{name}'` cannot be used here; `sample='{game}'` belongs to {who}")
    if record.games:
        split = next((split for split in SPLITS if name.endswith(f"/{split}")), None)
        return record.games.draw(n, settings, seed, split)
    if name in MADE:
        return made_arithmetic(name, n, seed)
    if name in BRIEFINGS:
        return briefings(name, n, agents, seed)
    if name in STEPS:
        return steps(name, n, agents, seed)
    if name.startswith("world"):
        type: Any = name.partition("/")[2] or None  # Any: a `Type`, by its name
        return about_the_world(type, n, seed)
    return two_facts(n, agents, seed, name) if name in PAIRS else split_knowledge(n, agents, seed)


def about_the_world(type: Type | None, n: int, seed: int = 0) -> list[Question]:
    """Return the first `n` questions of a type, or of all types in turn, shuffled by the seed."""
    from sottovoce.environments.encyclopedia import LABELS, encyclopedia  # late: most samples need none

    name = "world" if type is None else f"world/{type}"
    world, drawn = encyclopedia(), list[Question]()
    for i, template in enumerate(_order(type, seed)[:n]):
        sentences = [world.by_title[title].sentences[at] for title, at in template.gold if at is not None]
        why = sentences or [f"The article on {template.gold[0].title} does not tell."]
        question = Question(
            id=f"{name}/{seed}/{i}",
            question=template.text,
            kind=KINDS[template.type],
            target=template.answer,
            solution=f"{' '.join(why)} The answer is {template.answer}.",
            gold_passages=list(dict.fromkeys(title for title, _ in template.gold)),
            documents=passages(template),
        )
        drawn.append({**question, "choices": [*LABELS], "description": CLAIM} if template.type == "claim" else question)
    return drawn


@cache
def _order(type: Type | None, seed: int) -> list[Asked]:
    from sottovoce.environments import encyclopedia

    if type is None:
        return [
            asked for row in zip(*(_order(each, seed) for each in encyclopedia.TYPES), strict=False) for asked in row
        ]
    found = list(encyclopedia.questions(type))
    random.Random(f"world/{type}/{seed}").shuffle(found)
    return found


def passages(template: Asked) -> list[Passage]:
    """Return the gold articles and others of their kinds, shuffled; equal questions get equal articles."""
    from sottovoce.environments.encyclopedia import encyclopedia

    world, rng = encyclopedia(), random.Random(template.text)
    gold = [world.by_title[title] for title in dict.fromkeys(title for title, _ in template.gold)]
    kinds = {article.kind for article in gold}
    others = [article for article in world.articles if article.kind in kinds and article not in gold]
    mixed = [*gold, *rng.sample(others, PASSAGES - len(gold))]
    rng.shuffle(mixed)
    return [{"id": each.title, "title": each.title, "text": each.text, "source": SOURCE} for each in mixed]
