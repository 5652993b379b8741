"""The temperature of replies that are repeated after an intervention.

At temperature 0 the same prompt gives the same text, whatever the seed, so a reset would change nothing. There, and
only at places with an earlier reply, replies are sampled at `redraw_temperature`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sottovoce.channels.message import Place
from sottovoce.core.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import Discussion

AGAIN = ("again", "reset", "rollback")
"""Interventions after which the same prompts are asked again."""


def redrawn(run: RunContext[Any], state: Discussion, place: Place, own: float | None) -> float | None:
    """Return the temperature of a repeated reply, if it would be 0; otherwise None.

    `own` is the temperature that the call would otherwise have; None leaves it to the model.
    """
    warm = run.settings.redraw_temperature
    return warm if warm and _is_cold(run, place.agent, own) and said_again(state, place) else None


def warmed(run: RunContext[Any], agent: str) -> float | None:
    """Return the temperature of an agent's repeated replies, if its own is 0; otherwise None."""
    return run.settings.redraw_temperature or None if _is_cold(run, agent, run.temperature(agent)) else None


def said_again(state: Discussion, place: Place) -> bool:
    """Return True if an intervention withdrew the agent's reply at this place, in this epoch or an earlier one."""
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
    """Return a note if some of the agents, which may be asked again, have temperature 0.

    Raises:
        UsageError: all of them would repeat themselves.
    """
    cold = [agent for agent in agents if _is_cold(run, agent, run.temperature(agent))]
    warm, same = run.settings.redraw_temperature, f"{', '.join(cold)} would repeat the same reply at temperature 0"
    if not cold:
        return []
    if warm:
        return [f"at temperature 0, repeated replies are sampled at {warm:g} (redraw_temperature)"]
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
