"""The state and the output of a discussion's graph (plain JSON and references, never tensors), and who hears what.

A scheme derives its own state from `Discussion` and adds typed keys. A reset restores the earlier
values of keys that are annotated with `RESTORED`; the others (counters) stay.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, get_type_hints

from typing_extensions import TypedDict

from sottovoce.channels.message import Message, latest, validated
from sottovoce.core.any_types import JSON, AnyState
from sottovoce.core.errors import UsageError
from sottovoce.nodes.question import Question

Update = dict[str, AnyState]

BOARD: Final = "messages by their place"
CHAT: Final = "the discussion as a chat"
SHOWN: Final = "LangChain's messages"
"""Marks of keys; a graph replaces them by the channels and types that import LangGraph."""
RESTORED: Final = "restored by a reset"
"""Marks a key: `fish: Annotated[int, RESTORED]`."""
NOTE: Final = "note"
"""The act of a monitor's note to all agents."""


class Vote(TypedDict):
    """The vote that was read from an agent's last message."""

    agent: str
    answer: str | None
    """None is an abstention; the message on the board has the raw text."""
    counts: bool
    """True if the decision rule counts it."""
    confidence: NotRequired[float]
    """The stated confidence, in [0, 1]; 0 if none could be read."""
    weight: NotRequired[float]
    """The weight of the vote: its recalibrated confidence."""
    note: NotRequired[str]
    """A remark on how it was read, if needed."""
    read: NotRequired[Literal["marked", "boxed", "bare", "asked"]]
    """Where it was read: after a mark such as `Answer:`; in a box, brackets or a form's field; in a reply that is
    nothing but the answer; or in the answer turn."""
    entropy: NotRequired[float]
    """The mean entropy of the answer's tokens in nats, for the tie rule `certain`; absent if it is unknown."""
    asked: NotRequired[Literal["repair", "answer"]]
    """The second request that it took: for another reply in the form, or the answer turn; absent if none was needed."""


class Decision(TypedDict):
    """The result of a discussion."""

    answer: str | None
    """None if all abstained, or if the rule yields a score and no answer."""
    rule: str
    why: str
    """An explanation in one line."""
    votes: list[Vote]
    tied: NotRequired[list[str]]
    """The answers with equally many votes, if the order of agents broke the tie or another agent was asked."""
    by: NotRequired[str]
    """The agent that decided, if it was not a vote: moderator, judge, secretary, receiver."""
    agreed: NotRequired[bool]
    """True if a judge found in the end that the agents agree (MADRA; otherwise the question is "inconsistent")."""
    beside: NotRequired[dict[str, str | None]]
    """The decisions of other rules, by rule."""
    score: float | None
    """The share of right votes under the rule `average`, 1 or 0 under the others; None without a target."""
    measures: NotRequired[dict[str, int | float | None]]
    """Measures of a world's game, by name: turns, precision. Counts are integers, shares are floats; None if a
    measure does not apply to this game, which then does not count."""


class Mark(TypedDict):
    """A moment that a reset can go back to."""

    round: int
    turn: int
    cut: list[int]
    """The round and turn: after a reset to this mark, messages from then on are no longer heard."""
    keys: JSON
    """The values of the restored keys."""


class Intervened(TypedDict):
    """An intervention: whose messages it concerned, when and why."""

    agent: str
    """All names, if several agents were checked together."""
    role: str
    """The agent's role for monitors, from the scheme's settings."""
    act: str
    epoch: int
    round: int
    turn: int
    attempt: int
    score: float | None
    """A monitor's score; None if the watch has none."""
    what: str
    why: str
    temperature: NotRequired[float]
    """Temperature of repeated replies after it, if the agent's own is 0."""


def by_node(before: Mapping[str, Any], update: Mapping[str, Any]) -> JSON:
    """Return entries by node, updated; None removes an entry."""
    return {name: value for name, value in {**before, **update}.items() if value is not None}


class Discussion(Question):
    """The state that every scheme has."""

    settings: JSON
    """The run's settings, copied from the runtime context by the node `opening`; acts and routers read them here."""
    round: int
    """0-based; -1 before the first round."""
    turn: int
    """0-based, within the round; acts in turn increment it."""
    epochs: list[list[int]]
    """One entry for each reset: the round and turn from which messages of the previous epoch are no longer heard."""
    marks: list[Mark]
    """The moments that a reset can go back to, in order of time; only in watched discussions or schemes that mark."""
    board: Annotated[list[Message], BOARD]
    pending: Annotated[dict[str, JSON], by_node]
    """By node: the update of a watched act, until it is published."""
    interventions: Annotated[list[Intervened], operator.add]
    """All interventions, in order of time; a reset removes none, so that they can be counted."""
    votes: list[Vote]
    """The votes of the last round that was counted."""
    notes: list[str]
    """Notes on the run as a whole, e.g. edges that are sent as text."""
    decision: Decision
    messages: Annotated[list[Any], CHAT]
    """At the end, the discussion as LangChain messages: question, each agent's text under its name, answer."""


