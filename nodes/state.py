"""What a discussion's graph keeps and returns: plain JSON and references, never tensors; and what is heard of it.

A scheme derives its own state from `Discussion` and adds typed keys. One that is annotated with
`RESTORED` goes back to what it was when a reset takes the discussion back; the others (counters) stay.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, get_type_hints

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from sottovoce.channels.board import Board
from sottovoce.channels.entry import Chat
from sottovoce.channels.message import Message, latest
from sottovoce.errors import UsageError
from sottovoce.nodes.question import Question

JSON = dict[str, Any]  # Any: plain JSON, as checkpoints hold it
Update = dict[str, Any]  # Any: an update of the state, by key

RESTORED: Final = "restored by a reset"
"""Marks a key: `fish: Annotated[int, RESTORED]`."""


NOTE: Final = "note"
"""The act of what a monitor tells everybody."""


class Vote(TypedDict):
    """What one agent's last message was read as."""

    agent: str
    answer: str | None
    """None is an abstention; the message on the board keeps the raw text."""
    counts: bool
    """Whether the decision rule looks at it."""
    confidence: NotRequired[float]
    """As stated, in [0, 1]; 0 where none could be read."""
    weight: NotRequired[float]
    """What the vote weighs: its recalibrated confidence."""
    note: NotRequired[str]
    """How it was read where that is not plain."""
    read: NotRequired[Literal["marked", "boxed", "mined"]]
    """How it was read: after a mark such as `Answer:`, in a box, brackets or a form's field, or mined from prose."""
    asked: NotRequired[Literal["repair", "answer"]]
    """What it took to read it: another reply in the form, or the answer turn; absent where it was read at once."""


class Decision(TypedDict):
    """How a discussion ended."""

    answer: str | None
    """None where all abstained, or where the rule gives a score and no answer."""
    rule: str
    why: str
    """One line for a reader."""
    votes: list[Vote]
    tied: NotRequired[list[str]]
    """The answers that had equally many votes, where no rule but the order of agents told them apart, or
    another agent was asked."""
    by: NotRequired[str]
    """Who decided, where it was no vote: moderator, judge, secretary."""
    agreed: NotRequired[bool]
    """Whether a judge found the agents agreed in the end (MADRA; where not, a question is "inconsistent")."""
    beside: NotRequired[dict[str, str | None]]
    """What other rules would have decided, by rule."""
    score: float | None
    """Share of right votes under the rule `average`, 1 or 0 under the others; None without a target."""
    measures: NotRequired[dict[str, int | float | None]]
    """What a world measures of a game, by name: turns, precision. Counts are integers, shares are not; None where a
    measure does not apply to this game: it counts as nothing."""


class Mark(TypedDict):
    """A moment that a reset can go back to."""

    round: int
    turn: int
    cut: list[int]
    """The round and turn from which on nothing is heard after a reset to it."""
    keys: JSON
    """The values of the restored keys."""


class Intervened(TypedDict):
    """An intervention that took place: of whose words, when, and why."""

    agent: str
    """Of several who were looked at together: all names."""
    role: str
    """As the scheme's settings call the agent to monitors."""
    act: str
    epoch: int
    round: int
    turn: int
    attempt: int
    score: float | None
    """A monitor's; None where a watch gave none."""
    what: str
    why: str
    temperature: NotRequired[float]
    """Temperature of replies that are said again after it, where the agent's own is 0."""


def by_node(before: Mapping[str, Any], update: Mapping[str, Any]) -> JSON:
    """Entries by node; None takes one away."""
    return {name: value for name, value in {**before, **update}.items() if value is not None}


class Discussion(Question):
    """The state that every scheme has."""

    settings: JSON
    """The run's settings, copied from the runtime context by the opening node: acts and routers read them here."""
    round: int
    """0-based; -1 before the first."""
    turn: int
    """0-based, within the round; whoever speaks in turn says so by raising it."""
    epochs: list[list[int]]
    """One entry a reset: the round and turn from which on nothing of the epoch before it is heard."""
    marks: list[Mark]
    """What a reset can go back to, in order of time; kept where the discussion is watched or a scheme marks."""
    board: Annotated[list[Message], Board]
    pending: Annotated[dict[str, JSON], by_node]
    """By node: the update of an act that is watched, until it is published."""
    interventions: Annotated[list[Intervened], operator.add]
    """All of them, in order of time; a reset takes none back, so that they can be counted."""
    votes: list[Vote]
    """Of the last round that was counted."""
    notes: list[str]
    """What a reader must know of the run as a whole, e.g. edges carried in words."""
    decision: Decision
    messages: Annotated[list[AnyMessage], Chat]
    """Once it is over, the discussion as LangChain's messages: question, each agent's words under its name, answer."""


