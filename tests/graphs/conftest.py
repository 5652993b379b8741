"""A tiny model in a folder, as a user names one, and a store of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from tests.support import tiny_model, tiny_tokenizer


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with random weights; one for the session, so that all tests share its engine."""
    path = tmp_path_factory.mktemp("tiny")
    tiny_model(max_position_embeddings=4096).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    return PayloadStore(tmp_path / "store")


@pytest.fixture(autouse=True)
def own_default_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "default"))
    yield
