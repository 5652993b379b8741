"""Edits of a thread in the middle of a step keep what stands beside them, or are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, StateUpdate
from typing_extensions import TypedDict

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import EXCHANGED
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.errors import RequestError
from sottovoce.graphs.cmd import create_cmd
from sottovoce.graphs.debate import Debate, create_debate
from tests.graphs.support import QUESTION, Graph, board, debating, marked, script

THREAD: Any = {"configurable": {"thread_id": "1"}}
WRITTEN = {"agent": "agent_1", "round": 0, "act": "answer", "text": "The answer is 21.", "source": "human"}


def stopped(**settings: Any) -> Graph:
    """A debate of which agent_2 has replied, while agent_1, a person, is asked."""
    model = script({"agent_1": [], "agent_2": ["22", "22"], "agent_3": ["23", "23"]})
    graph = debating(model, saver=InMemorySaver(), rounds=1, human=["agent_1"], **settings)
    graph.invoke(QUESTION, THREAD)
    return graph


def said(graph: Graph, config: Any = THREAD) -> dict[str, str]:
    return {message.agent: message.text for message in board(graph.get_state(config).values)}


@pytest.mark.parametrize("named", [True, False], ids=["checkpoint", "thread"])
async def test_an_edit_as_one_agent_keeps_the_reply_of_another_that_had_finished(named: bool) -> None:
    """It was dropped: one vote of two counted."""
    graph = stopped()
    config = graph.get_state(THREAD).config if named else THREAD
    await graph.aupdate_state(config, {"board": [WRITTEN]}, as_node="agent_1")
    assert said(graph) == {"agent_1": "The answer is 21.", "agent_2": "The answer is 22."}
    assert [vote["answer"] for vote in graph.invoke(None, THREAD)["decision"]["votes"]] == ["21", "22"]


def test_an_edit_that_would_drop_who_has_not_replied_names_the_way_that_works() -> None:
    graph = stopped(agents=3)
    before = graph.get_state(THREAD)
    with pytest.raises(RequestError, match="would drop 'agent_1', of the same step, which has not replied; resume"):
        graph.update_state(THREAD, {"board": [{**WRITTEN, "agent": "agent_2", "attempt": 1}]}, as_node="agent_2")
    with pytest.raises(RequestError, match="'agent_2', 'agent_3' replied in this step and 'agent_1' did not; name"):
        graph.update_state(THREAD, {"round": 0})
    assert graph.get_state(THREAD) == before
    edit = StateUpdate({"board": [{**WRITTEN, "agent": "agent_2"}]}, "agent_2")
    graph.bulk_update_state(THREAD, [[edit, StateUpdate({"board": [WRITTEN]}, "agent_1")]])
    answers = {name: text[-3:-1] for name, text in said(graph).items()}
    assert answers == {"agent_1": "21", "agent_2": "21", "agent_3": "23"}


def test_an_edit_as_the_node_before_keeps_replies_on_the_board_and_asks_again() -> None:
    graph = stopped()
    graph.update_state(THREAD, {"target": "22"}, as_node="next_round")
    graph.invoke(None, THREAD)
    assert [(message.agent, message.attempt) for message in board(graph.get_state(THREAD).values)] == [
        ("agent_2", 0),
        ("agent_2", 1),
    ]
    graph.invoke(Command(resume="The answer is 22."), THREAD)
    assert graph.get_state(THREAD).values["decision"]["why"] == "2 of 2 say 22"


def test_an_edit_of_a_step_in_the_history_is_a_branch_with_the_other_replies() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver(), rounds=1)
    graph.invoke(QUESTION, THREAD)
    (step,) = [each for each in graph.get_state_history(THREAD) if each.next == ("agent_1", "agent_2")]
    edited = graph.update_state(step.config, {"board": [WRITTEN]}, as_node="agent_1")
    assert said(graph, edited) == {"agent_1": "The answer is 21.", "agent_2": "2 in 0. Answer: 0"}


def test_tensors_that_an_edit_exchanged_are_marked_as_a_changed_text_is() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver(), rounds=1)
    graph.invoke(QUESTION, THREAD, interrupt_after=["agent_1", "agent_2"])
    ref = PayloadRef("cipher", "a" * 64, text_digest("The answer is 21."), 3, 99)
    edit = {**WRITTEN, "attempt": 1, "payload": ref.to_dict()}
    graph.update_state(THREAD, {"board": [edit]}, as_node="agent_1")
    again = {**edit, "attempt": 2}
    graph.update_state(THREAD, {"board": [again]}, as_node="agent_1")
    notes = [message.notes for message in board(graph.get_state(THREAD).values) if message.agent == "agent_1"]
    assert notes == [(), (EXCHANGED,), ()]  # the second edit repeats what stands there


def watched() -> Graph:
    graph = create_debate(Debate(agents=2, rounds=1), models=marked(2, 1), watch=lambda run, state, messages: None)
    return graph.compile(checkpointer=InMemorySaver())


def test_an_edit_as_a_watched_agent_keeps_the_watch_of_another_and_needs_nothing_pending() -> None:
    """The other's held reply was never published, and without a pending update the watch raised a KeyError."""
    graph = watched()
    graph.invoke(QUESTION, THREAD, interrupt_after=["agent_1"])
    graph.update_state(THREAD, {"board": [WRITTEN], "pending": {"agent_1": None}}, as_node="agent_1")
    assert graph.get_state(THREAD).next == ("watch_agent_1", "watch_agent_2")
    assert [vote["answer"] for vote in graph.invoke(None, THREAD)["decision"]["votes"]] == ["21", "0"]


