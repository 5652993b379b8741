"""Rows for monitors: they are of what a watch would have looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sottovoce.analysis.monitors import collected, measure_of
from sottovoce.channels.message import Message
from sottovoce.graphs.react import ReAct
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.guard import features_of_acts
from sottovoce.nodes.question import Question
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from tests.nodes.support import Unsure
from tests.runs.support import QUESTION

TOP = Measure(distribution="top")
KNOWN = [("whodunit", WhoDunit()), ("react", ReAct())]
STEPS = {
    "agent_1": ["Who was it?", " Search[The Salt Ledger]", " Orla Vance.\nFinish[22]"],
    "agent_2": [" It says so.\nLookup[Orla]"],
}


def test_an_agent_is_as_unsure_as_the_least_sure_of_its_acts_and_a_group_as_the_surest_of_its_agents(
    tmp_path: Path,
) -> None:
    looked = list[Sequence[Message]]()

    def watch(run: Any, state: Any, messages: Sequence[Message]) -> None:
        looked.append(messages)

    run = held(tmp_path / "run", watch)
    store = run.store()

    thought, action = looked[0]
    unsure, sure = (features_of_acts([each], TOP, store) for each in (thought, action))
    assert unsure is not None and sure is not None and unsure["entropy"] > sure["entropy"] + 1
    both, group = features_of_acts([thought, action], TOP, store), features_of_acts([thought, *looked[1]], TOP, store)
    assert both is not None and both["entropy"] == unsure["entropy"]
    assert group is not None and group["entropy"] == pytest.approx(sure["entropy"])
    rows, _ = collected([run], TOP)
    assert [(row.role, row.turn) for row in rows] == [("agent_1", 0), ("agent_2", 1), ("agent_1", 2)]
    assert [row.features for row in rows] == [features_of_acts(messages, TOP, store) for messages in looked]


def test_a_question_under_any_id_is_one_question_and_a_game_in_each_run(tmp_path: Path) -> None:
    """Runs in folders of one name, such as two experiments' rows, had one game: "6 turns of 1 game"."""
    ids = {"a": "q", "b": "q", "c": "r"}
    runs = [held(tmp_path / place / "run", None, {**QUESTION, "id": id}) for place, id in ids.items()]
    rows, _ = collected(runs, TOP)
    assert {row.game for row in rows} == {"0/run/q/0", "1/run/q/0", "2/run/r/0"}
    assert {row.question for row in rows} == {"0/run/q"}


def held(folder: Path, watch: Any, question: Question = QUESTION) -> Run:
    """A relay whose first step takes two calls, the first of which is unsure."""
    settings, model = ReAct(agents=2), Unsure(replies=STEPS)
    run = Run.start(new_manifest("react", settings, [question], [0], models=model), [question], folder)
    run_all(run, settings, run.store(), models=model, watch=watch)
    return run


def test_rows_are_measured_where_it_matters_in_their_scheme_unless_positions_are_asked_for(tmp_path: Path) -> None:
    runs = [
        Run.start(new_manifest(name, given, [QUESTION], [0], models=Unsure()), [QUESTION], None)
        for name, given in KNOWN
    ]
    assert [measure_of([run], Measure()).positions for run in runs] == ["action", "all"]
    assert measure_of(runs, Measure()).positions == "all"
    assert measure_of(runs[:1], Measure(positions="all")).positions == "all"
