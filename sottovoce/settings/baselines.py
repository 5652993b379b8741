"""The settings of the baselines, single agents that hear nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Few, Samples
from sottovoce.core.errors import UsageError
from sottovoce.settings.base import Documents, Voting
from sottovoce.settings.retrieval import Pooled


class Alone(Pooled):
    """The settings of agents that hear nobody."""

    discusses: ClassVar[bool] = False

    source: Literal["wiki", "google", "all", "none"] = Field(
        default="none",
        description="Where to search for evidence that replaces the documents: wiki, google, all or none, as in "
        "`madra`.",
    )

    closed_book: bool = Field(
        default=False, description="Answer without the documents: a baseline for agents that look things up."
    )

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents of all agents, or none."""
        return [] if self.closed_book else documents

    @model_validator(mode="after")
    def _opens_books(self) -> Alone:
        if self.closed_book and self.source != "none":
            raise UsageError(f"closed_book is on, but source is {self.source!r}; leave one of them out")
        return self


class Single(Alone):
    """One agent answers once, with all documents (baseline)."""

    part: Few | None = Field(
        default=None,
        ge=1,
        description="Read only the documents that the agent of `ia` with this number would be dealt: its baseline.",
    )
    parts: Few = Field(default=2, ge=2, description="For `part`: number of agents that documents are dealt to.")

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents of all agents, a part of them, or none."""
        shown = super().dealt(documents)
        if self.part is None or isinstance(shown, Mapping):
            return shown
        return shown[self.part - 1 :: self.parts]

    @model_validator(mode="after")
    def _is_there(self) -> Single:
        if self.part is not None and self.part > self.parts:
            raise UsageError(f"part is {self.part}; expected 1 to {self.parts}, the number of parts")
        return self


class SelfConsistency(Alone, Voting):
    """The most frequent of one agent's answers (baseline).

    Samples are text under every protocol: a mean embedding leaves nothing to sample.
    """

    samples: Samples = Field(default=5, ge=1, description="Number of samples.")

    def speakers(self) -> list[str]:
        """Return sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent: set one")
        return self
