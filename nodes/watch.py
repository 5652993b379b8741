"""Acts that are watched: what was made is looked at before it is published or acted on (arXiv 2502.05986).

A watched act is two nodes. In the first the agent speaks, and its whole update is left pending in state. In the
second a `Watch` looks at the messages, and the update is published, or an intervention takes its place. What is said
side by side, and acted on together, may be looked at together, in one node before that step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.channels.message import Message, latest
from sottovoce.nodes.act import Act, plain
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.people import HUMAN, check_saver
from sottovoce.nodes.redraw import AGAIN, warmed
from sottovoce.nodes.state import JSON, NOTE, Discussion, Intervened, Update, attempt_of, moment, reset
from sottovoce.registry import Registry

What = Literal["again", "reset", "rollback", "augment", "mute", "human", "edit", "reject"]
Next = Literal["publish", "again", "reset", "nothing"]
NEXT: dict[str, Next] = {"reset": "reset", "rollback": "reset", "mute": "publish", "reject": "publish"}
"""What follows an intervention; all others are followed by the act, done again."""
MONITOR = "monitor"
"""Who says what is added to the channel, "of" whoever was held back: several may be, side by side."""


@dataclass(frozen=True)
class Intervention:
    """What is done in the place of publishing; what was said is kept on the board, and heard by nobody."""

    what: What
    """again: the agent is asked again. reset: the discussion goes back to the last action that cannot be undone, or
    in a scheme without any to the beginning of the round, in a new epoch. rollback: so many rounds further back.
    augment: everybody is told something, and the agent is asked again. mute: nothing is said in its place. human: the
    agent's seat is a person's from now on, who is asked through LangGraph's `interrupt`. edit, reject: a person who
    approves wrote something else, with which the act is done again; or rejected it, which is as if it were muted."""
    why: str
    """For the record: it stands beside the message."""
    update: JSON = field(default_factory=dict)
    """Keys of the state besides, e.g. a counter."""
    score: float | None = None
    """What a monitor gave."""
    rounds: int = 1
    """That a rollback takes back besides the one under way; the last action that cannot be undone stays."""
    note: str = ""
    """What an augmentation tells everybody."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Of an edit: by act, what is read in the place of the model's reply."""


