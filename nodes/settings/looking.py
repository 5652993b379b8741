"""The settings of schemes whose agents look things up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.bounds import Agents, Few, Rounds, Tokens
from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Controlled, Documents, Settings, pairs
from sottovoce.trust import Names, Words

ENCYCLOPEDIA, DOCUMENTS = "encyclopedia", "documents"
SEARCHED = Names("retriever", (ENCYCLOPEDIA, DOCUMENTS), numbered=(ENCYCLOPEDIA,))


class Searching(Settings):
    """What is said of searches for passages, whatever they search."""

    rerank: Annotated[str | None, Names("reranker")] = Field(
        default=None,
        description="a cross-encoder's folder, or a LangChain document compressor as PACKAGE.MODULE:NAME, which scores "
        "the first 50 passages of a search again",
    )
    filter: Annotated[dict[str, str | int | float | bool], BeforeValidator(pairs), Words()] = Field(
        default={}, description="NAME=VALUE that passages must have in their metadata, or as docid, title, url"
    )


class ReAct(Searching):
    """Agents search, look up and finish in turn, one step each, until one answers (ReAct relay, SDE)."""

    sample: ClassVar[str] = "world"
    acts: ClassVar[tuple[str, ...]] = ("step", "action")
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.2.2)

    agents: Agents = Field(default=7, ge=1, description="how many agents; they take turns")
    steps: Few = Field(default=7, ge=1, description="steps of all together, at most")
    step_tokens: Tokens = Field(default=100, ge=1, description="longest step, in tokens")
    library: Annotated[str, SEARCHED] = Field(
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


class Pooled(Searching):
    """What evidence is found for a question before it is answered (MADRA, section 3.2)."""

    source: Literal["wiki", "google", "all", "none"] = Field(
        default="all", description="where evidence is looked for: wiki, google, all that there are, or none"
    )
    wiki: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="the retriever that is `wiki`: encyclopedia (the one that ships), documents (the question's own), "
        "wikipedia, dpr:..., bm25:FOLDER, ...",
    )
    google: Annotated[str, SEARCHED] = Field(
        default="",
        description="the retriever that is `google`, if any: google, google:FOLDER (keeps what it found), ...",
    )
    n_wiki: Few = Field(default=10, ge=1, description="passages of wiki")
    n_google: Few = Field(default=5, ge=1, description="snippets of google")
    pool: Literal["faithful", "fused"] = Field(
        default="faithful",
        description="order of evidence: wiki's, then google's (MADRA), or by fused ranks with near duplicates folded",
    )

    def sources(self) -> list[tuple[str, int]]:
        """The retrievers that are asked, each for how much."""
        known = {"wiki": (self.wiki, self.n_wiki), "google": (self.google, self.n_google)}
        return [found for name, found in known.items() if self.source in (name, "all") and found[0]]

    @model_validator(mode="after")
    def _has_sources(self) -> Pooled:
        if self.source != "none" and not self.sources():
            raise UsageError(
                f"source is {self.source!r}, but no retriever is that; add --google google or --source wiki"
            )
        return self


class MADRA(Pooled):
    """Debaters choose from a pool of evidence before each talk, until a judge finds them agreed (MADRA, 2312.04854)."""

    sample: ClassVar[str] = "world"
    acts: ClassVar[tuple[str, ...]] = ("select", "answer", "revise", "agree", "summarise")
    default_temperature: ClassVar[float | None] = 0.5

    agents: Agents = Field(default=2, ge=2, description="how many debaters; judge and summarizer come on top")
    rounds: Rounds = Field(default=3, ge=1, description="rounds, at most: the first side by side, later ones in turn")
    self_selection: bool = Field(
        default=True, description="debaters choose their evidence before they talk; else they read all of it"
    )
    most: Few = Field(default=3, ge=1, description="pieces of evidence that a debater chooses, at most")
    select_tokens: Tokens = Field(default=512, ge=1, description="longest reply in which evidence is chosen, in tokens")
    search_again: bool = Field(
        default=False, description="search before each later round too, with what the debaters said"
    )

    def others(self) -> list[str]:
        """The judge, who tells whether they agree, and the summarizer."""
        return ["judge", "summarizer"]

    def dealt(self, documents: Documents) -> Documents:
        """None are shown: they are searched at most."""
        return []


class IA(Searching, Controlled):
    """Agents who each know some of the passages ask one another until one of them answers (SDE)."""

    sample: ClassVar[str] = "world"
    acts: ClassVar[tuple[str, ...]] = ("talk",)
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.1)

    agents: Agents = Field(default=2, ge=2, description="how many agents; passages are dealt to them in turn, by rank")
    rounds: Rounds = Field(
        default=5, ge=1, description="rounds, at most: the first with an answer in its form is the last"
    )
    max_tokens: Tokens = Field(default=256, ge=1, description="longest reply, in tokens")
    library: Annotated[str | None, SEARCHED] = Field(
        default=None,
        description="where passages are looked up for a question without documents: encyclopedia, bm25:FOLDER, ...",
    )
    passages: Few = Field(default=6, ge=1, description="how many are looked up")
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
