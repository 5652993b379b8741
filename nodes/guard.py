"""The watch that asks monitors: where one triggers, the intervention that the settings name takes place.

A monitor serves a role (`Settings.role_of`): an agent's name, what worlds call it, or `all`. Once the cap of a role
is reached its monitor is asked no more (arXiv 2502.05986, algorithm 1 and its code).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sottovoce.channels.message import Message
from sottovoce.errors import UsageError, choose
from sottovoce.monitors.chance import monitor_of
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import ALL, CHANCE, EXCESS, TURN, Measure
from sottovoce.monitors.tokens import WHOLE
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import question_id
from sottovoce.nodes.redraw import AGAIN, check_redrawn
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
NOT_MODELS = ("rule", "human")
"""Sources of messages that no monitor judges."""


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
        guard = cls(*map(monitor_of, settings.watch))
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
            if monitor.is_random:
                continue
            if other := next((name for name in monitor.features if name not in known), None):
                raise UsageError(choose(f"feature of the monitor of {role}:", other, list(known)))

    def of_role(self, role: str) -> Monitor | None:
        """The monitor that serves a role."""
        return self.monitors.get(role) or self.monitors.get(ALL)

    def begin(self, run: RunContext[Any]) -> list[str]:
        """Refuse, before anybody speaks, replies that cannot be judged and interventions that cannot have any effect.

        Raises:
            UsageError: names the agent, or the interventions that are possible.
        """
        self.check(run.settings)
        if run.settings.together and run.settings.intervention not in BACK:
            found, act = run.settings.intervention, run.settings.together
            can = " or ".join(BACK)
            raise UsageError(
                f"intervention is {found!r}, but each act {act!r} of a round is judged together; choose {can}"
            )
        watched = dict(self._watched(run.settings))
        for agent, monitor in watched.items():
            if not monitor.is_random and (lacks := lacking(run.model(agent), _measure(monitor))):
                raise UsageError(f"a monitor watches {agent}, whose model {lacks}, or watch others")
        return [*self._elsewhere(run.settings), *self._redrawn(run, [*watched])]

    def _elsewhere(self, settings: Settings) -> list[str]:
        """A note on each monitor that reads other positions than the scheme's own."""
        found = {role: _measure(monitor).positions for role, monitor in self.monitors.items() if not monitor.is_random}
        return [
            f"the monitor of {role} reads positions {read!r}; in this scheme {settings.positions!r} are what matters"
            for role, read in found.items()
            if read != settings.positions
        ]

    def _redrawn(self, run: RunContext[Any], watched: Sequence[str]) -> list[str]:
        """Notes on agents that speak at temperature 0: `again` asks those watched, a reset everybody."""
        what, people = run.settings.intervention, run.settings.human
        if not watched or what not in AGAIN:
            return []
        everybody = [agent for agent in run.settings.names() if agent not in people]
        return check_redrawn(run, watched if what == "again" else everybody)

    def _watched(self, settings: Settings) -> Iterator[tuple[str, Monitor]]:
        """Agents with their monitors; a person's words are not judged."""
        for agent in settings.names():
            if agent not in settings.human and (monitor := self.of_role(settings.role_of(agent))):
                yield agent, monitor

    def __call__(self, run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        """Judge what was made, and return what is done instead of publishing it."""
        settings, last = run.settings, messages[-1]
        role = settings.role_of(last.agent)
        monitor = self.of_role(role)
        if monitor is None or spent(state, settings, role, last) >= settings.cap:
            return None
        score = _score(run, state, monitor, messages)
        if score is None or score <= monitor.threshold:
            return None
        what = "random number" if monitor.is_random else "failure score"
        why = f"the {what} of {role} is {score:.2f}, above {monitor.threshold:.2f}"
        back, note = settings.rounds_back, settings.note
        return Intervention(settings.intervention, why, score=score, rounds=back, note=note)


def _score(run: RunContext[Any], state: Discussion, monitor: Monitor, messages: Sequence[Message]) -> float | None:
    last = messages[-1]
    if monitor.is_random:
        by_model = any(message.source not in NOT_MODELS for message in messages)
        return monitor.score({CHANCE: chance(run, state, last)}, last.round) if by_model else None
    store = run.store_of(last.agent)
    features = features_of_acts(messages, _measure(monitor), store, lambda agent: decoder_of(run.model(agent)))
    return monitor.score(features, last.round)


def chance(run: RunContext[Any], state: Discussion, message: Message) -> float:
    """Draw a number uniformly from [0, 1): run, question and place are its seed, and its purpose, so no reply's is."""
    seed = [run.settings.seed, question_id(state), *message.place, "random monitor"]
    return random.Random(json.dumps(seed)).random()


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
