"""Runs whose checkpoints lie elsewhere than in their folder: in a database of many runs, or in memory."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from sottovoce.core.errors import RecordError, UsageError
from sottovoce.runs.limits import Limits
from sottovoce.runs.read import load_run
from sottovoce.runs.start import resume_run
from tests.database import PASSWORD, QUOTED, Server
from tests.runs.test_saved_runs import ROUNDS, Stop, begin, fresh, hold, stop_after


@pytest.fixture
def database(postgres: Server) -> str:
    return postgres.database()


def stopped(folder: Path, saver: str) -> Path:
    with pytest.raises(Stop):
        hold(begin(folder), observe=stop_after(4), limits=Limits(saver=saver))
    return folder


def rows(database: str) -> int:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
    assert found is not None
    return int(found[0])


def test_two_runs_share_a_database_and_each_goes_on_where_it_was(tmp_path: Path, database: str) -> None:
    for name in ("one", "two"):
        stopped(tmp_path / name, database)
    assert rows(database) > 0

    for name in ("one", "two"):
        run = hold(resume_run(load_run(tmp_path / name), models=fresh()), limits=Limits(saver=database))
        assert len(run.only.messages) == run.cost.calls == 2 * ROUNDS
        assert len(load_run(tmp_path / name).only.prompts) == 2 * ROUNDS
    assert rows(database) == 0  # logs have all of it


def test_no_file_of_a_run_holds_the_password(tmp_path: Path, database: str) -> None:
    folder = stopped(tmp_path / "run", database)

    assert not (folder / "checkpoints.sqlite").exists()
    for file in folder.rglob("*"):
        assert file.is_dir() or not any(word.encode() in file.read_bytes() for word in (PASSWORD, QUOTED))
    assert QUOTED not in repr(Limits(saver=database))


def test_a_run_in_a_database_is_not_resumed_without_it(tmp_path: Path, database: str) -> None:
    folder = stopped(tmp_path / "run", database)

    with pytest.raises(UsageError, match="are in postgres; continue with --saver postgresql://"):
        hold(resume_run(load_run(folder), models=fresh()))
    with pytest.raises(UsageError, match="are in sqlite; continue with no --saver"):
        hold(resume_run(load_run(stopped(tmp_path / "other", "sqlite")), models=fresh()), limits=Limits(saver=database))
    assert len(load_run(folder).only.messages) == 4


def test_in_memory_nothing_is_kept_but_the_log_and_a_stopped_discussion_begins_anew(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run", "memory")
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "log.jsonl"]

    run = hold(resume_run(load_run(folder), models=fresh()))

    assert len(run.only.messages) == run.cost.calls == 2 * ROUNDS


def test_a_database_that_is_not_there_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"'postgresql://ada@127\.0\.0\.1:1/runs' cannot be opened") as told:
        hold(begin(tmp_path / "run"), limits=Limits(saver="postgresql://ada:secret@127.0.0.1:1/runs"))

    assert "secret" not in str(told.value) and not (tmp_path / "run").exists()


def test_a_database_that_goes_away_stops_the_run_with_what_was_said(tmp_path: Path, database: str) -> None:
    def cut(record: object, event: object) -> None:
        stop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"{stop} AND pid <> pg_backend_pid()".encode())

    seen = stop_after(4)

    def observe(record: object, event: object) -> None:
        try:
            seen(record, event)
        except Stop:
            cut(record, event)

    with pytest.raises(RecordError, match="cannot be written") as told:
        hold(begin(tmp_path / "run"), observe=observe, limits=Limits(saver=database))

    assert "\n" not in str(told.value) and PASSWORD not in str(told.value)
    run = hold(resume_run(load_run(tmp_path / "run"), models=fresh()), limits=Limits(saver=database))
    assert len(run.only.messages) == 2 * ROUNDS


def test_another_kind_of_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected sqlite, memory or postgresql://") as told:
        Limits(saver="mysql://ada:secret@host/runs")

    assert "secret" not in str(told.value)
