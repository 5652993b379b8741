"""Where runs are kept: found by name, the oldest removed, none that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import RecordError
from sottovoce.runs import run_directory
from sottovoce.runs.log import encoded
from sottovoce.runs.run_directory import Log


def put(name: str, nbytes: int = 0) -> Path:
    log = Log(run_directory.runs_folder() / name, new=True)
    log.write(encoded({"line": "run"}) + encoded({"line": "done", "nbytes": nbytes}))
    log.close()
    return run_directory.runs_folder() / name


def test_a_run_is_found_by_name_by_its_beginning_as_the_latest_and_by_folder() -> None:
    older, newer = put("2026-01-01-120000-debate"), put("2026-01-02-120000-mad")

    assert run_directory.find_run("2026-01-01-120000-debate") == run_directory.find_run("2026-01-01") == older
    assert run_directory.find_run("latest") == newer
    assert run_directory.find_run(str(older)) == older


@pytest.mark.parametrize(("name", "why"), [("2026", "2 runs begin with it"), ("2025", "there is no such run")])
def test_a_name_that_fits_none_or_several_is_refused(name: str, why: str) -> None:
    put("2026-01-01-120000-debate"), put("2026-01-02-120000-mad")

    with pytest.raises(RecordError, match=f"unknown run '{name}': {why}"):
        run_directory.find_run(name)


def test_names_of_new_runs_are_their_own() -> None:
    first = run_directory.new_folder("debate")
    first.mkdir(parents=True)

    assert run_directory.new_folder("debate") != first


@pytest.mark.parametrize(
    ("keep", "room", "left"),
    [(2, 100, ["b", "c"]), (0, 100, []), (9, 50, ["b", "c"]), (9, 1, ["c"])],
)
def test_the_oldest_runs_go_first(keep: int, room: int, left: list[str]) -> None:
    for name in "abc":
        put(name, 20)

    removed = run_directory.prune(keep, room)

    assert [folder.name for folder in run_directory.saved_runs()] == left
    assert len(removed) == 3 - len(left)


def test_a_run_that_is_in_use_stays() -> None:
    held = Log(put("a"))
    put("b")
    try:
        assert run_directory.prune(0) == [run_directory.runs_folder() / "b"]
    finally:
        held.close()
