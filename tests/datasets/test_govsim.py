"""Games of GovSim as questions of a run: drawn, of a split, stored, kept with the run, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.analysis.symmetry import Looked, show_symmetry
from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.environments.govsim.fishery import Game, starts
from sottovoce.graphs.govsim import games
from sottovoce.runs.read import load_run
from sottovoce.settings import Debate, GovSim, Settings, WhoDunit
from tests.runs import schemes
from tests.runs.schemes import LIVED


def asked(settings: Settings, **options: Any) -> Any:
    return questions_of(QuestionOptions(**options), settings)


def test_a_game_is_what_is_asked_where_nothing_else_is() -> None:
    (question,), origin = asked(GovSim(months=6, start=80))
    assert question["question"] == "How many tons of fish do you catch this month?" and question["id"] == "govsim/0/0"
    assert (question["target"], question["game"]["start"]) == ("6 months", 80)
    assert origin.words == "sample govsim/0 made from a seed"


@pytest.mark.parametrize(("split", "n"), [("train", 26), ("validation", 14), ("test", 20)])
def test_a_split_has_its_start_values_each_game_a_seed_of_its_own(split: Any, n: int) -> None:
    questions, _ = asked(GovSim(), sample=f"govsim/{split}/3", limit=n)
    assert [each["game"]["start"] for each in questions] == starts(split, 3)
    assert len({each["id"] for each in questions}) == n and questions[1]["id"] == f"govsim/{split}/3/1"
    assert len({each["game"]["seed"] for each in questions}) == n


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        (Debate(), {"sample": "govsim"}, "--sample govsim cannot be used here; --sample govsim belongs to `govsim`"),
        (GovSim(), {"sample": "split"}, "--sample split cannot be used here; --sample govsim belongs to `govsim`"),
        (
            WhoDunit(),
            {"sample": "govsim/test"},
            "--sample govsim/test cannot be used here; --sample govsim belongs to `govsim`",
        ),
        (GovSim(start=50), {"sample": "govsim/test"}, "--start is 50, but --sample govsim/test sets its own"),
        (GovSim(), {"sample": "govsim/test", "limit": 21}, "--sample govsim/test has at most 20 different ones"),
        (GovSim(start=4), {}, "a game starts with 4 tons and collapses below 5"),
        (GovSim(months=3, newcomer=3), {}, "the newcomer joins after month 3, but the game has 3"),
        (Debate(), {"game": ["lake.json"]}, "--game is only for whodunit and govsim; drop it"),
    ],
)
def test_what_cannot_be_played_is_refused(settings: Settings, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(settings, **options)


def test_stored_games_are_asked_by_their_files_names(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text(Game(start=60, months=1).to_json())
    (found,), origin = asked(GovSim(), game=[tmp_path / "lake.json"])
    assert (found["id"], found["target"], found["game"]["start"]) == ("lake", "1 month", 60)
    assert origin.words == "stored game"


def test_a_game_file_with_a_mistake_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text('{"start": 100, "monts": 3}')
    with pytest.raises(
        UsageError,
        match=r"^game file '.*lake.json': unknown field of Game: 'monts'; the nearest known one is 'months'$",
    ):
        asked(GovSim(), game=[tmp_path / "lake.json"])


def test_a_run_keeps_its_game_and_what_it_measured(tmp_path: Path) -> None:
    settings = LIVED[0]
    assert isinstance(settings, GovSim)
    question = games(1, settings)[0]
    run = schemes.held(*LIVED, tmp_path, question=question)
    read = load_run(tmp_path / "run").only
    assert read.question.get("game") == question.get("game")
    for decision in (run.decision, read.decision):
        assert decision is not None and decision["measures"]["gain"] == 57.5 and decision["score"] == 1.0


def test_why_a_game_has_no_symmetry_is_told() -> None:
    with pytest.raises(UsageError, match="govsim has no symmetries to show: in a world, speakers and messages"):
        show_symmetry("govsim", GovSim(), Looked())
