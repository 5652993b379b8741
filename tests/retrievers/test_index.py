"""Indexes made of files: streamed, resumable, whole or not there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.retrievers import Passage, open_retriever
from sottovoce.retrievers.bm25 import BM25Builder, BM25Index, BM25Settings
from sottovoce.retrievers.dense import DenseBuilder, DenseIndex, DenseSettings
from sottovoce.retrievers.index import Corpus, PassageStore, build_index
from tests.retrievers.support import MILL, QUESTION, written
from tests.retrievers.vectors import Words
from tests.tables import each_row


@pytest.fixture
def index(tmp_path: Path) -> Path:
    build_index(BM25Builder(), written(tmp_path), tmp_path / "index", shard=2)
    return tmp_path / "index"


def test_an_index_on_disk_finds_what_one_in_memory_does(tmp_path: Path, index: Path) -> None:
    assert BM25Index.open(index).search(QUESTION, 5) == BM25Index.build(MILL).search(QUESTION, 5)
    assert sorted(path.name for path in index.iterdir()) == ["bm25", "manifest.json", "passages.sqlite"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "mill.jsonl"]
    (found,) = open_retriever(f"bm25:{index}", k=1).invoke(QUESTION)
    assert (found.id, found.metadata["title"]) == ("index:1", "Harrow mill")


class Stopped(Exception):
    """As good as kill -9 for what is on the disk."""


class Counting(DenseBuilder):
    """Remembers which passages it was given, and stops where it is told to."""

    def __init__(self, stop_at: str = "") -> None:
        super().__init__(DenseSettings(encoder="words"), Words())
        self.added: list[list[str]] = []
        self._stop_at = stop_at

    def add(self, work: Path, first: int, passages: Sequence[Passage]) -> None:
        super().add(work, first, passages)
        self.added.append([each.docid for each in passages])
        if self._stop_at == f"row {first}":
            raise Stopped

    def finish(self, work: Path, passages: PassageStore) -> None:
        if self._stop_at == "finish":
            raise Stopped
        super().finish(work, passages)


@pytest.mark.parametrize(
    ("stop_at", "left"),
    [("row 0", [["1", "2"], ["3", "4"], ["5"]]), ("row 2", [["3", "4"], ["5"]]), ("finish", [])],
)
def test_vectors_that_were_made_before_a_kill_are_not_made_again(
    tmp_path: Path, stop_at: str, left: list[list[str]]
) -> None:
    corpus, folder = written(tmp_path), tmp_path / "index"
    with pytest.raises(Stopped):
        build_index(Counting(stop_at), corpus, folder, shard=2)
    assert not folder.exists()

    again = Counting()
    build_index(again, Corpus(corpus.path), folder, shard=2)

    assert again.added == left
    assert DenseIndex.open(folder, Words()).search(QUESTION, 5) == DenseIndex.build(MILL, Words()).search(QUESTION, 5)


@pytest.mark.parametrize("change", ["settings", "corpus", "shard"])
def test_what_is_half_made_of_something_else_is_not_gone_on_with(tmp_path: Path, change: str) -> None:
    corpus = written(tmp_path)
    with pytest.raises(Stopped):
        build_index(Counting("row 2"), corpus, tmp_path / "index", shard=2)
    other = written(tmp_path, MILL[:4]) if change == "corpus" else corpus
    maker = BM25Builder(BM25Settings(k1=2)) if change == "settings" else Counting()

    with pytest.raises(CorpusError, match=r"\.index\.partial' has a partial index of another corpus or other settings"):
        build_index(maker, other, tmp_path / "index", shard=3 if change == "shard" else 2)


def test_a_full_disk_is_told_and_the_same_command_goes_on(tmp_path: Path) -> None:
    class Full(Counting):
        def finish(self, work: Path, passages: PassageStore) -> None:
            raise OSError(28, "No space left on device")

    corpus, again = written(tmp_path), Counting()
    with pytest.raises(CorpusError, match=r"^index '.*' cannot be written: .*No space.*; the same command resumes"):
        build_index(Full(), corpus, tmp_path / "index")
    assert build_index(again, corpus, tmp_path / "index").passages == 5 and again.added == []


def test_two_processes_do_not_make_one_index(tmp_path: Path) -> None:
    class Meanwhile(BM25Builder):
        def finish(self, work: Path, passages: PassageStore) -> None:
            with pytest.raises(CorpusError, match=r"^another process is building the index "):
                build_index(BM25Builder(), corpus, tmp_path / "index")
            super().finish(work, passages)

    corpus = written(tmp_path)
    build_index(Meanwhile(), corpus, tmp_path / "index")


def test_a_place_that_is_taken_and_a_name_that_occurs_twice_are_told(tmp_path: Path) -> None:
    corpus = written(tmp_path)
    with pytest.raises(CorpusError, match=r"^'.*' already exists: remove it, or choose another directory$"):
        build_index(BM25Builder(), corpus, tmp_path)
    with pytest.raises(CorpusError, match=r"^index '.*mill\.jsonl/index' cannot be written: "):
        build_index(BM25Builder(), corpus, corpus.path / "index")
    corpus = written(tmp_path, [*MILL, MILL[0]])
    for shard in (2, 99):
        with pytest.raises(CorpusError, match=r"^two passages have the docid '1'; each needs its own$"):
            build_index(BM25Builder(), corpus, tmp_path / f"index {shard}", shard=shard)


def test_progress_is_told_by_passages_and_by_the_share_of_the_file(tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    build_index(BM25Builder(), written(tmp_path), tmp_path / "index", 2, lambda *each: told.append(each))

    assert [passages for passages, _ in told] == [2, 4, 5]
    assert all(0 < share <= 1 for _, share in told) and told[-1][1] == 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"settings": {"words": 1}},
            r"cannot be read: words is 1: expected 'folded words, character pairs'; build it again with `",
        ),
        ({"passages": 6}, r"has 5 passages, not 6; build it again"),
        ({"format": 2}, r"cannot be read: format is 2: expected 1; build it again"),
        ({"retriever": "dense"}, r"was built for 'dense'; expected 'bm25'"),
    ],
)
def test_an_index_that_was_made_otherwise_is_refused(index: Path, changes: dict[str, object], complaint: str) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    (index / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    with pytest.raises(CorpusError, match=f"index '.*' {complaint}"):
        BM25Index.open(index)


@pytest.mark.parametrize("damage", [None, b"", b"[1]", b"\x93NUMPY"])
def test_an_index_with_a_damaged_file_is_refused_in_one_line(index: Path, damage: bytes | None) -> None:
    """An empty array and a list of terms ended in a traceback, and without its terms an index found nothing."""
    for file in [*sorted((index / "bm25").iterdir()), index / "manifest.json", index / "passages.sqlite"]:
        whole = file.read_bytes()
        file.unlink()
        if damage is not None:
            file.write_bytes(damage)
        with pytest.raises(CorpusError, match=r"cannot be read| has |^there is no index in") as refused:
            BM25Index.open(index)
        assert "\n" not in str(refused.value)
        file.write_bytes(whole)


def test_a_place_without_an_index_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^bm25 needs the directory of an index, e\.g\. bm25:indexes/wiki$"):
        open_retriever("bm25")
    with pytest.raises(CorpusError, match=r"^there is no index in .*nowhere"):
        open_retriever(f"bm25:{tmp_path}/nowhere")


# Corpora


def passages(tmp_path: Path, name: str, text: str) -> list[Passage]:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return list(Corpus(path))


DPR = 'id\ttext\ttitle\n1\t"He said ""no"".\nTwice."\tMill\n2\tplain\t\n'


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files_of_dpr_pyserini_and_beir_are_read(tmp_path: Path, ending: str) -> None:
    found = passages(tmp_path, f"psgs_w100.tsv{ending}", DPR)
    assert found == [Passage("1", 'He said "no".\nTwice.', "Mill"), Passage("2", "plain")]
    lines = ['\ufeff{"id": 7, "contents": "a"}', "", '{"_id": "b", "text": "c", "title": "d", "metadata": {}}']
    assert passages(tmp_path, f"x.jsonl{ending}", "\n".join(lines)) == [Passage("7", "a"), Passage("b", "c", "d")]


SKIP = "; use `skip_bad=True` to skip such passages$"


@each_row(
    ("name", "text", "complaint"),
    [
        ("x.jsonl", '{"id": "1", "text": "a"}\n{"id": "2"}', f"passage 2: its text is None: expected a string{SKIP}"),
        ("x.jsonl", '{"id": "1", "text": ["a"]}', rf"passage 1: its text is \['a'\]: expected a string{SKIP}"),
        ("x.jsonl", '{"id": "1", "text": " "}', f"passage 1: its text is empty{SKIP}"),
        ("x.jsonl", '{"id": "a\\nb", "text": "a"}', rf"passage 1: its docid 'a\\nb' is not one line{SKIP}"),
        ("x.jsonl", '{"id": "1", "text": "\\ud800 a"}', f"passage 1: .*surrogates not allowed{SKIP}"),
        ("x.jsonl", "{", f"passage 1: Expecting property name .*{SKIP}"),
        ("x.tsv", "id\ttext\ttitle\n1\ta\n", f"1: a row of 2 fields: expected id, text and title between tabs{SKIP}"),
        ("x.tsv", "1\ta\tb\n", r"passage 1: the heading is \['1', 'a', 'b'\]: expected \['id', 'text', 'title'\]$"),
        ("x.csv", "", r"'.*' is not a \.jsonl or \.tsv file \(optionally with \.gz\)$"),
    ],
)  # fmt: skip
def test_a_bad_passage_is_told_with_its_number_and_a_file_of_another_format(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(CorpusError, match=f"^corpus .*{complaint}"):
        passages(tmp_path, name, text)


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.tsv"])
def test_a_line_of_more_than_16_mb_is_refused_without_reading_on(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**33)  # zeros, which take no room

    with pytest.raises(CorpusError, match=r"at passage 1: its line is longer than 16\.8 MB"):
        next(iter(Corpus(tmp_path / name)))


def test_a_cut_gz_file_and_a_missing_one_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"id": "1", "text": "a"}\n' * 9999)[:-12])
    with pytest.raises(CorpusError, match=r"^corpus .*x\.jsonl\.gz' cannot be read at passage \d+: "):
        list(Corpus(tmp_path / "x.jsonl.gz"))
    with pytest.raises(CorpusError, match=r"^corpus .* cannot be read: No such file or directory$"):
        Corpus(tmp_path / "y.jsonl")


def test_bad_passages_are_left_out_and_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": "1", "text": " "}\n{"id": "2", "text": "mill"}\n{\n{"id": "3", "text": "river"}\n')

    corpus = Corpus(file, skip_bad=True)
    manifest = build_index(BM25Builder(), corpus, tmp_path / "index", shard=1)

    assert (manifest.passages, corpus.skipped, corpus.first_skipped) == (2, 2, "passage 1: its text is empty")
    file.write_text('{"id": "1", "text": " "}\n')
    with pytest.raises(CorpusError, match=r"has no valid passages; passage 1: its text is empty$"):
        build_index(BM25Builder(), Corpus(file, skip_bad=True), tmp_path / "none")


def test_metadata_are_kept_in_an_index_on_disk(tmp_path: Path) -> None:
    line = {"_id": "1", "text": "mill", "year": 1821, "metadata": {"town": "Harrow"}, "vector": [1.0], "big": 2**70}
    (tmp_path / "x.jsonl").write_text(json.dumps(line) + "\n")

    build_index(BM25Builder(), Corpus(tmp_path / "x.jsonl"), tmp_path / "index")

    found = BM25Index.open(tmp_path / "index").search("mill", 1)
    assert found[0].passage.metadata == {"year": 1821, "town": "Harrow"}
