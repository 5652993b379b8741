"""A run that was falsified is found out, whatever was falsified; one that was not is left in peace."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.channels.message import Message
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.main import main
from sottovoce.datasets.samples import origin, samples
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.ia import IA
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import LOG
from sottovoce.runs.runner import resume_run, run_all
from sottovoce.verify.checks import compare_payloads, verify
from tests.chats import LLAMA_3_2, tokenizer_with
from tests.nodes.test_guard import monitor
from tests.runs import schemes
from tests.runs.support import QUESTION
from tests.support import tiny_model
from tests.thinkers import thinker
from tests.verify import tampering
from tests.verify.tampering import Forger

QUESTIONS = 2
FIRST = 1
"""Of two discussions this seed draws the first, which is the one that forgers change."""
Forge = Callable[[Forger], None]


def held(folder: Path, settings: Settings, n: int = QUESTIONS, **more: Any) -> Path:
    """A run on samples of arithmetic by the bundled model."""
    asked = samples("arithmetic", n, settings, 0)
    head = new_manifest("debate", settings, asked, origin=origin("arithmetic", n, 0))
    run = Run.start(head, asked, folder)
    run_all(run, settings, run.store(), **more)
    return folder


@pytest.fixture(scope="session")
def true_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Debate(agents=2, rounds=2, protocol="sde", temperature=[2.0], exact=True, max_tokens=48)
    return held(tmp_path_factory.mktemp("verify") / "run", settings)


@pytest.fixture
def copy(true_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(true_run, tmp_path / "run")
    return tmp_path / "run"


def findings(folder: Path, k: int = 0, **wanted: Any) -> list[str]:
    return list(map(str, verify(load_run(folder), k, **wanted).findings))


def _messages(folder: Path) -> int:
    return sum(len(record.messages) for record in load_run(folder).records.values())


def test_an_untouched_run_has_no_findings(true_run: Path) -> None:
    verified = verify(load_run(true_run), QUESTIONS)
    assert (verified.findings, verified.notes) == ([], [])
    assert (verified.discussions, verified.messages, verified.reruns) == (QUESTIONS, _messages(true_run), QUESTIONS)


def test_a_run_whose_models_think_says_the_same_again_and_names_all_payloads(tmp_path: Path) -> None:
    loaded = thinker()
    loaded.model.save_pretrained(tmp_path / "model")
    loaded.tokenizer.save_pretrained(tmp_path / "model")
    shape: dict[str, Any] = {"agents": 2, "rounds": 2, "thinking": 4, "max_tokens": 8, "share_thoughts": True}
    folder = held(tmp_path / "run", Debate(protocol="sde", model=[str(tmp_path / "model")], **shape), 1)
    assert findings(folder, 1) == []
    assert all(message.thoughts_payload for message in load_run(folder).only.messages)


def test_a_run_whose_chat_template_prints_the_date_is_resumed_and_verified_on_another_day(tmp_path: Path) -> None:
    # Seen: `runs verify` called such a run forged from the next day on.
    tiny_model().save_pretrained(tmp_path / "model")
    tokenizer_with(LLAMA_3_2).save_pretrained(tmp_path / "model")
    settings = Debate(model=[str(tmp_path / "model")], agents=2, rounds=2, max_tokens=8, exact=True, answer_turn="off")
    head = new_manifest("debate", settings, [QUESTION]).model_copy(update={"started": "2019-12-31T23:00:00+00:00"})
    run = Run.start(head, [QUESTION], tmp_path / "run")

    run_all(run, settings, run.store(), limits=Limits(call_limit=2))
    run = resume_run(load_run(tmp_path / "run"))
    run_all(run, settings, run.store())

    verified = verify(load_run(tmp_path / "run"), 1)
    assert (verified.findings, verified.notes, verified.reruns) == ([], [], 1)
    log = tmp_path / "run" / LOG
    log.write_bytes(log.read_bytes().replace(b"2019-12-31", b"2019-12-30"))
    assert "re-run" in " ".join(findings(tmp_path / "run", 1))


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (tampering.relabelled, "the text: found .*!"),
        (tampering.unasked, "a message: found 'said before it was asked for'"),
        (tampering.flipped_byte, "the payload: found .* is damaged"),
        (tampering.removed_without_its_payloads, "payloads: payload .*: found 'named by no message'"),
        (tampering.doubled_step, "a step of the graph: found .a second time"),
        (tampering.prompts, "the digest of the prompts: found 0000"),
        (tampering.seconds, "the digest of all lines before: found"),
    ],
)
def test_what_contradicts_the_rest_of_the_folder_is_found_without_a_model(copy: Path, forge: Forge, found: str) -> None:
    forge(forger := Forger(copy))
    forger.put() if forge is tampering.seconds else forger.write()
    lines = findings(copy)
    assert any(re.search(found, line) for line in lines), lines


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (tampering.text, "re-run: found"),
        (tampering.decision, "decision.answer, re-run: found 7"),
        (tampering.prompt, "the prompt.*, re-run: found .*Think hard"),
        pytest.param(tampering.seed, "token .* re-run: found", marks=pytest.mark.slow),
        (tampering.forged_payload, "the digest of the payload, re-run: found"),
        (tampering.weights, r"the model of agent_1.weights: found 0000000000000000"),
    ],
)
def test_what_fits_the_folder_and_was_not_said_by_the_models_is_found_by_holding_it_anew(
    copy: Path, forge: Forge, found: str
) -> None:
    forge(forger := Forger(copy))
    forger.write()
    assert findings(copy) == [], "the forger left a trace"
    lines = findings(copy, 1, seed=FIRST)
    assert any(re.search(found, line) for line in lines), lines


def test_the_command_tells_where_what_was_found_and_how_many(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "verify", str(copy), "--no-model"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"verified: 2 discussions, {_messages(copy)} messages, 0 re-run; 0 findings"
    )
    tampering.flipped_byte(Forger(copy))
    assert main(["runs", "verify", str(copy), "--no-model"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert re.match(r"FINDING question arithmetic/0/\d, seed 0, agent_\d, round \d, \w+: the payload: found", first)
    assert last.endswith("0 re-run; 1 finding")


def test_a_run_that_was_stopped_and_cut_off_and_resumed_has_no_findings(tmp_path: Path) -> None:
    settings = Debate(agents=2, rounds=1, max_tokens=48)
    held(tmp_path / "run", settings, 2, limits=Limits(call_limit=1, at_once=1))
    log = tmp_path / "run" / LOG
    log.write_bytes(log.read_bytes() + b'{"line":"st')
    assert findings(tmp_path / "run") == []
    run = resume_run(load_run(tmp_path / "run"))
    run_all(run, settings, run.store())
    assert load_run(tmp_path / "run").status == "done" and findings(tmp_path / "run") == []


@pytest.mark.parametrize(
    "protocol", ["cipher", *(pytest.param(each, marks=pytest.mark.slow) for each in ("nl", "sde", "hidden"))]
)
def test_a_run_by_each_protocol_that_was_not_exact_has_no_findings_held_anew_exactly(
    tmp_path: Path, protocol: str
) -> None:
    held(tmp_path / "run", Debate(agents=2, rounds=2, protocol=protocol, max_tokens=48), 1)
    assert findings(tmp_path / "run", 1) == []


def test_a_watched_run_has_no_findings(tmp_path: Path) -> None:
    """The monitor judges again by the payloads, and has the agents asked again as it had."""
    monitor("all", 0.0005).model_copy(update={"measured": Measure()}).save(tmp_path / "monitor.json")
    watched = Debate(agents=2, rounds=1, max_tokens=32, watch=[str(tmp_path / "monitor.json")], intervention="again")
    held(tmp_path / "run", watched.model_copy(update={"temperature": [2.0]}), 1)
    assert load_run(tmp_path / "run").only.interventions and findings(tmp_path / "run") == []


@pytest.mark.parametrize(("settings", "replies"), [schemes.ASKED, schemes.DEALT])
def test_schemes_with_roles_groups_and_answer_turns_are_led_again_as_they_were(
    tmp_path: Path, settings: Settings, replies: schemes.Replies
) -> None:
    asked: Question = {**QUESTION, "documents": {"agent_1": ["a"], "agent_2": ["b"]}}
    schemes.held(settings, replies, tmp_path, question=asked if isinstance(settings, IA) else QUESTION)
    verified = verify(load_run(tmp_path / "run"), 1)
    assert verified.findings == [] and verified.reruns == 0
    assert verified.notes[-1].endswith("not re-run: not everything was said by local models (hosted)")


@pytest.mark.parametrize(
    ("protocol", "temperature", "best", "margin", "excused"),
    [
        ("nl", 0.0, -0.5, 1e-6, True),
        ("nl", 0.0, -0.5, 8e-5, False),
        ("nl", 0.0, -9.0, 8e-5, True),  # rounding grows with the size of the numbers
        ("nl", 0.01, -0.5, 1e-6, False),
        ("sde", 1.0, -0.5, 1e-6, False),
    ],
)
def test_parting_where_two_tokens_were_level_is_a_note_unless_they_were_drawn(
    tmp_path: Path, protocol: str, temperature: float, best: float, margin: float, excused: bool
) -> None:
    """A draw falls on one side of its uniform number however level the two best tokens are; a mean is not drawn."""
    store = PayloadStore(tmp_path)
    said = [store.put(_says(protocol, ids, best, margin)) for ids in ([5, 6, 7], [5, 8, 9])]
    ours, theirs = (Message("a", 0, "answer", "", stats={"temperature": temperature}, payload=each) for each in said)
    finding, note = compare_payloads(ours, theirs, "float32", False, "here")
    assert (finding is None) == bool(note) == excused
    if finding:
        assert str(finding) == "here: token 2, re-run: found 6, expected 8"


def _says(protocol: str, ids: list[int], best: float, margin: float) -> Payload:
    """Tokens (3,) and at each the two best (3, 2), so far apart."""
    top = torch.tensor([[best, best - margin]] * len(ids))
    spans = torch.zeros(len(ids), 2, dtype=torch.long)
    return Payload(Label(protocol, "", "", "", ""), {"ids": torch.tensor(ids), "spans": spans, "top_logprobs": top})


def test_fields_that_a_log_may_leave_out_are_no_error_of_ours(copy: Path) -> None:
    # Found by fuzzing: each was a KeyError or a TypeError.
    forger = Forger(copy)
    said = next(event for line in forger.lines for event in line.get("events", []) if event["event"] == "said")
    del said["epoch"], said["attempt"], said["source"], forger.last["why"]
    forger.last["counts"] = None
    forger.put()
    assert any("digest" in each for each in findings(copy))
