"""Runs as logs of Inspect: what they say, and that the real package reads them where it is installed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.report.inspect_log import inspect_log
from sottovoce.runs.run import Run
from tests.report.reported import scripted, unfinished


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of two discussions; each of the four messages carries a payload."""
    return scripted(tmp_path / "run", discussions=2)


def log_of(run: Run) -> dict[str, Any]:
    """The log as JSON."""
    log: dict[str, Any] = json.loads(inspect_log(run))
    return log


def test_a_discussion_is_a_sample_with_the_messages_of_its_agents(run: Run) -> None:
    log = log_of(run)
    sample = log["samples"][0]

    assert (log["status"], log["eval"]["task"]) == ("success", "debate/nl")
    assert [each["id"] for each in log["samples"]] == ["sum/0", "sum/1"]
    assert (sample["epoch"], sample["target"]) == (1, "22")
    messages = sample["messages"][1:]
    assert [each["metadata"]["agent"] for each in messages] == ["agent_1", "agent_2"] * 2
    payloads = [each["metadata"]["payload"]["sha256"] for each in messages]
    assert payloads == [message.payload.sha256 for message in run.records["sum/0", 0].messages if message.payload]


def test_a_sample_has_the_score_the_votes_and_the_tokens(run: Run) -> None:
    log = log_of(run)
    sample = log["samples"][0]

    score = sample["scores"]["sottovoce"]
    assert (score["value"], score["answer"], len(score["metadata"]["votes"])) == (1, "22", 2)
    assert log["results"]["scores"][0]["metrics"]["mean"]["value"] == 1
    calls = [event for event in sample["events"] if event["event"] == "model"]
    assert [each["role"] for each in calls] == ["agent_1", "agent_2"] * 2 and calls[0]["input"][-1]["role"] == "user"


def test_unknown_tokens_are_left_out_and_a_cut_reply_has_its_reason(run: Run) -> None:
    messages = run.records["sum/0", 0].messages
    assert log_of(run)["samples"][0]["model_usage"] == {}  # the script counts none
    messages[0] = replace(messages[0], stats={"tokens_in": 7, "tokens_out": 2}, cut=True, ended="limit")
    messages[1] = replace(messages[1], cut=True)

    sample = log_of(run)["samples"][0]

    outputs = [event["output"] for event in sample["events"] if event["event"] == "model"]
    assert [each["usage"] and each["usage"]["total_tokens"] for each in outputs] == [9, None, None, None]
    assert [each["choices"][0]["stop_reason"] for each in outputs] == ["max_tokens", "unknown", "stop", "stop"]
    assert sample["model_usage"] == {}


def test_a_failed_discussion_has_its_error_and_no_score(run: Run) -> None:
    record = run.records["sum/1", 0]
    record.decision = None
    run.fail(("sum/1", 0), "the server is down", 2.0, outside=True)

    sample = log_of(run)["samples"][1]

    assert sample["error"]["message"] == "the server is down" and "sottovoce" not in sample["scores"]


def test_a_stopped_run_has_the_discussions_that_ended(run: Run) -> None:
    log = log_of(unfinished(run))

    assert log["status"] == "cancelled" and [each["id"] for each in log["samples"]] == ["sum/0"]
    assert (log["results"]["total_samples"], log["results"]["completed_samples"]) == (2, 1)


def test_inspect_reads_the_log(run: Run, tmp_path: Path) -> None:
    """With the real package; the file is then a log of its own, which Inspect writes as it read it."""
    inspect = pytest.importorskip("inspect_ai.log", reason="pip install inspect-ai")
    path = tmp_path / "2026-11-25T12-00-00_run.json"
    path.write_text(inspect_log(run))

    log = inspect.read_eval_log(str(path), resolve_attachments=True)

    assert len(inspect.list_eval_logs(str(tmp_path))) == 1  # as `inspect view` lists it: the name begins with a time
    first = log.samples[0]
    assert log.status == "success" and first.scores["sottovoce"].value == 1
    assert [each.metadata["agent"] for each in first.messages[1:]] == ["agent_1", "agent_2"] * 2
    assert inspect.read_eval_log_sample(str(path), id="sum/1", epoch=1).output.completion == "22"
    summaries = inspect.read_eval_log_sample_summaries(str(path))
    assert [each.completed for each in summaries] == [True, True]
    inspect.write_eval_log(log, str(tmp_path / "run.eval"))
    assert inspect.read_eval_log(str(tmp_path / "run.eval")).samples[0].messages == first.messages
