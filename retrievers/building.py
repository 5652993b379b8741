"""Construction of an index from a corpus: streamed in shards, resumable after each shard, and atomic.

The work is done in a hidden directory next to the requested one. Progress is written after each shard, and
the same command resumes from there. The directory gets its final name once the manifest is in it; then the
shards are removed. An interruption at any point loses at most one shard and leaves no incomplete index. The command
line reads only `IndexOptions`; a builder is imported when an index is built.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

from filelock import FileLock, Timeout
from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Count
from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.files import bytes_of
from sottovoce.core.validation import Checked
from sottovoce.retrievers.corpus import Corpus
from sottovoce.retrievers.passage import Passage
from sottovoce.retrievers.store import FILE, Manifest, digest_of, write_passages, write_whole

PROGRESS, SHARDS = "progress.json", "shards"
SHARD = 20_000
"""Default number of passages in a shard."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class IndexBuilder(Protocol):
    """A builder of one kind of index."""

    name: str
    """Name of the retriever that reads the index."""
    packages: tuple[str, ...]
    """Packages that the index depends on; the manifest records their versions."""

    @property
    def settings(self) -> Checked:
        """Settings of the index, which the manifest records."""

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the data of a shard into the directory of shards, overwriting what an interrupted call left."""

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Join `n` shards into the index in the work directory; keep them, since an interrupted call is repeated."""


class Progress(Checked):
    """Progress of the work."""

    identity: dict[str, Any]  # Any: JSON
    """Corpus, retriever, settings and shard size; work with another identity is not resumed."""
    shards: int = 0
    passages: int = 0
    digest: str = ""
    """Digest of the passages so far."""


OnProgress = Callable[[int, float], object]
"""Callback that takes the number of indexed passages and the share of the corpus that was read, in [0, 1]."""


def build_index(
    builder: IndexBuilder,
    corpus: Corpus,
    folder: Path,
    shard: int = SHARD,
    on_progress: OnProgress = lambda passages, share: None,
) -> Manifest:
    """Build an index in a new directory, and save progress after every `shard` passages.

    Raises:
        CorpusError: the directory exists, another process is building the same index, a partial index there
            has another corpus or other settings, the disk is full, or the corpus cannot be read or indexed.
    """
    settings = builder.settings.model_dump(mode="json")
    with _locked(folder) as work:
        progress = _progress(work, {**corpus.identity, "retriever": builder.name, "settings": settings, "shard": shard})
        left = islice(corpus, progress.passages, None)
        while passages := list(islice(left, shard)):
            progress = _add(builder, work, progress, passages)
            on_progress(progress.passages, corpus.position / corpus.size)
        if not progress.passages:
            none = f"no valid passages; {corpus.first_skipped}" if corpus.skipped else "no passages"
            raise CorpusError(f"corpus {str(corpus.path)!r} has {none}")
        builder.finish(work / SHARDS, progress.shards, work)
        manifest = Manifest(
            retriever=builder.name,
            passages=progress.passages,
            digest=progress.digest,
            settings=settings,
            corpus=corpus.path.name,
            skipped=corpus.skipped,
            made_with={name: version(name) for name in builder.packages},
        )
        write_whole(work / FILE, manifest.model_dump_json(indent=2) + "\n")
        work.rename(folder)
        shutil.rmtree(folder / SHARDS)
        (folder / PROGRESS).unlink()
    return manifest


def _add(builder: IndexBuilder, work: Path, progress: Progress, passages: Sequence[Passage]) -> Progress:
    write_passages(work, passages, progress.passages)
    builder.add(work / SHARDS, progress.shards, passages)
    done = Progress(
        identity=progress.identity,
        shards=progress.shards + 1,
        passages=progress.passages + len(passages),
        digest=digest_of(passages, progress.digest),
    )
    write_whole(work / PROGRESS, done.model_dump_json())
    return done


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Yield the work directory, locked against other processes."""
    work = folder.with_name(f".{folder.name}.partial")
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock.acquire(timeout=0):
            if folder.exists():  # checked under the lock: another process may just have created it
                raise CorpusError(f"{str(folder)!r} already exists: remove it, or choose another directory")
            (work / SHARDS).mkdir(parents=True, exist_ok=True)
            yield work
        Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout as error:
        raise CorpusError(f"another process is building the index {str(folder)!r}") from error
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise CorpusError(f"an index cannot be built in {str(folder.parent)!r}: {error.strerror}") from error
    except (OSError, sqlite3.OperationalError) as error:
        if isinstance(error, OSError) and error.errno not in FULL:
            raise  # for example from an encoder whose service is unavailable
        raise CorpusError(
            f"index {str(folder)!r} cannot be written: {error}; free some space and run the same command to resume"
        ) from error


def _progress(work: Path, identity: dict[str, Any]) -> Progress:  # Any: JSON
    """Return the progress that an earlier call saved, or that of a new build."""
    try:
        progress = Progress.model_validate_json(bytes_of(work / PROGRESS))
    except FileNotFoundError:
        return Progress(identity=identity)
    except (OSError, UsageError):
        progress = Progress(identity={})
    if progress.identity != identity:
        raise CorpusError(f"{str(work)!r} has a partial index of another corpus or other settings: remove it first")
    return progress


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
    passage_prompt: str | None = Field(
        default=None, description="dense: text before passages (default: from the encoder's files)."
    )
    device: str | None = Field(default=None, description="dense: cpu, cuda, cuda:1, mps, or auto (default: auto).")
    prebuilt: str | None = Field(
        default=None, description="Download this prebuilt index of pyserini instead, e.g. wikipedia-dpr-100w (9.2 GB)."
    )
    skip_bad: bool = Field(default=False, description="Skip and count bad passages such as empty texts.")
    shard: Count = Field(default=SHARD, ge=1, description="Save progress after every N passages.")

    def of(self, *names: str) -> dict[str, object]:
        """Return those of these options that were set."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def builder_for(options: IndexOptions) -> IndexBuilder:
    """Return the builder of the requested index."""
    own = OPTIONS[options.retriever]
    if strange := sorted(options.of(*{name for names in OPTIONS.values() for name in names} - own)):
        raise UsageError(f"--{strange[0].replace('_', '-')} is not an option of --retriever {options.retriever}")
    if options.retriever == "bm25":
        from sottovoce.retrievers.bm25 import BM25Builder, BM25Settings

        analysis = options.of("stemmer", "stopwords")
        return BM25Builder(BM25Settings.model_validate({"analysis": analysis, **options.of("k1", "b")}))
    if options.retriever == "dense":
        from sottovoce.retrievers.dense import DenseBuilder, DenseSettings

        settings = DenseSettings.model_validate(options.of("encoder", "query_prompt", "passage_prompt"))
        return DenseBuilder(settings, device=options.device or "auto")
    from sottovoce.retrievers.lucene import LuceneBuilder, LuceneSettings

    return LuceneBuilder(LuceneSettings.model_validate(options.of("k1", "b")))


OPTIONS = {
    "bm25": {"k1", "b", "stemmer", "stopwords"},
    "dense": {"encoder", "query_prompt", "passage_prompt", "device"},
    "lucene": {"k1", "b"},
}
"""The options of each retriever."""
