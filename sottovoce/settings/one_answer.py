"""The settings of schemes in which one agent answers: baselines that hear nobody, Brief and Pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Few, Samples, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.settings.base import Controlled, Documents, Settings, Voting
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


STAGES = ("planner", "critic", "refiner")
SPECIALISTS = ("calculator", "researcher", "analyst")


class Pipeline(Settings):
    """Agents prepare an answer for the last one (LatentMAS).

    Planner, critic and refiner before a judge, or specialists before a summariser (arXiv 2511.20639).
    """

    acts: ClassVar[tuple[str, ...]] = ("plan", "critique", "refine", "contribute", "answer")
    default_temperature: ClassVar[float | None] = 0.6  # the default of the authors' run.py, with top-p 0.95

    shape: Literal["sequential", "hierarchical"] = Field(
        default="sequential",
        description="sequential (planner, critic, refiner and judge, one after another) or hierarchical (specialists "
        "in parallel, then a summariser).",
    )
    agents: Agents = Field(
        default=3, ge=1, description="Number of specialists of a hierarchical pipeline, not counting the summariser."
    )

    def speakers(self) -> list[str]:
        """Return planner, critic and refiner, or the specialists: calculator, researcher, analyst, specialist_4 ..."""
        if self.shape == "sequential":
            return [*STAGES]
        more = [f"specialist_{number}" for number in range(len(SPECIALISTS) + 1, self.agents + 1)]
        return [*SPECIALISTS[: self.agents], *more]

    def others(self) -> list[str]:
        """Return the agent that answers."""
        return ["judge" if self.shape == "sequential" else "summariser"]

    def edges(self) -> list[tuple[str, str]]:
        """Return edges from each stage to all later ones, or from each specialist to the summariser."""
        names = self.names()
        if self.shape == "hierarchical":
            return [(agent, names[-1]) for agent in self.speakers()]
        return [(speaker, hearer) for place, speaker in enumerate(names) for hearer in names[place + 1 :]]

    def topology(self) -> tuple[str, ...]:
        """Return the shape and the number of agents: each has a node."""
        return self.shape, *super().topology()

    @model_validator(mode="after")
    def _has_its_stages(self) -> Pipeline:
        if self.shape == "sequential" and self.agents != len(STAGES):
            raise UsageError(
                f"agents is {self.agents}, but a sequential pipeline always has {', '.join(STAGES)} and a judge; "
                "leave it out, or use --shape hierarchical"
            )
        return self
