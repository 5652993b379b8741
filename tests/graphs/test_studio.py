"""The schemes behind `langgraph dev`, as Studio drives them: over HTTP, on this machine alone."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError

from sottovoce.graphs import NAMES
from sottovoce.nodes.option_groups import place
from tests.graphs.studio import QUESTION, User
from tests.server import ROOT, serving
from tests.tables import some

TINY = "tiny"
"""The model that the server offers, by its name there."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio") / "server.log"


@pytest.fixture(scope="module")
def server(log: Path, folder: str) -> Iterator[str]:
    """The address of a server of all that langgraph.json names."""
    config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    (log.parent / "langgraph.json").write_text(json.dumps({**config, "dependencies": [str(ROOT)]}))
    with serving(log.parent, log.parent / "langgraph.json", {TINY: folder}) as url:
        yield url


@pytest.fixture
async def client(server: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server) as client:
        yield client


@pytest.fixture
def context() -> dict[str, Any]:
    return {"agents": 3, "rounds": 2, "model": [TINY], "protocol": "sde", "max_tokens": 6, "answer_turn": "off"}


async def assistant_of(client: LangGraphClient, context: dict[str, Any]) -> str:
    made = await client.assistants.create("debate", context=context)
    return made["assistant_id"]


async def test_an_assistant_s_settings_draw_its_agents(client: LangGraphClient, context: dict[str, Any]) -> None:
    """The server's watch for blocking calls made it a 500 where a pack that ships was found by listing its folder."""
    drawn = await client.assistants.get_graph(await assistant_of(client, {**context, "prompts": "paper"}))
    names = [node["id"] for node in drawn["nodes"]]
    assert [name for name in names if str(name).startswith("agent")] == ["agent_1", "agent_2", "agent_3"]
    roles = {node["id"]: (node.get("metadata") or {}).get("role") for node in drawn["nodes"]}
    assert roles["agent_3"] == "debater"


@pytest.mark.parametrize("name", some(NAMES, "codegen"))
async def test_the_form_shows_every_setting_with_its_description_and_choices(
    name: str, client: LangGraphClient
) -> None:
    (found,) = await client.assistants.search(graph_id=name, metadata={"created_by": "system"})
    schemas = await client.assistants.get_schemas(found["assistant_id"])
    fields = (schemas["context_schema"] or {})["properties"]
    assert fields["protocol"]["enum"] == ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft"]
    assert fields["max_tokens"]["minimum"] == 1
    assert [*fields] == sorted(fields, key=place)
    assert all(field["description"] and ("default" in field) for field in fields.values())
    asked = (schemas["input_schema"] or {})["properties"]
    assert set(asked) >= {"question", "documents", "choices"}
    assert not [name for name, field in asked.items() if not field.get("description")]


@pytest.mark.slow
@pytest.mark.parametrize("graph", NAMES)
def test_a_graph_is_walked_edited_forked_and_streamed(graph: str, server: str) -> None:
    """With the bundled model a check in the event loop read its prompts from files, which the server refuses."""
    with get_sync_client(url=server) as client:
        User(client, graph, "bundled" if graph == "single" else TINY).tour()


async def test_people_are_asked_and_the_thread_goes_on_with_what_they_say(
    client: LangGraphClient, context: dict[str, Any]
) -> None:
    people = {**context, "agents": 3, "rounds": 1, "human": ["agent_1", "agent_2"], "approve": ["agent_3"]}
    assistant, thread = await assistant_of(client, people), (await client.threads.create())["thread_id"]
    stopped: Any = await client.runs.wait(thread, assistant, input=QUESTION)
    asked = {each["value"]["agent"]: each["id"] for each in stopped["__interrupt__"]}
    assert asked.keys() == {"agent_1", "agent_2"}

    said = {asked["agent_1"]: "The answer is 21.", asked["agent_2"]: {"text": "The answer is 21."}}
    stopped = await client.runs.wait(thread, assistant, command={"resume": said})
    (held,) = stopped["__interrupt__"]
    assert (held["value"]["agent"], held["value"]["approve"]) == ("agent_3", "answer")
    await client.runs.wait(thread, assistant, command={"resume": {held["id"]: {"approve": False}}})

    values: Any = (await client.threads.get_state(thread))["values"]
    assert [(each["answer"]) for each in values["decision"]["votes"]] == ["21", "21", None]


async def test_in_the_middle_of_a_discussion_another_question_and_an_odd_edit_leave_the_thread_as_it_was(
    client: LangGraphClient, context: dict[str, Any]
) -> None:
    assistant = await assistant_of(client, {**context, "agents": 2, "rounds": 1, "human": ["agent_2"]})
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, assistant, input=QUESTION)
    before = await client.threads.get_state(thread)
    with pytest.raises(Exception, match="this thread has a discussion that is not over"):
        await client.runs.wait(thread, assistant, input={"question": "What is 1 + 1?"})
    with pytest.raises(BadRequestError) as refused:
        await client.threads.update_state(thread, {"bord": []}, as_node="next_round")
    assert "unknown key of the state: 'bord'; did you mean 'board'?" in str(refused.value)
    assert await client.threads.get_state(thread) == before


@pytest.mark.parametrize(
    ("context", "question", "expected"),
    [
        ({"model": ["/no/such/model"]}, QUESTION, "unknown model"),
        ({}, {"question": " "}, "the question is empty"),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_line(
    context: dict[str, Any], question: dict[str, Any], expected: str, client: LangGraphClient
) -> None:
    with pytest.raises(Exception, match=expected):
        result: Any = await client.runs.wait(None, "debate", input=question, context=context)
        raise RuntimeError(str(result.get("__error__")))


async def test_a_page_of_another_origin_starts_nothing(server: str) -> None:
    asked = json.dumps({"assistant_id": "single", "input": QUESTION, "context": {"model": [TINY], "max_tokens": 1}})
    async with httpx.AsyncClient(trust_env=False, timeout=600) as client:
        headers = {"origin": "https://evil.example", "content-type": "text/plain"}  # for which a browser asks no leave
        answer = await client.post(f"{server}/runs/wait", content=asked, headers=headers)
    assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (403, None)


# What the library says of itself, and of the runs that the tests above let fail.
THEIRS = re.compile(
    r"`durability` has no effect|format_exc_info|sottovoce\.core\.errors\.\w+Error|Bad Request Error"
    r"|POST \S+/state 400|GET \S+/graph 400"
)


def test_the_server_had_nothing_to_warn_of(server: str, log: Path) -> None:
    """Runs last: a slow factory, a blocked event loop or a type without a codec would stand in the log."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text()).splitlines()
    found = [line for line in lines if re.search(r"\[(warning|error|critical) *\]|BlockingError", line)]
    assert not [line for line in found if not THEIRS.search(line)]
