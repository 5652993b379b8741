"""A run that was falsified is found out, whatever was falsified; one that was not is left in peace."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.sde import SDE
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.cli.main import main
from sottovoce.core.errors import RecordError
from sottovoce.datasets.question_files import read_file
from sottovoce.datasets.samples import origin, samples
from sottovoce.models import Sampling
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.question import Question
from sottovoce.report.comparison import rows_of
from sottovoce.report.page import SEAL, SEALED, seal_of
from sottovoce.report.report import report
from sottovoce.report.sources import gathered
from sottovoce.runs.allowed import Trust
from sottovoce.runs.card import card
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import LOG
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.read import load_run
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from sottovoce.runs.start import resume_run
from sottovoce.settings import IA, Debate, Settings
from sottovoce.verify.checks import Checks, verify
from sottovoce.verify.payloads import _label, _tokens
from sottovoce.verify.rerun import token_difference
from tests.nodes.test_guard import monitor
from tests.runs import schemes
from tests.runs.support import QUESTION
from tests.support import say, tiny_loaded
from tests.verify import tampering
from tests.verify.tampering import Forger

QUESTIONS, MESSAGES = 3, 12
FIRST = 1
"""Of three discussions this seed draws the first, which is the one that forgers change."""
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
    return list(map(str, verify(load_run(folder), Checks(k, **wanted)).findings))


def test_an_untouched_run_has_no_findings(true_run: Path) -> None:
    verified = verify(load_run(true_run), Checks(QUESTIONS))

    assert (verified.findings, verified.notes) == ([], [])
    assert (verified.discussions, verified.messages, verified.reruns) == (QUESTIONS, MESSAGES, QUESTIONS)


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (tampering.vote, r"the decision's votes\[0\].answer: found 7"),
        (tampering.decision, "the decision's answer: found 7"),
        (tampering.score, "the decision's score: found"),
        (tampering.target, "question arithmetic/0/0: the question's target: found"),
        (tampering.flipped_byte, "the payload: found .* is damaged"),
        (tampering.removed_discussion, "question arithmetic/0/1: a question: found none, expected one"),
        (tampering.removed_without_its_payloads, "payloads: payload .*: found 'named by no message'"),
        (tampering.prompt, "the prompt: found .*Think hard"),
        (tampering.tokens_out, "tokens_out: found"),
        (tampering.entropy, "the summary.mean_entropy: found 0.5"),
        (tampering.doubled_step, "a step of the graph: found .a second time"),
        (tampering.reused, "tokens_reused: found 99999, expected .from 0 to"),
        (tampering.said_hotter, "the message's temperature: found 1.5, expected 2.0"),
        (tampering.prompts, "the digest of the prompts: found 0000"),
        (tampering.seconds, "the digest of all lines before: found"),
    ],
)
def test_what_contradicts_the_rest_of_the_folder_is_found_without_a_model(copy: Path, forge: Forge, found: str) -> None:
    forge(Forger(copy))

    lines = findings(copy)
    assert any(re.search(found, line) for line in lines), lines


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (tampering.text, "the message's text, re-run: found .*Thus"),
        pytest.param(
            tampering.wrong_made_right,
            "the message's text, re-run: found .*So the answer is",
            marks=pytest.mark.slow,
        ),
        pytest.param(tampering.temperature, "token .* re-run: found", marks=pytest.mark.slow),
        (tampering.seed, "token .* re-run: found"),
        (tampering.forged_payload, "the digest of the payload, re-run: found"),
        pytest.param(tampering.swapped, "re-run: found", marks=pytest.mark.slow),
        pytest.param(tampering.tokens_in, "the message's tokens_in, re-run: found", marks=pytest.mark.slow),
        (tampering.weights, "the model's weights: found 0000000000000000"),
        (tampering.table_size, "the model's table: found 1, expected"),
    ],
)
def test_what_fits_the_folder_and_was_not_said_by_the_models_is_found_by_holding_it_anew(
    copy: Path, forge: Forge, found: str
) -> None:
    forge(Forger(copy))

    assert findings(copy) == [], "the forger left a trace"
    lines = findings(copy, 1, seed=FIRST)
    assert any(re.search(found, line) for line in lines), lines


def test_other_versions_are_noted_and_a_card_of_the_run_finds_them(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(card(load_run(copy))))
    tampering.versions(Forger(copy))

    verified = verify(load_run(copy), Checks(0, card=tmp_path / "card.json"))

    assert any("used other versions: torch 9.9" in note for note in verified.notes)
    assert "the card's versions.torch" in [each.subject for each in verified.findings]


def test_the_visible_figures_of_a_report_are_compared_with_the_run(true_run: Path, tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    html.write_text(report(gathered([str(true_run)])))
    assert findings(true_run, card=html) == []
    shown = rows_of({"run": load_run(true_run)}, failed=False)[0]

    html.write_text(html.read_text().replace(f"<td>{shown[3]}</td>", "<td>99.0%</td>"))
    assert [line.split(": found")[0] for line in findings(true_run, card=html)] == [
        "report.html: the page's own digest", "report.html: the figures of the page",
    ]  # fmt: skip
    text = html.read_text()
    html.write_text(SEALED.sub(SEAL.format(seal_of(text)), text))  # sealed again
    assert [line.split(": found")[0] for line in findings(true_run, card=html)] == [
        "report.html: the figures of the page"
    ]


@pytest.mark.parametrize("given", [None, "file"])
def test_a_dropped_last_question_of_a_file_is_found(tmp_path: Path, given: str | None) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(
        "".join(
            json.dumps({"question": f"What is {i} + 1?", "target": str(i + 1), "id": f"q{i}"}) + "\n" for i in range(3)
        )
    )
    taken = read_file(file).take()
    settings = Debate(rounds=1, max_tokens=6, answer_turn=False)
    run = Run.start(
        new_manifest("debate", settings, taken.questions, origin=taken.taken), taken.questions, tmp_path / "run"
    )
    run_all(run, settings, run.store())
    path = file if given else None
    assert findings(tmp_path / "run", questions=path) == []

    forger = Forger(tmp_path / "run")
    forger.lines = [
        line for line in forger.lines if "q2" not in (line.get("of") or [line.get("question", {}).get("id")])
    ]
    forger.write()

    lines = findings(tmp_path / "run", questions=path)
    assert "the run: the number of questions: found 2, expected '3, as their origin says'" in lines
    assert any(line.startswith("question q2: a question: found none") for line in lines) == bool(given)


def test_the_command_tells_where_what_was_found_and_how_many(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "export", str(copy), str(tmp_path / "card.json")]) == 0
    assert main(["runs", "verify", str(copy), "--no-model", "--card", str(tmp_path / "card.json")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"verified: 3 discussions, {MESSAGES} messages, 0 re-run; 0 findings"
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


def test_a_log_from_before_there_were_digests_is_verified_without_them(copy: Path) -> None:
    forger = Forger(copy)
    forger.write()
    forger.last.pop("digest")
    (copy / LOG).write_text("".join(json.dumps(line) + "\n" for line in forger.lines))

    assert findings(copy) == []


def test_fields_that_a_log_may_leave_out_are_no_error_of_ours(copy: Path) -> None:
    # Found by fuzzing: each was a KeyError or a TypeError.
    forger = Forger(copy)
    said = next(event for line in forger.lines for event in line.get("events", []) if event["event"] == "said")
    del said["epoch"], said["attempt"], said["source"], forger.last["why"]
    forger.last["counts"] = None
    (copy / LOG).write_text("".join(json.dumps(line) + "\n" for line in forger.lines))

    assert any("digest" in each for each in findings(copy))


@pytest.mark.parametrize(
    "protocol", ["cipher", *(pytest.param(each, marks=pytest.mark.slow) for each in ("nl", "sde", "hidden"))]
)
def test_a_run_by_each_protocol_that_was_not_exact_has_no_findings_held_anew_exactly(
    tmp_path: Path, protocol: str
) -> None:
    held(tmp_path / "run", Debate(agents=2, rounds=2, protocol=protocol, max_tokens=48), 1)

    assert findings(tmp_path / "run", 1) == []


def test_a_replay_knows_the_temperature_of_models_given_in_code(tmp_path: Path) -> None:
    """The first agent decided in it, whatever its temperature."""
    heat = {"agent_1": 0.9, "agent_2": 0.3}
    models = {name: HookedChatModel(device="cpu", temperature=each, max_tokens=2) for name, each in heat.items()}
    held(tmp_path / "run", Debate(agents=2, rounds=1, rule="lowest_temperature"), 1, models=models)
    (record,) = load_run(tmp_path / "run").records.values()

    assert record.decision and record.decision["why"].startswith("agent_2 has the lowest temperature")
    assert findings(tmp_path / "run") == []


def test_an_earlier_version_did_not_say_that_temperatures_were_equal(tmp_path: Path) -> None:
    settings = Debate(agents=2, rounds=1, rule="lowest_temperature", temperature=[0.5], max_tokens=2)
    forger = Forger(held(tmp_path / "run", settings, 1))
    decision = forger.decided(forger.ids[0])
    assert "agent_1 is the first with the lowest" in decision["why"]
    decision["why"] = decision["why"].replace("is the first with", "has")
    forger.write()

    assert findings(tmp_path / "run") == []


@pytest.mark.slow
def test_runs_in_fewer_bytes_and_under_a_probe_have_no_findings(tmp_path: Path) -> None:
    given: dict[str, Any] = {"rounds": 2, "protocol": "sde", "layers": (0,), "temperature": [1.0], "exact": True}
    given |= {"max_tokens": 6, "answer_turn": False, "carry_as": "int8", "keep": 0.5, "rank": 2}
    held(tmp_path / "small", Debate(**given), n=2)
    held(tmp_path / "shuffled", Debate(**given, probe="shuffled", probe_from="small"), n=2)

    for name in ("small", "shuffled"):
        verified = verify(load_run(tmp_path / name), Checks(reruns=1, trust=Trust(trust_paths=True)))

        assert (verified.findings, verified.reruns) == ([], 1)
    shutil.rmtree(tmp_path / "small")
    (found,) = verify(load_run(tmp_path / "shuffled"), Checks(reruns=1, trust=Trust(trust_paths=True))).findings
    assert "the run of --probe-from cannot be read" in str(found)


@pytest.mark.parametrize(
    ("spans", "outside"),
    [
        ([(0, 2), (2, 3), (3, 5)], None),
        ([(0, 2), (2, 2), (2, 5)], None),  # a token without text
        ([(0, 2), (2, 3), (3, 6)], (3, 6)),
        ([(0, 2), (2, 3), (6, 6)], (6, 6)),
        ([(-1, 2), (2, 3), (3, 5)], (-1, 2)),
        ([(0, 2), (3, 2), (3, 5)], (3, 2)),
    ],
)
def test_spans_reach_from_the_first_to_the_last_character_of_the_text(
    spans: list[tuple[int, int]], outside: tuple[int, int] | None
) -> None:
    """A span that ended one character behind the text was accepted."""
    tensors = {"ids": torch.tensor([5, 6, 7]), "spans": torch.tensor(spans)}
    payload = Payload(Label("nl", "It is", "", "", ""), tensors)

    differences = _label(Message("a", 0, "answer", "It is"), payload, {"protocol": "nl"}, None)
    found = [each for each in differences if each[0] == "the payload's spans"]

    assert found == ([] if outside is None else [("the payload's spans", outside, "within the text's 5 characters")])


def test_parts_of_compressed_states_that_do_not_fit_together_are_found(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    message = say(SDE(layers=(0,), keep=0.5), tiny_loaded(), store, sampling=Sampling(1.0, seed=3))
    assert message.payload is not None
    payload = message.payload.load(store)
    kept = payload.tensors["kept"]

    def told(**tensors: torch.Tensor) -> list[str]:
        return [what for what, _, _ in _tokens(Payload(payload.label, {**payload.tensors, **tensors}))]

    assert told() == []
    assert told(kept=kept[:-1]) == ["the tokens of the tensor.states"]
    assert told(kept=kept + len(payload)) == ["the places of the kept tokens"]
    assert told(**{"states.scale": torch.ones(9)}) == ["the tensor states"]


def test_a_watched_run_has_no_findings(tmp_path: Path) -> None:
    """The monitor judges again by the payloads, and has the agents asked again as it had."""
    monitor("all", 0.0005).model_copy(update={"measured": Measure()}).save(tmp_path / "monitor.json")
    watched = Debate(agents=2, rounds=1, max_tokens=32, watch=[str(tmp_path / "monitor.json")], intervention="again")
    held(tmp_path / "run", watched.model_copy(update={"temperature": [2.0]}), 1)

    assert load_run(tmp_path / "run").only.interventions and findings(tmp_path / "run") == []


@pytest.mark.parametrize(("rate", "humans"), [("random:0.001", 0), ("random:1", 2)])
def test_a_run_whose_agents_may_be_handed_to_a_person_has_no_findings(tmp_path: Path, rate: str, humans: int) -> None:
    # Nobody replies during a verification, and the replay was refused for it, also if no person had spoken.
    settings = Debate(agents=2, rounds=1, max_tokens=32, watch=[rate], intervention="human", cap=2)
    held(tmp_path / "run", settings, 1, person=lambda request: "Answer: 7")

    assert sum(message.source == "human" for message in load_run(tmp_path / "run").only.messages) == humans
    assert findings(tmp_path / "run", 1) == []


@pytest.mark.parametrize(("settings", "replies"), [schemes.JUDGED, schemes.ASKED, schemes.DEALT])
def test_schemes_with_roles_groups_and_answer_turns_are_led_again_as_they_were(
    tmp_path: Path, settings: Settings, replies: schemes.Replies
) -> None:
    asked: Question = {**QUESTION, "documents": {"agent_1": ["a"], "agent_2": ["b"]}}
    schemes.held(settings, replies, tmp_path, question=asked if isinstance(settings, IA) else QUESTION)

    verified = verify(load_run(tmp_path / "run"), Checks(1))

    assert verified.findings == [] and verified.reruns == 0
    assert verified.notes[-1].endswith("not re-run: not everything was said by local models (hosted)")


def test_the_questions_of_a_file_are_compared_with_it(tmp_path: Path) -> None:
    schemes.held(*schemes.JUDGED, tmp_path, question={**QUESTION, "id": "sum"})
    (tmp_path / "asked.jsonl").write_text(json.dumps({**QUESTION, "id": "sum", "target": "21"}) + "\n")

    (line,) = findings(tmp_path / "run", questions=tmp_path / "asked.jsonl")
    assert line == "question sum: the question's target: found 22, expected 21"


def test_what_is_no_table_and_no_card_is_refused_in_one_line_and_a_run_that_goes_on_has_none(
    true_run: Path, copy: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("a,b\n1,2\n")
    with pytest.raises(RecordError, match="is not a table of results: expected the columns question, seed"):
        findings(true_run, table=tmp_path / "other")
    with pytest.raises(RecordError, match="is not a card of a run: it is not JSON"):
        findings(true_run, card=tmp_path / "other")

    log = copy / LOG
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:6]))
    with pytest.raises(
        RecordError,
        match="3 discussions that are not over; a card needs a run that is; continue it with `sottovoce runs resume",
    ):
        card(load_run(copy))
    assert verify(load_run(copy), Checks(0)).notes[-1].startswith("3 of 3 discussions are not over")


def test_a_card_is_read_out_of_a_report_by_the_name_of_its_run(true_run: Path, tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    html.write_text(report(gathered([str(true_run)])))
    assert findings(true_run, card=html) == []

    html.write_text(html.read_text().replace('"rounds":2', '"rounds":3'))
    lines = findings(true_run, card=html)
    assert [line.split(": found")[0] for line in lines] == [
        "report.html: the page's own digest", "report.html: the card's own digest",
        "report.html: the card's settings.rounds",
    ]  # fmt: skip
    html.write_text(html.read_text().replace('{"run":', '{"other":'))
    with pytest.raises(RecordError, match="has no card of 'run'; it has those of 'other'"):
        findings(true_run, card=html)


@pytest.mark.parametrize(("margin", "told"), [(1e-6, "differs from token 2 on"), (0.5, "")])
def test_parting_where_two_tokens_were_level_is_a_note_and_elsewhere_a_finding(margin: float, told: str) -> None:
    ours, theirs = (_says(ids, margin) for ids in ([5, 6, 7], [5, 8, 9]))

    finding, note = token_difference(ours, theirs, Message("a", 0, "answer", ""), "float32", ("here",))

    assert told in note and (finding is None) == bool(note)
    if finding:
        assert str(finding) == "here: token 2 (margin 0.5 nats), re-run: found 6, expected 8"


@pytest.mark.parametrize(
    ("protocol", "stats", "excused"),
    [
        ("nl", {}, True),
        ("nl", {"temperature": 0.0}, True),
        ("nl", {"temperature": 0.01}, False),
        ("sde", {"temperature": 1.0}, False),
        ("cipher", {"temperature": 1.0}, True),
    ],
)
def test_a_drawn_token_has_no_margin_that_explains_another_one(
    protocol: str, stats: dict[str, float], excused: bool
) -> None:
    """A draw falls on one side of its uniform number however level the two best tokens are; a mean is not drawn."""
    message = Message("a", 0, "answer", "", stats=stats, payload=PayloadRef(protocol, "0" * 64, "0" * 64, 3, 0))
    ours, theirs = (_says(ids, 1e-6) for ids in ([5, 6, 7], [5, 8, 9]))

    finding, note = token_difference(ours, theirs, message, "float32", ("here",))

    assert (finding is None) == bool(note) == excused
    if finding:
        assert str(finding) == "here: token 2 (margin 1e-06 nats), re-run: found 6, expected 8"


@pytest.mark.parametrize("which", [0, 1])
def test_the_margin_is_that_of_the_first_token_that_differs(which: int) -> None:
    ours, theirs = (_says(ids, 0.5) for ids in ([5, 6, 7], [5, 8, 9]))
    ours.tensors["top_logprobs"][which] = torch.tensor([-0.5, -0.5])

    finding, _ = token_difference(ours, theirs, Message("a", 0, "answer", ""), "float32", ("here",))

    assert (finding is None) == (which == 1)


def _says(ids: list[int], margin: float) -> Payload:
    """Tokens (3,) and at each the two best (3, 2), so far apart."""
    top = torch.tensor([[-0.5, -0.5 - margin]] * len(ids))
    return Payload(Label("nl", "", "", "", ""), {"ids": torch.tensor(ids), "top_logprobs": top})


def test_an_exported_table_that_no_longer_fits_is_found(true_run: Path, tmp_path: Path) -> None:
    tampering.edited_table(true_run, tmp_path / "results.csv")

    (line,) = findings(true_run, table=tmp_path / "results.csv")
    assert line.startswith("results.csv, question arithmetic/0/0, seed 0: answer: found 7")


def test_an_edited_card_is_found_field_by_field_though_it_is_sealed_again(true_run: Path, tmp_path: Path) -> None:
    tampering.edited_card(true_run, tmp_path / "card.json")

    lines = findings(true_run, card=tmp_path / "card.json")
    assert [line.partition(": found")[0] for line in lines] == [
        "card.json: the card's accuracy",
        "card.json: the card's settings.rounds",
    ]