class Watch(Protocol):
    """Looks at what an agent is about to say."""

    def __call__(self, run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        """None publishes the messages: the attempts of one act, and an answer turn after the last, if there was one.

        Of acts that are looked at together they are everybody's.
        """
        ...


MONITORS: Registry[Watch] = Registry("monitor", "sottovoce.monitors")
"""Watches by name."""
Silent = Callable[[RunContext[Any], Any, str], Update]  # Any: the settings and the state of every scheme
"""The run, the state and an agent that was muted -> what becomes of the world, where its act would have changed it."""


def check_watch(watch: Watch, run: RunContext[Any], config: RunnableConfig) -> list[str]:
    """Refuse, before anybody speaks, what would fail when it intervenes; returns what a reader must know of it.

    Raises:
        UsageError: a seat may be handed to a human, and nothing keeps the discussion until that one answers; or the
            watch has a method `begin(run)`, which returns such notes, that refuses.
    """
    if run.settings.intervention == HUMAN:
        check_saver("a seat may be handed to a human", config)
    begin: Callable[[RunContext[Any]], list[str]] = getattr(watch, "begin", lambda run: [])
    return begin(run)


def judging(watch: Watch) -> Watch:
    """The watch where it may judge: from the settings' round on, and no person's words."""

    def look(run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        early = state["round"] < run.settings.watched_from
        if early or all(message.source == HUMAN for message in messages):
            return None
        return watch(run, state, messages)

    return look


def held_back(act: Act, name: str) -> Act:
    """The act whose update is left pending under the node's name."""

    async def speak(run: RunContext[Any], state: Discussion, agent: str) -> Update:
        return {"pending": {name: plain(await act(run, state, agent))}}

    return speak


def watching(
    contexts: Contexts[Any], watch: Watch, name: str, silent: Silent | None = None, back_to: int = -1
) -> RunnableLambda[Discussion, Update]:
    """The node that looks at what is pending under a node's name."""

    def look(state: Discussion) -> Update:
        run, update = contexts.of(state), state["pending"][name]
        messages = [Message.from_dict(message) for message in update.get("board", [])]
        if any(message.epoch < len(state["epochs"]) for message in messages):
            return _too_late(name, update)
        found = watch(run, state, messages) if messages else None
        if found is None:
            return {**update, "pending": {name: None}}
        agent = messages[-1].agent
        kept = [replace(each, withdrawn=True, notes=(*each.notes, f"withdrawn: {found.why}")) for each in messages]
        done = _intervened(run, state, found, messages) | {"pending": {name: _onwards(state, found, back_to)}}
        if NEXT.get(found.what) != "publish":
            return plain({**done, "board": [*kept, *_note(run, state, found, agent)]})
        instead = update if silent is None else silent(run, state, agent)
        return plain({**instead, **done, "board": [*kept, *map(_nothing, latest(messages))]})

    return RunnableLambda(look, name=f"watch_{name}")


def watching_all(
    contexts: Contexts[Any], watch: Watch, name: str, together: Callable[[Any], list[Message]], back_to: int = -1
) -> RunnableLambda[Discussion, Update]:
    """The node that looks at all that several agents are about to do, before the step `name` does it.

    What they said is on the board already. It can only be let pass, or taken back with a reset or a rollback: any
    other intervention becomes a reset.
    """

    def look(state: Discussion) -> Update:
        run, messages = contexts.of(state), together(state)
        found = watch(run, state, messages) if messages else None
        if found is None:
            return {"pending": {name: None}}
        back = found if NEXT.get(found.what) == "reset" else replace(found, what="reset")
        return _intervened(run, state, back, messages) | {"pending": {name: _onwards(state, back, back_to)}}

    return RunnableLambda(look, name=f"watch_{name}")


def next_of(name: str) -> Callable[[Discussion], Next]:
    """What follows a watch: its router reads it from the state."""

    def what_next(state: Discussion) -> Next:
        found: Next = state.get("pending", {}).get(name, {}).get("next", "publish")
        return found

    return what_next


def go_back() -> RunnableLambda[Discussion, Update]:
    """The node that takes the discussion back, to the earliest mark that anybody's intervention asked for."""

    def reset_to(state: Discussion) -> Update:
        pending = state.get("pending", {})
        asked = {name: found["to"] for name, found in pending.items() if found.get("next") == "reset"}
        return {**reset(state, min(asked.values())), "pending": dict.fromkeys(asked)}

    return RunnableLambda(reset_to, name="reset")


def _too_late(name: str, update: Update) -> Update:
    """What was said again while another's reset took place: the board keeps it, and nothing follows."""
    return {"board": update["board"], "pending": {name: {"next": "nothing"}}}


def _onwards(state: Discussion, found: Intervention, back_to: int) -> JSON | None:
    """What is left pending: where to go on, and of a reset the mark's place."""
    what_next = NEXT.get(found.what, "again")
    if what_next == "publish":
        return None
    if what_next == "again":
        return {"next": what_next, **({"written": {**found.written}} if found.written else {})}
    marks = len(state["marks"])
    to = back_to % marks if found.what == "reset" else max(marks - 1 - found.rounds, 0)
    return {"next": what_next, "to": to}


def _intervened(run: RunContext[Any], state: Discussion, found: Intervention, messages: Sequence[Message]) -> Update:
    """What state keeps of it, whatever is taken back later."""
    last = messages[-1]
    agents = list(dict.fromkeys(message.agent for message in messages))
    epoch, round, turn = moment(state)
    entry = Intervened(
        agent=", ".join(agents),
        role=run.settings.role_of(last.agent),
        act=last.act,
        epoch=epoch,
        round=round,
        turn=turn,
        attempt=last.attempt,
        score=found.score,
        what=found.what,
        why=found.why,
    )
    if found.what in AGAIN and (warm := warmed(run, last.agent)) is not None:
        entry["temperature"] = warm
    return {**found.update, "interventions": [entry]}


def _note(run: RunContext[Any], state: Discussion, found: Intervention, agent: str) -> list[Message]:
    if found.what != "augment":
        return []
    who, (epoch, round, turn) = f"{MONITOR} of {agent}", moment(state)
    at = attempt_of(state, who, NOTE)
    return [Message(who, round, NOTE, found.note, at, epoch=epoch, turn=turn, order=run.order(who), source="rule")]


def _nothing(last: Message) -> Message:
    """What stands on the board where somebody was muted: it is read as an abstention."""
    place = {name: getattr(last, name) for name in ("agent", "round", "act", "epoch", "turn", "order")}
    public = None if last.public is None else ""
    return Message(**place, text="", attempt=last.attempt + 1, public=public, source="rule", notes=("muted",))
