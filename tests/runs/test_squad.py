"""EM and F1: the edges of SQuAD's definitions, and where they stand in results."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.nodes.question import Question
from sottovoce.runs.runner import Task, run_one
from sottovoce.runs.squad import exact_match, f1
from sottovoce.settings import IA
from tests.runs.support import held

RIVER: Question = {"question": "On which river does Tarn lie?", "kind": "text", "target": "Orla", "id": "river"}


@pytest.mark.parametrize(
    ("answer", "golds", "em", "overlap"),
    [
        ("An Orla!", ["orla"], 1, 1),
        ("river Orla", ["Orla"], 0, 2 / 3),
        ("river Orla", ["Orla", "the River Orla"], 1, 1),  # an alias
        ("new new york", ["new york city"], 0, 4 / 6),  # a multiset: one "new" is in common
        ("yes", ["yes it is"], 0, 0),  # yes shares no words
        ("yes it is", ["no"], 0, 0),
        ("Yes.", ["yes"], 1, 1),
        ("Mirn", ["Orla"], 0, 0),
        (None, ["Orla"], 0, 0),
    ],
)
def test_em_and_f1_are_squads(answer: str | None, golds: list[str], em: float, overlap: float) -> None:
    assert exact_match(answer, golds) == em
    assert f1(answer, golds) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("replies", "rule", "score", "measures"),
    [
        (["The answer is New Orla."] * 2, "majority", 1, {"EM": 0, "F1": 2 / 3}),
        (["The answer is Orla.", "The answer is Mirn."], "average", 0.5, {"EM": 0.5, "F1": 0.5}),
        (["I cannot say."] * 2, "majority", 0, {"EM": 0, "F1": 0}),
    ],
)
def test_a_few_words_are_measured_by_both(
    tmp_path: Path, replies: list[str], rule: str, score: float, measures: dict[str, float]
) -> None:
    said = {f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)}
    record = held(said, tmp_path, question=RIVER, rule=rule, answer_turn=False)
    assert record.decision is not None and "measures" not in record.decision
    assert record.result().score == score
    assert record.result().measures == pytest.approx(measures)


def test_a_number_has_neither(tmp_path: Path) -> None:
    assert held({"agent_1": ["The answer is 22."]}, tmp_path).result().measures == {}


def test_what_an_expert_was_given_to_say_is_not_measured(tmp_path: Path) -> None:
    said = {"agent_1": ["The answer is Mirn."], "agent_2": []}
    asked: Question = {**RIVER, "solution": "The answer is Orla."}
    role = ["debater", "expert"]
    record = held(said, tmp_path, question=asked, rule="average", role=role, answer_turn=False)
    assert (record.result().score, record.result().measures) == (0, {"EM": 0, "F1": 0})


@pytest.mark.parametrize(
    ("replies", "score", "em"),
    [
        (["\\boxed{Orla}", "#Q: Which river is it?"], 1.0, 1.0),  # EM was 0.5: it counted the reply without a box
        (["\\boxed{Orla}", "\\boxed{Mirn}"], 0.5, 0.5),
        (["\\boxed{Orla}", "\\boxed{}"], 0.5, 0.5),
        (["#Q: Which?", "#Q: Why?"], 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("rule", ["formatted", "raw"])
def test_of_information_asymmetry_those_answers_are_measured_that_are_scored(
    tmp_path: Path, replies: list[str], score: float, em: float, rule: str
) -> None:
    model = ScriptedChatModel({f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)})
    settings = IA(rounds=1, score=rule)  # type: ignore[arg-type]  # one of two
    result = run_one(Task("ia", settings, RIVER, models=model), PayloadStore(tmp_path)).result()
    assert (result.score, result.measures["EM"]) == (score, em)


def test_without_a_box_the_raw_score_and_its_em_take_the_same_replies(tmp_path: Path) -> None:
    model = ScriptedChatModel({"agent_1": ["The answer is Orla."], "agent_2": ["I cannot tell you."]})
    result = run_one(Task("ia", IA(rounds=1, score="raw"), RIVER, models=model), PayloadStore(tmp_path)).result()
    assert (result.score, result.measures["EM"]) == (1.0, 1.0)
