"""Construction of an index from a corpus: streamed in shards, resumable after each shard, and atomic.

The work is done in a hidden directory next to the requested one. Progress is written after each shard, and
the same command resumes from there. The directory gets its final name once the manifest is in it; then the
shards are removed. An interruption at any point loses at most one shard and leaves no incomplete index.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.regular_files import bytes_of
from sottovoce.core.validation import Checked
from sottovoce.retrievers.corpus import Corpus
from sottovoce.retrievers.manifest import Manifest, write_manifest, write_whole
from sottovoce.retrievers.passage import Passage
from sottovoce.retrievers.store import digest_of, write_passages

PROGRESS, SHARDS = "progress.json", "shards"
SHARD = 20_000
"""Default number of passages in a shard."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Maker(Protocol):
    """A builder of one kind of index."""

    name: str
    """Name of the retriever that reads the index."""

    @property
    def settings(self) -> Checked:
        """Settings of the index, which the manifest records."""

    def made_with(self) -> dict[str, str]:
        """Return the versions of the libraries used, by name."""

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


Tell = Callable[[int, float], object]
"""Callback that takes the number of indexed passages and the share of the corpus that was read, in [0, 1]."""


def build_index(
    maker: Maker, corpus: Corpus, folder: Path, shard: int = SHARD, tell: Tell = lambda passages, share: None
) -> Manifest:
    """Build an index in a new directory, and save progress after every `shard` passages.

    Raises:
        CorpusError: the directory exists, another process is building the same index, a partial index there
            has another corpus or other settings, the disk is full, or the corpus cannot be read or indexed.
    """
    settings = maker.settings.model_dump(mode="json")
    with _alone(folder) as work:
        progress = _progress(work, {**corpus.identity, "retriever": maker.name, "settings": settings, "shard": shard})
        left = islice(corpus, progress.passages, None)
        while passages := list(islice(left, shard)):
            progress = _add(maker, work, progress, passages)
            tell(progress.passages, corpus.position / corpus.size)
        if not progress.passages:
            none = f"no valid passages; {corpus.first_skipped}" if corpus.skipped else "no passages"
            raise CorpusError(f"corpus {str(corpus.path)!r} has {none}")
        maker.finish(work / SHARDS, progress.shards, work)
        manifest = Manifest(
            retriever=maker.name,
            passages=progress.passages,
            digest=progress.digest,
            settings=settings,
            corpus=corpus.path.name,
            skipped=corpus.skipped,
            made_with=maker.made_with(),
        )
        write_manifest(work, manifest)
        _name(work, folder)
    return manifest


def _add(maker: Maker, work: Path, progress: Progress, passages: Sequence[Passage]) -> Progress:
    write_passages(work, passages, progress.passages)
    maker.add(work / SHARDS, progress.shards, passages)
    done = Progress(
        identity=progress.identity,
        shards=progress.shards + 1,
        passages=progress.passages + len(passages),
        digest=digest_of(passages, progress.digest),
    )
    write_whole(work / PROGRESS, done.model_dump_json())
    return done


def _name(work: Path, folder: Path) -> None:
    work.rename(folder)
    shutil.rmtree(folder / SHARDS)
    (folder / PROGRESS).unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
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
        found = Progress.model_validate_json(bytes_of(work / PROGRESS))
    except FileNotFoundError:
        return Progress(identity=identity)
    except (OSError, UsageError):
        found = Progress(identity={})
    if found.identity != identity:
        raise CorpusError(f"{str(work)!r} has a partial index of another corpus or other settings: remove it first")
    return found