class Outcome(TypedDict):
    """The output of a graph, in streams and at the end; a scheme adds its own keys.

    A parent graph takes the keys that it has too; keys that it may count itself (round, turn) are left out.
    """

    board: list[Message]
    interventions: list[Intervened]
    votes: list[Vote]
    notes: list[str]
    decision: Decision
    messages: Annotated[list[Any], SHOWN]


def outcome_of(state: type[Any], question: type[Any] = Question) -> type[Any]:
    """Return the `Outcome` of a scheme, with the keys that its state adds to `Discussion` and the question."""
    hints = get_type_hints(state, include_extras=True)
    known = {*get_type_hints(Discussion), *get_type_hints(question)}
    own = {name: hint for name, hint in hints.items() if name not in known}
    # Any: created here, so no type checker knows it
    made: Any = TypedDict("Outcome", {**get_type_hints(Outcome, include_extras=True), **own})  # type: ignore[misc]
    return made


def current_messages(state: Discussion) -> list[Message]:
    """Return the messages of the current epoch, and messages of earlier ones that were not withdrawn.

    Only the last of several attempts is heard. Answer turns are read but not heard; hearers get the reply before.
    """
    return latest(message for message in _standing(state) if message.asked != "answer")


def concluded(state: Discussion, message: Message) -> Message | None:
    """Return the answer turn after an unreadable message, in its last edit; None without one."""
    turns = [each for each in _standing(state) if each.asked == "answer" and each.place[:-1] == message.place[:-1]]
    after = [each for each in turns if each.attempt > message.attempt]
    return max(after, key=lambda turn: turn.attempt, default=None)


def _standing(state: Discussion) -> list[Message]:
    cuts = [tuple(cut) for cut in state.get("epochs", [])]
    return [
        message
        for message in map(validated, state.get("board", []))  # what left a graph is JSON
        if not message.withdrawn
        and all(message.time < cut for cut in cuts[message.epoch :])  # no later reset withdrew it
    ]


class Spoken(dict[str, Message]):
    """The messages of a round, by agent."""

    def __init__(self, round: int) -> None:
        """Start with no messages."""
        super().__init__()
        self.round = round

    def __missing__(self, agent: str) -> Message:
        """Raise an error: without the message, the run was resumed from a wrong state."""
        raise UsageError(
            f"{agent!r} has no message of round {self.round} on the board; resume the run from an earlier step"
        )


def rounds_of(state: Discussion, acts: Collection[str]) -> list[dict[str, Message]]:
    """Return the messages of these acts by round and agent, in the board's order; each agent's last one in a round.

    Raises:
        UsageError: no round has begun, or a message belongs to a later one, since the state was edited.
    """
    if state["round"] < 0:
        raise UsageError("no round has begun, so there are no messages; resume the run from a later step")
    rounds: list[dict[str, Message]] = [Spoken(round) for round in range(state["round"] + 1)]
    for message in current_messages(state):
        if message.act not in acts:
            continue
        if message.round >= len(rounds):
            raise UsageError(f"the board has {message.place}, but the state is only in round {state['round']}")
        rounds[message.round][message.agent] = message
    return rounds


def said(state: Discussion, agent: str, round: int, acts: Collection[str]) -> Message | None:
    """Return the last message of an agent in a round and in one of these acts; None without one."""
    spoken = [
        each for each in current_messages(state) if (each.agent, each.round) == (agent, round) and each.act in acts
    ]
    return spoken[-1] if spoken else None


def attempt_of(state: Discussion, agent: str, act: str) -> int:
    """Return the number of the next attempt at an act, after the attempts on the board at this place."""
    here = (*moment(state), agent, act)
    before = [message.attempt for message in state.get("board", []) if message.place[:-1] == here]
    return max(before, default=-1) + 1


def moment(state: Discussion) -> tuple[int, int, int]:
    """Return the current epoch, round and turn."""
    return len(state.get("epochs", [])), max(state["round"], 0), state.get("turn", 0)


def marked(state: Discussion, keys: Sequence[str], cut: Sequence[int] = ()) -> Update:
    """Mark this moment, with the values of `keys`, for a reset; `cut` is by default the current round and turn."""
    values = {key: value for key, value in state.items() if key in keys}
    now = Mark(round=state["round"], turn=state["turn"], cut=list(cut) or [state["round"], state["turn"]], keys=values)
    return {"marks": [*state["marks"], now]}


def reset(state: Discussion, to: int = -1) -> Update:
    """Start a new epoch from mark `to` (-1 is the last): later messages stay on the board, but are no longer heard.

    Restored keys get their values at the mark; all others stay. The mark is removed, since the nodes that run again
    (such as `next_round`) set it again.

    Raises:
        UsageError: there is no mark.
    """
    if not state["marks"]:
        raise UsageError("a reset found no mark to go back to; watch the discussion, or set a mark (`marked`) first")
    marks = state["marks"][: to % len(state["marks"]) + 1]
    mark = marks[-1]
    again = {"round": mark["round"], "turn": mark["turn"], "marks": marks[:-1]}
    return {"epochs": [*state["epochs"], mark["cut"]], **again, **mark["keys"]}
