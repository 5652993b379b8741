"""The settings of Brief."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.settings.base import Controlled, Documents


class Brief(Controlled):
    """Senders read documents, another agent answers (KVComm).

    It is also the setting of Communicating Activations.
    """

    acts: ClassVar[tuple[str, ...]] = ("brief", "answer")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(
        default=2,
        ge=2,
        description="Number of agents. The last one answers; the documents are dealt to the others, the senders.",
    )
    know: Literal["nothing", "question"] = Field(
        default="nothing", description="What senders know besides their documents: nothing, or the question."
    )
    hears: Literal["brief", "documents", "nothing"] = Field(
        default="brief",
        description="What the last agent gets with the question: the senders' briefs, the documents in words (no "
        "sender speaks; an upper bound), or nothing (a lower bound).",
    )
    brief_tokens: Tokens = Field(default=60, ge=1, description="Maximum length of a brief, in tokens.")
    max_tokens: Tokens = Field(default=256, ge=1, description="Maximum length of the answer, in tokens.")

    def senders(self) -> list[str]:
        """Return the agents that read documents."""
        return self.speakers()[:-1]

    def edges(self) -> list[tuple[str, str]]:
        """Return an edge from each sender to the last agent; none if it does not hear them."""
        last = self.speakers()[-1]
        return [(sender, last) for sender in self.senders()] if self.hears == "brief" else []

    def role_of(self, agent: str) -> str:
        """Return the role of an agent."""
        return "receiver" if agent == self.speakers()[-1] else "sender"

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents dealt to the senders in turn; private documents keep their owners."""
        if isinstance(documents, Mapping) or self.hears == "documents":
            return documents
        senders = self.senders()
        return {sender: documents[place :: len(senders)] for place, sender in enumerate(senders)}

    def needs(self) -> dict[str, str]:
        """Return the documents, if senders know nothing else."""
        blind = self.hears == "brief" and self.know == "nothing"
        told = {"documents": "without --know question, senders read only documents"} if blind else {}
        return super().needs() | told

    @model_validator(mode="after")
    def _hears_senders(self) -> Brief:
        if self.control == "own":
            raise UsageError(
                "control is 'own', but the agent that hears says nothing before; choose empty, filler or decoy"
            )
        if self.escalate == "disagreement":
            raise UsageError(
                "escalate is 'disagreement', but only one agent answers; choose uncertainty, or leave it out"
            )
        if self.hears != "brief" and (self.control, self.escalate) != ("none", "never"):
            raise UsageError(
                f"hears is {self.hears!r}, so no message is heard; leave out control and escalate, or choose "
                "--hears brief"
            )
        return self
