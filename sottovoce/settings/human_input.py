"""The settings of people in a discussion: the agents that they play, and what they approve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field

from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.trust import Words
from sottovoce.core.validation import Checked


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

    def check_people(self, names: Sequence[str], approvable: Sequence[str]) -> None:
        """Refuse unknown agents, acts and roles; `approvable` are agents and roles whose messages can be approved.

        Raises:
            UsageError: a name is unknown; the message suggests the nearest one.
        """
        for described, chosen, known in (
            ("agent", self.human, names),
            ("act, agent or role to approve:", self.approve, [*self.effects, *self.acts, *approvable]),
        ):
            for name in chosen:
                if name not in known:
                    raise UsageError(nearest(described, name, known))

    @property
    def asks_people(self) -> bool:
        """True if a person must be available from the start."""
        return bool(self.human or self.approve)
