"""Plots for a paper: ticks, margins, names beside points, and rows in the middle of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sottovoce.analysis.compare import Summary
from sottovoce.core.any_types import Unimported
from sottovoce.report.comparison import comparison_of
from sottovoce.report.plots import DRAWN, FEW, _cost_axis, drawing
from sottovoce.runs.run import Run
from tests.report.test_carried import scripted


def panels(runs: dict[str, Run], summaries: Sequence[Summary]) -> dict[str, Unimported]:
    """Return the panel of each plot, by name, after its layout."""
    drawings = {name: draw(runs, summaries) for name, draw in DRAWN.items()}
    figures = {name: each[0] for name, each in drawings.items() if each is not None}
    for figure in figures.values():
        figure.draw_without_rendering()
    return {name: figure.axes[0] for name, figure in figures.items()}


def several(folder: Path, n: int) -> dict[str, Unimported]:
    right = [[True] * (1 + i % 2) + [False] * (1 - i % 2) for i in range(n)]
    runs = {f"run {i}": scripted(folder / str(i), right[i], carry=500 + i) for i in range(n)}
    return panels(runs, comparison_of(runs).runs)


@pytest.mark.parametrize("costs", [[940], [1024, 1100], [1e12, 1.2e12], [1, 9], [300, 180_000], [1e9, 1e14]])
@pytest.mark.parametrize("zero", [False, True])
def test_an_axis_of_costs_has_three_ticks_and_room_around_its_points(costs: list[float], zero: bool) -> None:
    _, axes = drawing()

    _cost_axis(axes, costs, zero=zero)

    low, high = axes.get_xlim()
    assert len([tick for tick in axes.get_xticks() if low <= tick <= high]) >= 3
    places = axes.transAxes.inverted().transform([axes.transData.transform((cost, 0)) for cost in costs])[:, 0]
    assert 0.03 < min(places) and max(places) < 0.97


def test_few_runs_are_named_beside_their_points_and_many_in_a_legend(tmp_path: Path) -> None:
    few, many = several(tmp_path / "few", FEW), several(tmp_path / "many", FEW + 1)

    assert {*few} >= {"right_by_bytes", "votes_by_round"}
    for name in ("right_by_bytes", "votes_by_round"):
        names = few[name].texts
        assert sorted(text.get_text() for text in names) == [f"run {i}" for i in range(FEW)]
        assert (few[name].figure.legends, len(many[name].figure.legends), [*many[name].texts]) == ([], 1, [])
        boxes = [text.get_window_extent() for text in names]
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
        assert all(few[name].figure.bbox.x1 >= box.x1 for box in boxes)


def test_each_row_is_in_the_middle_of_its_part_of_the_axis_and_markers_at_the_ends_are_whole(tmp_path: Path) -> None:
    axes = several(tmp_path, 2)["right"]

    assert axes.get_ylim() == (1.5, -0.5) and [*axes.get_yticks()] == [0, 1]
    low, high = axes.get_xlim()
    assert low <= -0.05 and high >= 1.05
