"""Options of `python cli.py data index`, and the builder of each kind of index.

The command line reads only the options; a builder is imported when an index is built.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Count
from sottovoce.core.errors import UsageError
from sottovoce.core.validation import Checked
from sottovoce.retrievers.building import SHARD, Maker


class IndexOptions(Checked):
    """Source and settings of an index to build."""

    model_config = ConfigDict(title="Index")

    corpus: Path | None = Field(
        default=None,
        description="A .jsonl file of passages (docid, title, text), or DPR's psgs_w100.tsv; each may end in .gz.",
        json_schema_extra={"positional": True},
    )
    to: Path | None = Field(default=None, description="New directory for the index.")
    retriever: Literal["bm25", "dense", "lucene"] = Field(default="bm25", description="Retriever that will search it.")
    k1: float | None = Field(default=None, description="bm25, lucene: saturation of repeated terms (default: 0.9).")
    b: float | None = Field(default=None, description="bm25, lucene: penalty for long passages, 0 to 1 (default: 0.4).")
    stemmer: str | None = Field(default=None, description="bm25: a Snowball stemmer, or none (default: porter).")
    stopwords: str | None = Field(default=None, description="bm25: en, or none (default: en).")
    encoder: str | None = Field(default=None, description="dense: a sentence encoder (default: minilm).")
    query_prompt: str | None = Field(
        default=None, description='dense: text before queries, such as "query: " (default: from the encoder\'s files).'
    )
    passage_prompt: str | None = Field(default=None, description="dense: the same for passages.")
    device: str | None = Field(default=None, description="dense: cpu, cuda, cuda:1, mps, or auto (default: auto).")
    prebuilt: str | None = Field(
        default=None, description="Download this prebuilt index of pyserini instead, e.g. wikipedia-dpr-100w (9.2 GB)."
    )
    skip_bad: bool = Field(default=False, description="Skip and count bad passages such as empty texts.")
    shard: Count = Field(default=SHARD, ge=1, description="Save progress after every N passages.")

    def of(self, *names: str) -> dict[str, object]:
        """Return those of these options that were set."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def maker_of(options: IndexOptions) -> Maker:
    """Return the builder of the requested index.

    Raises:
        UsageError: a value is invalid, or an option belongs to another retriever.
    """
    taken, make = MAKERS[options.retriever]
    if strange := sorted(options.of(*{name for names, _ in MAKERS.values() for name in names} - taken)):
        raise UsageError(f"--{strange[0].replace('_', '-')} is not an option of --retriever {options.retriever}")
    return make(options)


def _bm25(options: IndexOptions) -> Maker:
    from sottovoce.retrievers.analysis import Analysis
    from sottovoce.retrievers.bm25 import BM25Settings
    from sottovoce.retrievers.bm25_maker import BM25Maker

    analysis = Analysis.model_validate(options.of("stemmer", "stopwords"))
    return BM25Maker(BM25Settings.model_validate({"analysis": analysis, **options.of("k1", "b")}))


def _dense(options: IndexOptions) -> Maker:
    from sottovoce.retrievers.dense import DenseSettings
    from sottovoce.retrievers.dense_maker import DenseMaker

    settings = DenseSettings.model_validate(options.of("encoder", "query_prompt", "passage_prompt"))
    return DenseMaker(settings, device=options.device or "auto")


def _lucene(options: IndexOptions) -> Maker:
    from sottovoce.retrievers.lucene import LuceneSettings
    from sottovoce.retrievers.lucene_maker import LuceneMaker

    return LuceneMaker(LuceneSettings.model_validate(options.of("k1", "b")))


MAKERS: dict[str, tuple[frozenset[str], Callable[[IndexOptions], Maker]]] = {
    "bm25": (frozenset({"k1", "b", "stemmer", "stopwords"}), _bm25),
    "dense": (frozenset({"encoder", "query_prompt", "passage_prompt", "device"}), _dense),
    "lucene": (frozenset({"k1", "b"}), _lucene),
}
"""For each retriever, its options and a function that returns its builder."""
