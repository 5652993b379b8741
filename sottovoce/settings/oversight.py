"""The settings of oversight: agents that people play, what people approve, and monitors with their interventions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sottovoce.core.bounds import Few
from sottovoce.core.trust import Names, Words
from sottovoce.core.validation import Checked

NOTE = "The last reply looked uncertain and was held back. Check what is known, and say what is certain."
Per = Literal["role", "all", "turn"]


class People(Checked):
    """The agents that people play, and what people approve before it takes effect."""

    human: Annotated[list[str], Words()] = Field(
        default=[],
        description="Agent that a person plays; the person is asked at the terminal, or by an interrupt in a graph.",
    )
    approve: Annotated[list[str], Words()] = Field(
        default=[],
        description="What a person accepts, rewrites or rejects before it takes effect: an act, the messages of an "
        "agent or a role; in worlds also an award, a harvest or the run of a program.",
    )

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise")
    """The acts of its agents, by name."""
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Effects of acts in its world that cannot be undone, by name, each with a description of the consequence."""

    @property
    def asks_people(self) -> bool:
        """True if a person must be available from the start."""
        return bool(self.human or self.approve)


class Watched(Checked):
    """The monitors that check messages before they are published, and their interventions."""

    watch: Annotated[list[str], Names("monitor", ("random",), numbered=("random",))] = Field(
        default=[],
        description="Monitors that check messages of their role before they are published: files of `monitor train`, "
        "or random:RATE, which triggers at that share of all turns (random: 0.1).",
    )
    intervention: Literal["reset", "rollback", "again", "augment", "mute", "human"] = Field(
        default="reset",
        description="When a monitor triggers: reset (to the last action that cannot be undone), rollback (some rounds "
        "further back), again (ask again), augment (add a note for all agents and ask again), mute (publish nothing), "
        "human (a person plays the agent from then on).",
    )
    cap: Few = Field(default=1, ge=0, description="Maximum number of interventions, for the scope `cap_per`.")
    cap_per: Per | None = Field(
        default=None,
        description="Scope of `cap`: each role, all interventions together, or each turn of each agent. "
        "If not set: the scheme's own.",
    )
    rounds_back: Few = Field(
        default=1, ge=1, description="For `rollback`: number of rounds to take back, besides the current one."
    )
    note: Annotated[str, Words()] = Field(default=NOTE, description="For `augment`: the note that all agents read.")
    redraw_temperature: float = Field(
        default=0.7,
        ge=0,
        allow_inf_nan=False,
        description="Temperature of replies that an intervention asks for again, if the agent's own is 0. With 0, a "
        "run in which all agents would only repeat themselves is refused.",
    )

    watched_from: ClassVar[int] = 0
    """The first round (0-based) in which monitors check messages."""
    measured_at: ClassVar[str] = "all"
    """The positions of a reply at which uncertainty matters, by name (monitors.positions)."""
    together: ClassVar[str] = ""
    """The act whose messages of one round are checked together; empty if each is checked by itself."""

    def role_of(self, agent: str) -> str:
        """Return the role of an agent for monitors: each monitor serves one role."""
        return agent

    @property
    def capped(self) -> Per:
        """The scope of `cap`."""
        return self.cap_per or "role"
