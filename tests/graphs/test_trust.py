"""What a client of a graph may not do: nothing that it names is run, read or loaded unless it ships or was allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import RequestError, UsageError
from sottovoce.core.trust import Allowed, Names, Words
from sottovoce.graphs import scheme, schemes
from sottovoce.graphs.codegen import create_codegen
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.discussion import MesSync
from sottovoce.prompts import SHIPPED
from tests.tables import each_row

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
SECRET = "root-password-4711"
QUESTION = {"question": "What is 1 + 1?"}


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A file that no client may read."""
    (tmp_path / "secret").mkdir()
    file = tmp_path / "secret" / "passwd.json"
    file.write_text(json.dumps({SECRET: ["x"]}))
    return str(file)


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("debate", {"model": ["PATH"]}),
    ("debate", {"model": ["bundled", "hosted:openai:gpt-4o-mini"]}),
    ("debate", {"prompts": "PATH", "human": ["agent_1"]}),
    ("debate", {"watch": ["PATH"]}),
    ("debate", {"watch": ["random:PATH"]}),
    ("debate", {"protocol": "cipher", "probe": "shuffled", "probe_from": "PATH"}),
    ("debate", {"protocol": "cipher", "option": {"probe_from": "PATH"}}),
    ("debate", {"device": ["map"]}),
    ("debate", {"weights": ["int4"]}),
    ("reconcile", {"convincing": ["PATH"]}),
    ("react", {"library": "bm25:PATH"}),
    ("ia", {"library": "wikipedia:http://127.0.0.1:1/"}),
    ("madra", {"wiki": "dense:PATH"}),
    ("whodunit", {"attribute_list": "PATH"}),
    ("codegen", {"sandbox": "limits", "unsafe": True, "human": ["PythonAssistant"]}),
    ("codegen", {"sandbox": "isolated"}),
    ("codegen", {"sandbox": "isolated", "seconds": 3600.0}),
]


def filled(context: dict[str, Any], path: str) -> dict[str, Any]:
    filled: dict[str, Any] = json.loads(json.dumps(context).replace("PATH", path))
    return filled


def refusal(do: Callable[[], object]) -> str:
    with pytest.raises(RequestError) as refused:
        do()
    said = str(refused.value)
    assert "\n" not in said and SECRET not in said
    return said


@each_row(("name", "context"), HOSTILE)
def test_a_context_names_nothing_that_does_not_ship(name: str, context: dict[str, Any], secret: str) -> None:
    found = scheme(name)
    there, gone = (filled(context, path) for path in (secret, secret + ".gone"))
    graph = found.create().compile()
    for ask in (
        lambda given: found.make_graph({"configurable": given}),  # as a server makes it for an assistant
        lambda given: graph.invoke(QUESTION, context=given),
    ):
        said = refusal(lambda ask=ask: ask(there))  # type: ignore[misc]
        assert said.replace(secret, "") == refusal(lambda ask=ask: ask(gone)).replace(secret + ".gone", "")  # type: ignore[misc]


@each_row(("name", "context"), [each for each in HOSTILE if each[0] in ("debate", "codegen")])
def test_an_edit_of_the_settings_in_state_names_nothing_either(name: str, context: dict[str, Any], secret: str) -> None:
    settings = {"sandbox": "isolated"} if name == "codegen" and context["sandbox"] != "isolated" else {}
    graph = scheme(name).create(settings).compile(checkpointer=InMemorySaver())
    whole = scheme(name).settings.model_validate(filled(context, secret)).model_dump(mode="json")
    opened = {"settings": whole, "round": -1, "turn": 0, "epochs": [], "marks": [], "votes": []}
    refusal(lambda: graph.invoke(None, graph.update_state(THREAD, {**QUESTION, **opened}, as_node="opening")))


def test_what_the_builder_allows_is_resolved_and_stays_a_name_in_state(tmp_path: Path) -> None:
    pack_in(tmp_path)
    model = ScriptedChatModel(["Answer: 2"] * 8)
    graph = create_debate(
        Debate(rounds=1), models=model, allow={"prompts": {"ours": str(tmp_path)}, "watch": ["random:0"]}
    )
    compiled = graph.compile(checkpointer=InMemorySaver())

    compiled.invoke(QUESTION, THREAD, context={"prompts": "ours"})

    assert compiled.get_state(THREAD).values["settings"]["prompts"] == "ours"
    assert "this graph offers: bundled, ours, paper" in refusal(
        lambda: graph.compile().invoke(QUESTION, context={"prompts": str(tmp_path)})
    )


