"""The building of an index: progress on stderr, and how to search the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import INDEX, check_folder
from sottovoce.core.text import counted, one_line
from sottovoce.retrievers.building import IndexOptions, OnProgress, build_index, builder_for
from sottovoce.retrievers.corpus import Corpus
from sottovoce.runs.job import resumable

BETWEEN = 30.0
"""Seconds between two lines if there is no terminal."""


def build(options: IndexOptions) -> None:
    """Build, resume or download an index, and print how to search it.

    Raises:
        UsageError: corpus, folder or options are missing or wrong, or the corpus cannot be read.
        RetrievalError: a prebuilt index cannot be downloaded.
        StoppedError: the user stopped it; the same command resumes.
    """
    if options.prebuilt is not None:
        return _download(options.prebuilt, options)
    if options.corpus is None or options.to is None:
        raise UsageError("an index needs a corpus and a new folder: data index passages.jsonl --to indexes/mine")
    check_folder(options.to, "--to", INDEX)
    began, builder, corpus = time.monotonic(), builder_for(options), Corpus(options.corpus, skip_bad=options.skip_bad)
    with resumable("what was indexed is kept"), _progress() as report:
        manifest = build_index(builder, corpus, options.to, options.shard, report)
    size = sum(file.stat().st_size for file in options.to.rglob("*") if file.is_file())
    name = one_line(str(options.to))
    print(f"{manifest.passages:,} passages in {name}, {size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")
    if corpus.skipped:
        bad = counted(corpus.skipped, "bad passage")
        print(f"{bad} left out; the first: {one_line(corpus.first_skipped)}")
    print(f"search it as {builder.name}:{name}; fingerprint {manifest.fingerprint}")


def _download(name: str, options: IndexOptions) -> None:
    from sottovoce.retrievers.pyserini import download

    if options.corpus or options.to:
        raise UsageError("--prebuilt downloads an index: give it without a corpus and --to")
    print(f"search it as pyserini:{name}; it is in {one_line(str(download(name)))}")


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Show a bar on a terminal, else a line now and then."""
    console, last = Console(stderr=True, highlight=False), time.monotonic()
    with Progress(
        BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("reading", total=1.0)

        def report(passages: int, share: float) -> None:
            nonlocal last
            joining = "; joining shards" if share >= 1 else ""
            bar.update(task, completed=share, description=f"{passages:,} passages{joining}")
            if not console.is_terminal and time.monotonic() - last >= BETWEEN:
                last = time.monotonic()
                console.print(f"{share:.0%} read, {passages:,} passages", soft_wrap=True)

        yield report
