"""What a run's folder survives: a cut line, a log that lags behind, a full disk, two processes, limits, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.core.errors import RecordError
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Event
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import Log
from sottovoce.runs.runner import resume_run, run_all
from tests import warm

ROUNDS = 4
SETTINGS = Debate(rounds=ROUNDS)
QUESTION: Question = {"question": "What is 14 + 3 * 5 - 7?", "target": "22", "kind": "number", "id": "sum"}


def fresh() -> ScriptedChatModel:
    return ScriptedChatModel({f"agent_{i}": [f"The answer is {20 + i}."] * 999 for i in (1, 2)})


def begin(folder: Path, questions: int = 1, **more: Any) -> Run:
    asked: list[Question] = [{**QUESTION, "id": f"sum/{i}"} for i in range(questions)]
    head = new_manifest("debate", SETTINGS, asked, models=fresh(), **more)
    return Run.start(head, asked, folder)


def hold(run: Run, **more: Any) -> Run:
    run_all(run, run.manifest.own_settings(), run.store(), models=fresh(), **more)
    return run


class Stop(KeyboardInterrupt):
    """As Ctrl-C, at a moment that a test chooses."""


def stop_after(messages: int) -> Any:
    def observe(record: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Message) and len(record.messages) >= messages:
            raise Stop

    return observe


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that was stopped after its second round."""
    with pytest.raises(Stop):
        hold(begin(tmp_path / "run"), observe=stop_after(4))
    return tmp_path / "run"


def test_a_line_that_was_cut_off_is_said_and_done_again(stopped: Path) -> None:
    log = stopped / "log.jsonl"
    log.write_bytes(log.read_bytes() + b'{"line":"step","of":["su')

    run = load_run(stopped)
    assert run.notes == ["the last line of the log was cut off (24 bytes); what it recorded is run again"]
    assert hold(resume_run(run, models=fresh())).only.decision is not None
    assert load_run(stopped).notes == []


def test_a_line_that_is_being_written_is_not_cut_off(stopped: Path) -> None:
    writer = Log(stopped)
    with (stopped / "log.jsonl").open("ab") as log:
        log.write(b'{"line":"step","of":["su')
    try:
        run = load_run(stopped)
        assert (run.status, run.notes) == ("running", []) and len(run.only.messages) == 4
    finally:
        writer.close()
    assert load_run(stopped).notes == ["the last line of the log was cut off (24 bytes); what it recorded is run again"]


def test_another_process_is_refused_in_one_line(stopped: Path) -> None:
    holding = Log(stopped)
    try:
        with pytest.raises(RecordError, match=r"run '.*' is in use by another process; wait for it, or stop it"):
            resume_run(load_run(stopped), models=fresh())
        assert load_run(stopped).status == "running"
    finally:
        holding.close()


def test_a_run_that_went_on_elsewhere_since_it_was_read_is_not_held_twice(stopped: Path) -> None:
    stale = load_run(stopped)
    hold(resume_run(load_run(stopped), models=fresh()))

    with pytest.raises(RecordError, match="was continued by another process meanwhile; try again"):
        resume_run(stale, models=fresh())

    assert load_run(stopped).status == "done"


@pytest.mark.parametrize(
    ("field", "value"), [("prompts", "other"), ("settings", {"rounds": 9}), ("questions", "other"), ("scheme", "mad")]
)
def test_a_run_of_other_prompts_or_settings_is_not_gone_on_with(stopped: Path, field: str, value: Any) -> None:
    run = load_run(stopped)

    with pytest.raises(RecordError, match=f"was started with other {field}; start a new run, or restore them"):
        resume_run(run, run.manifest.model_copy(update={field: value}))

    assert load_run(stopped).status == "stopped"


def test_a_run_of_a_version_without_a_setting_goes_on_under_its_default(stopped: Path) -> None:
    now = load_run(stopped).manifest
    older = now.model_copy(update={"settings": {k: v for k, v in now.settings.items() if k != "bridge"}})

    assert older.check_same(now, "run") == []
    with pytest.raises(RecordError, match="other settings"):
        older.check_same(now.model_copy(update={"settings": {**now.settings, "bridge": ["x"]}}), "run")


def head_in(weights: str) -> RunManifest:
    return new_manifest("single", Single(weights=[weights], device=["cpu"]), [QUESTION])  # type: ignore[list-item]


