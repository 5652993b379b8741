"""Builder of a Lucene index on disk: shards are JSON files, which Anserini's program indexes in its own process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.retrievers import jvm
from sottovoce.retrievers.lucene import FOLDER, NAME, LuceneSettings
from sottovoce.retrievers.passage import Passage

HEAP = "2g"
INDEXER = "io.anserini.index.IndexCollection"


class LuceneMaker:
    """A `Maker` for Lucene. It indexes in one thread, so that equal scores are ordered as in the corpus."""

    name = NAME

    def __init__(self, settings: LuceneSettings | None = None) -> None:
        """Check at once that Java and pyserini are available.

        Raises:
            UsageError: one of them is missing, or Java is too old.
        """
        self.settings = settings or LuceneSettings()
        self._java, self._jar = jvm.java_home() / "bin" / "java", jvm.anserini()

    def made_with(self) -> dict[str, str]:
        """Return the versions of the libraries that the index depends on."""
        return {"pyserini": version("pyserini")}

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard as pyserini's JSON, with title, text, URL and metadata besides the contents."""
        with (shards / f"passages-{number:05}.jsonl").open("w", encoding="utf-8") as file:
            for each in passages:
                told = {"id": each.docid, "contents": each.contents, "title": each.title, "text": each.text}
                file.write(json.dumps({**told, "url": each.url, "metadata": dict(each.metadata)}) + "\n")

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Index all shards in a separate JVM, whose output is used only for an error message.

        Raises:
            CorpusError: the indexer failed.
            UsageError: Java cannot be started.
        """
        shutil.rmtree(work / FOLDER, ignore_errors=True)  # left by an interrupted call
        command = [str(self._java), f"-Xmx{HEAP}", "-cp", str(self._jar), *jvm.LOGGING]
        command += [INDEXER, "-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
        command += ["-input", str(shards), "-index", str(work / FOLDER), "-threads", "1", "-storeRaw"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UsageError(f"Java cannot be started: {error}; {jvm.REMEDY}") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CorpusError(f"Lucene's indexer ended with {done.returncode}: {' '.join(last) or 'no output'}")
