"""Tests of `data convince`: its output, its file and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sottovoce.datasets.arithmetic import questions
from sottovoce.nodes.convincing_samples import read_samples
from tests.cli.conftest import Call, Models


@pytest.fixture
def training(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(question) + "\n" for question in questions(3, seed=5)))
    return path


def test_the_bundled_model_is_asked_and_a_valid_file_is_written_or_nobody_was_convinced(
    call: Call, training: Path, tmp_path: Path
) -> None:
    out = tmp_path / "samples.json"

    answer = call("data", "convince", training, "--out", out, "--samples", 1, "--max-tokens", 60)

    if answer.code == 0:
        assert "1 convinced" in answer.out and answer.err == ""
        samples = read_samples(out)
        assert samples.model == "bundled" and samples.weights and len(samples.samples) == 1
    else:
        assert (answer.code, answer.out, out.exists()) == (1, "", False)
        assert (
            answer.err.startswith("sottovoce: 3 questions asked, ") and "0 convinced: nothing was written" in answer.err
        )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train.jsonl"], "Missing option '--out'; see sottovoce data convince --help"),
        (["nowhere", "--out", "s"], "training file 'nowhere' cannot be read: No such file or directory"),
        (
            ["train.jsonl", "--out", "train.jsonl"],
            "--out 'train.jsonl' exists already; choose another file, or write over it with --force",
        ),
        (["train.jsonl", "--out", "a/s"], "--out 'a/s' cannot be written: 'a' is not a folder"),
        (["train.jsonl", "--out", "s", "--samples", "0"], "samples is '0': expected greater than or equal to 1"),
        (["train.jsonl", "--out", "s", "--max-tokens", "0"], "max_tokens is '0': expected greater than or equal to 1"),
        (
            ["train.jsonl", "--out", "s", "--model", "a", "--model", "b"],
            "model has 2 values for 1 agents; give one for all, or one each",
        ),
        (
            ["train.jsonl", "--out", "s", "--model", "nowhere"],
            "unknown model 'nowhere'; give 'bundled', a name that `models list` shows, a folder with config.json and "
            "*.safetensors, a .gguf file, or a hub id owner/name",
        ),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    call: Call, training: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(training.parent)

    answer = call("data", "convince", *arguments)

    assert (answer.code, answer.out, answer.err) == (2, "", f"sottovoce: {line}\n")
    assert [path.name for path in training.parent.iterdir()] == ["train.jsonl"]


def test_a_model_that_says_no_json_convinces_nobody_and_leaves_nothing(
    call: Call, training: Path, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "store"))

    answer = call("data", "convince", training, "--out", tmp_path / "s", "--model", models.tiny, "--max-tokens", 4)

    assert answer.code == 1
    assert answer.err.startswith("sottovoce: 3 questions asked, 3 wrong, 0 convinced: nothing was written; ")
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
