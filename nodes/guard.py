"""The watch that asks monitors: where one triggers, the intervention that the settings name takes place.

A monitor serves a role (`Settings.role_of`): an agent's name, what worlds call it, or `all`. Once the cap of a role
is reached its monitor is asked no more (arXiv 2502.05986, algorithm 1 and its code).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from sottovoce.channels.message import Message
from sottovoce.errors import UsageError, choose
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import ALL, EXCESS, TURN, Measure
from sottovoce.monitors.tokens import WHOLE
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion
from sottovoce.nodes.uncertainty import decoder_of, features_of_acts, lacking
from sottovoce.nodes.watch import NEXT, Intervention

STEP: tuple[Literal["epoch", "round", "turn", "act", "attempt"], ...] = ("epoch", "round", "turn", "act", "attempt")
"""What interventions have in common that came side by side."""
OF_PEOPLE = ("edit", "reject")
"""What people do who approve."""
BACK = [what for what, following in NEXT.items() if following == "reset"]
"""What can be done to several who are judged together."""


class Guard:
    """Monitors, each at its role."""

    def __init__(self, *monitors: Monitor) -> None:
        """One for each role.

        Raises:
            UsageError: two serve one role.
        """
        self.monitors: dict[str, Monitor] = {}
        for monitor in monitors:
            if monitor.role in self.monitors:
                raise UsageError(f"two monitors serve role {monitor.role!r}; give one for each role")
            self.monitors[monitor.role] = monitor

    @classmethod
    def of(cls, settings: Settings) -> Guard:
        """The monitors that the settings name.

        Raises:
            UsageError: a file cannot be read, or its monitor serves nobody there.
        """
        guard = cls(*(Monitor.read(Path(file)) for file in settings.watch))
        guard.check(settings)
        return guard

    def check(self, settings: Settings) -> None:
        """Refuse a monitor that serves nobody of the scheme, or needs features that are not measured.

        Raises:
            UsageError: names its role, and those that there are; or the feature.
        """
        roles = list(dict.fromkeys(map(settings.role_of, settings.names())))
        for role, monitor in self.monitors.items():
            if role not in (*roles, ALL):
                raise UsageError(choose("role of a monitor:", role, [*roles, ALL]))
            known = (*WHOLE, EXCESS, TURN) if _measure(monitor).distribution == "top" else (*WHOLE, TURN)
            if other := next((name for name in monitor.features if name not in known), None):
                raise UsageError(choose(f"feature of the monitor of {role}:", other, list(known)))

    def of_role(self, role: str) -> Monitor | None:
        """The monitor that serves a role."""
        return self.monitors.get(role) or self.monitors.get(ALL)

    def begin(self, run: RunContext[Any]) -> list[str]:
        """Refuse, before anybody speaks, a model whose replies cannot be judged, and what cannot be done to several.

        Raises:
            UsageError: names whose it is, or what can be done.
        """
        self.check(run.settings)
        if run.settings.together and run.settings.intervention not in BACK:
            found, act = run.settings.intervention, run.settings.together
            can = " or ".join(BACK)
            raise UsageError(
                f"intervention is {found!r}, but each act {act!r} of a round is judged together; choose {can}"
            )
        for agent in run.settings.names():
            human = agent in run.settings.human  # whose words are not judged
            monitor = None if human else self.of_role(run.settings.role_of(agent))
            if monitor and (lacks := lacking(run.model(agent), _measure(monitor))):
                raise UsageError(f"a monitor watches {agent}, whose model {lacks}, or watch others")
        return [*self._elsewhere(run.settings), *self._frozen(run)]

    def _elsewhere(self, settings: Settings) -> list[str]:
        """A note on each monitor that reads other positions than those that matter in the scheme."""
        found = {role: _measure(monitor).positions for role, monitor in self.monitors.items()}
        return [
            f"the monitor of {role} reads positions {read!r}; in this scheme {settings.positions!r} are what matters"
            for role, read in found.items()
            if read != settings.positions
        ]

    def _frozen(self, run: RunContext[Any]) -> list[str]:
        """A note where whoever is held back says the same again."""
        again, watched = run.settings.intervention in ("again", *BACK), self._watched(run.settings)
        if not (again and watched and all(run.temperature(agent) == 0 for agent in watched)):
            return []
        return ["at temperature 0 what is said again is the same, word for word: give --temperature to watched agents"]

    def _watched(self, settings: Settings) -> list[str]:
        return [agent for agent in settings.names() if self.of_role(settings.role_of(agent))]

    def __call__(self, run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        """Judge what was made, and tell what is done instead of publishing it."""
        settings, last = run.settings, messages[-1]
        role = settings.role_of(last.agent)
        monitor = self.of_role(role)
        if monitor is None or spent(state, settings, role, last) >= settings.cap:
            return None
        features = features_of_acts(
            messages, _measure(monitor), run.store_of(last.agent), lambda agent: decoder_of(run.model(agent))
        )
        score = monitor.score(features, last.round)
        if score is None or score <= monitor.threshold:
            return None
        why = f"the failure score of {role} is {score:.2f}, above {monitor.threshold:.2f}"
        back, note = settings.rounds_back, settings.note
        return Intervention(settings.intervention, why, score=score, rounds=back, note=note)


def _measure(monitor: Monitor) -> Measure:
    return monitor.measured or Measure()


def spent(state: Discussion, settings: Settings, role: str, message: Message) -> int:
    """Interventions that count against the cap; several in one step, side by side, are one."""
    done, per = [each for each in state.get("interventions", []) if each["what"] not in OF_PEOPLE], settings.capped
    if per == "role":
        done = [each for each in done if each["role"] == role]
    elif per == "turn":
        done = [each for each in done if (each["agent"], each["round"]) == (message.agent, message.round)]
    return len({tuple(each[key] for key in STEP) for each in done})