class Outcome(TypedDict):
    """What the outside sees, of each step in streams and in the end; a scheme's own keys stand beside it.

    A parent graph takes from it what it has keys for; keys that it may count itself (round, turn) are left out.
    """

    board: list[Message]
    interventions: list[Intervened]
    votes: list[Vote]
    notes: list[str]
    decision: Decision
    messages: list[AnyMessage]


def outcome_of(state: type[Any], question: type[Any] = Question) -> type[Any]:
    """The `Outcome` of a scheme: with the keys that its state has besides `Discussion`'s and the question's."""
    hints = get_type_hints(state, include_extras=True)
    known = {*get_type_hints(Discussion), *get_type_hints(question)}
    own = {name: hint for name, hint in hints.items() if name not in known}
    # Any: made here, so that no type checker knows it
    made: Any = TypedDict("Outcome", {**get_type_hints(Outcome), **own})  # type: ignore[misc]
    return made


def heard(state: Discussion) -> list[Message]:
    """The messages of the current epoch, and of earlier ones what was not withdrawn; of several attempts the last.

    What was said in an answer turn is read, and not heard: hearers have the reply that it belongs to.
    """
    return latest(message for message in _standing(state) if message.asked != "answer")


def concluded(state: Discussion, message: Message) -> Message | None:
    """Return the answer turn after a message that could not be read, in its last edit; None if there was none."""
    turns = [each for each in _standing(state) if each.asked == "answer" and each.place[:-1] == message.place[:-1]]
    after = [each for each in turns if each.attempt > message.attempt]
    return max(after, key=lambda turn: turn.attempt, default=None)


def _standing(state: Discussion) -> list[Message]:
    cuts = [tuple(cut) for cut in state.get("epochs", [])]
    return [
        message
        for message in state.get("board", [])
        if not message.withdrawn
        and all(message.time < cut for cut in cuts[message.epoch :])  # each later reset left it where it was
    ]


class Spoken(dict[str, Message]):
    """What was said in a round, by agent."""

    def __init__(self, round: int) -> None:
        """Nothing yet."""
        super().__init__()
        self.round = round

    def __missing__(self, agent: str) -> Message:
        """It said nothing, so the run goes on from a state that is not its own."""
        raise UsageError(
            f"{agent!r} has no message of round {self.round} on the board; resume the run from an earlier step"
        )


def rounds_of(state: Discussion, acts: Collection[str]) -> list[dict[str, Message]]:
    """What was said in these acts, by round and agent, in the board's order; of several times in a round the last.

    Raises:
        UsageError: no round has begun, or a message is of a later one: the state was edited to what is none.
    """
    if state["round"] < 0:
        raise UsageError("no round has begun, so that nobody has said anything; resume the run from a later step")
    rounds: list[dict[str, Message]] = [Spoken(round) for round in range(state["round"] + 1)]
    for message in heard(state):
        if message.act not in acts:
            continue
        if message.round >= len(rounds):
            raise UsageError(f"on the board, {message.place} is later than the state, in round {state['round']}")
        rounds[message.round][message.agent] = message
    return rounds


def said(state: Discussion, agent: str, round: int, acts: Collection[str]) -> Message | None:
    """The last of what an agent said in a round in one of these acts."""
    spoken = [each for each in heard(state) if (each.agent, each.round) == (agent, round) and each.act in acts]
    return spoken[-1] if spoken else None


def attempt_of(state: Discussion, agent: str, act: str) -> int:
    """At which attempt an act is that begins now: after those that the board holds of this moment."""
    here = (*moment(state), agent, act)
    before = [message.attempt for message in state.get("board", []) if message.place[:-1] == here]
    return max(before, default=-1) + 1


def moment(state: Discussion) -> tuple[int, int, int]:
    """Epoch, round and turn, now."""
    return len(state.get("epochs", [])), max(state["round"], 0), state.get("turn", 0)


def marked(state: Discussion, keys: Sequence[str], cut: Sequence[int] = ()) -> Update:
    """Keep this moment, with the values of `keys`, as one that a reset can go back to; `cut` is now unless given."""
    values = {key: value for key, value in state.items() if key in keys}
    now = Mark(round=state["round"], turn=state["turn"], cut=list(cut) or [state["round"], state["turn"]], keys=values)
    return {"marks": [*state["marks"], now]}


def reset(state: Discussion, to: int = -1) -> Update:
    """A new epoch from mark `to` (-1 is the last one): what was said since is heard no more, and the board keeps it.

    Keys that are restored have their values of then, all others stay. The mark itself goes: who begins there again
    marks again, as `next_round` does.

    Raises:
        UsageError: nothing was marked.
    """
    if not state["marks"]:
        raise UsageError("a reset found no mark to go back to; watch the discussion, or mark a moment (`marked`) first")
    marks = state["marks"][: to % len(state["marks"]) + 1]
    mark = marks[-1]
    again = {"round": mark["round"], "turn": mark["turn"], "marks": marks[:-1]}
    return {"epochs": [*state["epochs"], mark["cut"]], **again, **mark["keys"]}
