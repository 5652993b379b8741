"""Disks and files that fail under a run: one line, what was said before stays, and the run goes on from there."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.main import main
from sottovoce.core.errors import PayloadError, RecordError
from sottovoce.graphs.debate import Debate
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Event
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import resume_run, run_all
from tests.runs.support import QUESTION
from tests.runs.test_saved_runs import Stop


def stopped(model: str, folder: Path, protocol: str) -> Run:
    """A run of real payloads that was stopped after its first round."""
    settings = Debate(model=[model], protocol=protocol, rounds=2, max_tokens=8, temperature=[1.0])

    def stop(record: DiscussionRecord, event: Event) -> None:
        if isinstance(event, Message) and {each.agent for each in record.messages} == {"agent_1", "agent_2"}:
            raise Stop

    run = Run.start(new_manifest("debate", settings, [QUESTION]), [QUESTION], folder)
    with pytest.raises(Stop):
        run_all(run, settings, run.store(), observe=stop)
    return load_run(folder)


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def spoil(run: Run, how: Any) -> str:
    """Do that to the file of the first message; returns its digest."""
    ref = run.only.messages[0].payload
    assert ref is not None
    how(run.store()._path(ref.sha256))
    return ref.sha256


def go_on(folder: Path, **limits: Any) -> Run:
    run = load_run(folder)
    store = PayloadStore(folder / "payloads", cache_bytes=0)  # live copies would serve as well as the files
    run_all(resume_run(run), run.manifest.own_settings(), store, limits=Limits(**limits), alone=True)
    return run


@pytest.mark.parametrize(("how", "told"), [(remove, "is missing"), (cut, "is damaged")])
def test_a_lost_payload_is_told_with_its_message_and_heard_in_words_where_that_is_asked_for(
    model: str, tmp_path: Path, how: Any, told: str
) -> None:
    digest = spoil(stopped(model, tmp_path / "run", "sde"), how)

    with pytest.raises(PayloadError, match=rf"^message of 'agent_1', round 0: payload {digest} .*{told}") as refused:
        go_on(tmp_path / "run")
    said = str(refused.value)
    assert said.endswith("with `on_missing='words'` only its words are read") and "\n" not in said
    run = go_on(tmp_path / "run", lost="words")

    assert run.status == "done" and {message.round for message in run.only.messages} == {0, 1}
    # It was a line of the log alone.
    noted = {
        each.round
        for each in run.only.messages
        if "read agent_1 of round 1 in words: its payload is lost" in each.notes
    }
    assert noted == {1}


def test_words_go_on_without_their_payload(model: str, tmp_path: Path) -> None:
    spoil(stopped(model, tmp_path / "run", "nl"), remove)

    assert go_on(tmp_path / "run").status == "done"


def test_a_store_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    store = PayloadStore(tmp_path / "store")

    with pytest.raises(PayloadError, match=r"payloads cannot be written to '.*store': Not a directory"):
        store.write(sha256(b"1").hexdigest(), b"1")


def test_a_disk_that_is_full_when_a_payload_is_written_stops_the_run_and_says_how_it_goes_on(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    stopped(model, folder, "sde")

    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    line = "the disk is full; free some space, then continue with `sottovoce runs resume"
    with monkeypatch.context() as patched, pytest.raises(RecordError, match=line):
        patched.setattr(Path, "write_bytes", full)
        go_on(folder)

    assert {message.round for message in load_run(folder).only.messages} == {0}
    assert go_on(folder).status == "done"


@pytest.mark.parametrize("place", ["/proc/x", "FILE"])
def test_a_place_that_holds_no_run_is_refused_in_a_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    place = place.replace("FILE", str(tmp_path / "file"))

    code = main(["debate", "1 + 1?", "--save", place])

    (line,) = capsys.readouterr().err.splitlines()
    assert code in (1, 2) and place in line and (tmp_path / "file").read_text() == "mine"
