"""Edits of a thread drop nothing that stands beside them in a step: they are refused in one line."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateUpdate

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import EXCHANGED
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.errors import RequestError
from sottovoce.graphs.cmd import create_cmd
from sottovoce.graphs.debate import Debate, create_debate
from tests.graphs.support import QUESTION, THREAD, Graph, board, debating, marked, script

WRITTEN = {"agent": "agent_1", "round": 0, "act": "answer", "text": "The answer is 21.", "source": "human"}


def stopped() -> Graph:
    """A debate of which agent_2 and agent_3 have replied, while agent_1, a person, is asked."""
    model = script({"agent_1": [], "agent_2": ["22"], "agent_3": ["23"]})
    graph = debating(model, saver=InMemorySaver(), agents=3, rounds=1, human=["agent_1"])
    graph.invoke(QUESTION, THREAD)
    return graph


@pytest.mark.parametrize("as_node", ["agent_1", "agent_2", "next_round", None])
async def test_an_edit_between_the_replies_of_a_step_is_refused_with_the_ways_that_work(as_node: str | None) -> None:
    """Replies that had been given were dropped: one vote of two counted."""
    graph = stopped()
    before = graph.get_state(THREAD)
    replied = "'agent_2', 'agent_3' replied in this step and 'agent_1' did not; resume the thread first and edit then"
    with pytest.raises(RequestError, match=replied):
        await graph.aupdate_state(before.config, {"board": [WRITTEN]}, as_node=as_node)
    assert graph.get_state(THREAD) == before
    edits = [StateUpdate({"board": [{**WRITTEN, "agent": f"agent_{n}"}]}, f"agent_{n}") for n in (1, 2, 3)]
    forked = graph.bulk_update_state(THREAD, [edits])
    assert graph.invoke(None, forked)["decision"]["why"] == "3 of 3 say 21"


def test_an_edit_after_the_resumed_step_is_made() -> None:
    graph = stopped()
    graph.invoke(Command(resume="The answer is 23."), THREAD, interrupt_before=["close_round"])
    graph.update_state(THREAD, {"board": [{**WRITTEN, "attempt": 1}]}, as_node="agent_1")
    assert [vote["answer"] for vote in graph.invoke(None, THREAD)["decision"]["votes"]] == ["21", "22", "23"]


def test_an_edit_of_a_step_in_the_history_names_all_its_agents() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver(), rounds=1)
    graph.invoke(QUESTION, THREAD)
    (step,) = [each for each in graph.get_state_history(THREAD) if each.next == ("agent_1", "agent_2")]
    with pytest.raises(RequestError, match="as 'agent_1' would drop 'agent_2', of the same step; edit as all of them"):
        graph.update_state(step.config, {"board": [WRITTEN]}, as_node="agent_1")
    again = graph.update_state(step.config, {"target": "22"}, as_node="next_round")
    assert graph.get_state(again).next == ("agent_1", "agent_2")


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


def test_an_edit_before_the_watches_of_a_step_leaves_none_of_them_out() -> None:
    """The other's reply was never published, and without a pending update the watch raised a KeyError."""
    graph = watched()
    graph.invoke(QUESTION, THREAD, interrupt_after=["agent_1"])
    edit = StateUpdate({"board": [WRITTEN], "pending": {"agent_1": None}}, "agent_1")
    with pytest.raises(RequestError, match="drop 'watch_agent_2', of the same step; edit as the nodes before all of"):
        graph.bulk_update_state(THREAD, [[edit]])
    graph.bulk_update_state(THREAD, [[edit, StateUpdate({}, "agent_2")]])
    assert graph.get_state(THREAD).next == ("watch_agent_1", "watch_agent_2")
    assert [vote["answer"] for vote in graph.invoke(None, THREAD)["decision"]["votes"]] == ["21", "0"]


def test_later_steps_of_a_bulk_edit_follow_the_first() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver(), rounds=1)
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    graph.bulk_update_state(THREAD, [[StateUpdate({}, "next_round")], [StateUpdate({"target": "21"}, "agent_2")]])
    assert graph.get_state(THREAD).values["target"] == "21"


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
