"""Where messages stand: the board's order, who speaks several times, attempts and seeds that follow from the place."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import pytest
from langgraph.types import RetryPolicy

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.nodes.act import node
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.say import say
from sottovoce.nodes.setup import close_round
from sottovoce.nodes.state import Discussion, Update, attempt_of, current_messages, marked, reset
from tests.graphs.support import KEYS, QUESTION, InOrder
from tests.graphs.support import board as board_of
from tests.nodes.support import NAMES, Failing, Run, ask, framed, places, run_of, state_of, told


async def talk(run: Run, state: Discussion, agent: Agent) -> Update:
    return {"board": await say(run, state, agent, ask())}


async def talk_in_turn(run: Run, state: Discussion, agent: Agent) -> Update:
    return {**await talk(run, state, agent), "turn": state["turn"] + 1}


def held(frame: Any, saver: Any = None, config: Any = None) -> Any:
    return frame.graph.compile(checkpointer=saver).invoke(QUESTION, config, output_keys=[*KEYS, "turn"])


# The board's order


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], sorted(NAMES)])
def test_agents_side_by_side_stand_in_the_order_of_the_settings_whoever_was_first(order: list[str]) -> None:
    frame = framed(InOrder(replies={name: [f"{name} speaks"] for name in NAMES}, order=tuple(order)))
    frame.join("close_round", close_round, to="decide")
    for name in NAMES:
        frame.graph.add_edge("next_round", name)
        frame.act(name, talk, to="close_round")

    board = board_of(held(frame))

    assert [message.agent for message in board] == NAMES
    assert [message.order for message in board] == [0, 1, 2, 3]
    assert {message.time for message in board} == {(0, 0)}


def circle(model: ScriptedChatModel, turns: int) -> Any:
    """Three agents who speak one after the other, again and again, for so many turns of one round."""
    frame, names = framed(model), NAMES[:3]

    def after(state: Discussion) -> Literal["zoe", "agent_10", "agent_2", "decide"]:
        return "decide" if state["turn"] == turns else names[state["turn"] % 3]  # type: ignore[return-value]

    frame.graph.add_edge("next_round", names[0])
    for name in names:
        frame.act(name, talk_in_turn, to=after)
    return frame


def test_an_agent_speaks_several_times_in_a_round_in_one_act_and_is_heard_each_time() -> None:
    model = ScriptedChatModel({name: ["Hm."] * 3 for name in NAMES})

    state = held(circle(model, 7))

    assert [message.agent for message in current_messages(state)] == [NAMES[turn % 3] for turn in range(7)]
    assert [message.turn for message in board_of(state)] == list(range(7))
    assert {message.attempt for message in board_of(state)} == {0}
    assert len({asked.options["seed"] for asked in model.calls}) == 7


def test_an_agent_may_do_the_same_act_twice_in_one_step() -> None:
    async def twice(run: Run, state: Discussion, agent: Agent) -> Update:
        first = await say(run, state, agent, ask())
        later: Any = {**state, "turn": state["turn"] + 1}
        return {"board": [*first, *await say(run, later, agent, ask())], "turn": later["turn"] + 1}

    frame = framed(ScriptedChatModel(["The answer is 2."] * 2))
    frame.graph.add_edge("next_round", "zoe")
    frame.act("zoe", twice, to="decide")

    state = held(frame)

    assert [(message.turn, message.text) for message in current_messages(state)] == [
        (0, "The answer is 2."),
        (1, "The answer is 2."),
    ]
    assert state["turn"] == 2


# Attempts


def again(model: ScriptedChatModel, times: int) -> Any:
    """One agent that does its act again and again in one and the same turn."""
    frame = framed(model)

    def after(state: Discussion) -> Literal["zoe", "decide"]:
        return "zoe" if len(state["board"]) < times else "decide"

    frame.graph.add_edge("next_round", "zoe")
    frame.act("zoe", talk, to=after)
    return frame


def test_a_node_that_a_loop_runs_again_takes_the_next_attempt_and_the_last_is_heard() -> None:
    model = ScriptedChatModel([f"The answer is {i}." for i in range(3)])

    state = held(again(model, 3))

    assert [place.attempt for place in places(model)] == [0, 1, 2]
    assert len({asked.options["seed"] for asked in model.calls}) == 3
    assert told(board_of(state)) == [("zoe", f"The answer is {i}.") for i in range(3)]
    assert told(current_messages(state)) == [("zoe", "The answer is 2.")]


def test_an_attempt_is_counted_by_moment_agent_and_act() -> None:
    board = [Message("zoe", 0, "talk", "a"), Message("zoe", 0, "talk", "b", attempt=3)]

    assert attempt_of(state_of(board=board), "zoe", "talk") == 4
    assert attempt_of(state_of(board=board), "zoe", "vote") == 0
    assert attempt_of(state_of(board=board), "Bob", "talk") == 0
    assert attempt_of(state_of(board=board, turn=1), "zoe", "talk") == 0
    assert attempt_of(state_of(board=board, round=1), "zoe", "talk") == 0
    assert attempt_of(state_of(board=board, epochs=[[0, 0]]), "zoe", "talk") == 0


async def both(run: Run, state: Discussion, agent: Agent) -> Update:
    """Two acts in one step: where the second fails, the first is lost with it."""
    first = await say(run, state, agent, ask("one", "select"))
    return {"board": [*first, *await say(run, state, agent, ask("two"))]}


@pytest.mark.parametrize("half", ["sync", "async"])
async def test_a_step_that_is_tried_again_by_a_policy_keeps_its_attempt_and_its_seeds(half: str) -> None:
    model = Failing(replies={"zoe": ["a", "a", "b"]}, fails=(1,))
    frame = framed(model)
    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=TimeoutError)
    frame.graph.add_node("zoe", node(frame.contexts, both, "zoe", "zoe"), retry_policy=policy)
    frame.graph.add_edge("next_round", "zoe")
    frame.graph.add_edge("zoe", "decide")
    graph = frame.graph.compile()

    state: Any = (
        graph.invoke(QUESTION, output_keys=KEYS) if half == "sync" else await graph.ainvoke(QUESTION, output_keys=KEYS)
    )

    assert [(call["place"].act, call["place"].attempt) for call in model.tried] == [("select", 0), ("talk", 0)] * 2
    assert model.tried[:2] == model.tried[2:]
    assert [(message.act, message.text) for message in current_messages(state)] == [("select", "a"), ("talk", "b")]


# Seeds


def test_seeds_differ_wherever_the_place_differs() -> None:
    run, other = run_of(), run_of(seed=1)
    places = [*product((0, 1), (0, 1, 11), (0, 1, 11), ("zoe", "Bob"), ("talk", "vote"), (0, 1, 11))]
    seeds = [
        each.seed(state_of(epochs=[[0, 0]] * epoch, round=round, turn=turn, id=id), agent, act, attempt)
        for each in (run, other)
        for id in ("q", "q1")
        for epoch, round, turn, agent, act, attempt in places
    ]

    assert len({*seeds}) == len(seeds) == 4 * 216
    assert all(0 <= seed < 2**63 for seed in seeds)


# Epochs


def after_reset(board: list[Message], cut: tuple[int, int], **keys: Any) -> Any:
    """The state after a reset that withdraws what was said from `cut` on."""
    state = state_of(board=board, round=2, **keys)
    state["marks"] = [{"round": cut[0] - 1, "turn": 0, "cut": list(cut), "keys": {"level": 1}}]
    return {**state, **reset(state)}


SAID = [Message("zoe", round, "talk", f"round {round}") for round in range(3)]


def test_after_a_reset_nothing_is_heard_from_the_cut_on_and_the_board_keeps_it() -> None:
    state = after_reset(SAID, (1, 0))

    assert told(current_messages(state)) == [("zoe", "round 0")]
    assert (state["round"], state["epochs"], state["level"], state["marks"]) == (0, [[1, 0]], 1, [])
    assert state["board"] == SAID


def test_a_mark_keeps_what_a_reset_restores_and_a_reset_takes_later_marks_along() -> None:
    state: Any = {**state_of(round=0, turn=2), "level": 0, "count": 5}
    state |= marked(state, ["level"])
    state |= {"round": 1, "turn": 0, "level": 1, "count": 6}
    state |= marked(state, ["level"], (2, 0))

    back = {**state, **reset(state, 0)}

    assert (back["round"], back["turn"], back["level"], back["count"]) == (0, 2, 0, 6)
    assert back["epochs"] == [[0, 2]] and back["marks"] == []
    assert {**state, **reset(state)}["epochs"] == [[2, 0]]
    assert len({**state, **reset(state)}["marks"]) == 1
