"""What a world measures of its games stands in all that tells of a run, under the names that its decisions give."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.cli.options import Output
from sottovoce.cli.run_screen import json_of, print_many, print_one
from sottovoce.cli.runs import ExportOptions, export
from sottovoce.graphs.whodunit import WhoDunit, draw_games
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import Result, Results
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import run_all

SMALL = WhoDunit(suspects=3, attributes=3)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two games: one is won in the first turn, one is cancelled."""
    asked = draw_games(2, SMALL)
    model = ScriptedChatModel({"Beth": [award(asked[0]["target"]), *["Hm."] * 21]})
    found = Run.start(new_manifest("whodunit", SMALL, asked, models=model), asked, tmp_path / "run")
    run_all(found, SMALL, found.store(), models=model, limits=Limits(at_once=1))
    return load_run(tmp_path / "run")


def award(number: str) -> str:
    return json.dumps({"thoughts": "I am sure.", "action": 3, "character": number})


def printed(run: Run, *, one: bool = False) -> list[str]:
    file = StringIO()
    console = Console(file=file, width=120)
    if one:
        print_one(console, next(iter(run.records.values())), Output(), live=False)
    else:
        print_many(console, run, Output())
    return file.getvalue().splitlines()


def test_a_run_of_many_games_has_a_line_for_each_and_the_means(run: Run) -> None:
    lines = printed(run)
    assert lines[1].split() == ["question", "seed", "answer"]
    assert [line.split()[0] for line in lines[2:4]] == ["whodunit/0/0", "whodunit/0/1"] and "wrong: it is" in lines[3]
    assert "success 0.5, precision 1 (in 1 of 2), turns 1, cancelled 0.5, resets 0, unreadable 0.5" in lines


def test_a_game_by_itself_ends_with_what_was_measured(run: Run) -> None:
    assert "success 1, precision 1, turns 1, cancelled 0, resets 0, unreadable 0" in printed(run, one=True)


def test_results_have_them_in_json_and_in_columns_of_csv(run: Run, tmp_path: Path) -> None:
    won, lost = json.loads(json_of(run))["results"]
    assert won["measures"]["precision"] == 1 and lost["measures"]["precision"] is None
    assert run.folder is not None
    export(ExportOptions(name=str(run.folder), file=tmp_path / "a.csv"))
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [row["precision"] for row in rows] == ["1.0", ""] and [row["cancelled"] for row in rows] == ["0.0", "1.0"]
    assert "measures" not in rows[0]


def test_a_mean_is_of_the_games_that_a_measure_applies_to() -> None:
    played = [Result("a", measures={"won": 1.0, "share": None}), Result("b", measures={"won": 0.0, "share": None})]
    assert Results(played).mean_line == "won 0.5, share in none" and Results([Result("c")]).mean_line == ""
    more = Results([*played, Result("d", measures={"won": 1.0, "share": 1250.4})])
    assert more.mean_line == "won 0.667, share 1,250 (in 1 of 3)"
