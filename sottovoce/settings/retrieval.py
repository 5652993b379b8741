"""The settings of schemes whose agents look things up: searches and evidence, MADRA, IA and the ReAct relay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names, Words
from sottovoce.settings.base import Controlled, Documents, Settings, pairs

ENCYCLOPEDIA, DOCUMENTS = "encyclopedia", "documents"
SEARCHED = Names("retriever", (ENCYCLOPEDIA, DOCUMENTS))


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
                f"source is {self.source!r}, but it has no retriever; add --google google or --source wiki"
            )
        return self


class MADRA(Pooled):
    """Debaters choose evidence, and talk to agree (MADRA).

    The evidence is from one pool; a judge finds whether they agree (arXiv 2312.04854).
    """

    acts: ClassVar[tuple[str, ...]] = ("select", "answer", "revise", "agree", "summarise")
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.5

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting judge and summarizer.")
    rounds: Rounds = Field(
        default=3,
        ge=1,
        description="Maximum number of rounds; debaters speak in parallel in the first and in turn in later ones.",
    )
    self_selection: bool = Field(
        default=True, description="Let each debater choose its evidence; otherwise all of them read all of it."
    )
    most: Few = Field(default=3, ge=1, description="Maximum number of pieces of evidence that a debater chooses.")
    select_tokens: Tokens = Field(default=512, ge=1, description="Maximum length of an evidence selection, in tokens.")
    search_again: bool = Field(
        default=False, description="Search again before each later round, with the debaters' messages."
    )

    def others(self) -> list[str]:
        """Return the judge, who checks if debaters agree, and the summarizer."""
        return ["judge", "summarizer"]


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


class ReAct(Searching):
    """Agents search and look up in turn (ReAct relay, SDE).

    Each takes one step, until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("step", "action")
    brief: ClassVar[bool] = True
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.2.2)

    agents: Agents = Field(default=7, ge=1, description="Number of agents; they take turns.")
    steps: Few = Field(default=7, ge=1, description="Maximum number of steps of all agents together.")
    step_tokens: Tokens = Field(default=100, ge=1, description="Maximum length of a step, in tokens.")
    library: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="Library to search: encyclopedia (built in), documents (the question's own), or a retriever "
        " such as bm25:FOLDER or wikipedia.",
    )
    search: Literal["title", "passages"] = Field(
        default="title",
        description="Page that a search opens: title (the page of that title, as in ReAct) or passages (the three best "
        "passages, as in SDE).",
    )
    carry: Literal["latest", "all"] = Field(  # type: ignore[assignment]  # in place of the protocol's option
        default="latest", description="Steps that the protocol carries; others are sent as text: latest or all."
    )
