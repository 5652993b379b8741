from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from tests.agents.openai_server import Server, served
from tests.support import tiny_model, tiny_tokenizer


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "default"))


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    """An empty store."""
    return PayloadStore(tmp_path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model in a folder."""
    root = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(root)
    tiny_tokenizer().save_pretrained(root)
    return str(root)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with served() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-no-key-of-anybody")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
