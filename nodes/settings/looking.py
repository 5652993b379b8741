"""The settings of schemes whose agents look things up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from sottovoce.nodes.settings.base import Controlled, Documents, Settings

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

    def dealt(self, documents: Documents) -> Documents:
        """None are shown: they are searched at most."""
        return []


class IA(Controlled):
    """Agents who each know some of the passages ask one another until one of them answers (SDE)."""

    default_temperature: ClassVar[float | None] = 0.0

    agents: int = Field(default=2, ge=2, description="how many agents; passages are dealt to them in turn, by rank")
    rounds: int = Field(
        default=5, ge=1, description="rounds, at most: the first with an answer in its form is the last"
    )
    max_tokens: int = Field(default=256, ge=1, description="longest reply, in tokens")
    library: str | None = Field(
        default=None,
        description="where passages are looked up for a question without documents: encyclopedia, bm25:FOLDER, ...",
    )
    passages: int = Field(default=6, ge=1, description="how many are looked up")
    score: Literal["formatted", "raw"] = Field(
        default="formatted",
        description="of last replies without an answer in its form: 0, or that of whatever can be read (the code)",
    )

    def dealt(self, documents: Documents) -> Documents:
        """The first to the first agent, the second to the second, and round again; private ones stay whose they are."""
        if isinstance(documents, Mapping):
            return documents
        agents = self.speakers()
        return {agent: documents[place :: len(agents)] for place, agent in enumerate(agents)}
