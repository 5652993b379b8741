"""The settings of IA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.settings.base import Controlled, Documents
from sottovoce.settings.retrieval import SEARCHED, Searching


class IA(Searching, Controlled):
    """Agents with different passages ask one another (IA, SDE).

    They go on until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("talk",)
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.1)

    agents: Agents = Field(
        default=2, ge=2, description="Number of agents; passages are dealt to them in turn, by rank."
    )
    rounds: Rounds = Field(
        default=5, ge=1, description="Maximum number of rounds; the first with an answer in its form is the last."
    )
    max_tokens: Tokens = Field(default=256, ge=1, description="Maximum length of a reply, in tokens.")
    library: Annotated[str | None, SEARCHED] = Field(
        default=None,
        description="Library to search for passages if the question has no documents: encyclopedia, bm25:FOLDER, ...",
    )
    passages: Few = Field(default=6, ge=1, description="Number of passages to retrieve from `library`.")
    score: Literal["formatted", "raw"] = Field(
        default="formatted",
        description="Score if no last reply has an answer in the requested format: formatted (0) or raw (the score of "
        "any readable answer, as in the published code).",
    )

    def dealt(self, documents: Documents) -> Documents:
        """Return the passages dealt to the agents in turn; private documents keep their owners."""
        if isinstance(documents, Mapping):
            return documents
        agents = self.speakers()
        return {agent: documents[place :: len(agents)] for place, agent in enumerate(agents)}
