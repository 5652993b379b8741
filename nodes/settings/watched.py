"""How a discussion is watched: the settings that every scheme has of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sottovoce.bounds import Few
from sottovoce.checked import Checked
from sottovoce.trust import Names, Words

NOTE = "The last reply looked uncertain and was held back. Check what is known, and say what is certain."


Per = Literal["role", "all", "turn"]


class Watched(Checked):
    """Which monitors look at what agents are about to say, and what they do about it."""

    watch: Annotated[list[str], Names("monitor", ("random",), numbered=("random",))] = Field(
        default=[],
        description="monitors that judge what agents are about to say, each of its role: files of `monitor train`; "
        "random or random:RATE triggers at that share of all turns (0.1)",
    )
    intervention: Literal["reset", "rollback", "again", "augment", "mute", "human"] = Field(
        default="reset",
        description="when a monitor triggers: back to the last action that cannot be undone, or some rounds further "
        "back; ask again; tell everybody a note and ask again; publish nothing; hand the seat to a human",
    )
    cap: Few = Field(default=1, ge=0, description="interventions, at most: of each role, of all, or of each turn")
    cap_per: Per | None = Field(
        default=None,
        description="what the cap counts: each role, all together, or each turn of each agent; else the scheme's own",
    )
    rounds_back: Few = Field(default=1, ge=1, description="of `rollback`: rounds besides the one under way")
    note: Annotated[str, Words()] = Field(default=NOTE, description="of `augment`: what everybody is told")
    redraw_temperature: float = Field(
        default=0.7,
        ge=0,
        allow_inf_nan=False,
        description="of replies that an intervention asks for again, where the agent's own is 0; 0 refuses such runs",
    )

    watched_from: ClassVar[int] = 0
    """The round (0-based) from which on what agents say can be held back."""
    positions: ClassVar[str] = "all"
    """Where in a reply its author's uncertainty matters, by name (monitors.positions)."""
    together: ClassVar[str] = ""
    """The act whose messages of one round are looked at all at once; empty where each is by itself."""

    def role_of(self, agent: str) -> str:
        """What monitors know an agent as: whom one monitor serves."""
        return agent

    @property
    def capped(self) -> Per:
        """What the cap counts."""
        return self.cap_per or "role"