def pack_in(folder: Path) -> None:
    """Write a prompt pack of a single file."""
    (folder / "shared").mkdir()
    (folder / "shared" / "question.md").write_text((SHIPPED.parent / "shared" / "question.md").read_text())


def test_what_is_as_the_graph_was_built_with_passes(tmp_path: Path) -> None:
    pack_in(tmp_path)
    model = ScriptedChatModel(["Answer: 2"] * 8)
    graph = create_debate(Debate(rounds=1, prompts=str(tmp_path)), models=model).compile()
    assert graph.invoke(QUESTION, context={"prompts": str(tmp_path)})["decision"]["answer"] == "2"


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ({"modle": ["x"]}, "unknown setting that names something: 'modle'; did you mean 'model'?"),
        ({"model": "x"}, "allow has 'x' for 'model'; expected names, or values by name"),
        ({"model": {"a": 1}}, "allow has 1 for 'model'; expected text"),
    ],
)
def test_an_allowance_that_is_none_is_refused(allow: Any, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        create_debate(allow=allow)


def test_a_server_s_configuration_builds_its_graphs_and_offers_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.toml"
    monkeypatch.setenv("SOTTOVOCE_SERVER", str(file))
    file.write_text('[settings.codegen]\nsandbox = "isolated"\n[model]\nsmall = "models/small"\n')
    make = scheme("codegen").make_graph

    make({"configurable": {"sandbox": "isolated", "model": ["small"]}})
    make({"configurable": {}})
    said = refusal(lambda: make({"configurable": {"sandbox": "limits", "unsafe": True}}))
    assert said.startswith("sandbox is 'limits', and clients here cannot choose a sandbox; ")
    assert "offers: bundled, small; " in refusal(lambda: make({"configurable": {"model": ["models/small"]}}))
    for wrong in ("[modle]", "settings = 3", "[settings]\nround = 3", "{", '[model]\nx = ["y"]'):
        file.write_text(wrong)
        assert "configuration" in refusal(lambda: make({})) or "x" in wrong
    file.unlink()
    assert "cannot be read" in refusal(lambda: make({}))


def test_a_graph_that_was_built_without_a_sandbox_runs_no_program() -> None:
    graph = create_codegen(models=ScriptedChatModel(["x"])).compile()
    question = {"question": "Add.", "game": {"program": "def f(): pass", "tests": []}}
    with pytest.raises(UsageError):
        graph.invoke(question)
    refusal(lambda: graph.invoke(question, context={"sandbox": "limits", "unsafe": True}))


KINDS: list[type[BaseModel]] = [*(each.settings for each in schemes()), MesSync]


@each_row("kind", KINDS)
def test_every_field_that_takes_text_says_whether_it_names_something(kind: type[BaseModel]) -> None:
    unmarked = [
        name
        for name, info in kind.model_fields.items()
        if _takes_text(info.annotation) and not any(isinstance(mark, Names | Words) for mark in info.metadata)
    ]
    assert not unmarked, "annotate them with Names or Words of sottovoce.core.trust"


def _takes_text(annotation: Any) -> bool:
    """Whether any text, path or value fits; closed sets of words are no such fields."""
    if annotation in (str, Any, object) or (isinstance(annotation, type) and issubclass(annotation, Path)):
        return True
    if str(annotation).startswith("typing.Literal"):
        return False
    return any(map(_takes_text, get_args(annotation)))


def test_names_that_ship_may_have_a_number_where_it_is_one() -> None:
    mark = Names("monitor", ("random",), numbered=("random",))
    shipped = {each: mark.is_shipped(each) for each in ("random", "random:0.3", "random:/", "x:3")}
    assert shipped == {"random": True, "random:0.3": True, "random:/": False, "x:3": False}
    assert not mark.is_shipped("random:" + "9" * 5000)
    Allowed().check(Debate(), Debate())
