"""The watch that asks monitors: if one triggers, the intervention in the settings follows.

A monitor serves a role (`Settings.role_of`): an agent's name, its role in a world, or `all`. When the cap of a role
is reached, its monitor is no longer asked (arXiv 2502.05986, algorithm 1 and its code).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError, nearest
from sottovoce.monitors.monitor import Monitor, monitor_of
from sottovoce.monitors.settings import ALL, CHANCE, EXCESS, TURN, Measure
from sottovoce.monitors.tokens import FULL
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import question_id
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion
from sottovoce.nodes.watch import AGAIN, NEXT, Intervention, check_redrawn

if TYPE_CHECKING:
    from sottovoce.agents.local import LocalModel
    from sottovoce.channels.store import PayloadStore
    from sottovoce.monitors.features import Features
    from sottovoce.monitors.tokens import Decode
    from sottovoce.nodes.agent import Agent

Decoders = Callable[[str], "Decode | None"]
"""Takes an agent, and returns the decoder of its model's token ids, or None for a hosted model."""
STEP: tuple[Literal["epoch", "round", "turn", "act", "attempt"], ...] = ("epoch", "round", "turn", "act", "attempt")
"""The keys that parallel interventions share."""
OF_PEOPLE = ("edit", "reject")
"""The interventions of people who approve."""
BACK = [what for what, following in NEXT.items() if following == "reset"]
"""The interventions that are possible if several agents are checked together."""
NOT_MODELS = ("rule", "human")
"""The sources of messages that monitors do not check."""


