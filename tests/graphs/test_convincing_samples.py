"""Convincing samples: their file, and who is shown them in ReConcile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.graphs.reconcile import ReConcile, Sample, Samples, begin, read_samples, samples_for, stated
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.state import Discussion
from tests.graphs.support import built, calls, held

NAMES = ["agent_1", "agent_2", "agent_3"]


def sample(mark: str, **more: Any) -> Sample:
    fields = {
        "question": f"Ask {mark}?",
        "explanation": f"Because {mark}.",
        "answer": "7",
        "before": None,
        "after": "7",
    }
    return Sample.model_validate({**fields, **more})


def file(folder: Path, mark: str, *marks: str) -> str:
    path = folder / f"{mark}.json"
    path.write_text(Samples(model=mark, samples=[sample(each) for each in (mark, *marks)]).model_dump_json())
    return str(path)


# The file


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    one = sample("x", kind="option", choices=["red", "blue"], answer="B", before="A", after="B")
    samples = Samples(model="m", weights="w", temperature=0.7, settings={"seed": 3}, samples=[one, sample("y")])
    (tmp_path / "s.json").write_text(samples.model_dump_json())
    assert read_samples(tmp_path / "s.json") == samples
    data = json.loads(samples.model_dump_json())
    assert (data["format"], data["version"]) == ("sottovoce.samples", 1)


GOOD = json.loads(Samples(model="m", samples=[sample("x")]).model_dump_json())
ONE = GOOD["samples"][0]


def of(**changed: Any) -> str:
    return json.dumps({**GOOD, "samples": [{**ONE, **changed}]})


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", " is not JSON: "),
        (json.dumps({**GOOD, "format": "x"}), ": format is 'x': expected 'sottovoce.samples'"),
        (json.dumps({**GOOD, "samples": [without(ONE, "before")]}), ": samples.0 has no 'before'"),
        (of(answer=7), ": samples.0.answer is 7: expected a valid string"),
        (of(choises=["a"]), ": samples.0.choises is ['a']: Extra inputs are not permitted"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_samples(path)
    assert str(caught.value).startswith(f"samples file {str(path)!r}{line}")
    assert "\n" not in str(caught.value)


# Who is shown them


def run_with(*convincing: str, **more: Any) -> RunContext[ReConcile]:
    settings = ReConcile(convincing=list(convincing), **more)
    contexts = Contexts(ReConcile, settings, ScriptedChatModel())
    return contexts.of(cast(Discussion, {"settings": settings.model_dump(mode="json")}))


def test_a_sample_ends_in_the_json_that_is_asked_for(tmp_path: Path) -> None:
    """It ended in "The answer is 7.", and who followed the example left the form."""
    question = cast(Discussion, {"question": "?", "kind": "number"})
    (shown,) = samples_for(run_with(file(tmp_path, "a")), "agent_1")
    found = stated(Message("agent_1", 0, "answer", shown), question)
    assert (found.answer, found.confidence, found.error) == ("7", 1.0, "")
    assert shown.endswith("}")


def marks(run: RunContext[ReConcile], agent: str) -> list[str]:
    return [shown.split("?")[0].removeprefix("Question: Ask ") for shown in samples_for(run, agent)]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["a a2", "b", "c"], [["b", "c"], ["a", "a2", "c"], ["a", "a2", "b"]]),
        (["a b"], [["a", "b"]] * 3),  # one file for all
        (["a", "b x", "c x"], [["b", "x", "c"], ["a", "c", "x"], ["a", "b", "x"]]),  # two share a sample
        ([], [[]] * 3),
    ],
)
def test_an_agent_is_shown_the_samples_of_the_others_in_their_order_each_once(
    tmp_path: Path, files: list[str], shown: list[list[str]]
) -> None:
    found = run_with(*(file(tmp_path, *names.split()) for names in files))
    assert [marks(found, name) for name in NAMES] == shown


def test_files_are_read_once_a_run_at_its_beginning(tmp_path: Path) -> None:
    found = run_with(file(tmp_path, "a"))
    begin(found, cast(Discussion, {}))
    (tmp_path / "a.json").unlink()
    assert marks(found, "agent_1") == marks(found, "agent_2") == ["a"]


# In a discussion


def discussed(folder: Path, **more: Any) -> tuple[Any, ScriptedChatModel]:
    """Two rounds by three agents that do not agree, each with a file of its own."""
    says = '{{"reasoning": "So.", "answer": "{}", "confidence_level": "1"}}'
    model = ScriptedChatModel({name: [says.format(i)] * 2 for i, name in enumerate(NAMES)})
    files = [file(folder, mark) for mark in "abc"]
    return held(built("reconcile", model, rounds=1, convincing=files, **more)), model


def seen(text: str) -> str:
    return "".join(mark for mark in "abc" if f"Ask {mark}?" in text and f"Because {mark}." in text)


def test_prompts_hold_the_others_samples_in_all_phases(tmp_path: Path) -> None:
    model = discussed(tmp_path)[1]
    assert [[seen(asked.text) for asked in calls(model, name)] for name in NAMES] == [
        ["bc"] * 2,
        ["ac"] * 2,
        ["ab"] * 2,
    ]


def test_a_sample_with_the_mark_of_a_heard_message_is_refused_at_the_opening(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(Samples(model="m", samples=[sample("\ue0000\ue001")]).model_dump_json())
    model = ScriptedChatModel()
    with pytest.raises(UsageError, match=r"samples file '.*s\.json': a prompt's text contains U\+E000"):
        held(built("reconcile", model, convincing=[str(path)]))
    assert model.calls == []
