"""What a run tells of interventions: how many, what was wrong by the truth, when, and how the games ended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.whodunit import games
from sottovoce.nodes.state import Intervened
from sottovoce.nodes.watch import Intervention
from sottovoce.report.interventions import WIDEST, figure_of, summary
from sottovoce.report.transcript import markdown
from sottovoce.runs.record import DiscussionRecord
from sottovoce.settings import Debate, WhoDunit
from tests.cli.screen import printed
from tests.runs import schemes
from tests.runs.schemes import PLAYED
from tests.runs.support import carrying, held

SMALL = WhoDunit(suspects=3, attributes=3)
GAME = games(1, SMALL)[0]
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


def test_interventions_are_told_by_their_class_and_by_how_the_games_ended(records: list[DiscussionRecord]) -> None:
    assert summary(records) == [
        "3 interventions in 2 of 3 discussions: 3 reset",
        "true classes of the withheld messages: 2 none, 1 recall failure",
        "in 1 successful discussion: 1 intervention, on average in turn 3 (3 to 3)",
        "in 2 other discussions: 2 interventions, on average in turn 1 (1 to 1)",
        "1 of 2 unsuccessful discussions had no intervention",
    ]


def test_without_interventions_nothing_is_summary(records: list[DiscussionRecord]) -> None:
    assert summary(records[2:]) == [] and summary([]) == []


def test_a_discussion_is_told_without_a_truth(tmp_path: Path) -> None:
    run = schemes.held(Debate(rounds=2), schemes.WATCHED, tmp_path, watch=schemes.Once("again"))
    assert summary([run]) == [
        "1 intervention in 1 of 1 discussion: 1 again",
        "in 1 successful discussion: 1 intervention, on average in turn 2 (2 to 2)",
        "in 0 other discussions: 0 interventions",
    ]


def unsure(run: DiscussionRecord, entropies: list[float | None], store: PayloadStore) -> DiscussionRecord:
    """The run with these entropies at the numbers of its messages' actions, in order."""
    run.messages = [
        message if entropy is None else carrying(message, number(message.text), [0.25, entropy], store)
        for message, entropy in zip(run.messages, entropies, strict=True)
    ]
    return run


def number(text: str) -> list[tuple[int, int]]:
    """The spans of two tokens: all before the number of an action, or before the last one, and the number."""
    found = re.search(r'(?<="action": )\d+', text) or [*re.finditer(r"\d+", text)][-1]
    return [(0, found.start()), found.span()]


@pytest.fixture
def run(tmp_path: Path) -> DiscussionRecord:
    """Beth would choose a wrong one in the third turn; the game is taken back, and then she is right."""
    return game(tmp_path, [ASK, award(WRONG), award(RIGHT)], [LIST], 1)


def test_each_turn_has_a_bar_and_an_intervention_its_mark_and_its_words(run: DiscussionRecord, tmp_path: Path) -> None:
    store = PayloadStore(tmp_path / "payloads")
    assert figure_of(unsure(run, [3.5, None, 2.25, 1.375], store)).splitlines() == [
        "highest entropy of each turn at the numbers of actions, 1.38 to 3.5 nats",
        "█·▄|▁",
        "  ^",
        "^ reset at Beth, turn 3: too sure; by the truth: recall failure",
    ]


def test_it_stands_before_the_decision_and_in_a_fence_of_markdown(run: DiscussionRecord, tmp_path: Path) -> None:
    store = PayloadStore(tmp_path / "payloads")
    shown = printed(unsure(run, [3.5, None, 2.25, 1.375], store), 100)
    assert shown.index("Uncertainty ─") < shown.index("█·▄|▁\n  ^\n") < shown.index("Decision ─")
    heading = "highest entropy of each turn at the numbers of actions, 1.38 to 3.5 nats"
    assert f"## Uncertainty\n\n```text\n{heading}\n█·▄|▁\n  ^\n" in markdown(run)


def test_without_statistics_interventions_are_told_alone(run: DiscussionRecord) -> None:
    assert figure_of(run) == "^ reset at Beth, turn 3: too sure; by the truth: recall failure"


def test_an_intervention_after_a_reset_says_so(run: DiscussionRecord) -> None:
    late: Intervened = {**run.interventions[0], "epoch": 1, "round": 0, "what": "mute", "attempt": 3}
    run.interventions = [late]
    assert figure_of(run) == "^ mute at Beth, turn 1 after 1 reset: too sure"


def test_a_game_of_many_turns_is_drawn_in_rows(run: DiscussionRecord, tmp_path: Path) -> None:
    store = PayloadStore(tmp_path / "payloads")
    last = carrying(run.messages[-1], number(run.messages[-1].text), [1.0, 1.0], store)
    run.messages, run.interventions = [replace(last, epoch=0, round=i) for i in range(WIDEST + 5)], []
    assert figure_of(run).splitlines()[1:] == ["▁" * WIDEST, "▁" * 5]


def test_a_discussion_that_nobody_watched_and_a_game_without_statistics_have_none(tmp_path: Path) -> None:
    store, said = PayloadStore(tmp_path / "payloads"), {"agent_1": ["It is 22."], "agent_2": ["It is 22."]}
    assert figure_of(unsure(held(said, tmp_path), [1.0, 2.0], store)) == ""
    assert (
        figure_of(schemes.held(*PLAYED, tmp_path / "b", question=games(1, WhoDunit(suspects=3, attributes=3))[0])) == ""
    )
    assert "Uncertainty" not in printed(held(said, tmp_path))


def test_a_watched_discussion_has_it_too(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path / "payloads")
    run = schemes.held(Debate(rounds=2), schemes.WATCHED, tmp_path, watch=schemes.Once("again"))
    drawn = figure_of(unsure(run, [0.5, 1.0, 2.0, 3.0, 1.0], store))
    assert drawn.splitlines()[1:] == ["▁█", " ^", "^ again at agent_1, turn 2: it wavers"]
