"""Discussions of two different models over bridges: in a batch as alone, with lookup as without, saved and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.main import main
from sottovoce.core.errors import ProtocolError, RecordError, UsageError
from sottovoce.core.trust import Trust
from sottovoce.graphs.brief import Brief
from sottovoce.models import LoadedModel, assemble
from sottovoce.nodes.question import Question
from sottovoce.runs.api import run_questions
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import resume_run, run_all
from sottovoce.verify.checks import verify
from tests.bridges.support import deep, fitted, narrow, random_bridge
from tests.graphs.support import State, board, built, held

FACTS = ["Mia has 3 apples.", "Tom has 5 pears.", "Mia lives in Ulm.", "Tom is old."]
ASKED: Question = {
    "question": "How many pears has Tom?",
    "kind": "number",
    "target": "5",
    "documents": FACTS,
    "id": "q",
}
SHORT: dict[str, Any] = {"max_tokens": 6, "seed": 1, "answer_turn": "off"}
TRUST = Trust(trust_paths=True)
SETTINGS: dict[str, dict[str, Any]] = {
    "brief": {"agents": 2},
    "pipeline": {},
    "debate": {"agents": 2, "rounds": 2, "carry": "both"},
    "ia": {"agents": 2, "rounds": 2, "carry": "both"},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Folders of two models that share nothing."""
    root = tmp_path_factory.mktemp("models")
    for name, loaded in (("narrow", narrow()), ("deep", deep())):
        loaded.model.save_pretrained(root / name)
        loaded.tokenizer.save_pretrained(root / name)
    return [str(root / name) for name in ("narrow", "deep")]


