"""Games of WhoDunit as questions: which character fits? Agents never read the stored game; rules tell each its part.

One sample: "Which character is the winner?", target "7", with the game's file in its field `game`.
"""

from __future__ import annotations

from pathlib import Path

from sottovoce.environments.game_file import Split
from sottovoce.environments.whodunit.games import Game, read_game
from sottovoce.evaluation.worlds import World
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import WhoDunit


def games(n: int, settings: WhoDunit, seed: int = 0, split: Split | None = None) -> list[Question]:
    """The first `n` games of a seed, as the settings have them; those of a split share no character with others.

    Raises:
        UsageError: there are no such games.
    """
    name = str(seed) if split is None else f"{split}/{seed}"
    return [question(settings.game(f"{name}/{i}", split), f"whodunit/{name}/{i}", settings) for i in range(n)]


def stored(path: Path, settings: WhoDunit) -> Question:
    """The game of a file. Errors: see `read_game`."""
    return question(read_game(path), path.stem, settings)


def question(game: Game, id: str, settings: WhoDunit) -> Question:
    """Return a game as it is asked; Intel, who cannot know who is sought, gets a question of its own."""
    words = settings.words
    made = Question(
        id=id,
        question=f"Which {words.person} is the {words.winner}?",
        kind="number",
        target=str(game.winner),
        solution=f"All that is known fits {words.person} {game.winner} alone. The answer is {game.winner}.",
        game=game.model_dump(mode="json"),
    )
    if settings.variant == "sym":
        return made
    accuser, intel = settings.speakers()
    return {**made, "wordings": {intel: f"What do you tell {accuser} now?"}}


WORLD = World(
    samples={
        "whodunit": "games of the size that its settings say; for the scheme of that name",
        "whodunit/train": "such games of which monitors learn",
        "whodunit/validation": "games of other characters, by which monitors are chosen",
        "whodunit/test": "games of the rest, which are held out",
    },
    draw=games,
    read=stored,
)
