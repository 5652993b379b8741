"""Games and problems of worlds as questions of a run: drawn, of a split, stored, kept with the run, and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.samples import samples
from sottovoce.environments.govsim.fishery import Game, starts
from sottovoce.graphs import record_of
from sottovoce.graphs.codegen import CodeGen
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import GovSim
from sottovoce.graphs.govsim import draw_games as lakes
from sottovoce.graphs.whodunit import WhoDunit, draw_games
from sottovoce.nodes.settings import Settings
from sottovoce.runs.run import load_run
from tests.runs import schemes
from tests.runs.schemes import LIVED, PLAYED

SMALL = WhoDunit(suspects=3, attributes=3)


def asked(settings: Settings = SMALL, **options: Any) -> Any:
    return questions_of(QuestionOptions(**options), settings)


# Drawn


def test_games_are_what_is_asked_where_nothing_else_is() -> None:
    (question,), origin = asked()
    assert question["question"] == "Which character is the winner?" and question["id"] == "whodunit/0/0"
    assert question["target"] == str(question["game"]["culprit"] + 1)
    assert origin.words == "sample whodunit/0 made from a seed"
    (question,), _ = asked(WhoDunit(variant="sym", agents=4, suspects=5, vocabulary="negative"))
    assert question["question"] == "Which suspect is the culprit?"
    assert (question["game"]["suspect_count"], len(question["game"]["agents"])) == (5, 4)

    (question,), origin = asked(GovSim(months=6, start=80))
    assert question["question"] == "How many tons of fish do you catch this month?" and question["id"] == "govsim/0/0"
    assert (question["target"], question["game"]["start"]) == ("6 months", 80)

    (question,), origin = asked(CodeGen())
    assert question["id"] == "problems/0/0" and question["question"].startswith("def double_all(")
    assert question["kind"] == "text" and "target" not in question


def test_a_set_of_games_begins_with_the_one_of_its_seed_and_is_as_large_as_asked_for() -> None:
    many, _ = asked(WhoDunit(), sample="whodunit/3", limit=20)
    (one,), _ = asked(WhoDunit(), sample="whodunit/3")
    assert many[0]["game"] == one["game"] and len({str(each["game"]) for each in many}) == 20
    assert [each["id"] for each in many[:2]] == ["whodunit/3/0", "whodunit/3/1"]


@pytest.mark.parametrize(("split", "n"), [("train", 26), ("validation", 14), ("test", 20)])
def test_a_split_of_lakes_has_its_start_values_each_game_a_seed_of_its_own(split: Any, n: int) -> None:
    questions, _ = asked(GovSim(), sample=f"govsim/{split}/3", limit=n)
    assert [each["game"]["start"] for each in questions] == starts(split, 3)
    assert len({each["id"] for each in questions}) == n and questions[1]["id"] == f"govsim/{split}/3/1"
    assert len({each["game"]["seed"] for each in questions}) == n


def test_a_seed_mixes_all_problems_and_there_are_no_more() -> None:
    first, other = (asked(CodeGen(), sample=f"problems/{seed}", limit=16)[0] for seed in (0, 1))
    names = [[each["game"]["entry_point"] for each in found] for found in (first, other)]
    assert names[0] != names[1] and sorted(names[0]) == sorted(names[1])


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        (
            Debate(),
            {"sample": "whodunit"},
            "`sample='whodunit'` cannot be used here; `sample='whodunit'` belongs to `who",
        ),
        (SMALL, {"sample": "split"}, "`sample='split'` cannot be used here; `sample='whodunit'` belongs to `whodunit`"),
        (CodeGen(), {"limit": 17}, "`limit=` is 17; `sample='problems'` has at most 16 different ones"),
        (GovSim(), {"sample": "govsim/test", "limit": 21}, "`sample='govsim/test'` has at most 20 different ones"),
        (GovSim(start=50), {"sample": "govsim/test"}, "start is 50, but the sample govsim/test sets its own"),
        (SMALL, {"question": "?"}, "a question was given, but whodunit plays .*; type `.* whodunit --sample whodunit`"),
        (CodeGen(), {"question": "?"}, "a question was given, but codegen .*; type `.* codegen --sample problems`"),
        (Debate(), {"game": ["a.json"]}, "`game=` is only for whodunit and govsim; drop it"),
        (SMALL, {"game": ["a.json"], "sample": "whodunit"}, "--sample and --game were given; give one of them"),
        (SMALL, {"game": ["no/such.json"]}, r"game file 'no/such\.json' cannot be read: No such file"),
    ],
)
def test_what_cannot_be_played_is_refused(settings: Settings, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(settings, **options)


# In files


def in_file(folder: Path, *changes: dict[str, Any]) -> Path:
    """A question file of games, a line each, with these changes of its fields."""
    rows = [{**each, **change} for each, change in zip(draw_games(len(changes), SMALL), changes, strict=True)]
    file = folder / "games.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_file_of_games_is_asked_in_its_order(tmp_path: Path) -> None:
    found, origin = asked(questions=in_file(tmp_path, {}, {"split": "test"}), limit=2)
    assert [each["game"] for each in found] == [each["game"] for each in draw_games(2, SMALL)]
    assert origin.words == "all 2 rows of games.jsonl" and origin.metadata == {"whodunit/0/1": {"split": "test"}}


@pytest.mark.parametrize(
    ("change", "settings", "said"),
    [
        ({"game": {"suspect_count": 2, "suspects": [{"a": "b"}, {"a": "c"}]}}, SMALL, "Game has no 'culprit'"),
        ({"id": "whodunit/0/0"}, SMALL, "has the id 'whodunit/0/0', like line 1; give each row its own"),
        ({"game": 3}, SMALL, "game is 3: expected a valid dictionary"),
        ({"target": "9"}, SMALL, "the target is '9', but the game's winner is "),
        ({}, Debate(), "the question has a game, but this scheme plays none"),
        ({}, WhoDunit(variant="sym"), "the game has no facts for agents, which sym needs"),
    ],
)
def test_a_file_with_a_wrong_game_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, Any], settings: Settings, said: str
) -> None:
    with pytest.raises(UsageError, match=r"line \d of question file .*games\.jsonl") as caught:
        asked(settings, questions=in_file(tmp_path, {}, change))
    assert said in str(caught.value) and ("line 2" in str(caught.value) or not change)


def test_stored_games_are_asked_by_their_files_names(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(SMALL.game(name).model_dump_json())
    found, origin = asked(game=[str(tmp_path / "one.json"), str(tmp_path / "two.json")])
    assert [each["id"] for each in found] == ["one", "two"] and origin.words == "stored games"
    assert found[1]["game"] == SMALL.game("two").model_dump(mode="json")
    (tmp_path / "lake.json").write_text(Game(start=60, months=1).model_dump_json())
    (question,), origin = asked(GovSim(), game=[tmp_path / "lake.json"])
    assert (question["id"], question["target"], question["game"]["start"]) == ("lake", "1 month", 60)
    assert origin.words == "stored game"


@pytest.mark.parametrize(
    ("settings", "made", "said"),
    [
        (GovSim(months=3), GovSim(), "months is 3, but the game has 12; leave it out"),
        (GovSim(start=50), GovSim(start=100), "start is 50, but the game has 100"),
        (WhoDunit(suspects=5), WhoDunit(suspects=4), "suspects is 5, but the game has 4"),
    ],
)
def test_a_lever_that_a_stored_game_has_otherwise_is_refused(settings: Settings, made: Settings, said: str) -> None:
    (question,) = samples(record_of(made).sample, 1, made, 0)
    made.check_game(question)
    with pytest.raises(UsageError, match=said):
        settings.check_game(question)


# In runs


@pytest.mark.parametrize(("settings", "replies"), [PLAYED, LIVED], ids=["game", "lake"])
def test_a_run_keeps_its_game_and_its_measures(tmp_path: Path, settings: Settings, replies: schemes.Replies) -> None:
    (question,) = lakes(1, settings) if isinstance(settings, GovSim) else draw_games(1, SMALL)
    run = schemes.held(settings, replies, tmp_path, question=question)
    read = load_run(tmp_path / "run").only
    right = float(question["target"] == "2")
    won = {"success": right, "precision": right, "turns": 3, "cancelled": 0, "resets": 0, "unreadable": 0}
    expected = {"gain": 57.5} if isinstance(settings, GovSim) else won
    assert read.question.get("game") == question.get("game")
    assert expected.items() <= read.result().measures.items() and read.result().measures == run.result().measures
    assert not isinstance(settings, GovSim) or read.result().score == 1.0