def test_the_head_tells_formats_of_one_model_apart() -> None:
    packed, plain = (head_in(weights).models["agent_1"] for weights in ("int8", "float32"))

    assert (packed.format, packed.dtype, plain.format) == ("int8", "float32", "float32")
    assert packed.parameters == plain.parameters and packed.vocabulary == plain.vocabulary
    assert packed.weights != plain.weights


def test_another_version_of_a_library_is_a_note(stopped: Path) -> None:
    run = load_run(stopped)
    now = run.manifest.model_copy(update={"versions": {**run.manifest.versions, "torch": "9.9"}})

    went_on = resume_run(run, now)
    went_on.close()

    assert went_on.notes == [f"started with torch {run.manifest.versions['torch']}, resumed with 9.9"]


# Many discussions


def test_many_discussions_are_held_on_one_graph_and_read_back(tmp_path: Path) -> None:
    run = hold(begin(tmp_path / "run", 2, seeds=[1, 2]))

    results = load_run(tmp_path / "run").results()
    assert results == run.results() and len(results) == 4
    assert {(result.question, result.seed) for result in results} == {
        (f"sum/{i}", seed) for i in (0, 1) for seed in (1, 2)
    }
    assert all(result.answer == "21" and result.score == 0 and result.calls == 8 for result in results)


def test_a_failed_discussion_is_recorded_the_others_end_and_it_is_tried_again(tmp_path: Path) -> None:
    short = ScriptedChatModel({f"agent_{i}": ["The answer is 21."] * 6 for i in (1, 2)})  # four a discussion are wanted
    run = begin(tmp_path / "run", 2)
    run_all(run, SETTINGS, run.store(), models=short, limits=Limits(at_once=1))

    kept = load_run(tmp_path / "run")
    assert [record.status for record in kept.records.values()] == ["done", "failed"] and kept.status == "stopped"
    (failed,) = [result for result in kept.results() if result.failed]
    assert failed.question == "sum/1" and failed.score is None and failed.calls == 4
    error = kept.records["sum/1", 0].error
    assert error is not None and "is empty after" in error
    assert hold(resume_run(kept, models=fresh())).status == "done"


def test_a_limit_on_calls_stops_the_run_and_says_so(tmp_path: Path) -> None:
    run = hold(begin(tmp_path / "run", 3), limits=Limits(call_limit=10, at_once=1))

    kept = load_run(tmp_path / "run")
    assert (kept.status, kept.why) == ("stopped", "the call limit is reached: 10 of 10")
    assert run.cost.calls >= 10 and len(kept.unfinished) == 2
    again = hold(resume_run(load_run(tmp_path / "run"), models=fresh()), limits=Limits(call_limit=10))
    assert (again.why, again.cost.calls) == (kept.why, run.cost.calls)
    kept = load_run(tmp_path / "run")
    assert hold(resume_run(kept, models=fresh())).status == "done"


def test_a_full_disk_ends_the_run_in_one_line_and_what_was_said_before_stays(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: whoever writes past it gets an error like a full disk's."""
    program = f"""
import os, resource, signal
from pathlib import Path
from tests.runs.test_saved_runs import begin, hold
from sottovoce.core.errors import SottovoceError
from sottovoce.runs.limits import Limits
folder = Path({str(tmp_path / "run")!r})

def fill(record, event):
    if len(record.messages) == 2 and resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY:
        room = max(os.path.getsize(file) for file in folder.iterdir()) + 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    hold(begin(folder, 8), observe=fill, limits=Limits(at_once=4))
except SottovoceError as error:
    print(error)
"""
    done = warm.run(program)

    assert done.stdout.count("\n") == 1 and "cannot be written: " in done.stdout, done.stderr[-2000:]
    kept = load_run(tmp_path / "run")
    assert kept.spoken and kept.notes == []
    assert hold(resume_run(kept, models=fresh())).status == "done"


def test_a_limit_on_time_stops_the_run_and_says_so(tmp_path: Path) -> None:
    run = hold(begin(tmp_path / "run", 9), limits=Limits(time_limit=0.001, at_once=1))

    assert (run.status, run.why) == ("stopped", "the time limit is reached: 0.001 seconds")
