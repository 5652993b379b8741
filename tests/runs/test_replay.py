"""A watched discussion from the checkpoint before an intervention: with it as it was held, and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.cli.run_tables import replay_lines
from sottovoce.cli.runs import ReplayOptions
from sottovoce.cli.runs import replay as show_replay
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Intervened
from sottovoce.runs.allowed import Trust
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.replay import Branch, replay
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from sottovoce.settings import Debate
from tests.graphs.support import Once
from tests.nodes.test_guard import monitor

QUESTION: Question = {"id": "q", "question": "What is 14 + 5 * 3 - 7?", "target": "22"}


def held(folder: Path, threshold: float, name: str = "debate", **settings: Any) -> Run:
    """A watched run of the bundled model."""
    file = folder / "monitor.json"
    monitor("all", threshold).model_copy(update={"measured": Measure()}).save(file)
    found = scheme(name).settings(watch=[str(file)], max_tokens=40, **settings)
    run = Run.start(new_manifest(name, found, [QUESTION], [7]), [QUESTION], folder / "run")
    run_all(run, found, run.store(), alone=True)
    return run


def said(branch: Branch) -> list[tuple[Any, ...]]:
    """All that was said, token by token."""
    return [(message.place, message.text, _ids(message), message.withdrawn) for message in branch.messages]


def _ids(message: Message) -> Any:
    return message.payload and message.payload.load().ids


def _when(interventions: list[Intervened]) -> list[tuple[Any, ...]]:
    """All but the score, whose last digits depend on who is computed beside."""
    return [(each["agent"], each["epoch"], each["round"], each["attempt"], each["what"]) for each in interventions]


@pytest.mark.parametrize(("protocol", "intervention"), [("nl", "again"), ("cipher", "reset")])
def test_the_branch_with_an_intervention_is_what_was_held_and_the_other_publishes_what_was_held_back(
    protocol: str, intervention: str, tmp_path: Path
) -> None:
    run = held(tmp_path, 0.0, agents=2, rounds=2, protocol=protocol, intervention=intervention)

    found = replay(run, ("q", 7))

    assert found.at is not None and found.at["what"] == intervention
    assert said(found.with_it) == said(found.original)
    assert [message.text for message in found.original.messages] == [message.text for message in run.only.messages]
    assert _when(found.with_it.interventions) == _when(run.only.interventions)
    assert not found.without.interventions and not any(message.withdrawn for message in found.without.messages)
    held_back = [message.text for message in found.original.messages if message.withdrawn]
    assert held_back == [message.text for message in found.without.messages[: len(held_back)]]
    assert [*replay_lines(found, run.only.messages)][-1] == "the replay is token-identical"
    assert not any("re-run differs" in line for line in replay_lines(found, run.only.messages))
    assert any("the re-run differs from the saved run" in line for line in replay_lines(found, run.only.messages[1:]))


def test_a_later_intervention_is_replayed_from_the_checkpoint_before_it(tmp_path: Path) -> None:
    run = held(tmp_path, 0.0, agents=2, rounds=1, intervention="again", cap=2)

    found = replay(run, ("q", 7), number=3)

    assert (
        len(found.original.interventions) == 4 and len(found.without.interventions) == 2
    )  # two were made side by side
    assert said(found.with_it) == said(found.original)


def test_without_an_intervention_the_replay_is_token_identical(tmp_path: Path) -> None:
    run = held(tmp_path, 99.0, agents=2, rounds=2, protocol="cipher")

    found = replay(run, ("q", 7))

    assert found.at is None and not found.original.interventions
    assert said(found.original) == said(found.with_it) == said(found.without)
    assert found.parted is None


def test_a_world_is_replayed_with_its_measures(tmp_path: Path) -> None:
    run = held(tmp_path, 0.0, "whodunit", suspects=3, attributes=2, turns=1)

    found = replay(run, ("q", 7))

    assert said(found.with_it) == said(found.original)
    assert (
        found.with_it.decision.get("measures", {})["resets"] == 1 and found.without.decision["measures"]["resets"] == 0
    )
    assert any("resets 1" in line for line in replay_lines(found))


def test_a_run_that_was_not_watched_cannot_be_replayed(tmp_path: Path) -> None:
    settings = scheme("single").settings(max_tokens=4)
    run = Run.start(new_manifest("single", settings, [QUESTION], [7]), [QUESTION], tmp_path / "run")

    with pytest.raises(UsageError, match="was not watched"):
        replay(run, ("q", 7))


def test_a_seat_that_was_handed_over_cannot_be_replayed_whatever_watched(tmp_path: Path) -> None:
    settings, model = Debate(agents=2, rounds=1), ScriptedChatModel(["The answer is 22."] * 2)
    run = Run.start(new_manifest("debate", settings, [QUESTION], [7], models=model), [QUESTION], tmp_path / "run")
    watch = Once("human", "agent_1", 0)
    run_all(run, settings, run.store(), models=model, watch=watch, person=lambda _: "22")

    with pytest.raises(UsageError, match="a human's words cannot be replayed"):
        replay(run, ("q", 7), models=model, watch=watch)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"question": "r"}, "unknown question 'r'; choose from: q"),
        ({"under_seed": 8}, "unknown seed '8'; choose from: 7"),
    ],
)
def test_a_discussion_that_there_is_not_is_told(asked: dict[str, Any], told: str, tmp_path: Path) -> None:
    settings = scheme("single").settings(max_tokens=4)
    Run.start(new_manifest("single", settings, [QUESTION], [7]), [QUESTION], tmp_path / "run")

    with pytest.raises(UsageError, match=told):
        show_replay(ReplayOptions(name=str(tmp_path / "run"), **asked), Trust())


def test_an_intervention_that_there_was_not_is_told(tmp_path: Path) -> None:
    run = held(tmp_path, 0.0, agents=2, rounds=1, intervention="again")

    with pytest.raises(UsageError, match="found number 9"):
        replay(run, ("q", 7), number=8)


def test_a_replay_by_the_command_line_adds_nothing_to_the_run(tmp_path: Path, capsys: Any) -> None:
    # It added payloads that no message names, which `runs verify` finds.
    run = held(tmp_path, 0.0, agents=2, rounds=1, intervention="again")
    before = sorted((tmp_path / "run").rglob("*"))

    show_replay(ReplayOptions(name=str(tmp_path / "run")), Trust(trust_paths=True))

    assert run.folder and sorted(run.folder.rglob("*")) == before
    assert "the replay is token-identical" in capsys.readouterr().out
