"""Tests of `data index`: its files, its output and its errors."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sottovoce.retrievers import open_retriever
from tests.cli.conftest import Call
from tests.cli.test_commands import start
from tests.retrievers.support import QUESTION, written


def test_an_index_is_made_and_searched_by_the_name_that_is_printed(call: Call, tmp_path: Path) -> None:
    written(tmp_path)

    answer = call(
        "data", "index", tmp_path / "mill.jsonl", "--to", tmp_path / "mills", "--stemmer", "none", "--shard", 2
    )

    first, second = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "") and first.startswith(f"5 passages in {tmp_path / 'mills'}, 0.0 MB, ")
    name, _, fingerprint = second.removeprefix("search it as ").partition("; fingerprint ")
    (found,) = open_retriever(name, k=1).invoke(QUESTION)
    assert (found.metadata["docid"], found.metadata["index"]) == ("1", fingerprint)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "an index needs a corpus and a new folder: data index passages.jsonl --to indexes/mine"),
        (["{corpus}"], "an index needs a corpus and a new folder: data index passages.jsonl --to indexes/mine"),
        (["nowhere.jsonl", "--to", "x"], "corpus 'nowhere.jsonl' cannot be read: No such file or directory"),
        (["{corpus}", "--to", "{folder}"], "'{folder}' already exists: remove it, or choose another directory"),
        (["{corpus}", "--to", "x", "--b", "2"], "b is 2.0: expected less than or equal to 1"),
        (["{corpus}", "--to", "x", "--encoder", "minilm"], "--encoder is not an option of --retriever bm25"),
        (["{corpus}", "--to", "x", "--retriever", "dense", "--k1", "2"], "--k1 is not an option of --retriever dense"),
        (["{corpus}", "--prebuilt", "cacm"], "--prebuilt downloads an index: give it without a corpus and --to"),
        (["{corpus}", "--to", "x", "--shard", "0"], "shard is '0': expected greater than or equal to 1"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
    call: Call, tmp_path: Path, arguments: list[str], told: str
) -> None:
    names = {"corpus": str(written(tmp_path).path), "folder": str(tmp_path)}
    answer = call("data", "index", *(each.format(**names) for each in arguments))
    assert (answer.code, answer.out, answer.err) == (2, "", f"sottovoce: {told.format(**names)}\n")


def test_an_index_that_was_stopped_is_gone_on_with(call: Call, tmp_path: Path) -> None:
    corpus, index = tmp_path / "many.jsonl", tmp_path / "index"
    corpus.write_text("".join(f'{{"id": "{n}", "text": "moss {n} stone {n % 7}"}}\n' for n in range(20_000)))
    arguments = ["data", "index", str(corpus), "--to", str(index), "--shard", "200"]
    making = start(*arguments, stderr=subprocess.PIPE)
    while not (progress := tmp_path / ".index.partial" / "progress.json").exists():
        assert making.poll() is None, making.communicate()
        time.sleep(0.01)
    os.kill(making.pid, signal.SIGINT)
    _, said = making.communicate()

    assert (making.returncode, said) == (
        130,
        "sottovoce: stopped; what was indexed is kept, and the same command resumes\n",
    )
    assert progress.exists() and not index.exists()
    assert call(*arguments).code == 0 and not progress.parent.exists()
    assert [each.metadata["docid"] for each in open_retriever(f"bm25:{index}", k=1).invoke("moss 19999")] == ["19999"]
