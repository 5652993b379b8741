"""Settings that several schemes share: hearing, votes, searches and evidence."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names, Words
from sottovoce.nodes.settings import Documents, Settings, pairs

Control = Literal["none", "own", "empty", "filler", "decoy"]
Escalate = Literal["never", "disagreement", "uncertainty"]
Order = Literal["others_first", "own_first"]
ENCYCLOPEDIA, DOCUMENTS = "encyclopedia", "documents"
SEARCHED = Names("retriever", (ENCYCLOPEDIA, DOCUMENTS))


class Controlled(Settings):
    """Settings of schemes with agents that read one another's messages, or a control instead."""

    control: Control = Field(
        default="none",
        description="Ablation: what agents read instead of one another's messages: own (their own message of that "
        "round), empty, filler (dots, as many tokens) or decoy (a solution of another question).",
    )

    escalate: Escalate = Field(
        default="never",
        description="Read others' messages as text, and their payloads only on disagreement (the votes of their round "
        "differ) or uncertainty (their mean entropy is high); never: always read both.",
    )
    escalate_above: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="For --escalate uncertainty: threshold of the mean entropy, in nats per token.",
    )

    @model_validator(mode="after")
    def _above_a_threshold(self) -> Controlled:
        if (self.escalate == "uncertainty") != (self.escalate_above is not None):
            raise UsageError(
                f"escalate is {self.escalate!r} and escalate_above {self.escalate_above}; set uncertainty with a "
                "threshold in nats, or another value without one"
            )
        return self

    def needs(self) -> dict[str, str]:
        """Return the decoys, if agents read them."""
        return {"decoys": "the control is 'decoy'"} if self.control == "decoy" else {}


class Voting(Settings):
    """Settings of schemes that decide by the most votes, where the first speaker wins a tie in the papers."""

    tie: Literal["first", "certain"] = Field(
        default="first",
        description="Answer that wins a tie: first (the one given first) or certain (of local models: the one whose "
        "tokens have the lower mean entropy; else the first).",
    )


class Searching(Settings):
    """The settings of searches for passages."""

    rerank: Annotated[str | None, Names("reranker")] = Field(
        default=None,
        description="Reranker of the first 50 passages of a search: a cross-encoder's folder, or a LangChain document "
        "compressor as PACKAGE.MODULE:NAME.",
    )
    filter: Annotated[dict[str, str | int | float | bool], BeforeValidator(pairs), Words()] = Field(
        default={}, description="Required value in passages: of a field of their metadata, or of docid, title or url."
    )


class Pooled(Searching):
    """The settings of the evidence that is retrieved before a question is answered (MADRA, section 3.2)."""

    source: Literal["wiki", "google", "all", "none"] = Field(
        default="all",
        description="Where to search for evidence: wiki, google, all (those with a retriever) or none.",
    )
    wiki: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="Retriever for `wiki`: encyclopedia (built in), documents (the question's own), wikipedia, "
        "dpr:..., bm25:FOLDER, ...",
    )
    google: Annotated[str, SEARCHED] = Field(
        default="",
        description="Retriever for `google`, if any: google, google:FOLDER (stores its results there), ...",
    )
    n_wiki: Few = Field(default=10, ge=1, description="Number of passages from `wiki`.")
    n_google: Few = Field(default=5, ge=1, description="Number of snippets from `google`.")
    pool: Literal["faithful", "fused"] = Field(
        default="faithful",
        description="Order of evidence: faithful (wiki, then google, as in MADRA) or fused (by fused rank, with near "
        "duplicates merged).",
    )

    def sources(self) -> list[tuple[str, int]]:
        """Return the retrievers to ask, each with the number of passages."""
        known = {"wiki": (self.wiki, self.n_wiki), "google": (self.google, self.n_google)}
        return [found for name, found in known.items() if self.source in (name, "all") and found[0]]

    @model_validator(mode="after")
    def _has_sources(self) -> Pooled:
        if self.source != "none" and not self.sources():
            raise UsageError(
                f"source is {self.source!r}, but it has no retriever; add `google='google'` or `source='wiki'`"
            )
        return self


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
