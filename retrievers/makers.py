"""What `python cli.py index` takes, and what makes each kind of index.

The command line reads the options: what makes an index is imported when one is made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from sottovoce.bounds import Count
from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.retrievers.building import SHARD, Maker


class IndexOptions(Checked):
    """Of what an index is made, and how."""

    model_config = ConfigDict(title="Index")

    corpus: Path | None = Field(
        default=None,
        description="a .jsonl file of passages (docid, title, text), or DPR's psgs_w100.tsv; each may end in .gz",
        json_schema_extra={"positional": True},
    )
    to: Path | None = Field(default=None, description="the new folder of the index")
    retriever: Literal["bm25", "dense", "lucene"] = Field(default="bm25", description="what is to search it")
    k1: float | None = Field(default=None, description="of bm25, lucene: how slowly repetitions cease to count; 0.9")
    b: float | None = Field(default=None, description="of bm25, lucene: how much long passages are marked down; 0.4")
    stemmer: str | None = Field(default=None, description="of bm25: one of Snowball's, or none; porter")
    stopwords: str | None = Field(default=None, description="of bm25: en, or none; en")
    encoder: str | None = Field(default=None, description="of dense: a sentence encoder; minilm")
    query_prompt: str | None = Field(
        default=None, description='of dense: text before queries, such as "query: "; as the encoder\'s files say'
    )
    passage_prompt: str | None = Field(default=None, description="of dense: the same before passages")
    device: str | None = Field(default=None, description="of dense: cpu, cuda, cuda:1, mps, or auto; auto")
    prebuilt: str | None = Field(
        default=None, description="download this prebuilt index of pyserini's instead, e.g. wikipedia-dpr-100w (9.2 GB)"
    )
    skip_bad: bool = Field(default=False, description="leave out, and count, bad passages such as an empty text")
    shard: Count = Field(default=SHARD, ge=1, description="passages between two points at which it can be resumed")

    def of(self, *names: str) -> dict[str, object]:
        """What was given of these options."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def maker_of(options: IndexOptions) -> Maker:
    """What makes the index that was asked for.

    Raises:
        UsageError: a value does not fit, or an option is another retriever's.
    """
    taken, make = MAKERS[options.retriever]
    if strange := sorted(options.of(*{name for names, _ in MAKERS.values() for name in names} - taken)):
        raise UsageError(f"--{strange[0].replace('_', '-')} is no option of --retriever {options.retriever}")
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
"""By retriever: the options it takes, and its maker."""
