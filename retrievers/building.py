"""An index made of a corpus: in a stream, by shards, resumable after each of them, whole at the end or not there.

Work goes on in a hidden folder beside the one that was asked for. After each shard its progress is
written; the same command goes on from there. The folder gets its name when the manifest is in it, and
what is left of the shards is removed after that: whenever it is interrupted, nothing is lost or half.
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

from sottovoce.checked import Checked
from sottovoce.errors import CorpusError, UsageError
from sottovoce.regular import bytes_of
from sottovoce.retrievers.corpus import Corpus
from sottovoce.retrievers.manifest import Manifest, write_manifest, write_whole
from sottovoce.retrievers.passage import Passage
from sottovoce.retrievers.store import digest_of, write_passages

PROGRESS, SHARDS = "progress.json", "shards"
SHARD = 20_000
"""Passages."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Maker(Protocol):
    """What makes one kind of index."""

    name: str
    """Of the retriever that reads it."""

    @property
    def settings(self) -> Checked:
        """They stand in the manifest."""

    def made_with(self) -> dict[str, str]:
        """Libraries and their versions."""

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write what a shard comes to into the folder of shards; what an interrupted call left is written over."""

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Join `n` shards to the index in the work folder; they stay, and an interrupted call is made again."""


class Progress(Checked):
    """How far the work is."""

    identity: dict[str, Any]  # Any: JSON
    """Of corpus, retriever, settings and shards: work of another is not gone on with."""
    shards: int = 0
    passages: int = 0
    digest: str = ""
    """Of the passages so far."""


Tell = Callable[[int, float], object]
"""Takes the passages that were indexed, and the share of the corpus that was read, in [0, 1]."""


def build_index(
    maker: Maker, corpus: Corpus, folder: Path, shard: int = SHARD, tell: Tell = lambda passages, share: None
) -> Manifest:
    """Make an index in a new folder; `shard` is how many passages are indexed between two notes of progress.

    Raises:
        CorpusError: something is in the folder, another process makes the same index, what stands there
            half-made is of another corpus or other settings, the disk is full, or the corpus cannot be read
            or indexed.
    """
    settings = maker.settings.model_dump(mode="json")
    with _alone(folder) as work:
        progress = _progress(work, {**corpus.identity, "retriever": maker.name, "settings": settings, "shard": shard})
        left = islice(corpus, progress.passages, None)
        while passages := list(islice(left, shard)):
            progress = _add(maker, work, progress, passages)
            tell(progress.passages, corpus.position / corpus.size)
        if not progress.passages:
            none = f"no sound passage; {corpus.first_skipped}" if corpus.skipped else "no passages"
            raise CorpusError(f"corpus {str(corpus.path)!r} holds {none}")
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
    """The work folder, for one process at a time."""
    work = folder.with_name(f".{folder.name}.partial")
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock.acquire(timeout=0):
            if folder.exists():  # looked at under the lock: another process may have made it just now
                raise CorpusError(f"something is in {str(folder)!r} already: remove it, or choose another folder")
            (work / SHARDS).mkdir(parents=True, exist_ok=True)
            yield work
        Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout as error:
        raise CorpusError(f"another process is making the index {str(folder)!r}") from error
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise CorpusError(f"an index cannot be made in {str(folder.parent)!r}: {error.strerror}") from error
    except (OSError, sqlite3.OperationalError) as error:
        if isinstance(error, OSError) and error.errno not in FULL:
            raise  # somebody's encoder, say, whose service is away
        raise CorpusError(
            f"index {str(folder)!r} cannot be written: {error}; the same command goes on when there is room"
        ) from error


def _progress(work: Path, identity: dict[str, Any]) -> Progress:  # Any: JSON
    """What an earlier call noted, or a new beginning."""
    try:
        found = Progress.model_validate_json(bytes_of(work / PROGRESS))
    except FileNotFoundError:
        return Progress(identity=identity)
    except (OSError, UsageError):
        found = Progress(identity={})
    if found.identity != identity:
        raise CorpusError(f"{str(work)!r} holds an index half-made of another corpus or otherwise: remove it first")
    return found
