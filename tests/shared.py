"""The data beside the repository; this module loads no torch, as tests of texts need none."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    """A file or folder of the data beside the repository; skips the test where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name}, which is no part of the repository")
    return path
