"""Where runs are kept, and how they are found by name."""

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
