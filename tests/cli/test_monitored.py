"""Tests of watched runs: a monitor's file, its interventions, and their replay."""

from __future__ import annotations

from pathlib import Path

from sottovoce.monitors.settings import Measure
from tests.cli.conftest import Call, Models
from tests.cli.test_errors import USAGE, refused
from tests.nodes.test_guard import monitor

FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1, "--target", "4")


def saved(folder: Path, threshold: float) -> Path:
    """The file of a monitor of everybody, whose score is the entropy in nats."""
    file = folder / "monitor.json"
    monitor("all", threshold).model_copy(update={"measured": Measure()}).save(file)
    return file


def test_a_watched_run_tells_what_was_held_back_and_is_replayed_with_it_and_without(
    call: Call, models: Models, tmp_path: Path
) -> None:
    given = ("2 + 2?", "--model", models.tiny, *FEW, "--intervention", "again", "--temperature", 1)
    shown = call("debate", *given, "--watch", saved(tmp_path, 0.0), "--save", tmp_path / "run")
    assert shown.code == 0 and "^ again at agent_1, turn 1" in shown.out

    replayed = call("runs", "replay", tmp_path / "run", "--trust-paths", "--intervention", 2).out.splitlines()

    assert replayed[1].startswith("intervention: again at agent_") and replayed[-1] == "the replay is token-identical"
    assert [line.partition(":")[0] for line in replayed[2:5]] == ["with it", "without", "they part at"]


def test_a_run_that_monitors_let_pass_says_so(call: Call, models: Models, tmp_path: Path) -> None:
    given = ("--sample", "arithmetic", "--limit", 2, "--model", models.tiny, *FEW[:-2])
    watched = call("debate", *given, "--watch", saved(tmp_path, 99.0), "--save", tmp_path / "run")

    assert "· watched: reset ·" in watched.out and "monitors did not intervene" in watched.out
    assert "nobody intervened" in call("runs", "replay", tmp_path / "run", "--trust-paths").out


def test_a_run_that_was_not_watched_and_a_file_that_is_no_monitor_are_refused(
    call: Call, models: Models, tmp_path: Path
) -> None:
    call("debate", "2 + 2?", "--model", models.tiny, *FEW, "--save", tmp_path / "run")
    assert "the run was not watched" in refused(call, USAGE, "runs", "replay", tmp_path / "run", "--trust-paths")

    (tmp_path / "no.json").write_text("{}")
    line = refused(call, USAGE, "debate", "2 + 2?", "--model", models.tiny, "--watch", tmp_path / "no.json")
    assert "has format None; this version reads 1; train the monitor again" in line
