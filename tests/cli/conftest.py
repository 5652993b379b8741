"""Model folders for the command line, saved once a session, and a fixture that calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sottovoce.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a call of the command line left."""

    code: int
    out: str
    err: str


Call = Callable[..., Answer]


@pytest.fixture(autouse=True)
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """No busy machine has a step shown on stderr that usually takes no time ("bundled: starting ...")."""
    monkeypatch.setattr("sottovoce.cli.command.LATE", 600)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line in this process: arguments in, exit code and streams out."""

    def call(*arguments: object) -> Answer:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


@dataclass(frozen=True)
class Models:
    """Folders of tiny models with random weights."""

    tiny: Path
    other_weights: Path
    other_vocabulary: Path
    pickled: Path
    no_model: Path


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    from tests.support import tiny_model, tiny_tokenizer

    root = tmp_path_factory.mktemp("models")
    for name, seed in (("tiny", 0), ("other_weights", 1), ("other_vocabulary", 2)):
        tiny_model(seed=seed, max_position_embeddings=1024).save_pretrained(root / name)
        tiny_tokenizer().save_pretrained(root / name)
    _rename_a_token(root / "other_vocabulary" / "tokenizer.json")
    for name in ("pickled", "no_model"):
        (root / name).mkdir()
    (root / "pickled" / "config.json").write_text((root / "tiny" / "config.json").read_text())
    (root / "pickled" / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    return Models(*(root / name for name in ("tiny", "other_weights", "other_vocabulary", "pickled", "no_model")))


def _rename_a_token(path: Path) -> None:
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["!!"] = vocabulary.pop("!")
    path.write_text(json.dumps(tokenizer))
