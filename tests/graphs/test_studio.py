"""The schemes behind `langgraph dev`, as Studio drives them: over HTTP, on this machine alone."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from sottovoce.graphs import NAMES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
QUESTION = {"question": "What is 14 + 3 * 5 - 7?"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio") / "server.log"


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[str]:
    """The address of a server with no flag but where it listens; it ends with the module.

    It starts in another folder, for it writes `.langgraph_api/` where it starts, whatever the
    variable that forbids it says (langgraph-runtime-inmem 0.36).
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "SOTTOVOCE_STORE": str(log.parent / "store"),
    }
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    command += ["--config", str(ROOT / "langgraph.json")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=log.parent, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/ok", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture
async def client(server: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server) as client:
        yield client


@pytest.fixture
def context(folder: str) -> dict[str, Any]:
    return {"agents": 3, "rounds": 2, "model": [folder], "protocol": "sde", "max_tokens": 6, "answer_turn": False}


async def assistant_of(client: LangGraphClient, context: dict[str, Any]) -> str:
    made = await client.assistants.create("debate", context=context)
    return made["assistant_id"]


async def test_all_schemes_are_served_with_a_description(client: LangGraphClient) -> None:
    found = await client.assistants.search(limit=100)
    assert {each["graph_id"] for each in found} == set(NAMES)
    assert all(each["description"] for each in found)


async def test_an_assistant_s_settings_draw_its_agents(client: LangGraphClient, context: dict[str, Any]) -> None:
    drawn = await client.assistants.get_graph(await assistant_of(client, context))
    names = [node["id"] for node in drawn["nodes"]]
    assert [name for name in names if str(name).startswith("agent")] == ["agent_1", "agent_2", "agent_3"]
    roles = {node["id"]: (node.get("metadata") or {}).get("role") for node in drawn["nodes"]}
    assert roles["agent_3"] == "debater"


@pytest.mark.parametrize("name", NAMES)
async def test_the_form_shows_every_setting_with_its_description_and_choices(
    name: str, client: LangGraphClient
) -> None:
    (found,) = await client.assistants.search(graph_id=name, metadata={"created_by": "system"})
    schemas = await client.assistants.get_schemas(found["assistant_id"])
    fields = (schemas["context_schema"] or {})["properties"]
    assert fields["protocol"]["enum"] == ["nl", "cipher", "sde", "hidden"]
    assert fields["max_tokens"]["minimum"] == 1
    assert all(field["description"] and ("default" in field) for field in fields.values())
    assert set((schemas["input_schema"] or {})["properties"]) >= {"question", "documents", "choices"}


async def test_a_debate_runs_and_its_history_shows_each_step_and_holds_no_tensor(
    client: LangGraphClient, context: dict[str, Any]
) -> None:
    assistant = await assistant_of(client, context)
    thread = (await client.threads.create())["thread_id"]
    result: Any = await client.runs.wait(thread, assistant, input=QUESTION)
    assert set(result) == {"decision"}
    assert len(result["decision"]["votes"]) == 3
    history = await client.threads.get_history(thread, limit=50)
    agents = ["agent_1", "agent_2", "agent_3"]
    one_round = [["next_round"], agents, ["close_round"]]
    assert [sorted(state["next"]) for state in reversed(history)] == [
        ["__start__"],
        ["opening"],
        *one_round,
        *one_round,
        ["decide"],
        [],
    ]
    values: Any = history[0]["values"]
    assert [(each["round"], each["agent"]) for each in values["board"]] == [
        (r, name) for r in (0, 1) for name in agents
    ]
    assert all(each["payload"]["protocol"] == "sde" for each in values["board"])
    assert values["settings"]["model"] == context["model"]
    assert len(json.dumps(history)) < 200_000


async def test_a_step_can_be_edited_and_forked(client: LangGraphClient, context: dict[str, Any]) -> None:
    assistant = await assistant_of(client, context)
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, assistant, input=QUESTION)
    history = await client.threads.get_history(thread, limit=50)
    (before,) = [
        state
        for state in history
        if "agent_1" in state["next"] and state["values"]["round"] == 1  # type: ignore[call-overload]
    ]
    (message,) = [each for each in before["values"]["board"] if each["agent"] == "agent_1"]  # type: ignore[call-overload]
    edit = {**message, "text": "The answer is 9.", "attempt": 1}
    forked = await client.threads.update_state(
        thread, {"board": [edit]}, as_node="next_round", checkpoint=before["checkpoint"]
    )
    assert sorted((await client.threads.get_state(thread))["next"]) == ["agent_1", "agent_2", "agent_3"]
    await client.runs.wait(thread, assistant, input=None, checkpoint=forked["checkpoint"])
    state = await client.threads.get_state(thread)
    board: Any = state["values"]["board"]  # type: ignore[call-overload]
    assert state["next"] == []
    assert [each["text"] for each in board if (each["round"], each["agent"]) == (0, "agent_1")][1] == "The answer is 9."
    assert len(board) == 7