@pytest.fixture(scope="module")
def bridges(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Bridges between them, one for each direction."""
    root = tmp_path_factory.mktemp("bridges")
    fitted(narrow(), deep(), root / "there")
    fitted(deep(), narrow(), root / "back")
    return [str(root / "there"), str(root / "back")]


def settings_of(scheme: str, models: list[str], bridges: list[str]) -> dict[str, Any]:
    named = models * 2 if scheme == "pipeline" else models
    return {"model": named, "protocol": "kv", "bridge": bridges, **SHORT, **SETTINGS[scheme]}


def words(state: State) -> list[str]:
    return [message.text for message in board(state)]


@pytest.mark.parametrize("scheme", SETTINGS)
def test_two_models_discuss_over_bridges_both_ways(
    scheme: str, models: list[str], bridges: list[str], store: PayloadStore
) -> None:
    asked = {**ASKED, "documents": FACTS}
    named = settings_of(scheme, models, bridges)
    state = held(built(scheme, store=store, **named), **asked)
    over = [note for note in state["notes"] if "; over the bridge " in note]
    assert over and (scheme == "pipeline" or over == state["notes"])  # there, some edges are between equal models
    payloads = [message.payload.load(store).tensors for message in board(state) if message.payload]
    carried = [tensors for tensors in payloads if "values" in tensors]
    assert carried and all("text" in tensors for tensors in carried)
    assert scheme == "pipeline" or all("keys" not in tensors for tensors in carried)
    zeroed = held(built(scheme, store=store, **named, probe="zeroed"), **asked)
    read, unread = (sum(each.stats["tokens_in"] for each in board(found)) for found in (state, zeroed))
    assert read > unread


@pytest.mark.parametrize("scheme", ["brief", "debate"])
def test_a_question_is_answered_in_a_batch_as_alone(scheme: str, models: list[str], bridges: list[str]) -> None:
    questions = [{**ASKED, "id": name, "question": f"How many pears has {name}?"} for name in ("Tom", "Mia")]
    named = settings_of(scheme, models, bridges)
    runs = [run_questions(scheme, questions, named, at_once=n, progress=False) for n in (2, 1)]
    said = [[message.text for record in run.records for message in record.messages] for run in runs]
    assert said[0] == said[1] and len(said[0]) == (8 if scheme == "debate" else 4)


def test_lookup_changes_no_word(bridges: list[str], store: PayloadStore) -> None:
    found = []
    for lookup in (True, False):
        loaded: list[LoadedModel] = [
            assemble(each.name, each.model, each.tokenizer, lookup=lookup) for each in (narrow(), deep())
        ]
        options: dict[str, Any] = {"bridge": bridges, "carry": "both"}
        agents = {
            f"agent_{i + 1}": HookedChatModel(
                preloaded=each, protocol="kv", options=options, store=store, temperature=0, max_tokens=24
            )
            for i, each in enumerate(loaded)
        }
        found.append(words(held(built("debate", agents, store=store, agents=2, rounds=2, answer_turn="off"), **ASKED)))
        assert bool(sum(each.engine.statistics.proposed for each in loaded)) == lookup
    assert found[0] == found[1]


def test_between_equal_models_their_own_keys_and_values_are_carried(
    models: list[str], bridges: list[str], store: PayloadStore
) -> None:
    """The first and the second agent are one model; the third one is another."""
    named: dict[str, Any] = {"model": [models[0], models[0], models[1]], "agents": 3, "protocol": "kv", **SHORT}
    state = held(built("debate", store=store, rounds=2, carry="both", bridge=bridges, **named), **ASKED)
    hears = {note.split(" with ")[0].removesuffix(" by kv"): "; over the bridge" in note for note in state["notes"]}
    assert [pair for pair, is_bridged in sorted(hears.items()) if not is_bridged] == [
        "agent_1 hears agent_2",
        "agent_2 hears agent_1",
    ]
    assert len(hears) == 6
    kept = {message.agent: message.payload.load(store).tensors for message in board(state) if message.payload}
    assert {agent: "keys" in tensors for agent, tensors in kept.items()} == {
        "agent_1": True,
        "agent_2": True,
        "agent_3": False,
    }


def test_a_direction_without_a_bridge_is_refused_or_carried_in_words(
    models: list[str], bridges: list[str], store: PayloadStore
) -> None:
    named = {**settings_of("debate", models, bridges[:1]), "rounds": 2}
    with pytest.raises(ProtocolError, match=r"no bridge leads from .*`fallback='nl'`"):
        held(built("debate", store=store, **named), **ASKED)
    state = held(built("debate", store=store, **named, fallback="nl"), **ASKED)
    assert ["over the bridge" in note for note in sorted(state["notes"])] == [False, True]
    assert sorted(state["notes"])[0].startswith("agent_1 hears agent_2 in words")


# Saved runs


def saved(folder: Path, settings: Brief, **more: Any) -> Path:
    questions = [
        {**ASKED, "id": str(i), "question": f"How many pears has {name}?"} for i, name in enumerate(("Tom", "Mia"))
    ]
    run = Run.start(new_manifest("brief", settings, questions), questions, folder)  # type: ignore[arg-type]
    run_all(run, settings, run.store(), **more)
    return folder


def said(folder: Path) -> list[str]:
    return [message.text for record in load_run(folder).records.values() for message in record.messages]


def test_a_stopped_run_is_resumed_and_verified(models: list[str], bridges: list[str], tmp_path: Path) -> None:
    settings = Brief(**{**settings_of("brief", models, bridges), "exact": True})
    whole = saved(tmp_path / "whole", settings)
    stopped = saved(tmp_path / "stopped", settings, limits=Limits(call_limit=2))
    assert len(said(stopped)) < len(said(whole))

    run = resume_run(load_run(stopped))
    run_all(run, settings, run.store())

    assert said(stopped) == said(whole)
    verified = verify(load_run(stopped), 2, trust=TRUST)
    assert (verified.findings, verified.notes, verified.reruns) == ([], [], 2)


def test_a_bridge_that_was_replaced_is_found_by_verifying_and_by_resuming(models: list[str], tmp_path: Path) -> None:
    """Seen: a run went on over another bridge in the same folder."""
    random_bridge(narrow(), deep(), tmp_path / "bridge")
    settings = Brief(**{**settings_of("brief", models, [str(tmp_path / "bridge")]), "exact": True})
    folder = saved(tmp_path / "run", settings)
    stopped = saved(tmp_path / "stopped", settings, limits=Limits(call_limit=2))
    assert verify(load_run(folder), 1, trust=TRUST).findings == []
    random_bridge(narrow(), deep(), tmp_path / "bridge", seed=1)
    assert verify(load_run(folder), 1, trust=TRUST).findings
    with pytest.raises(RecordError, match="was started with other bridges; start a new run, or restore them"):
        resume_run(load_run(stopped))


# Settings


def test_python_a_settings_file_and_the_command_line_mean_the_same(
    models: list[str], bridges: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {**settings_of("brief", models, bridges), "exact": True}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(named))
    (tmp_path / "questions.jsonl").write_text(json.dumps(ASKED) + "\n")
    common = ["brief", "--questions", tmp_path / "questions.jsonl"]
    listed = {name: value if isinstance(value, list) else [value] for name, value in named.items() if name != "exact"}
    options = [(f"--{name.replace('_', '-')}", each) for name, values in listed.items() for each in values]
    told = ["--exact", *(part for option in options for part in option)]
    for name, given in (("file", ["--settings", tmp_path / "settings.yaml"]), ("command", told)):
        assert main(list(map(str, [*common, *given, "--save", tmp_path / name]))) == 0, capsys.readouterr().err
    run_questions("brief", [ASKED], named, folder=tmp_path / "python", progress=False)
    runs = [load_run(tmp_path / name) for name in ("python", "file", "command")]
    assert [each.manifest.settings for each in runs] == [runs[0].manifest.settings] * 3
    assert said(tmp_path / "python") == said(tmp_path / "file") == said(tmp_path / "command")


def test_a_folder_that_is_no_bridge_is_refused_before_anyone_speaks(
    models: list[str], tmp_path: Path, store: PayloadStore
) -> None:
    with pytest.raises(UsageError, match=r"bridge '.*nowhere': its bridge.json cannot be read: No such file"):
        held(built("brief", store=store, **settings_of("brief", models, [str(tmp_path / "nowhere")])), **ASKED)
