"""What a run tells of interventions: how many, and what was wrong by the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from sottovoce.channels.message import Message
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.whodunit import WhoDunit, draw_games
from sottovoce.nodes.watch import Intervention
from sottovoce.report.describe import intervened_in_words, interventions
from sottovoce.report.transcript import markdown
from sottovoce.runs.record import DiscussionRecord
from tests.runs import schemes

SMALL = WhoDunit(suspects=3, attributes=3)
GAME = draw_games(1, SMALL)[0]
RIGHT = int(GAME["target"])
WRONG = RIGHT % 3 + 1
ASK = '{"thoughts": "?", "action": 2}'
PEOPLE = GAME["game"]["suspects"]
TELLING = next(name for name in PEOPLE[0] if PEOPLE[RIGHT - 1][name] != PEOPLE[WRONG - 1][name])
VALUE = PEOPLE[RIGHT - 1][TELLING]
HAVE = [number for number, each in enumerate(PEOPLE, 1) if each[TELLING] == VALUE]
LIST = json.dumps({"thoughts": "!", "action": 2, "value": f"{TELLING}-{VALUE}", "character": HAVE})
"""All who have a value of the winner, which rules out WRONG."""


class Twice:
    """Intervenes where an agent is sure, so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, run: object, state: object, messages: Sequence[Message]) -> Intervention | None:
        if not self.left or "sure" not in messages[-1].text:
            return None
        self.left -= 1
        return Intervention("reset", "too sure")


def award(number: int) -> str:
    return json.dumps({"thoughts": "I am sure.", "action": 3, "character": number})


def game(folder: Path, beth: list[str], alex: list[str], times: int) -> DiscussionRecord:
    replies = {"Beth": beth, "Alex": alex}
    return schemes.held(SMALL, replies, folder, question=GAME, watch=Twice(times))


@pytest.fixture
def records(tmp_path: Path) -> list[DiscussionRecord]:
    """A game that a reset won, one that two could not save, and one lost without any."""
    return [
        game(tmp_path / "won", [ASK, award(WRONG), award(RIGHT)], [LIST], 1),
        game(tmp_path / "lost", [award(WRONG), award(RIGHT), award(WRONG)], [], 2),
        game(tmp_path / "missed", [award(WRONG)], [], 0),
    ]


def test_interventions_are_told_by_their_class(records: list[DiscussionRecord]) -> None:
    assert interventions(records) == [
        "3 interventions in 2 of 3 discussions: 3 reset",
        "true classes of the withheld messages: 2 none, 1 recall failure",
    ]


def test_a_discussion_is_told_without_a_truth(tmp_path: Path) -> None:
    run = schemes.held(Debate(rounds=2), schemes.WATCHED, tmp_path, watch=schemes.Once("again"))
    assert interventions([run]) == ["1 intervention in 1 of 1 discussion: 1 again"] and interventions([]) == []


@pytest.fixture
def run(tmp_path: Path) -> DiscussionRecord:
    """Beth would choose a wrong one in the third turn; the game is taken back, and then she is right."""
    return game(tmp_path, [ASK, award(WRONG), award(RIGHT)], [LIST], 1)


def test_an_intervention_is_told_with_the_truth_before_the_cost(run: DiscussionRecord) -> None:
    assert [intervened_in_words(run, each) for each in run.interventions] == [
        "reset at Beth, turn 3: too sure; by the truth: recall failure"
    ]
    told = {**run.interventions[0], "what": "mute", "epoch": 1, "round": 0}
    assert intervened_in_words(run, told) == "mute at Beth, turn 1 after 1 reset: too sure; by the truth: none"  # type: ignore[arg-type]
    assert "by the truth: recall failure" in markdown(run).partition("## Decision")[2]
