"""Tests of `data games`: a file of a world's games, which its scheme plays like any questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sottovoce.environments import SPLITS
from sottovoce.environments.whodunit.games import split_of
from sottovoce.runs.read import load_run
from sottovoce.runs.run_directory import saved_runs
from tests.cli.conftest import Call
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


def test_a_split_with_too_few_characters_is_refused_and_leaves_no_file(call: Call, tmp_path: Path) -> None:
    few = ("--suspects", 6, "--attributes", 3, "--split", "test")
    answer = call("data", "games", "whodunit", *few, "--to", tmp_path / "a.jsonl")

    assert answer.code == 2 and not [*tmp_path.iterdir()]
    assert "suspects is 6, but of 8 characters split test has fewer; give fewer suspects" in answer.err


def test_a_file_of_games_is_played_in_part_stopped_resumed_and_compared(call: Call, tmp_path: Path) -> None:
    tiny_model(max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    peers = ("--variant", "sym", "--agents", 2, "--facts", 6)
    drawn(call, tmp_path / "games.jsonl", *peers, "--n", 4)
    same = ("whodunit", "--questions", tmp_path / "games.jsonl", *peers, "--limit", 2, "--model", tmp_path / "model")
    few = ("--guide", "off", "--max-tokens", 4, "--at-once", 1)  # no action can be read: games are cancelled

    stopped = call(*same, *few, "--call-limit", 1)
    went_on = call("runs", "resume", saved_runs()[0].name, "--trust-paths")
    call(*same, *few, "--temperature", 1)
    compared = call("runs", "compare", *(folder.name for folder in saved_runs())).out

    assert "the call limit is reached" in stopped.err and went_on.code == 0
    one, other = (load_run(folder) for folder in saved_runs())
    assert [*one.records] == [*other.records] == [("whodunit/0/0", 0), ("whodunit/0/1", 0)]
    assert all(record.decision is not None and record.messages for record in one.records.values())
    assert any(line.startswith("| run | success |") and "| turns | cancelled | resets |" in line
               for line in compared.splitlines())  # fmt: skip
    assert " 2 questions" in compared