async def test_a_run_can_be_stepped_through(client: LangGraphClient, context: dict[str, Any]) -> None:
    assistant = await assistant_of(client, {**context, "agents": 2, "rounds": 1})
    thread = (await client.threads.create())["thread_id"]
    steps = [["opening"]]
    await client.runs.wait(thread, assistant, input=QUESTION, interrupt_before="*")
    while (state := await client.threads.get_state(thread))["next"]:
        steps.append(sorted(state["next"]))
        await client.runs.wait(thread, assistant, input=None, interrupt_before="*")
    assert steps[1:] == [["opening"], ["next_round"], ["agent_1", "agent_2"], ["close_round"], ["decide"]]


async def test_tokens_stream_with_their_agent(client: LangGraphClient, context: dict[str, Any]) -> None:
    assistant = await assistant_of(client, {**context, "protocol": "cipher"})
    spoken: dict[str, str] = {}
    async for part in client.runs.stream(None, assistant, input=QUESTION, stream_mode="messages-tuple"):
        if part.event == "messages":
            chunk, about = part.data
            texts = chunk["content"] if isinstance(chunk["content"], str) else ""
            spoken[about["agent"]] = spoken.get(about["agent"], "") + texts
    assert sorted(spoken) == ["agent_1", "agent_2", "agent_3"]
    assert all(spoken.values())


async def test_a_setting_of_a_run_goes_before_the_assistant_s(client: LangGraphClient, context: dict[str, Any]) -> None:
    assistant = await assistant_of(client, context)
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, assistant, input=QUESTION, context={**context, "agents": 2, "rounds": 1})
    values: Any = (await client.threads.get_state(thread))["values"]
    assert [each["agent"] for each in values["board"]] == ["agent_1", "agent_2"]


@pytest.mark.parametrize(
    ("context", "question", "expected"),
    [
        ({"model": ["/no/such/model"]}, QUESTION, "unknown model"),
        ({}, {"question": " "}, "the question is empty"),
        ({"protocol": "cypher"}, QUESTION, "protocol"),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_line(
    context: dict[str, Any], question: dict[str, Any], expected: str, client: LangGraphClient
) -> None:
    with pytest.raises(Exception, match=expected):
        result: Any = await client.runs.wait(None, "debate", input=question, context=context)
        raise RuntimeError(str(result.get("__error__")))


async def test_the_baselines_run_too(client: LangGraphClient, folder: str) -> None:
    for name, votes in (("single", 1), ("self_consistency", 3)):
        context: Any = {"model": [folder], "max_tokens": 4, **({"samples": 3} if votes == 3 else {})}
        result: Any = await client.runs.wait(None, name, input=QUESTION, context=context)
        assert len(result["decision"]["votes"]) == votes


# What the library says of itself, and of the runs that the tests above let fail.
THEIRS = re.compile(r"`durability` has no effect|format_exc_info|sottovoce\.errors\.\w+Error")


def test_the_server_had_nothing_to_warn_of(server: str, log: Path) -> None:
    """Runs last: a slow factory, a blocked event loop or a type without a codec would stand in the log."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text()).splitlines()
    found = [line for line in lines if re.search(r"\[(warning|error|critical) *\]|BlockingError", line)]
    assert not [line for line in found if not THEIRS.search(line)]
