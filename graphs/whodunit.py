"""WhoDunit (Barbi et al., arXiv 2502.05986): a world in which agents find the one character who fits.

Asymmetric: the Accuser asks and Intel replies, in turn, until the Accuser awards somebody. Symmetric: all act in
turn, and the first award ends the game. A turn is a round. A turn that cannot be parsed after all retries, or the turn
limit, ends the game without an answer. A reset restarts the whole game, since nothing but its end is irreversible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from sottovoce.environments.whodunit.metrics import class_noted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.settings import WhoDunit

if TYPE_CHECKING:  # its file loads safetensors
    from sottovoce.channels.message import Message


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
    return f"{who}{by_rule} in turn, at most {most} turn{'s' * (most != 1)}"


def truth(message: Message) -> str:
    """Return the class of error in a message: hallucination, collapse, role loss, recall failure or none."""
    return class_noted(message.notes)


SCHEME = Scheme(
    "whodunit",
    WhoDunit,
    create_whodunit,
    answers=(),
    headings=dict.fromkeys(("request", "reply", "act"), "Turn {round}"),
    manner=manner,
    truth=truth,
    first_options="--suspects 3 --attributes 3 --turns 8",
)
make_graph = SCHEME.make_graph
