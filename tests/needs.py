"""Programs that tests need and no Python package brings: tests skip without them, unless CI requires them."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE = "SOTTOVOCE_REQUIRE_ALL"


def missing(program: str, package: str) -> NoReturn:
    """Skip the test, or fail it if $SOTTOVOCE_REQUIRE_ALL is set."""
    line = f"needs {program}: apt-get install --no-install-recommends {package}"
    if os.environ.get(REQUIRE):
        pytest.fail(line, pytrace=False)
    pytest.skip(line)