@pytest.mark.parametrize(("first", "then"), [("agent_1", "close_round"), ("next_round", "agent_2")])
def test_later_steps_of_a_bulk_edit_follow_the_first(first: str, then: str) -> None:
    graph = stopped() if first == "agent_1" else debating(marked(2, 1), saver=InMemorySaver(), rounds=1)
    if first == "next_round":
        graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    graph.bulk_update_state(THREAD, [[StateUpdate({}, first)], [StateUpdate({"target": "21"}, then)]])
    assert graph.get_state(THREAD).values["target"] == "21"


def test_an_edit_before_a_step_of_the_history_runs_all_its_nodes_again() -> None:
    graph = watched()
    graph.invoke(QUESTION, THREAD)
    watches = ("watch_agent_1", "watch_agent_2")
    (step,) = [each for each in graph.get_state_history(THREAD) if each.next == watches]
    edited = graph.update_state(step.config, {"pending": {"agent_1": None}}, as_node="agent_1")
    assert graph.get_state(edited).next == watches


def test_an_edit_that_leaves_out_a_node_with_several_before_it_is_refused() -> None:
    graph = watched()
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    with pytest.raises(RequestError, match="leave out 'agent_2', which runs in the same step; edit as one of 2 nodes"):
        graph.update_state(THREAD, {"round": 0}, as_node="watch_agent_1")


def test_an_edit_of_a_discussion_inside_another_graph_keeps_its_replies() -> None:
    class Asking(TypedDict):
        question: str
        decision: Any

    parent: Any = StateGraph(Asking)
    parent.add_node("debate", debating(script({"agent_2": ["22"]}), rounds=1, human=["agent_1"]))
    parent.add_edge(START, "debate")
    graph = parent.compile(checkpointer=InMemorySaver())
    graph.invoke({"question": QUESTION["question"]}, THREAD)
    inside = graph.get_state(THREAD, subgraphs=True).tasks[0].state
    graph.update_state(inside.config, {"board": [WRITTEN]}, as_node="agent_1")
    assert graph.invoke(None, THREAD)["decision"]["why"] == "1 of 2 say 21; a tie of 2 answers, agent_1 spoke first"


@pytest.mark.parametrize(
    ("values", "as_node", "expected"),
    [
        ("hello", "agent_1", "the edit is 'hello'; expected a dict, like {'round': 0}"),
        ([("round", 0)], "agent_1", r"the edit is [('round', 0)]; expected a dict"),
        ({"round": 0}, "agent_9", "as_node: unknown node 'agent_9'; did you mean 'agent_2'?"),
        ({"round": 0}, ["agent_1"], "as_node: unknown node ['agent_1']"),
        ({"board": ["x" * 9999]}, "next_round", "x …; expected its fields, as the state shows them"),
    ],
)
def test_an_edit_of_a_wrong_type_is_one_line(values: Any, as_node: Any, expected: str) -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    with pytest.raises(RequestError) as refused:
        graph.update_state(THREAD, values, as_node=as_node)
    assert expected in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_a_scheme_s_own_key_cannot_be_removed() -> None:
    """It was a KeyError of the next node."""
    graph = create_cmd(models=ScriptedChatModel(["The answer is 22."] * 9)).compile(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    with pytest.raises(RequestError, match="None would remove 'groups', which the graph's nodes read"):
        graph.update_state(THREAD, {"groups": None}, as_node="next_round")
