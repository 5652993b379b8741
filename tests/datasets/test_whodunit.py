"""Games of WhoDunit as questions of a run: drawn, stored, kept with the run, and how they went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.analysis.symmetry import Looked, show_symmetry
from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.samples import samples
from sottovoce.graphs import record_of
from sottovoce.graphs.whodunit import games
from sottovoce.runs.read import load_run
from sottovoce.settings import Debate, GovSim, Settings, WhoDunit
from tests.runs import schemes
from tests.runs.schemes import PLAYED

SMALL = WhoDunit(suspects=3, attributes=3)


def asked(settings: Settings = SMALL, **options: Any) -> Any:
    return questions_of(QuestionOptions(**options), settings)


def test_games_are_what_is_asked_where_nothing_else_is() -> None:
    (question,), origin = asked()
    assert question["question"] == "Which character is the winner?" and question["id"] == "whodunit/0/0"
    assert question["target"] == str(question["game"]["culprit"] + 1)
    assert origin.words == "sample whodunit/0 made from a seed"


def test_a_set_of_games_begins_with_the_one_of_its_seed_and_is_as_large_as_asked_for() -> None:
    many, _ = asked(WhoDunit(), sample="whodunit/3", limit=20)
    (one,), _ = asked(WhoDunit(), sample="whodunit/3")
    assert many[0]["game"] == one["game"] and len({str(each["game"]) for each in many}) == 20
    assert [each["id"] for each in many[:2]] == ["whodunit/3/0", "whodunit/3/1"]


def test_games_have_the_size_and_words_that_the_settings_say() -> None:
    ((question,), _) = asked(WhoDunit(variant="sym", agents=4, suspects=5, vocabulary="negative"))
    assert question["question"] == "Which suspect is the culprit?"
    assert (question["game"]["suspect_count"], len(question["game"]["agents"])) == (5, 4)


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        (Debate(), {"sample": "whodunit"}, "--sample whodunit cannot be used here"),
        (SMALL, {"sample": "split"}, "--sample split cannot be used here"),
        (Debate(), {"game": ["a.json"]}, "--game is only for whodunit and govsim; drop it"),
        (SMALL, {"game": ["a.json"], "sample": "whodunit"}, "--sample and --game were given; give one of them"),
        (SMALL, {"game": ["no/such.json"]}, r"game file 'no/such\.json' cannot be read: No such file"),
    ],
)
def test_what_cannot_be_played_is_refused(settings: Settings, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(settings, **options)


def in_file(folder: Path, *changes: dict[str, Any]) -> Path:
    """A question file of games, a line each, with these changes of its fields."""
    rows = [{**each, **change} for each, change in zip(games(len(changes), SMALL), changes, strict=True)]
    file = folder / "games.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_file_of_games_is_asked_in_its_order(tmp_path: Path) -> None:
    found, origin = asked(questions=in_file(tmp_path, {}, {"split": "test"}), limit=2)
    assert [each["game"] for each in found] == [each["game"] for each in games(2, SMALL)]
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
        (tmp_path / f"{name}.json").write_text(SMALL.game(name).to_json())
    found, origin = asked(game=[str(tmp_path / "one.json"), str(tmp_path / "two.json")])
    assert [each["id"] for each in found] == ["one", "two"] and origin.words == "stored games"
    assert found[1]["game"] == SMALL.game("two").model_dump(mode="json")


def test_samples_of_other_schemes_stay_what_they_were() -> None:
    assert samples("arithmetic", 1, Debate(), 0)[0].get("game") is None


def test_a_run_keeps_its_game_and_tells_how_it_went(tmp_path: Path) -> None:
    question = games(1, SMALL)[0]
    run = schemes.held(*PLAYED, tmp_path, question=question)
    read = load_run(tmp_path / "run").only
    assert read.question.get("game") == question.get("game")
    right = float(question["target"] == "2")
    for each in (run, read):
        found = each.result().measures
        assert found == {"success": right, "precision": right, "turns": 3, "cancelled": 0, "resets": 0}


def test_a_cancelled_game_is_counted_as_one(tmp_path: Path) -> None:
    run = schemes.held(SMALL, {"Beth": ["Hm."] * 21}, tmp_path, question=games(1, SMALL)[0])
    assert run.result().measures == {"success": 0, "precision": None, "turns": 1, "cancelled": 1, "resets": 0}


def test_why_a_game_has_no_symmetry_is_told() -> None:
    with pytest.raises(UsageError, match="whodunit has no symmetries to show: in a world, speakers and messages"):
        show_symmetry("whodunit", SMALL, Looked())


@pytest.mark.parametrize(
    ("settings", "made", "said"),
    [
        (GovSim(months=3), GovSim(), "months is 3, but the game has 12; leave it out"),
        (GovSim(start=50), GovSim(start=100), "start is 50, but the game has 100"),
        (WhoDunit(suspects=5), WhoDunit(suspects=4), "suspects is 5, but the game has 4"),
    ],
)
def test_a_lever_that_a_stored_game_has_otherwise_is_not_passed_over(
    settings: Settings, made: Settings, said: str
) -> None:
    (question,) = samples(record_of(made).sample, 1, made, 0)

    made.check_game(question)
    with pytest.raises(UsageError, match=said):
        settings.check_game(question)
