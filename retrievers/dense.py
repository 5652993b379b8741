"""Dense retrieval: the passages whose vectors have the largest inner product with the query's, by FAISS.

A folder has pyserini's layout, `index` and `docid` (one name a line), so that pyserini searches ours and
we search its own, without Java. Ours also holds the passages, a manifest that names the encoder, and
what that made of a probe: an index is searched by no other encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from langchain_core.embeddings import Embeddings

from sottovoce.checked import Checked
from sottovoce.errors import CorpusError, UsageError
from sottovoce.regular import text_of
from sottovoce.retrievers.encoders import DEFAULT, DPRQuestions, SentenceEncoder
from sottovoce.retrievers.manifest import AGAIN, fingerprint, read_manifest
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import PassageStore, digest_of
from sottovoce.retrievers.vectors import embedded, flat, mapped

NAME = "dense"
DOCIDS, PROBED = "docid", "probe.json"
PROBE = "Which river flows past the old mill?"
ALIKE = 0.99
"""Of a probe's vectors by one encoder on two machines, the least cosine."""


class DenseSettings(Checked):
    """What an index depends on besides its passages."""

    encoder: str = DEFAULT
    """What made the vectors: a name that `models list` shows, a folder, or what an `Embeddings` is called."""
    query_prompt: str | None = None
    """Stands before queries; None leaves it to the encoder's files."""
    passage_prompt: str | None = None

    def loaded(self, device: str = "auto") -> SentenceEncoder:
        """Return the sentence encoder of that name."""
        prompts = {"query_prompt": self.query_prompt, "passage_prompt": self.passage_prompt}
        return SentenceEncoder(self.encoder, device=device, **prompts)


class QueryEncoder(Protocol):
    """Any `Embeddings`, or what embeds queries alone."""

    def embed_query(self, text: str) -> list[float]:
        """The query's vector."""


class Rows(Protocol):
    """Passages by the rows of an index."""

    def __getitem__(self, row: int, /) -> Passage: ...


