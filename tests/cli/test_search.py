"""Tests of `experiment layers` and `experiment tune` on a tiny model with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.models import unload
from tests.cli.conftest import Call, Models
from tests.support import tiny_model, tiny_tokenizer

FAST = ("--rounds", 1, "--max-tokens", 4, "--answer-turn", "off", "--sample", "arithmetic")


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    tiny_model(num_hidden_layers=4, max_position_embeddings=1024).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_layers_are_ranked_and_ranked_again_without_a_model(call: Call, deep: Path, tmp_path: Path) -> None:
    asked = ("experiment", "layers", "--scheme", "debate", "--model", deep, *FAST, "--limit", 20, "--halving", "--save")
    first = call(*asked, tmp_path / "kept")
    (deep / "model.safetensors").rename(tmp_path / "away")
    unload()
    again = call(*asked, tmp_path / "kept")
    (tmp_path / "away").rename(deep / "model.safetensors")

    assert (first.code, again.code, again.err) == (0, 0, "") and again.out == first.out
    assert first.out.startswith("| layer | questions | accuracy | 95 % |\n|---|---|---|---|\n| 2 | 2 | 0 |")
    assert "5 discussions, 8% of an exhaustive search\n2 of 3 layers are equally good" in first.out
    assert "use it with `--layers 2`; the default is 2" in first.out
    assert {path.name for path in (tmp_path / "kept").iterdir()} >= {"layers.json", "layers.svg", "study.json"}
    assert call(*asked[:-2], "--save", tmp_path / "kept").err == (
        f"sottovoce: the search in {str(tmp_path / 'kept')!r} was started with different search "
        "(halving True, now False); restore that, or give another folder (--save)\n"
    )


def test_temperatures_are_tuned(call: Call, models: Models, tmp_path: Path) -> None:
    asked = ("debate", "--model", models.tiny, *FAST, "--limit", 2, "--trials", 1, "--validation", 0.5)
    answer = call("experiment", "tune", *asked, "--save", tmp_path / "kept")

    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "| trial | temperatures | decision | 95 % | first debater | 95 % |"
    assert lines[4] == "validation part: 1 question; the best of many trials looks better than it is"
    assert lines[5].startswith("on 1 question that no trial saw: 0.0%, 95 % 0.0% to ")
    assert lines[6].startswith("use it with `--temperature ") and lines[7] == f"kept in {tmp_path / 'kept'}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("experiment", "tune", "debat", "--trials", 3), "unknown scheme 'debat'; choose from: "),
        (
            ("experiment", "tune", "debate"),
            "Missing option '--save'; see sottovoce experiment tune debate --help",
        ),
        (("experiment", "layers"), "Missing option '--save'; see sottovoce experiment layers --help"),
        (
            ("experiment", "layers", "--layers", 2, "--save", "x"),
            "--layers was given, but layers are what is searched; drop it",
        ),
        (
            ("experiment", "layers", "--protocol", "cipher", "--save", "x"),
            "protocol is 'cipher', which reads no layers",
        ),
        (("experiment", "layers", "--scheme", "mad", "--save", "x"), "scheme is 'mad': expected 'ia' or 'debate'"),
        (
            ("experiment", "layers", "--scheme", "debate", "--seeds", 1, "--save", "x"),
            "a search asks each question once",
        ),
        (("experiment", "layers", "--scheme", "debate", "--limit", 40, "--save", __file__), "is a file; give a folder"),
    ],
)
def test_what_cannot_be_searched_is_said_in_a_line(call: Call, arguments: tuple[object, ...], told: str) -> None:
    answer = call(*arguments)

    assert (answer.code, answer.out) == (2, "") and told in answer.err and answer.err.count("\n") == 1


def test_a_model_of_two_layers_leaves_nothing_to_choose(call: Call, models: Models, tmp_path: Path) -> None:
    answer = call(
        "experiment", "layers", "--scheme", "debate", "--model", models.tiny, *FAST, "--save", tmp_path / "new"
    )

    assert answer.code == 2 and "has 2 layers, and the last is never read: there is nothing to choose" in answer.err
