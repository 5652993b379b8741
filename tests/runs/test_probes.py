"""A probed run hears the payloads of another run's questions: beside it, finished, of its scheme, and never its own."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sottovoce.analysis.compare import compare
from sottovoce.channels.options import FROM_A_RUN
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Trust
from sottovoce.datasets.samples import origin, samples
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.probes import COMPARE, deranged
from sottovoce.nodes.question import Question
from sottovoce.report.paper import compared
from sottovoce.report.tables import markdown
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.probe_source import read_donors
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import run_all, start_run
from sottovoce.verify.checks import verify
from tests.verify.tampering import Forger

COMMON = {"rounds": 2, "max_tokens": 6, "temperature": 1, "answer-turn": "off", "exact": True}
ROWS = {
    "sde": {"scheme": "debate", "protocol": "sde", "layers": [0]},
    "shuffled": {"scheme": "debate", "protocol": "sde", "layers": [0], "probe": "shuffled", "probe_from": "sde"},
}


def held(folder: Path, model: str, limit: int = 2, rows: Any = ROWS, **more: Any) -> dict[str, Run]:
    file = folder / "probes.yaml"
    given = {"questions": {"sample": "arithmetic", "limit": limit}, "rows": rows}
    file.write_text(yaml.safe_dump({**given, "settings": {**COMMON, "model": model}}, sort_keys=False))
    runner = RowRunner(folder / "kept")
    return run_experiment(read_experiment(file), runner, **more)[0]


def said(run: Run, round: int) -> list[str]:
    return [each.text for record in run.records.values() for each in record.messages if each.round == round]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    folder = tmp_path_factory.mktemp("probes")
    held(folder, model)
    return folder / "kept"


def test_a_shuffled_run_begins_alike_hears_otherwise_and_says_so(kept: Path) -> None:
    plain, shuffled = load_run(kept / "sde"), load_run(kept / "shuffled")

    assert said(plain, 0) == said(shuffled, 0)
    assert said(plain, 1) != said(shuffled, 1)
    notes = next(iter(shuffled.records.values())).notes
    assert "agent_1 hears others under the probe 'shuffled', from the run 'sde'" in notes and COMPARE in notes


def test_donors_are_a_permutation_of_the_other_questions_at_the_same_place(kept: Path) -> None:
    donors, run = read_donors(kept / "sde", "sde"), load_run(kept / "sde")

    for record in run.records.values():
        for message in record.messages:
            place = donors.said[0][message.agent, message.act, message.round]
            given = {question: donors.of(message, question, 0) for question in place}
            assert {each.sha256 for each in given.values()} == {each.sha256 for each in place.values()}
            assert all(given[question] != ref for question, ref in place.items())


@pytest.mark.parametrize("n", [2, 3, 20])
def test_a_derangement_has_no_fixed_question_uses_each_once_and_pairs_like_lengths(n: int) -> None:
    lengths = {f"q{i}": (i * 37) % n for i in range(n)}

    found = deranged(lengths, "a")

    assert sorted(found.values()) == sorted(lengths) and all(one != other for one, other in found.items())
    assert max(abs(lengths[one] - lengths[other]) for one, other in found.items()) <= (2 if n % 2 else 1)
    assert found == deranged(dict(reversed(lengths.items())), "a")
    assert n < 4 or any(
        deranged(dict.fromkeys(lengths, 5), seed) != deranged(dict.fromkeys(lengths, 5), "a") for seed in "bcd"
    )


def test_a_donor_may_say_the_same_words_and_questions_that_the_run_lacks_get_the_nearest_length(kept: Path) -> None:
    donors, run = read_donors(kept / "sde", "sde"), load_run(kept / "sde")
    message = next(iter(run.records.values())).messages[0]
    place = donors.said[0][message.agent, message.act, message.round]
    ref = message.payload
    assert ref is not None
    same = {"a": ref, "b": ref, "c": replace(ref, sha256="0" * 64, tokens=99)}
    terse = replace(donors, said={0: {(message.agent, message.act, message.round): same}})

    assert terse.of(message, "a", 0) in (ref, same["c"]) and terse.of(message, "unknown", 0) == ref
    assert donors.of(replace(message, round=9), next(iter(place)), 0) in place.values()


def test_questions_of_the_same_words_about_other_documents_give_to_one_another(kept: Path, tmp_path: Path) -> None:
    forger = Forger(shutil.copytree(kept / "sde", tmp_path / "sde"))
    for number, line in enumerate(each for each in forger.lines if each["line"] == "question"):
        line["question"] |= {"question": "How many are there?", "documents": [f"There are {number}."]}
    forger.write()

    donors, run = read_donors(forger.folder, "sde"), load_run(forger.folder)

    message = next(iter(run.records.values())).messages[0]
    own = donors.questions[run.questions()[0]["id"]][1]
    assert len({content for _, content in donors.questions.values()}) == 2
    assert donors.of(message, own, 0) != message.payload


def test_the_donors_are_named_by_the_message_that_heard_them_and_noted_with_both_lengths(kept: Path) -> None:
    record = next(iter(load_run(kept / "shuffled").records.values()))

    first, last = record.messages[0], record.messages[-1]
    assert not first.donors and last.donors
    assert any(
        re.fullmatch(r"hears agent_1 of round 1 \(6 tokens\) by another question's 6 tokens", note)
        for note in last.notes
    )


def test_messages_that_carry_nothing_or_were_withdrawn_give_nothing_and_one_without_words_gives(
    kept: Path, tmp_path: Path
) -> None:
    shutil.copytree(kept / "sde", tmp_path / "run")
    log = tmp_path / "run" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = [event for line in lines if line["line"] == "step" for event in line["events"] if event["event"] == "said"]
    by_place: dict[str, list[Any]] = {}
    for event in said:
        by_place.setdefault(json.dumps([event["agent"], event["act"], event["round"]]), []).append(event)
    gone, empty, silent = list(by_place.values())[:3]
    for event in gone:
        event["withdrawn"] = True
    for event in empty:
        event["payload"] |= {"tokens": 0, "positions": 0}
    for event in silent:
        event["payload"] |= {"tokens": 0, "positions": 5}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    places = {json.dumps(place) for place in read_donors(tmp_path / "run", "sde").said[0]}
    assert places == {place for place, events in by_place.items() if events is not gone and events is not empty}


def test_a_run_of_one_question_is_no_donor(tmp_path: Path, model: str) -> None:
    held(tmp_path, model, limit=1, rows={"sde": ROWS["sde"]})

    with pytest.raises(UsageError, match="has payloads about one question; `probe_from=` needs two or more"):
        read_donors(tmp_path / "kept" / "sde", "sde")


@pytest.mark.parametrize(
    ("protocol", "probe"),
    [
        ("cipher", "shuffled"),
        *(pytest.param("sde", probe, marks=pytest.mark.slow) for probe in ("noise", "shuffled", "noise_cov")),
    ],
)
def test_a_probed_run_has_the_same_texts_alone_and_beside_others_and_verifies(
    tmp_path: Path, model: str, protocol: str, probe: str
) -> None:
    common: dict[str, Any] = {
        "rounds": 2,
        "protocol": protocol,
        "max_tokens": 6,
        "answer_turn": "off",
        "model": [model],
    }
    common |= {"layers": (0,)} if protocol == "sde" else {}
    asked = samples("arithmetic", 3, Debate(**common), 0)

    def run_in(name: str, at_once: int, **more: Any) -> Run:
        settings = Debate(**common, exact=True, temperature=[1.0], **more)
        run = start_run(
            new_manifest("debate", settings, asked, origin=origin("arithmetic", 3, 0)), asked, tmp_path / name
        )
        run_all(run, settings, run.store(), limits=Limits(at_once=at_once))
        return run

    if probe in FROM_A_RUN:
        run_in("plain", 8)
    more = {"probe": probe} | ({"probe_from": "plain"} if probe in FROM_A_RUN else {})
    one, eight = (run_in(f"at-{n}", n, **more) for n in (1, 8))

    assert said(one, 1) == said(eight, 1)
    for name in ("at-1", "at-8"):
        verified = verify(load_run(tmp_path / name), 1, trust=Trust(trust_paths=True))
        assert list(map(str, verified.findings)) == []


def test_a_probing_message_that_names_no_donor_is_found_by_holding_it_anew(kept: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(kept, tmp_path / "kept") / "shuffled"
    forger = Forger(copy)
    for event in forger.events("said"):
        event.pop("donors", None)
    forger.write()

    found = verify(load_run(copy), 2, trust=Trust(trust_paths=True)).findings
    assert any("the message.donors, re-run: found []" in str(each) for each in found)


def test_a_run_in_which_a_question_failed_gives_donors(tmp_path: Path) -> None:
    settings = Debate(rounds=1, protocol="sde", layers=(0,), max_tokens=4, answer_turn="off")
    asked: list[Question] = [{"question": "What is 1 + 3?", "id": "sum"}, {"question": "word " * 5000, "id": "long"}]
    asked.append({"question": "What is 2 + 3?", "id": "other"})
    run = start_run(new_manifest("debate", settings, asked), asked, tmp_path / "a")
    run_all(run, settings, run.store())

    assert (run.status, run.counts.failed) == ("stopped", 1)
    assert len(read_donors(tmp_path / "a", "sde").said[0]) == 2


def test_what_is_no_donor_is_refused_before_anybody_speaks(kept: Path, tmp_path: Path, model: str) -> None:
    settings = Debate(protocol="sde", layers=(0,), probe="shuffled", probe_from=str(tmp_path), model=[model])
    run = load_run(kept / "sde")

    with pytest.raises(UsageError, match="the run of `probe_from=` cannot be read from"):
        run_all(
            run := start_run(new_manifest("debate", settings, run.questions()), run.questions(), tmp_path / "a"),
            settings,
            run.store(),
        )
    assert not (tmp_path / "a").exists()
    with pytest.raises(UsageError, match="has no payload of protocol 'cipher'; pass `probe_from=` another run"):
        read_donors(kept / "sde", "cipher")
    broken = shutil.copytree(kept / "sde", tmp_path / "broken")
    log = broken / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-2]))  # the last decision too
    with pytest.raises(UsageError, match="is not finished, as `probe_from=` needs; resume it first"):
        read_donors(broken, "sde")


@pytest.mark.parametrize("donor", ["later", "cipher"])
def test_a_row_is_probed_from_an_earlier_one_of_its_kind(tmp_path: Path, model: str, donor: str) -> None:
    cipher = {"scheme": "debate", "protocol": "cipher"}
    rows = {"cipher": cipher, **ROWS, "later": ROWS["sde"]}
    rows["shuffled"] = {**ROWS["shuffled"], "probe_from": donor}

    with pytest.raises(UsageError, match=rf"row 'shuffled': probe_from is '{donor}'; expected an earlier row .* sde"):
        held(tmp_path, model, rows=rows)


def test_the_bytes_of_a_message_stand_beside_accuracy(tmp_path: Path, model: str) -> None:
    rows: dict[str, Any] = {name: {"scheme": "debate", "protocol": name, "layers": None} for name in ("nl", "sde")}
    small = {"carry_as": "int8", "keep": 0.5}
    differing: dict[str, dict[str, Any]] = {
        "small": small,
        "zeroed": {"probe": "zeroed"},
        "own": {"control": "own"},
    }
    rows |= {name: {**rows["sde"], **more} for name, more in differing.items()}

    found = held(tmp_path, model, limit=1, rows=rows)

    ways = {name: next(iter(run.results())).measures.get("bytes a message") for name, run in found.items()}
    assert ways["nl"] is None
    assert ways["sde"] == 6 * 32 * 4 and ways["small"] == 3 * (32 + 4 + 8)
    words = [len(each.encode()) for each in said(found["zeroed"], 0)]
    assert ways["zeroed"] == sum(words) / 2  # heard in words
    assert ways["own"] is None  # nobody heard anybody
    assert "| `nl` |  |" in markdown(*compared(compare({name: run.results() for name, run in found.items()})).parts)
