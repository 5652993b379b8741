"""Settings of the whole suite: no network, strict checkpoints, and GPU tests only where there is a GPU."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

# Set before any library reads them.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # a checkpoint that holds more than plain JSON fails
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


CACHES = count()


@pytest.fixture(autouse=True)
def own_cache(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads what `doctor` or `models pull` kept on this machine, but those that run on such models."""
    if request.node.get_closest_marker("real") is None:
        folder: Path = tmp_path_factory.getbasetemp() / f"models-{next(CACHES)}"
        monkeypatch.setenv("SOTTOVOCE_MODELS", str(folder))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch  # late: collecting the suite needs no torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
