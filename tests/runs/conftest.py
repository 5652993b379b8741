"""A tiny model in a folder, as settings name it."""

from __future__ import annotations

import pytest

from tests.support import tiny_model, tiny_tokenizer


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)
