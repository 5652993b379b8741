"""Data and programs that are not part of the repository; loads no torch, because tests of texts need none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    """A file or folder of the data beside the repository; skips the test where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name}, which is no part of the repository")
    return path


def missing(program: str, packages: str) -> NoReturn:
    """Skip a test that needs a program; fail it if `SOTTOVOCE_REQUIRE_ALL` is set, as in CI."""
    message = f"needs {program}: apt-get install --no-install-recommends {packages}"
    if os.environ.get("SOTTOVOCE_REQUIRE_ALL"):
        pytest.fail(f"{message} (SOTTOVOCE_REQUIRE_ALL is set)", pytrace=False)
    pytest.skip(message)
