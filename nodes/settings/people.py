"""Which people take part in a discussion: whose seats they hold, and what is put to them before it takes effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field

from sottovoce.checked import Checked
from sottovoce.errors import UsageError, nearest
from sottovoce.trust import Words


class People(Checked):
    """Who is no model, and who is asked before something is done."""

    human: Annotated[list[str], Words()] = Field(
        default=[],
        description="an agent whose seat is a person's, who is asked at the terminal, or by an interrupt in a graph",
    )
    approve: Annotated[list[str], Words()] = Field(
        default=[],
        description="what a person lets pass, writes anew or rejects before it takes effect: an act, an agent's or a "
        "role's words; in worlds an award, a harvest, the run of a program",
    )

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise")
    """What its agents do, by name."""
    deeds: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What comes of some acts in its world and cannot be undone, by name; and what follows, in words."""

    def check_people(self, names: Sequence[str], heard: Sequence[str]) -> None:
        """Refuse a seat that there is not, and what nobody says or does; `heard` are whose words can be approved.

        Raises:
            UsageError: with the nearest name that there is.
        """
        for what, given, known in (
            ("seat", self.human, names),
            ("act, agent or role to approve:", self.approve, [*self.deeds, *self.acts, *heard]),
        ):
            for name in given:
                if name not in known:
                    raise UsageError(nearest(what, name, known))

    @property
    def asks_people(self) -> bool:
        """Whether somebody must be there who answers, from the start."""
        return bool(self.human or self.approve)
