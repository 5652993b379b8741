"""Settings of the whole suite: no network, strict checkpoints, and GPU tests only where there is a GPU."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis.strategies import none

from tests.needs import absent, ignore_installed

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from tests.database import Server

# Set before any library reads them.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # a checkpoint that holds more than plain JSON fails
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
ignore_installed()


CACHES = count()


@pytest.fixture(autouse=True)
def own_cache(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads what was kept on this machine: runs, and models but where a test runs on such a one."""
    monkeypatch.setenv("SOTTOVOCE_RUNS", str(tmp_path_factory.getbasetemp() / f"runs-{next(CACHES)}"))
    if request.node.get_closest_marker("real") is None:
        folder: Path = tmp_path_factory.getbasetemp() / f"models-{next(CACHES)}"
        monkeypatch.setenv("SOTTOVOCE_MODELS", str(folder))


def pytest_report_header() -> str:
    return absent()


@given(none())
def _first(nothing: None) -> None:
    """Hypothesis looks for numpy's random state at its first test, and finds nothing of what is frozen."""


def pytest_collection_finish() -> None:
    """Whatever was imported stays to the end: unfrozen, each `gc.collect` of a test goes through a million objects."""
    import numpy as np  # noqa: F401  # late: a help of pytest needs none

    _first()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch  # late: collecting the suite needs no torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A database server, one for all tests of a process that need it."""
    from tests.database import server  # late: few tests need it

    with server() as running:
        yield running


@pytest.fixture(scope="module")
def session() -> Iterator[Chrome]:
    """A browser, one for all tests of a file that need it: pages of another file would fill its log."""
    from tests.browser import chromium  # late: few tests need it

    with chromium() as browser:
        yield browser
