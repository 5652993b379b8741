"""The settings of schemes whose agents look things up."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names, Words
from sottovoce.settings.base import Settings, pairs

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
