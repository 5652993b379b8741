"""Settings of the whole suite: no network, strict checkpoints, and GPU tests only where there is a GPU."""

from __future__ import annotations

import os

import pytest

# Set before any library reads them.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # a checkpoint that holds more than plain JSON fails
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch  # late: collecting the suite needs no torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
