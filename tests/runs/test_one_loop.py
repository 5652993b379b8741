"""Runs of hosted models on the process's one loop: a server that keeps connections alive, and LangChain's own clients.

LangChain caches the client of a server for the whole process; its async connections belong to the loop they began on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.runs.api import RunResults, run_questions
from sottovoce.runs.run import load_run
from sottovoce.verify.folder import check_log
from tests import warm
from tests.provider import MINI, Provider, served

SETTINGS: dict[str, Any] = {"model": MINI, "agents": 2, "rounds": 1}
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="no fork there, nor can a process interrupt itself")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with served(Provider("The answer is 4."), monkeypatch) as server:
        yield server


def asking(n: int, folder: Path | None = None, **more: Any) -> RunResults:
    questions = [{"id": str(number), "question": f"{number} + 2?", "target": "4"} for number in range(n)]
    return run_questions("debate", questions, SETTINGS | more, folder=folder, progress=False)


def errors(*runs: RunResults) -> set[str | None]:
    assert all(record.status in ("done", "failed") for run in runs for record in run.records)
    return {record.error for run in runs for record in run.records}


def test_several_runs_of_one_process_are_done_on_the_connections_of_the_first(server: Provider) -> None:
    # Seen: done, failed, done ("Event loop is closed").
    assert errors(*[asking(4) for _ in range(3)]) == {None}
    assert server.connections <= 2 * 4


async def test_a_notebook_s_loop_and_runs_in_it_and_in_threads_use_one_client(server: Provider) -> None:
    graph = create_debate(Debate(**SETTINGS)).compile()
    decided = [await graph.ainvoke({"question": "2 + 2?"})]
    assert errors(asking(1)) == {None}
    with ThreadPoolExecutor(2) as threads:
        assert errors(*threads.map(asking, [1, 1])) == {None}
    decided += [graph.invoke({"question": "2 + 2?"}), await graph.ainvoke({"question": "2 + 2?"})]

    assert [each["decision"]["answer"] for each in decided] == ["4"] * 3


async def test_a_run_in_a_node_of_an_application_s_graph_is_a_run_of_its_own(server: Provider) -> None:
    async def ask(state: Any) -> Any:
        return {"done": errors(asking(1)) == {None}}

    application: Any = StateGraph(dict)
    application.add_node("ask", ask)
    application.add_edge(START, "ask")

    found = await application.compile(checkpointer=InMemorySaver()).ainvoke({}, {"configurable": {"thread_id": "1"}})
    assert found == {"done": True}


@POSIX
def test_after_ctrl_c_the_run_resumes_and_the_loop_and_the_client_serve_on(server: Provider, tmp_path: Path) -> None:
    assert errors(asking(2)) == {None}
    server.may_reply.clear()
    server.first.clear()

    def interrupt() -> None:
        server.first.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            asking(4, tmp_path / "run")
    finally:
        signal.signal(signal.SIGINT, before)
    stopped = load_run(tmp_path / "run")
    server.may_reply.set()

    assert stopped.status == "stopped" and len(stopped.unfinished) == 4 and not [*check_log(stopped)]
    assert errors(asking(2), asking(4, tmp_path / "run")) == {None}
    assert not [*check_log(load_run(tmp_path / "run"))]


def test_agents_that_are_only_asynchronous_take_part_in_runs_and_in_sync_calls() -> None:
    async def think(state: Any) -> Any:
        return {"messages": [AIMessage("The answer is 4.")]}

    async def say(messages: Any) -> str:
        return "The answer is 4."

    agent: Any = StateGraph(dict)
    agent.add_node("think", think)
    agent.add_edge(START, "think")
    models: Any = {"agent_1": agent.compile(), "agent_2": RunnableLambda(say)}
    graph = create_debate(Debate(agents=2, rounds=1), models=models).compile()

    run = run_questions("debate", "2 + 2?", {"agents": 2, "rounds": 1}, models=models, progress=False)
    assert graph.invoke({"question": "2 + 2?"})["decision"]["answer"] == "4" and errors(run) == {None}


FORKS = """
import multiprocessing, sys
from sottovoce.core.errors import UsageError
from sottovoce.runs.api import run_questions

fork = multiprocessing.get_context("fork")

def ask(model, say=print):
    try:
        record = run_questions("single", "2 + 2?", {"model": model, "max_tokens": 2}, progress=False).records[0]
        say(str(record.error or record.status))
    except UsageError as error:
        say(str(error))

def ask_in_child(model):
    replies = fork.SimpleQueue()
    child = fork.Process(target=ask, args=(model, replies.put))
    child.start()
    child.join(120)
    print(replies.get() if not child.is_alive() else "it hangs")
    child.kill()

for model in sys.argv[1:]:
    for ask_it in (ask_in_child, ask, ask_in_child, ask):
        ask_it(model)
"""


@POSIX
def test_a_fork_of_a_process_that_has_used_a_model_says_so_at_once(model: str, server: Provider) -> None:
    said = warm.run(FORKS, model, MINI, env={**os.environ, "PYTHONWARNINGS": "ignore"})

    lines = said.stdout.splitlines()
    assert [*lines[:2], *lines[3:6], *lines[7:]] == ["done"] * 6, said.stderr
    for line in (lines[2], lines[6]):
        assert line.startswith("this process was forked from one that had used models before") and "spawn" in line
