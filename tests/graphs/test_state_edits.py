"""What is refused of models, contexts and edited states: one line, and the checkpoint before it goes on."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateUpdate
from pydantic import ValidationError

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import RequestError, SottovoceError, UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.mad import MAD
from sottovoce.graphs.madra import create_madra
from sottovoce.nodes.state import Discussion
from sottovoce.nodes.state_validation import _adapter
from tests.graphs.support import KEYS, NEEDED, QUESTION, THREAD, Graph, around, board, debating, marked
from tests.tables import each_row

MODEL = ScriptedChatModel(["The answer is 22."])


@each_row(
    ("models", "expected"),
    [
        (
            "gpt",
            "models is 'gpt'; expected a chat model, or one by agent, like {'agent_1': model}; models by name are a",
        ),
        ([MODEL], "expected a chat model, or one by agent"),
        ({"agent_1": MODEL, "agent_2": None}, "the model of agent 'agent_2' is None; expected a chat model"),
        ({"agent_1": MODEL}, "no model for agent 'agent_2'; models names only: agent_1"),
        ({"agent_1": MODEL, "agent_2": MODEL, "agent_3": MODEL}, "unknown agent among the models: 'agent_3'; "),
    ],
)
def test_what_are_no_models_of_the_agents_is_refused(models: Any, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        create_debate(models=models)
    assert expected in str(refused.value) and "\n" not in str(refused.value)


def test_settings_may_be_a_dict_and_must_be_the_scheme_s_own() -> None:
    made: Any = {"agents": 3}
    assert {"agent_1", "agent_2", "agent_3"} < set(create_debate(made).nodes)
    for wrong, expected in (
        ({"agent": 3}, "unknown field of Debate: 'agent'; did you mean 'agents'?"),
        (MAD(), "the settings are MAD; this graph expects Debate"),
        ("cipher", "Debate is 'cipher': expected a valid dictionary"),
    ):
        with pytest.raises(UsageError, match=expected):
            create_debate(wrong)  # type: ignore[arg-type]


# The context of a run


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"roundss": 1}, "unknown field of Debate: 'roundss'; did you mean 'rounds'?"),
        (MAD(), "the context is MAD; this graph expects settings of Debate"),
        ("nl", "the context is str; this graph expects settings of Debate"),
    ],
)
def test_a_context_that_is_none_of_the_scheme_s_is_refused(context: Any, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        debating(marked(2, 1)).invoke(QUESTION, context=context)


def test_a_discussion_goes_on_with_its_own_settings_and_no_others() -> None:
    model = marked(2, 4)
    graph = debating(model, saver=InMemorySaver())
    graph.invoke(QUESTION, THREAD, context={"rounds": 2, "seed": 3}, interrupt_after=["next_round"])
    with pytest.raises(UsageError, match=r"opened with: rounds is 3, and was 2; resume it with its own"):
        graph.invoke(None, THREAD, context={"rounds": 3, "seed": 3})
    assert not model.calls
    graph.invoke(None, THREAD, context={"seed": 3}, interrupt_after=["close_round"])
    state = graph.invoke(None, THREAD, output_keys=KEYS)
    assert (len(board(state)), state["settings"]["seed"]) == (4, 3)
    graph.invoke({"question": "And 1 + 1?"}, THREAD, context={"rounds": 1})  # another question, other settings


def test_of_another_graph_s_context_a_discussion_takes_the_settings_that_it_has() -> None:
    model = marked(2, 3)
    around(debating(model, rounds=3)).invoke(QUESTION, context={"rounds": 1, "user": "Mia"})
    assert len(model.calls) == 2


def test_what_an_assistant_cannot_have_is_refused_as_the_server_shows_it_and_its_own_keys_pass() -> None:
    make = scheme("debate").make_graph
    for given, expected in (({"agents": -3}, "agents is -3"), ({"roundss": 1}, "unknown setting: 'roundss'; did you")):
        with pytest.raises(ValueError, match=expected) as refused:
            make({"configurable": given})
        assert isinstance(refused.value, RequestError)
    servers = {"thread_id": "1", "__pregel_runtime": None, "langgraph_auth_user": "Mia", "x-request": "1"}
    assert "agent_3" in make({"configurable": {"agents": 3, **servers}}).nodes


async def test_settings_in_configurable_are_refused_with_the_word_context() -> None:
    graph: Any = debating(marked(2, 2), rounds=2, saver=InMemorySaver())
    config: Any = {"configurable": {"rounds": 1, **THREAD["configurable"]}}
    told = r"has the setting 'rounds', .*; give settings as context={'rounds"
    with pytest.raises(RequestError, match=told):
        await graph.ainvoke(QUESTION, config)
    with pytest.raises(RequestError, match=told):
        graph.with_config(config).invoke(QUESTION)
    assert graph.get_state(THREAD).values == {}


def test_settings_that_a_server_mirrors_into_configurable_and_those_of_a_parent_pass() -> None:
    config: Any = {"configurable": {"rounds": 1, "user": "Mia"}}
    model = marked(2, 3)
    debating(model, rounds=3).invoke(QUESTION, config, context={"rounds": 1})
    assert len(model.calls) == 2
    around(debating(model, rounds=1)).invoke(QUESTION, config)
    assert len(model.calls) == 4


# States that somebody edited


def between(saver: Any = None) -> Graph:
    """A debate of two rounds that stands before the second one."""
    graph = debating(marked(2, 2), rounds=2, saver=saver or InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["close_round"])
    return graph


def edits(graph: Graph) -> dict[str, tuple[dict[str, Any], str]]:
    """What somebody may write, and what it is told."""
    values = graph.get_state(THREAD).values
    settings, message = values["settings"], board(values)[0].to_dict()
    return {
        "no board": ({"board": "hello"}, "the board got 'hello'; expected messages"),
        "no message": ({"board": ["hello"]}, "a message for the board is 'hello'; expected its fields"),
        "text": ({"board": [{**message, "round": "0"}]}, "in a message for the board, round is '0': expected a valid"),
        "unknown": ({"board": [{**message, "texts": ""}]}, "unknown field of a message: 'texts'; did you mean"),
        "nobody": ({"board": [{**message, "agent": "eve"}]}, "unknown agent on the board: 'eve'; choose from: agent_1"),
        "later": ({"board": [{**message, "round": 7}]}, "round 7, turn 0, act 'answer', attempt 0 is later than the"),
        "round": ({"round": -5}, "in the state, round is -5; expected -1 to 100,000"),
        "votes": ({"votes": [{"agent": "agent_1"}]}, "in the state, votes.0 has no 'answer'"),
        "target": ({"target": "many"}, "target is 'many'"),
        "no question": ({"question": None}, "question"),
        "gathered": ({"interventions": 3}, "interventions got 3, which is not of its type"),
        "settings": ({"settings": {**settings, "rounds": "many"}}, "rounds is 'many': expected a valid integer"),
        "part": (
            {"settings": {"rounds": 3}},
            "the state's settings have no 'protocol'; write all settings, as 'opening' does",
        ),
        "no JSON": ({"settings": {"rounds": {1}}}, "the state's settings are not JSON: "),
        "agents": (
            {"settings": {**settings, "agents": 3}},
            "the state's settings ask for 3 agents, but this graph was",
        ),
    }


def test_an_edit_that_is_none_is_one_line_and_the_step_before_it_goes_on() -> None:
    graph = between()
    before = graph.get_state(THREAD).config
    for what, (values, expected) in edits(graph).items():
        with pytest.raises(SottovoceError) as refused:
            graph.invoke(None, graph.update_state(before, values, as_node="close_round"))
        assert expected in str(refused.value), what
        assert "\n" not in str(refused.value), what
    assert len(board(graph.invoke(None, before, output_keys=KEYS))) == 4


def test_an_edit_that_can_be_made_is_made() -> None:
    graph = between()
    settings = graph.get_state(THREAD).values["settings"]
    graph.update_state(THREAD, {"settings": {**settings, "rounds": 1}, "target": "22"}, as_node="close_round")
    state = graph.invoke(None, THREAD, output_keys=KEYS)
    assert (len(board(state)), state["decision"]["score"]) == (2, 0.0)


def test_a_scheme_s_own_keys_are_held_to_their_types() -> None:
    graph = create_madra(models=ScriptedChatModel(["1"] * 99)).compile(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    before = graph.get_state(THREAD).config
    for values, expected in (({"numbers": "k"}, "numbers is 'k'"), ({"evidence": 3}, "evidence got 3")):
        with pytest.raises(SottovoceError, match=expected):
            graph.invoke(None, graph.update_state(before, values, as_node="next_round"))


@each_row("name", ["debate", "react", "codegen"])
def test_a_round_beyond_the_last_is_the_last_or_refused_where_others_would_be_heard(name: str) -> None:
    models = ScriptedChatModel(["The answer is 22."] * 99)
    graph = scheme(name).create(models=models, **NEEDED.get(name, {})).compile(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["next_round"])
    edited = graph.update_state(THREAD, {"round": 99}, as_node="next_round")
    if name == "react":
        assert "answer" in graph.invoke(None, edited, output_keys=KEYS)["decision"]
        return
    with pytest.raises(UsageError, match=r"has no message of round \d+ on the board; resume the run from an earlier"):
        graph.invoke(None, edited)


@each_row(
    ("edit", "expected"),
    [
        ({"pending": {"agent_1": {"next": "backwards"}}}, "pending.agent_1.next is 'backwards': expected 'again', "),
        ({"pending": {"agent_1": {"next": "reset"}}}, "pending.agent_1 has no 'to', the mark that a reset goes back"),
        ({"pending": {"agent_1": {"written": {"answer": 5}}}}, "pending.agent_1.written.answer is 5: expected a valid"),
    ],
)
def test_what_is_held_back_and_what_a_reset_reads_is_refused_where_it_is_none(edit: Any, expected: str) -> None:
    graph = create_debate(models=marked(2, 1), watch=lambda run, state, messages: None).compile(
        checkpointer=InMemorySaver()
    )
    graph.invoke(QUESTION, THREAD, interrupt_after=["agent_1"])
    with pytest.raises(UsageError) as refused:
        graph.bulk_update_state(THREAD, [[StateUpdate(edit, "agent_1"), StateUpdate({}, "agent_2")]])
        graph.invoke(None, THREAD)
    assert expected in str(refused.value) and "\n" not in str(refused.value)


def test_a_reply_to_nobody_is_told_that_its_thread_holds_no_discussion() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver())
    with pytest.raises(RequestError, match="a Command was given to a thread without a discussion"):
        graph.invoke(Command(resume="The answer is 22."), THREAD)


@pytest.mark.parametrize("edited", [0, 1])
def test_an_edit_of_a_reply_or_of_its_answer_turn_is_what_counts(edited: int) -> None:
    """An edited answer turn stood on the board, and the vote was read from the turn before the edit."""
    model = ScriptedChatModel({"agent_1": ["Hm.", "8"], "agent_2": ["The answer is 22."]})
    graph = create_debate(Debate(agents=2, rounds=1, answer_turn="needed"), models=model).compile(
        checkpointer=InMemorySaver()
    )
    graph.invoke({"question": "What is 14 + 3 * 5 - 7?"}, THREAD, interrupt_after=["agent_1", "agent_2"])
    said = [each.to_dict() for each in board(graph.get_state(THREAD).values) if each.agent == "agent_1"]
    edit = {**said[edited], "attempt": said[-1]["attempt"] + 1, "text": "The answer is 22."}
    graph.update_state(THREAD, {"board": [edit]}, as_node="agent_1")
    assert graph.invoke(None, THREAD)["decision"]["why"] == "2 of 2 say 22"


@pytest.mark.parametrize("epochs", [[0] * 1000, [["x"] * 1000]])
def test_a_list_is_refused_at_its_first_wrong_item(epochs: Any) -> None:
    """A million wrong items took 1.5 GB of errors."""
    with pytest.raises(ValidationError) as refused:
        _adapter(Discussion).validate_python({"epochs": epochs}, strict=True)
    assert refused.value.error_count() == 1
