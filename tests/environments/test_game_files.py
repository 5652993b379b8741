"""Files of games and of attributes: what is read, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.environments.govsim import fishery
from sottovoce.environments.whodunit import games
from sottovoce.environments.whodunit.actions import clause, described
from tests.tables import each_row

PEERS = ("Alex", "Beth", "Charlie")
TWO = {"suspect_count": 2, "suspects": [{"hat": "brown"}, {"hat": "black"}], "culprit": 1}


@each_row(
    ("game", "read"),
    [
        (fishery.Game(start=210, seed="1", language=False, newcomer_after=2, allocation="proportional"),
         fishery.read_game),
        (games.drawn("0", games.attributes(12), 10), games.read_game),
        (games.drawn("0", games.ALL, 20, PEERS), games.read_game),
    ],
)  # fmt: skip
def test_a_game_survives_its_file(game: Any, read: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / "game.json").write_text(game.model_dump_json())
    assert read(tmp_path / "game.json") == game


def test_files_of_the_authors_shape_are_read(tmp_path: Path) -> None:
    more = {**TWO, "task_info": {"name": "x"}, "previous_turns": [], "accuser": "Beth"}
    (tmp_path / "game.json").write_text(json.dumps({"env_info": more}))
    game = games.read_game(tmp_path / "game.json")
    assert (game.winner, game.agents, game.version) == (2, None, 1)


def test_own_attributes_are_read_and_worded(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text('{"car": ["red", "blue"], "home_town": ["Aldmoor", "Bern"]}')
    found = games.read_attributes(tmp_path / "list.json")
    assert described(games.drawn("0", found, 4).person(1)).startswith("has ")
    assert clause("home_town", "Bern", truth=False) == "does not have Bern as home town"


@each_row(
    ("read", "content", "said"),
    [
        (fishery.read_game, {}, "Game has no 'start'"),
        (fishery.read_game, {"start": 0}, "start is 0: expected"),
        (fishery.read_game, {"start": 4}, "a game starts with 4 tons and collapses below 5; start with more"),
        (fishery.read_game, {"start": 100, "agents": ["John", "John"]}, "two agents of a game have the same name"),
        (fishery.read_game, {"start": 100, "newcomer_after": 12}, "the newcomer joins after month 12, but the"),
        (fishery.read_game, {"start": 100, "fish": 3}, "unknown field of Game: 'fish'"),
        (games.read_game, {"suspect_count": 2, "suspects": TWO["suspects"]}, "Game has no 'culprit'"),
        (games.read_game, {**TWO, "culprit": 2}, "a game's culprit is 2; expected 0 to 1"),
        (games.read_game, {**TWO, "suspect_count": 3}, "a game has 2 suspects, but suspect_count is 3"),
        (games.read_game, {**TWO, "suspects": [{"hat": "brown"}] * 2}, "a game has two equal suspects"),
        (games.read_game, {**TWO, "suspects": [{"hat": "a"}, {"cap": "a"}]}, "suspects have no attributes, or not"),
        (games.read_game, {**TWO, "agents": {"Alex": [["hat", "brown"]]}}, "the facts of a game's agents must fit the"),
        (games.read_game, {**TWO, "suspects": [{"hat": "brown"}, {"hat": '"red"'}]}, "suspects.1.hat is '\"red\"'"),
        (games.read_game, [], "valid dictionary"),
        (games.read_game, "{", "is not JSON"),
        (games.read_game, None, "cannot be read"),
        (games.read_attributes, {"car": ["red"]}, "car is .*at least 2 items"),
        (games.read_attributes, {"car": ["a", "a"]}, "'car' has a value twice"),
        (games.read_attributes, "no", "is not JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused_in_one_line(
    read: Callable[[Path], Any], content: Any, said: str, tmp_path: Path
) -> None:
    (path := tmp_path / "game.json").unlink(missing_ok=True)
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UsageError, match=said) as error:
        read(path)
    assert re.match(f"(game file|attribute list) '{path}'", str(error.value)) and "\n" not in str(error.value)
