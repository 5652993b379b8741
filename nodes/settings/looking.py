"""The settings of schemes whose agents look things up."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from sottovoce.nodes.settings.base import Settings

ENCYCLOPEDIA, DOCUMENTS = "encyclopedia", "documents"


class ReAct(Settings):
    """Agents search, look up and finish in turn, one step each, until one answers (ReAct relay, SDE)."""

    default_temperature: ClassVar[float | None] = 0.0

    agents: int = Field(default=7, ge=1, description="how many agents; they take turns")
    steps: int = Field(default=7, ge=1, description="steps of all together, at most")
    step_tokens: int = Field(default=100, ge=1, description="longest step, in tokens")
    library: str = Field(
        default=ENCYCLOPEDIA,
        description="what is searched: encyclopedia (the one that ships; encyclopedia:SEED), documents (the "
        "question's own), or a retriever such as bm25:FOLDER or wikipedia",
    )
    search: Literal["title", "passages"] = Field(
        default="title", description="open a page by its title (ReAct), or the best three passages as a page (SDE)"
    )
    carry: Literal["latest", "all"] = Field(
        default="latest", description="which steps go by the protocol, and not in words"
    )

    def reads(self) -> bool:
        """The question's documents are searched at most."""
        return False
