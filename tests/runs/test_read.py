"""What stands above a transcript."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.graphs.cmd import CMD
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.mad import MAD
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.report.blocks import facts, introduction
from sottovoce.runs.record import DiscussionRecord
from tests.cli.screen import printed
from tests.runs import schemes
from tests.runs.support import QUESTION, held


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (MAD(disagreement=3), "2 debaters, at most 3 rounds · level of disagreement 3"),
        (
            CMD(secretary=False, representative="random"),
            "6 agents, 3 rounds on each level · at a tie each group sends an agent by lot",
        ),
        (Debate(), None),
    ],
)
def test_a_scheme_tells_how_it_is_held(settings: Settings, line: str | None) -> None:
    scheme = type(settings).__name__.lower()
    run = DiscussionRecord(scheme=scheme, settings=settings.model_dump(mode="json"), question=QUESTION)

    shown = [each.text for each in introduction(run).lines]
    asked = "(form of the answer: number; --kind sets it)"
    assert shown[1:] == [*([line] if line else []), QUESTION["question"], asked]
    assert line is None or line in printed(run, 120)


ASKED_OTHERWISE: Question = {
    **QUESTION,
    "kind": "option",
    "target": "A",
    "choices": ["22", "23"],
    "description": "Sums.\n" + "Long. " * 30,
    "answer_description": "a letter",
    "demonstrations": ["one", "two"],
    "wordings": {"agent_1": "What comes out?"},
    "starting_views": {"agent_2": "It is even."},
    "documents": ["All know this."],
}


def test_what_agents_read_besides_the_question_is_told(tmp_path: Path) -> None:
    run = held({"agent_1": ["(A)"], "agent_2": ["(A)"]}, tmp_path, question=ASKED_OTHERWISE)

    assert [*facts(run)] == [
        "choices: (A) 22, (B) 23",
        "task: Sums. " + "Long. " * 12 + "Lo …",
        "form of the answer: a letter",
        "demonstrations: 2 worked examples",
        "question for agent_1: What comes out?",
        "starting view of agent_2: It is even.",
        "document for all: All know this.",
    ]
    assert all(line in printed(run, 120) for line in facts(run))


def test_components_that_are_switched_off_are_not_told(tmp_path: Path) -> None:
    off = Debate(rounds=1, question_description=False, answer_description=False, demonstrations=False)
    run = schemes.held(off, {"": ["(A)"] * 2}, tmp_path, question=ASKED_OTHERWISE)

    assert not any(line.startswith(("task", "form", "demonstrations")) for line in facts(run))
