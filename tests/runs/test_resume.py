"""A run that is stopped, killed or out of room goes on where it was, and comes to the same result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.datasets.samples import samples
from sottovoce.runs.read import load_run
from sottovoce.settings import Debate
from tests.runs.killed import hold, killed_often, said

EXACT = Debate(rounds=2, exact=True, max_tokens=120)
LONG = Debate(rounds=6, agents=3, exact=True, max_tokens=60)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """A run that nobody stopped, and how it was held."""
    told = ("debate", EXACT, samples("arithmetic", 8, EXACT, 0), 8)
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    hold(folder, *told)
    yield folder, told


def test_a_run_that_was_killed_three_times_has_the_result_of_an_unbroken_one(
    unbroken: tuple[Path, tuple[Any, ...]], tmp_path: Path
) -> None:
    whole, told = unbroken

    killed_often(tmp_path / "run", 3, 2.0, 1, *told)

    run = load_run(tmp_path / "run")
    assert said(tmp_path / "run") == said(whole) and run.status == "done"
    assert not (tmp_path / "run" / "checkpoints.sqlite").exists()


@pytest.mark.slow
def test_a_single_discussion_goes_on_in_the_middle_of_a_round(tmp_path: Path) -> None:
    told = ("debate", LONG, samples("split", 1, LONG, 3), 1)
    hold(tmp_path / "whole", *told)

    killed_often(tmp_path / "run", 1, 1.0, 5, *told)

    assert said(tmp_path / "run") == said(tmp_path / "whole")


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path: Path) -> None:
    told = ("debate", EXACT, samples("arithmetic", 40, EXACT, 0), 16)
    hold(tmp_path / "whole", *told)

    kills = runs = 0
    while kills < 50:
        folder = tmp_path / f"run-{runs}"
        kills += killed_often(folder, 10, 2.0, runs, *told)
        runs += 1
        assert said(folder) == said(tmp_path / "whole")

    print(f"{kills} kills in {runs} runs")
