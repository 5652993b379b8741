"""Pyserini's own searchers against ours, and what a process with its Java still does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from sottovoce.cli.main import main
from sottovoce.core.errors import CorpusError, RetrievalError, UsageError
from sottovoce.retrievers import jvm, open_retriever
from sottovoce.retrievers.bm25 import BM25Builder
from sottovoce.retrievers.building import build_index
from sottovoce.retrievers.encoders import DPRQuestions
from sottovoce.retrievers.lucene import LuceneBuilder
from sottovoce.retrievers.pyserini import download
from tests.retrievers.support import MILL, QUESTION, written
from tests.retrievers.vectors import pyserini_index, tiny_dpr


def faiss_search(folder: Path, encoder: DPRQuestions) -> list[Any]:  # Any: pyserini has no types
    class Encode:
        def encode(self, query: str) -> Any:
            return np.array(encoder.embed_query(query), dtype=np.float32)

    with jvm.pyserini():
        from pyserini.search.faiss import FaissSearcher

        return list(FaissSearcher(str(folder), Encode()).search(QUESTION, 5))


def test_pyserini_s_searcher_and_ours_find_the_same(tmp_path: Path) -> None:
    encoder = DPRQuestions(str(tiny_dpr(tmp_path / "encoder", QUESTION.lower().strip("?").split())))
    pyserini_index(tmp_path / "faiss", encoder, MILL)
    build_index(BM25Builder(), written(tmp_path), tmp_path / "texts")
    where = f"{tmp_path / 'faiss'},{encoder.name},{tmp_path / 'texts'}"

    theirs = jvm.alone(faiss_search)(tmp_path / "faiss", encoder)

    for name in ("dpr", "pyserini"):
        ours = open_retriever(f"{name}:{where}", k=9).invoke(QUESTION)
        assert [each.metadata["docid"] for each in ours] == [hit.docid for hit in theirs]
        scores = [float(hit.score) for hit in theirs]
        assert [each.metadata["score"] for each in ours] == pytest.approx(scores, rel=1e-6)


def test_a_prebuilt_index_is_never_fetched_unasked_and_is_told_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path))
    told = (
        r"is not on this machine; to download it \(9\.2 GB\), run `sottovoce data index --prebuilt wikipedia-dpr-100w`"
    )
    with pytest.raises(UsageError, match=f"^pyserini's index 'wikipedia-dpr-100w' {told}$"):
        open_retriever("pyserini:wikipedia-dpr-100w")
    with pytest.raises(
        UsageError, match=r"^unknown prebuilt index 'wikipedia-dpr-10w'; the nearest known one is 'wiki"
    ):
        open_retriever("pyserini:wikipedia-dpr-10w")
    with pytest.raises(UsageError, match=r"^pyserini needs a prebuilt index, e\.g\. pyserini:wiki"):
        open_retriever("pyserini")


def test_starting_java_leaves_no_key_and_no_home_in_the_environment() -> None:
    before = dict(os.environ)
    with jvm.pyserini():
        pass
    assert dict(os.environ) == before


def test_an_encoder_of_another_length_is_refused(tmp_path: Path) -> None:
    faiss.write_index(faiss.IndexFlatIP(3), str(tmp_path / "index"))
    (tmp_path / "docid").write_text("")
    build_index(BM25Builder(), written(tmp_path), tmp_path / "texts")
    with pytest.raises(CorpusError, match=r"^index '.*' has vectors of 3 numbers, but the encoder's have 64$"):
        open_retriever(f"pyserini:{tmp_path},{tiny_dpr(tmp_path / 'encoder', ['mill'])},{tmp_path / 'texts'}")


def ran(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, whose PATH has no Java."""
    clean = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "OPENAI_API_KEY")}
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={**clean, "PATH": "", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


SEARCH = "import sys; from sottovoce.retrievers import open_retriever; r = open_retriever('lucene:' + sys.argv[1]);"


@pytest.mark.slow
def test_a_process_with_java_says_nothing_of_its_own_and_heeds_ctrl_c(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written(tmp_path)
    assert main(["data", "index", f"{tmp_path}/mill.jsonl", "--to", f"{tmp_path}/index", "--retriever", "lucene"]) == 0
    out, err = capfd.readouterr()
    assert (len(out.splitlines()), err) == (2, "")
    stop = "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    stop += f"try: os.kill(os.getpid(), {int(signal.SIGINT)}); import time; time.sleep(9)\n"
    stop += "except KeyboardInterrupt: print('interrupted')"

    done = ran(f"{SEARCH} print(r.invoke('honey')[0].id)\n{stop}", tmp_path / "index")

    assert (done.returncode, done.stdout, done.stderr) == (0, "index:5\ninterrupted\n", "")


def test_a_java_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.8"\n')
    (tmp_path / "segments_1").write_bytes(b"")
    done = ran(
        f"import sottovoce.core.errors\ntry: {SEARCH}\nexcept sottovoce.core.errors.UsageError as error: print(error)",
        tmp_path,
        JAVA_HOME=str(tmp_path),
    )
    assert re.match(
        r"the Java in '.*' cannot be started: Unable to find libjvm.*; pip install '.*' installs one", done.stdout
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"^Java cannot be started: .*No such file.*; pip install '.*' installs one"):
        LuceneBuilder().finish(tmp_path / "nowhere", 1, tmp_path)


def test_an_indexer_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^Lucene's indexer ended with \d+: .+"):
        LuceneBuilder().finish(tmp_path / "nowhere", 1, tmp_path)


def test_what_cannot_be_fetched_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path))
    for proxy in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(RetrievalError, match=r"^pyserini's index 'cacm' cannot be downloaded: ") as told:
        download("cacm")
    assert "\n" not in str(told.value)
