"""What rows carry at each point of an experiment: the bytes that are heard, and what is right for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.experiments.schema import Experiment
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.report.comparison import carried, carried_table, comparison_of
from sottovoce.runs.cost import Cost, hearings
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from tests.runs.support import QUESTION, held

REPLIES = {
    "agent_1": ["The answer is 29.", "The answer is 22."],
    "agent_2": ["Señor, the answer is 29.", "The answer is 22."],
}
WORDS = len("The answer is 29."), len("Señor, the answer is 29.".encode())


def scripted(folder: Path, right: list[bool], carry: float = 0) -> Run:
    """Return a run of scripted debates of two rounds, some of them right; messages carry so many bytes."""
    asked: list[Question] = [{**QUESTION, "id": f"sum/{i}"} for i, _ in enumerate(right)]
    run = Run(new_manifest("debate", Debate(rounds=2), asked, models={}), asked, folder)
    record = held(REPLIES, folder / "payloads").model_copy(update={"cost": Cost()})
    counts = {"tokens_in": 10.0, "tokens_reused": 4.0, "tokens_out": 3.0, "thoughts": 5.0}
    for i, message in enumerate(record.messages):
        record.messages[i] = replace(message, stats={**message.stats, **counts})
    for prompt in record.prompts if carry else ():
        prompt.heard = [{**each, "nbytes": carry} for each in prompt.heard or []]
    for question, is_right in zip(asked, right, strict=True):
        decision: Any = {**(record.decision or {}), "score": float(is_right)}
        run.records[(str(question["id"]), 0)] = record.model_copy(update={"question": question, "decision": decision})
    return run


def test_bytes_are_those_of_messages_that_somebody_heard(tmp_path: Path) -> None:
    """Under a control the size of what was made stood there, and a second attempt would have counted again."""
    told = held(REPLIES, tmp_path)  # the last round is heard by nobody
    again = [prompt.model_copy(update={"attempt": 1}) for prompt in told.prompts if prompt.round]

    assert hearings(told.prompts) == hearings([*told.prompts, *again]) == (2, 0, sum(WORDS))
    for control in ("own", "empty", "filler"):
        assert hearings(held(REPLIES, tmp_path, control=control).prompts) == (0, 0, 0)
    assert hearings(held({"agent_1": ["The answer is 29."]}, tmp_path).prompts) == (0, 0, 0)


def test_a_gain_is_counted_above_the_floor_of_its_point_by_number_and_kilobyte(tmp_path: Path) -> None:
    points = {f"facts{k}": {"questions": {"sample": "split/1", "limit": 4}} for k in (1, 8)}
    rows = {"none": {"scheme": "debate"}, "kv": {"scheme": "debate"}}
    experiment = Experiment.model_validate({"points": points, "rows": rows, "against": "none", "floor": "none"})
    runs = {
        "none.facts1": scripted(tmp_path, [True, False, False, False]),
        "kv.facts1": scripted(tmp_path, [True] * 4, carry=1500),
        "none.facts8": scripted(tmp_path, [False] * 4),
        "kv.facts8": scripted(tmp_path, [True, True, False, False], carry=2000),
    }

    found = carried(experiment, runs, comparison_of(runs, experiment.baselines).runs)

    assert [(each.row, each.point, each.right and each.right.value) for each in found] == [
        ("none", "facts1", 0.25), ("kv", "facts1", 1), ("none", "facts8", 0), ("kv", "facts8", 0.5)
    ]  # fmt: skip
    # Two messages are heard: 0.75 x 1 fact by 3 kB, and 0.5 x 8 facts by 4 kB.
    assert [each.per_kilobyte for each in found] == [None, pytest.approx(0.25), None, pytest.approx(1.0)]
    assert [each.message_bytes for each in found[1::2]] == [1500, 2000]
    assert {each.computed for each in found} == {4 * (10 - 4 + 3 + 5)}
    assert carried_table(experiment, found).headings[-1] == "facts per kB"
    assert carried_table(experiment, found).rows[3][:3] == ("`kv`", "facts8", "50.0%")
    next(iter(runs["kv.facts8"].records.values())).cost.uncounted = 1
    assert [each.computed for each in carried(experiment, runs, comparison_of(runs).runs)][-1] is None
