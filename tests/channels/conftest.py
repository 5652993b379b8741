from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    """An empty store."""
    return PayloadStore(tmp_path / "payloads")
