"""The record of a run, and its file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.analysis.discussion_metrics import observed, rates
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.cli.main import main
from sottovoce.cli.run_screen import outcome
from sottovoce.core.errors import ContextOverflow, EngineError, PayloadError, RecordError
from sottovoce.core.files import write
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.reconcile import ReConcile
from sottovoce.nodes.question import Question
from sottovoce.runs.cost import flops
from sottovoce.runs.discussion import OUTSIDE
from sottovoce.runs.manifest import AgentModel, new_manifest
from sottovoce.runs.measures import ParseStatistics
from sottovoce.runs.record import Results
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import LOG
from sottovoce.runs.runner import run_all
from tests.runs import schemes
from tests.runs.single import run_one
from tests.runs.support import QUESTION, held, task

REPLIES = {"agent_1": ["The answer is 21.", "The answer is 22."], "agent_2": ["The answer is 22."] * 2}
ABOUT: dict[str, Any] = {"model": "a", "vocabulary": "v", "parameters": 1000, "device": "cpu", "threads": 1}
ABOUT |= dict.fromkeys(("dtype", "format"), "float32")
"""A model of a manifest, but for its weights and its table."""


def test_a_token_by_cipher_costs_a_mean_over_each_hearers_table_and_a_search_besides() -> None:
    models = {
        "agent_1": AgentModel(**ABOUT, weights="x", table=40),
        "agent_2": AgentModel(**ABOUT, weights="y", table=60),
        "agent_3": AgentModel(**{**ABOUT, "vocabulary": "other"}, weights="z", table=500),
    }
    stats = {"tokens_in": 10, "tokens_reused": 4, "tokens_out": 5, "thoughts": 3}

    def cost(protocol: str) -> float | None:
        ref = PayloadRef(protocol, "0" * 64, "0" * 64, 5, 100)
        return flops([Message("agent_1", 0, "answer", "", payload=ref, stats=stats)], models)

    assert cost("nl") == 2 * 1000 * 14
    assert cost("cipher") == 2 * 1000 * 14 + 2 * 5 * (40 + 60 + 40)


def test_a_discussion_that_is_restarted_is_as_before_anybody_spoke() -> None:
    manifest = new_manifest("debate", Debate(), [QUESTION], [4], origin="here", models=ScriptedChatModel())
    models = {"agent_1": AgentModel(**ABOUT, weights="x", table=40)}
    manifest = manifest.model_copy(update={"models": models, "versions": {"python": "2"}})
    run, first = Run(manifest, [QUESTION]), Run(manifest, [QUESTION]).only
    (key,) = run.records
    run.fail(key, "the line is down", 3.0, outside=True)
    run.restart(key)
    assert run.only == first and run.only.models == models


def test_what_ended_a_discussion_is_outside_of_the_scheme_where_scheme_and_protocol_cannot_cause_it() -> None:
    assert not issubclass(ContextOverflow, OUTSIDE) and not issubclass(EngineError, OUTSIDE)
    assert issubclass(PayloadError, OUTSIDE) and issubclass(ConnectionError, OUTSIDE)


def test_a_run_in_which_a_discussion_overflowed_counts_it_as_wrong_beside_accuracy(tmp_path: Path) -> None:
    settings = Debate(rounds=1, max_tokens=8, answer_turn="off")
    asked: list[Question] = [
        {"question": "What is 1 + 3?", "id": "sum", "target": "4"},
        {"question": "word " * 5000, "id": "long", "target": "4", "kind": "number"},
    ]
    run = Run.start(new_manifest("debate", settings, asked), asked, tmp_path / "run")
    run_all(run, settings, run.store())

    results = {each.question: each for each in load_run(tmp_path / "run").results()}
    assert results["long"].failed and not results["long"].outside
    assert (results["long"].score, results["long"].failed_wrong, results["long"].comparable_score) == (None, 0.0, 0.0)
    score = results["sum"].score or 0
    both = f"{score:.1%} right of 1 ({score / 2:.1%} of 2 with failures as wrong)"
    assert outcome(run.counts).startswith(both) and outcome(run.counts).endswith(", 1 failed")
    assert Results(results.values()).to_csv().splitlines()[0].split(",")[4:7] == [
        "score",
        "score_failed_wrong",
        "target",
    ]
    (decided,) = [each for each in rates(observed(run.records.values())) if each.measure == "decided right"]
    assert decided.n == 2


def test_the_record_counts_how_the_answers_of_all_rounds_were_read(tmp_path: Path) -> None:
    replies = {"agent_1": ["Hm.", " 22", "Hm.", " hm"], "agent_2": ["The answer is 22.", "The answer is unknown."]}
    debate = held(replies, tmp_path, rounds=2, answer_turn="every")
    assert held({**replies, "agent_1": ["Hm.", "Hm.", " hm"]}, tmp_path, rounds=2).parsing.abstained == 1  # of round 2
    repaired = {"agent_1": ["Hm.", schemes.states(22, 1)], "agent_2": [schemes.states("unknown", 0)]}
    round_table = schemes.held(ReConcile(agents=2, rounds=0), repaired, tmp_path)

    assert debate.parsing == ParseStatistics(at_once=1, answer_turn=1, unknown=1, abstained=1)
    assert round_table.parsing == ParseStatistics(repair=1, unknown=1)
    assert load_run(tmp_path / "run").only.parsing == round_table.parsing


def test_an_answer_that_was_taken_back_is_not_counted_where_rounds_are_not(tmp_path: Path) -> None:
    run = schemes.held(Debate(rounds=2), schemes.WATCHED, tmp_path, watch=schemes.Once("again"))

    assert run.parsing == ParseStatistics(at_once=4)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"format":"sottovoce.run"', '"format":1', "is not a run: its format is 1; expected 'sottovoce.run'"),
        (
            '"version":1',
            '"version":2',
            "has format 2, written by sottovoce '0.1.0'; expected format 1: run its questions again",
        ),
        ('"event":"decided"', '"event":"ended"', "is damaged: line 16: events.0.event is 'ended': expected one of"),
        ('"line":"step"', '"line":"walk"', ": line is 'walk': expected one of 'run', 'question'"),
        ('"line":"asked"', f'"line":{[0] * 9000}', "... (27,0"),  # seen: quoted in full
        ('"event":"said"', '"event":"said","evidence":[{}]', "said.evidence.0 has no 'title'"),  # seen: a KeyError
        ('"task":', "task:", "is damaged: line 3 is not a line of a log"),
        ('"started":"20', '"started":"of 20', "is damaged: line 1: started is 'of 20"),
    ],
)
def test_a_file_that_is_no_run_is_told_so(tmp_path: Path, old: str, new: str, line: str) -> None:
    run_one(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run")
    path = tmp_path / "run" / LOG
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(RecordError) as caught:
        load_run(tmp_path / "run")

    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_a_message_of_nobody_and_half_a_character_are_no_error_of_ours(tmp_path: Path) -> None:
    # Found by fuzzing: a ValueError of `runs measures`, and a PydanticSerializationError of the others.
    run_one(task(REPLIES), PayloadStore(tmp_path), folder=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / LOG).read_text().splitlines()]
    said = next(event for line in lines for event in line.get("events", []) if event["event"] == "said")
    said |= {"agent": "nobody", "text": "\ud800 \U0001f600"}
    (tmp_path / "run" / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))

    for command, *more in (["measures"], ["export", str(tmp_path / "out.jsonl")]):
        assert main(["runs", command, str(tmp_path / "run"), *more]) == 0
    texts = [message.text for message in load_run(tmp_path / "run").only.messages]
    assert "\ufffd \U0001f600" in texts  # agents run side by side: either may be the first in the log


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "a", "before")
    (tmp_path / "folder").mkdir()

    with pytest.raises(RecordError, match="cannot be written"):
        write(tmp_path / "folder", "after")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_a_device_or_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    write(tmp_path / "pipe", "text")

    assert os.read(reading, 100) == b"text"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reading)
