"""Games of WhoDunit as questions: who fits? No agent reads the game as it stands here; the rules tell each its part.

One sample: "Which character is the winner?", target "7", with the game's file in its field `game`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.environments.whodunit.games import Game, read_game
from sottovoce.environments.whodunit.metrics import Ended, Metrics, metrics
from sottovoce.errors import UsageError
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import WhoDunit

if TYPE_CHECKING:  # command lines read this file to print their help
    from sottovoce.channels.message import Message
    from sottovoce.evaluation.runs.record import Record
    from sottovoce.nodes.state import Decision


def games(n: int, settings: WhoDunit, seed: int = 0) -> list[Question]:
    """The first `n` games of a seed, as the settings have them.

    Raises:
        UsageError: there are no such games.
    """
    return [question(settings.game(f"{seed}/{i}"), f"whodunit/{seed}/{i}", settings) for i in range(n)]


def stored(path: Path, settings: WhoDunit) -> Question:
    """The game of a file. Errors: see `read_game`."""
    return question(read_game(path), path.stem, settings)


def question(game: Game, id: str, settings: WhoDunit) -> Question:
    """A game as it is asked."""
    words = settings.words
    return Question(
        id=id,
        question=f"Which {words.person} is the {words.winner}?",
        kind="number",
        target=str(game.winner),
        solution=f"All that is known fits {words.person} {game.winner} alone. The answer is {game.winner}.",
        game=game.model_dump(mode="json"),
    )


def metrics_of(records: Iterable[Record]) -> Metrics:
    """Success, precision and length over the games of a run that ended: `metrics_of(run.records.values())`.

    Raises:
        UsageError: none has.
    """
    games = [_went(record.decision, record.messages) for record in records if record.decision is not None]
    if not games:
        raise UsageError("no game of the run has ended; play some first")
    return metrics(games)


def _went(decision: Decision, messages: Sequence[Message]) -> Ended:
    turns = {(message.epoch, message.round) for message in messages}
    cancelled = messages[-1].public is None  # nothing could be published of it
    return Ended(decision["score"] == 1, decision["answer"] is not None, len(turns), cancelled)
