"""The temperature of what an intervention has agents say again.

At temperature 0 the same prompt gives the same words, whatever the seed, so a reset would change nothing. There, and
only at places that were spoken at before, replies are drawn at `redraw_temperature`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sottovoce.channels.message import Place
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import Discussion

AGAIN = ("again", "reset", "rollback")
"""Interventions after which the same prompts are asked again."""


def redrawn(run: RunContext[Any], state: Discussion, place: Place, own: float | None) -> float | None:
    """Return the temperature of a reply that is said again, where it would be 0; None elsewhere.

    `own` is the temperature that the call would be made at; None leaves it to the model.
    """
    warm = run.settings.redraw_temperature
    return warm if warm and _is_cold(run, place.agent, own) and said_again(state, place) else None


def warmed(run: RunContext[Any], agent: str) -> float | None:
    """Return the temperature at which an agent says things again, where its own is 0; None elsewhere."""
    return run.settings.redraw_temperature or None if _is_cold(run, agent, run.temperature(agent)) else None


def said_again(state: Discussion, place: Place) -> bool:
    """True where an intervention took back what the agent said at this place, in this epoch or an earlier one."""
    before = [message for message in state.get("board", []) if _act(message.place) == _act(place)]
    if any(message.epoch < place.epoch for message in before):
        return True
    taken_back = {
        (made["agent"], made["act"], made["round"], made["turn"])
        for made in state.get("interventions", [])
        if made["what"] == "again" and made["epoch"] == place.epoch
    }
    return _act(place) in taken_back


def check_redrawn(run: RunContext[Any], agents: Sequence[str]) -> list[str]:
    """Return a note on those of the agents that may be asked again and whose own temperature is 0.

    Raises:
        UsageError: all of them would say the same again.
    """
    cold = [agent for agent in agents if _is_cold(run, agent, run.temperature(agent))]
    warm, same = run.settings.redraw_temperature, f"{', '.join(cold)} would say the same again at temperature 0"
    if not cold:
        return []
    if warm:
        return [f"at temperature 0, what is said again is drawn at {warm:g} (redraw_temperature)"]
    if len(cold) == len(agents):
        raise UsageError(
            f"intervention is {run.settings.intervention!r}, after which {same}; give --temperature or "
            "--redraw-temperature a value above 0"
        )
    return [same]


def _is_cold(run: RunContext[Any], agent: str, own: float | None) -> bool:
    return bool((getattr(run.model(agent), "temperature", None) if own is None else own) == 0)


def _act(place: Place) -> tuple[str, str, int, int]:
    return place.agent, place.act, place.round, place.turn
