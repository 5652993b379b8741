"""Watches check messages before they are published. Here: their interventions, and temperatures of repeated replies.

At temperature 0 the same prompt gives the same text under any seed, so a reset would change nothing. Therefore repeated
replies at temperature 0 are sampled at `redraw_temperature`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sottovoce.agents.ask import HUMAN
from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import JSON, AnyState
from sottovoce.core.errors import UsageError
from sottovoce.core.registry import Registry
from sottovoce.nodes.state import Discussion, Update

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from sottovoce.nodes.context import RunContext

Kind = Literal["again", "reset", "rollback", "augment", "mute", "human", "edit", "reject"]
Next = Literal["publish", "again", "reset", "nothing"]
NEXT: dict[str, Next] = {"reset": "reset", "rollback": "reset", "mute": "publish", "reject": "publish"}
"""The next step after an intervention; after all others the act runs again."""
AGAIN = ("again", "reset", "rollback")
"""Interventions after which the same prompts are asked again."""


@dataclass(frozen=True)
class Intervention:
    """An intervention instead of publishing; withdrawn messages stay on the board, but nobody hears them."""

    kind: Kind
    """again: ask the agent again. reset: return to the last action that cannot be undone, or in a scheme without any
    to the beginning of the round, in a new epoch. rollback: return some rounds further. augment: add a note for all
    agents, and ask the agent again. mute: publish an empty message. human: a person plays the agent from then on, and
    is asked through LangGraph's `interrupt`. edit, reject: a person who approves wrote another text, with which the
    act runs again; or rejected the message, with the same effect as mute."""
    why: str
    """The reason, which is recorded with the message."""
    update: JSON = field(default_factory=dict)
    """Updates of other state keys, e.g. a counter."""
    score: float | None = None
    """A monitor's score."""
    rounds: int = 1
    """For a rollback: rounds to take back besides the current one; actions that cannot be undone stay."""
    note: str = ""
    """For an augmentation: the note for all agents."""
    replacements: Mapping[str, str] = field(default_factory=dict)
    """For an edit: by act, the text that replaces the model's reply."""


class Watch(Protocol):
    """A check of messages before they are published."""

    def __call__(self, run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        """Return an intervention, or None to publish the messages.

        The messages are the attempts of one act, with its answer turn if any, or the attempts of all acts checked
        together.
        """
        ...


MONITORS: Registry[Watch] = Registry("monitor", "sottovoce.monitors")
Silent = Callable[["RunContext[AnyState]", AnyState, str], Update]
"""Takes the run, the state and a muted agent, and returns the update of a world that its act would have changed."""


def check_watch(watch: Watch, run: RunContext[Any], config: RunnableConfig) -> list[str]:
    """Refuse, before any model runs, a watch whose interventions would fail, and return notes on it.

    Raises:
        UsageError: a human may take over an agent, but the graph has no checkpointer; or `begin(run)` of the watch,
            which returns such notes, raises it.
    """
    if run.settings.intervention == HUMAN:
        from sottovoce.agents.person import check_saver  # late: langgraph

        check_saver("a person may take over an agent", config)
    begin: Callable[[RunContext[Any]], list[str]] = getattr(watch, "begin", lambda run: [])
    return begin(run)


def restricted(watch: Watch) -> Watch:
    """Return the watch, restricted to rounds from `watched_from` on, and without messages of people."""

    def look(run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        early = state["round"] < run.settings.watched_from
        if early or all(message.source == HUMAN for message in messages):
            return None
        return watch(run, state, messages)

    return look


def redrawn(run: RunContext[Any], state: Discussion, place: Place, own: float | None) -> float | None:
    """Return the temperature of a repeated reply if it would be 0, otherwise None.

    `own` is the temperature that the call would otherwise have; None leaves it to the model.
    """
    warm = run.settings.redraw_temperature
    return warm if warm and _is_cold(run, place.agent, own) and said_again(state, place) else None


def warmed(run: RunContext[Any], agent: str) -> float | None:
    """Return the temperature of an agent's repeated replies if its own temperature is 0, otherwise None."""
    return run.settings.redraw_temperature or None if _is_cold(run, agent, run.agent(agent).temperature) else None


def said_again(state: Discussion, place: Place) -> bool:
    """Return True if an intervention withdrew the agent's reply at this place, in this epoch or an earlier one."""
    before = [message for message in state.get("board", []) if _act(message.place) == _act(place)]
    if any(message.epoch < place.epoch for message in before):
        return True
    again = [made for made in state.get("interventions", []) if made["what"] == "again"]
    here = (place.epoch, *_act(place))
    return any((made["epoch"], made["agent"], made["act"], made["round"], made["turn"]) == here for made in again)


def check_redrawn(run: RunContext[Any], agents: Sequence[str]) -> list[str]:
    """Return a note if some of the agents that may be asked again have temperature 0.

    Raises:
        UsageError: all of them would repeat themselves.
    """
    cold = [agent for agent in agents if _is_cold(run, agent, run.agent(agent).temperature)]
    warm, same = run.settings.redraw_temperature, f"{', '.join(cold)} would repeat the same reply at temperature 0"
    if not cold:
        return []
    if warm:
        return [f"at temperature 0, repeated replies are sampled at {warm:g} (redraw_temperature)"]
    if len(cold) == len(agents):
        raise UsageError(
            f"intervention is {run.settings.intervention!r}, after which {same}; give `temperature=` or "
            "`redraw_temperature=` a value above 0"
        )
    return [same]


def _is_cold(run: RunContext[Any], agent: str, own: float | None) -> bool:
    return bool((getattr(run.agent(agent).model, "temperature", None) if own is None else own) == 0)


def _act(place: Place) -> tuple[str, str, int, int]:
    return place.agent, place.act, place.round, place.turn
