"""WhoDunit (Barbi et al., arXiv 2502.05986): a world in which agents find the one character who fits.

Asymmetric: the Accuser asks and Intel replies, in turn, until the Accuser awards somebody. Symmetric: all act in
turn, and the first award ends the game. A turn is a round. A turn that cannot be parsed after all retries, or the turn
limit, ends the game without an answer. A reset restarts the whole game, since nothing but its end is irreversible.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack

from sottovoce.core.text import counted
from sottovoce.environments import Split
from sottovoce.environments.whodunit.games import Game, read_game
from sottovoce.environments.whodunit.knowledge import class_noted
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.question import Question
from sottovoce.settings import WhoDunit


def whose_turn(state: State) -> str:
    """Return the agent of this turn: all in their order, again and again."""
    order: list[str] = WhoDunit.model_construct(**state["settings"]).speakers()
    return order[int(state["round"]) % len(order)]


OVER = {"next_round": "the game goes on", "decide": "the game is over"}


def next_turn(state: Any) -> Literal["next_round", "decide"]:
    """Continue until the game is over."""
    from sottovoce.nodes.whodunit import game_over

    return "decide" if game_over(state) else "next_round"


def create_whodunit(settings: WhoDunit | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a game. Names in `models`: "Beth" (Accuser) and "Alex" (Intel), or the peers."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import whodunit as acts

    settings = WhoDunit.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_award, begin=acts.begin, state=acts.Mystery, back_to=0)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(
            agent,
            acts.take_turn,
            role=settings.role_of(agent),
            to=next_turn,
            effect=acts.effect,
            silent=acts.stay_silent,
            labels=OVER,
        )
    return frame.graph


def manner(settings: WhoDunit) -> str:
    """Return a phrase that describes the game."""
    named = [f"{settings.role_of(each).title()} {each}" for each in settings.speakers()]
    who = " and ".join(named) if settings.variant == "asym" else f"{len(named)} peers"
    most, by_rule = settings.most_turns, ", by rule," if settings.golden else ""
    return f"{who}{by_rule} in turn, at most {counted(most, 'turn')}"


def games(n: int, settings: WhoDunit, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` games of a seed with these settings; the games of a split share no character with others.

    Raises:
        UsageError: there are no such games.
    """
    name = str(seed) if split is None else f"{split}/{seed}"
    return [_question(settings.game(f"{name}/{i}", split), f"whodunit/{name}/{i}", settings) for i in range(n)]


def _question(game: Game, id: str, settings: WhoDunit) -> Question:
    """Return a game as a question; Intel, which cannot know who is sought, gets its own wording."""
    words = settings.words
    question = Question(
        id=id,
        question=f"Which {words.person} is the {words.winner}?",
        kind="number",
        target=str(game.winner),
        solution=f"All that is known fits {words.person} {game.winner} alone. The answer is {game.winner}.",
        game=game.model_dump(mode="json"),
    )
    if settings.variant == "sym":
        return question
    accuser, intel = settings.speakers()
    return {**question, "wordings": {intel: f"What do you tell {accuser} now?"}}


SCHEME = Scheme(
    "whodunit",
    WhoDunit,
    create_whodunit,
    answers=(),
    headings=dict.fromkeys(("request", "reply", "act"), "Turn {round}"),
    sample="whodunit",
    games=Games(
        samples={
            "whodunit": "games of the size in the settings; for the scheme whodunit",
            "whodunit/train": "such games, for fitting monitors",
            "whodunit/validation": "games with other characters, for choosing monitors",
            "whodunit/test": "games with the remaining characters, held out",
        },
        draw=games,
        read=lambda path, settings: _question(read_game(path), path.stem, settings),
    ),
    unrolls="in a world, speakers and messages depend on earlier actions",
    manner=manner,
    truth=lambda message: class_noted(message.notes),
    first_options="--suspects 3 --attributes 3 --turns 8",
)
make_graph = SCHEME.make_graph