class DenseIndex:
    """A `Searcher` over vectors."""

    def __init__(self, vectors: Any, rows: Rows, encoder: QueryEncoder, fingerprint: str, source: str) -> None:
        """`vectors` is a faiss.Index by inner product; made by `build`, `open` or `open_pyserini`."""
        self._vectors, self._rows, self._encoder = vectors, rows, encoder
        self.fingerprint, self.source = fingerprint, source

    @classmethod
    def build(cls, passages: Iterable[Passage], encoder: Embeddings, name: str, source: str = "corpus") -> Self:
        """An index in memory; `name` is what the encoder is called.

        Raises:
            CorpusError: no passages, or vectors that are none.
            UsageError: FAISS is not installed.
        """
        kept = list(passages)
        print_ = fingerprint(NAME, digest_of(kept), DenseSettings(encoder=name).model_dump())
        return cls(flat([embedded(kept, encoder)]), kept, encoder, print_, source)

    @classmethod
    def open(cls, folder: Path, encoder: QueryEncoder | None = None, source: str = "corpus") -> Self:
        """An index that `python cli.py index` made, its vectors mapped; the encoder is the one it names.

        Raises:
            CorpusError: there is no index, it is damaged, or its vectors are another encoder's.
            ModelError: the encoder is not there.
            UsageError: FAISS is not installed.
        """
        manifest = read_manifest(folder, NAME)
        try:
            settings = DenseSettings.model_validate(manifest.settings)
        except UsageError as error:
            raise CorpusError(f"index {str(folder)!r} was made otherwise: {error}; {AGAIN}") from error
        vectors, passages = mapped(folder), PassageStore(folder)
        if (found := (vectors.ntotal, len(passages))) != (manifest.passages, manifest.passages):
            raise CorpusError(
                f"index {str(folder)!r} has {found} vectors and passages, not {manifest.passages}; {AGAIN}"
            )
        encoder = encoder or settings.loaded()
        _check_probe(folder, settings.encoder, encoder.embed_query(PROBE))
        return cls(vectors, passages, encoder, manifest.fingerprint, source)

    @classmethod
    def open_pyserini(cls, folder: Path, encoder: QueryEncoder, passages: PassageStore, source: str = "dpr") -> Self:
        """An index of pyserini's, its passages looked up by docid in the store of another index.

        Raises:
            CorpusError: there is no such index, or its vectors are not as long as the encoder's.
            UsageError: FAISS is not installed.
        """
        vectors, docids = mapped(folder), _lines(folder / DOCIDS)
        if len(docids) != vectors.ntotal:
            raise CorpusError(f"index {str(folder)!r} has {vectors.ntotal} vectors and {len(docids)} docids")
        check_length(folder, vectors.d, encoder)
        return cls(vectors, ByDocid(docids, passages), encoder, "", source)

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` passages with the largest inner products; of equal ones the one that stands earlier."""
        import numpy as np

        vector = np.array([self._encoder.embed_query(query)], dtype=np.float32)
        scores, rows = self._vectors.search(vector, min(k, self._vectors.ntotal))
        found = [(float(score), int(row)) for score, row in zip(scores[0], rows[0], strict=True) if row >= 0]
        return [Hit(self._rows[row], score) for score, row in sorted(found, key=lambda each: (-each[0], each[1]))]


class ByDocid:
    """The passages of an index of pyserini's, which lie elsewhere."""

    def __init__(self, docids: Sequence[str], passages: PassageStore) -> None:
        """`docids` are those of its rows."""
        self._docids, self._passages = docids, passages

    def __getitem__(self, row: int) -> Passage:
        return self.find(self._docids[row])

    def find(self, docid: str) -> Passage:
        """The passage of that docid.

        Raises:
            CorpusError: there is none.
        """
        if (found := self._passages.find(docid)) is None:
            raise CorpusError(f"there is no passage {docid!r}: index and passages are of different corpora")
        return found


def open_dense(where: str) -> DenseIndex:
    """The index in a folder.

    Raises:
        UsageError: no folder is named, it holds no index, or FAISS is not installed.
    """
    if not where:
        raise UsageError("dense searches an index: say which, e.g. dense:indexes/wiki")
    folder = Path(where).expanduser()
    return DenseIndex.open(folder, source=folder.name)


def open_dpr(where: str) -> DenseIndex:
    """Pyserini's index, a question encoder, and an index of ours that holds the passages, with commas between.

    Raises:
        UsageError: not three folders, one that does not hold what is expected, or FAISS is not installed.
    """
    if len(folders := [each.strip() for each in where.split(",") if each.strip()]) != 3:
        raise UsageError(
            "dpr searches a pyserini index with a question encoder, and takes passages from an index of ours:"
            " name the three, e.g. dpr:wikipedia-dpr-100w,dpr-question_encoder-multiset-base,indexes/wiki"
        )
    index, encoder, passages = (Path(each).expanduser() for each in folders)
    return DenseIndex.open_pyserini(index, DPRQuestions(str(encoder)), PassageStore(passages))


def check_length(folder: Path, length: int, encoder: QueryEncoder) -> None:
    """See that an encoder makes vectors of that length.

    Raises:
        CorpusError: they are longer or shorter.
    """
    if (found := len(encoder.embed_query(PROBE))) != length:
        raise CorpusError(f"index {str(folder)!r} has vectors of {length} numbers, and its encoder makes {found}")


def _check_probe(folder: Path, name: str, found: Sequence[float]) -> None:
    import numpy as np

    try:
        kept = np.array(json.loads("".join(_lines(folder / PROBED))))
    except ValueError as error:
        raise CorpusError(f"{str(folder / PROBED)!r} cannot be read: {error}; {AGAIN}") from error
    vector = np.array(found)
    if kept.shape != vector.shape or kept @ vector < ALIKE * np.linalg.norm(kept) * np.linalg.norm(vector):
        raise CorpusError(
            f"the vectors of index {str(folder)!r} were made by another encoder than this {name!r}; {AGAIN}"
        )


def _lines(file: Path) -> list[str]:
    try:
        return text_of(file).splitlines()
    except (OSError, ValueError) as error:
        raise CorpusError(f"{str(file)!r} cannot be read: {error}; {AGAIN}") from error