class Guard:
    """A watch with one monitor for each role."""

    def __init__(self, *monitors: Monitor) -> None:
        """Accept one monitor for each role.

        Raises:
            UsageError: two monitors serve one role.
        """
        self.monitors: dict[str, Monitor] = {}
        for monitor in monitors:
            if monitor.role in self.monitors:
                raise UsageError(f"two monitors serve role {monitor.role!r}; give one for each role")
            self.monitors[monitor.role] = monitor

    @classmethod
    def of(cls, settings: Settings) -> Guard:
        """Return a guard with the monitors that the settings name.

        Raises:
            UsageError: a file cannot be read, or its monitor serves no agent of the scheme.
        """
        guard = cls(*map(monitor_of, settings.watch))
        guard.check(settings)
        return guard

    def check(self, settings: Settings) -> None:
        """Refuse a monitor that serves no agent of the scheme, or needs features that are not measured."""
        roles = list(dict.fromkeys(map(settings.role_of, settings.names())))
        for role, monitor in self.monitors.items():
            if role not in (*roles, ALL):
                raise UsageError(nearest("role of a monitor:", role, [*roles, ALL]))
            known = (*FULL, EXCESS, TURN) if _measure(monitor).distribution == "top" else (*FULL, TURN)
            if monitor.is_random:
                continue
            if other := next((name for name in monitor.features if name not in known), None):
                raise UsageError(nearest(f"feature of the monitor of {role}:", other, list(known)))

    def of_role(self, role: str) -> Monitor | None:
        """Return the monitor that serves a role, or None if there is none."""
        return self.monitors.get(role) or self.monitors.get(ALL)

    def begin(self, run: RunContext[Any]) -> list[str]:
        """Refuse, before any model runs, replies that cannot be checked and interventions without effect.

        Raises:
            UsageError: names the agent, or the interventions that are possible.
        """
        self.check(run.settings)
        if run.settings.together and run.settings.intervention not in BACK:
            found, act = run.settings.intervention, run.settings.together
            can = " or ".join(BACK)
            raise UsageError(
                f"intervention is {found!r}, but all acts {act!r} of a round are checked together; choose {can}"
            )
        served = {agent: self.of_role(run.settings.role_of(agent)) for agent in run.settings.names()}
        watched = {agent: each for agent, each in served.items() if each and agent not in run.settings.human}
        for agent, monitor in watched.items():
            if not monitor.is_random and (missing := missing_features(run.agent(agent), _measure(monitor))):
                raise UsageError(f"a monitor watches {agent}, whose model {missing}, or watch others")
        measured = {role: _measure(monitor) for role, monitor in self.monitors.items() if not monitor.is_random}
        notes = [
            f"the monitor of {role} reads positions {measure.positions!r}; "
            f"in this scheme {run.settings.measured_at!r} matter"
            for role, measure in measured.items()
            if measure.positions != run.settings.measured_at
        ]
        if not watched or run.settings.intervention not in AGAIN:
            return notes
        # `again` repeats replies of watched agents, a reset those of all that no person plays.
        everybody = [agent for agent in run.settings.names() if agent not in run.settings.human]
        return notes + check_redrawn(run, [*watched] if run.settings.intervention == "again" else everybody)

    def __call__(self, run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        """Check messages, and return an intervention, or None to publish them."""
        settings, last = run.settings, messages[-1]
        role = settings.role_of(last.agent)
        monitor = self.of_role(role)
        if monitor is None or spent(state, settings, role, last) >= settings.cap:
            return None
        if monitor.is_random:
            by_model = any(message.source not in NOT_MODELS for message in messages)
            score = monitor.score({CHANCE: chance(run, state, last)}, last.round) if by_model else None
        else:
            measure, store = _measure(monitor), run.agent(last.agent).store
            features = features_of_acts(messages, measure, store, lambda agent: decoder_of(run.agent(agent).local))
            score = monitor.score(features, last.round)
        if score is None or score <= monitor.threshold:
            return None
        what = "random number" if monitor.is_random else "failure score"
        why = f"the {what} of {role} is {score:.2f}, above {monitor.threshold:.2f}"
        back, note = settings.rounds_back, settings.note
        return Intervention(settings.intervention, why, score=score, rounds=back, note=note)


def chance(run: RunContext[Any], state: Discussion, message: Message) -> float:
    """Draw a number uniformly from [0, 1), seeded by run, question, place and purpose; no reply has this seed."""
    seed = [run.settings.seed, question_id(state), *message.place, "random monitor"]
    return random.Random(json.dumps(seed)).random()


def _measure(monitor: Monitor) -> Measure:
    return monitor.measured or Measure()


def spent(state: Discussion, settings: Settings, role: str, message: Message) -> int:
    """Return the number of interventions that count toward the cap. Parallel ones of a step count as one."""
    done, per = [each for each in state.get("interventions", []) if each["what"] not in OF_PEOPLE], settings.capped
    if per == "role":
        done = [each for each in done if each["role"] == role]
    elif per == "turn":
        done = [each for each in done if (each["agent"], each["round"]) == (message.agent, message.round)]
    return len({tuple(each[key] for key in STEP) for each in done})


def finished(messages: Sequence[Message]) -> list[Message]:
    """Return one message for each act: the last of several attempts, without answer turns.

    A withdrawn message that was repeated counts as a separate act.
    """
    repaired = {message.place for message in messages if message.asked == "repair"}
    return [
        message
        for message in messages
        if message.asked != "answer" and message.place._replace(attempt=message.attempt + 1) not in repaired
    ]


def decoder_of(model: LocalModel | None) -> Decode | None:
    """Return the decoder of a local model's token ids, or None for a hosted model."""
    if model is None:
        return None
    tokenizer = model.loaded.tokenizer
    return lambda at: str(tokenizer.decode([at]))


def features_of_acts(
    messages: Sequence[Message], measure: Measure, store: PayloadStore | None, decoders: Decoders = lambda agent: None
) -> Features | None:
    """Return the features of one agent's acts, the maximum of each statistic; for several agents, their minimum.

    Positions of a reply and wishes of a group are combined in the same way (arXiv 2502.05986).
    None if no reply has any of the positions, or any token, or if all are from rules or people.

    Raises:
        UsageError: a model returned no log-probabilities.
        PayloadError: a payload is missing or damaged.
    """
    from sottovoce.monitors.features import combined, features_of
    from sottovoce.monitors.tokens import of_payload

    found: dict[str, list[Features]] = {}
    for message in finished(messages):
        if message.source not in ("model", "hosted") or not message.text:
            continue
        ref = message.thoughts_payload if measure.positions == "thoughts" else message.uncertainty
        if ref is None and measure.positions == "thoughts" and message.source == "model":
            continue  # it did not think
        if ref is None:
            raise UsageError(
                f"the monitor that watches {message.agent} needs log-probabilities, and its model returned none; "
                "create the model with logprobs=True, top_logprobs=10, or watch other agents"
            )
        tokens = of_payload(ref.load(store), decoders(message.agent))
        if features := features_of(tokens, measure):
            found.setdefault(message.agent, []).append(features)
    return combined([combined(acts, max) for acts in found.values()], min) if found else None


def missing_features(agent: Agent, measure: Measure) -> str:
    """Return the features that a chat model cannot return, with a remedy, or an empty text if there are none."""
    if agent.is_hooked:
        return ""
    model = agent.model
    if getattr(model, "logprobs", True) in (None, False):
        return "returns no log-probabilities; make it with logprobs=True, top_logprobs=10"
    if measure.distribution != "top":
        return f"returns the most probable tokens alone, and not {measure}"
    most = getattr(model, "top_logprobs", measure.top) or 0
    few = f"returns {most} most probable tokens of each position; make it with top_logprobs={measure.top}"
    return few if most < measure.top else ""
