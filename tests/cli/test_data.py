"""Tests of the commands of `data`: generated games, and indexes of passages."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from sottovoce.environments import SPLITS
from sottovoce.environments.whodunit.games import split_of
from sottovoce.retrievers import open_retriever
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import saved_runs
from tests.cli.conftest import Call
from tests.cli.test_commands import start
from tests.retrievers.support import QUESTION, written
from tests.support import tiny_model, tiny_tokenizer

SMALL = ("--suspects", 4, "--attributes", 7)


def drawn(call: Call, to: Path, *more: object) -> list[dict[str, Any]]:
    answer = call("data", "games", "whodunit", *SMALL, "--to", to, *more)
    assert (answer.code, answer.err) == (0, "")
    return [json.loads(line) for line in to.read_text().splitlines()]


def test_a_file_holds_the_games_of_a_split_and_tells_how_they_are_played(call: Call, tmp_path: Path) -> None:
    to = tmp_path / "a.jsonl"
    answer = call("data", "games", "whodunit", *SMALL, "--n", 3, "--seed", 5, "--split", "test", "--to", to)

    assert answer.out.splitlines() == [
        f"3 games of whodunit/test/5 written to {to}",
        f"play them with `whodunit --questions {to}` and the settings of this call",
    ]
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"whodunit/test/5/{i}" for i in range(3)]
    assert all(row["target"] == str(row["game"]["culprit"] + 1) and "decoys" not in row for row in rows)
    assert {(row["sample"], row["sample_seed"]) for row in rows} == {("whodunit/test", 5)}


def test_splits_share_no_character_and_a_seed_draws_the_same_games(call: Call, tmp_path: Path) -> None:
    of = {split: drawn(call, tmp_path / f"{split}.jsonl", "--split", split) for split in SPLITS}

    for split, rows in of.items():
        assert len(rows) == 100
        assert {split_of(person) for row in rows for person in row["game"]["suspects"]} == {split}
    assert drawn(call, tmp_path / "again.jsonl", "--split", "train") == of["train"]
    assert drawn(call, tmp_path / "fewer.jsonl", "--split", "train", "--n", 7) == of["train"][:7]
    assert drawn(call, tmp_path / "other.jsonl", "--split", "train", "--seed", 1) != of["train"]


def test_a_file_of_games_is_played_with_the_settings_of_its_call(call: Call, tmp_path: Path) -> None:
    tiny_model(max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    peers = ("--variant", "sym", "--agents", 2, "--facts", 6)
    drawn(call, tmp_path / "games.jsonl", *peers, "--n", 4)
    few = ("--limit", 2, "--guide", "off", "--max-tokens", 4, "--model", tmp_path / "model")  # no action can be read

    shown = call("whodunit", "--questions", tmp_path / "games.jsonl", *peers, *few)

    run = load_run(saved_runs()[0])
    assert shown.code == 0 and [*run.records] == [("whodunit/0/0", 0), ("whodunit/0/1", 0)]
    assert all(record.decision is not None and record.messages for record in run.records.values())
    assert call("runs", "compare", saved_runs()[0].name).out.startswith("| run | ")


def test_an_index_is_made_and_searched_by_the_name_that_is_printed(call: Call, tmp_path: Path) -> None:
    written(tmp_path)

    answer = call(
        "data", "index", tmp_path / "mill.jsonl", "--to", tmp_path / "mills", "--stemmer", "none", "--shard", 2
    )

    first, second = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "") and first.startswith(f"5 passages in {tmp_path / 'mills'}, 0.0 MB, ")
    (found,) = open_retriever(second.removeprefix("search it as "), k=1).invoke(QUESTION)
    assert found.metadata["docid"] == "1"


def test_an_index_that_was_stopped_is_gone_on_with(call: Call, tmp_path: Path) -> None:
    corpus, index = tmp_path / "many.jsonl", tmp_path / "index"
    corpus.write_text("".join(f'{{"id": "{n}", "text": "moss {n} stone {n % 7}"}}\n' for n in range(8_000)))
    arguments = ["data", "index", str(corpus), "--to", str(index), "--shard", "100"]
    making = start(*arguments, stderr=tmp_path / "err")
    while not (progress := tmp_path / ".index.partial" / "partial.json").exists():
        assert making.is_alive(), (tmp_path / "err").read_text()
        time.sleep(0.01)
    os.kill(making.pid or 0, signal.SIGINT)
    making.join()

    told = "sottovoce: stopped; what was indexed is kept, and the same command resumes\n"
    assert (making.exitcode, (tmp_path / "err").read_text()) == (130, told)
    assert progress.exists() and not index.exists()
    assert call(*arguments).code == 0 and not progress.parent.exists()
    assert [each.metadata["docid"] for each in open_retriever(f"bm25:{index}", k=1).invoke("moss 7999")] == ["7999"]
