"""A watched discussion: what is made is looked at first, and published, done again, or taken back to a mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.graphs import scheme
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.say import say
from sottovoce.nodes.state import RESTORED, Discussion, Update, current_messages
from sottovoce.nodes.watch import Intervention
from tests.graphs.support import KEYS, NEEDED, OF_CMD, QUESTION, Once, board, calls, texts
from tests.nodes.support import Run, ask, framed, told
from tests.tables import each_row

THREAD: Any = {"configurable": {"thread_id": "1"}}
Look = Callable[[Any, Any, Sequence[Message]], Intervention | None]
SPEECH = '{{"reasoning": "So.", "answer": "{}", "confidence_level": "0.9"}}'
OPEN = '{"Whether there is a preference": "No", "Supported Side": "", "Reason": "", "debate_answer": ""}'
ACTED = '{"thoughts": "So.", "action": 2, "value": "hat-brown", "character": [1]}'
JUDGED = '{"Reason": "", "debate_answer": "22"}'
SCRIPTS: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "debate": ({"rounds": 2, "agents": 3}, {"": ["The answer is 22."]}),
    "mad": ({"rounds": 2}, {"": ["The answer is 22."], "moderator": [OPEN], "judge": ["22.", JUDGED, JUDGED]}),
    "reconcile": ({"rounds": 1, "agents": 2}, {"agent_1": [SPEECH.format(21)], "agent_2": [SPEECH.format(22)]}),
    "cmd": ({"rounds": 2, "agents": 2}, {"agent_1": ["21"], "agent_2": ["22"], "secretary": ["22"]}),
    "madra": ({"rounds": 2, "source": "none"}, {"": ["The answer is 22."], "judge": ["[No]"]}),
    "govsim": ({"agents": 2, "months": 3, "utterances": 1}, {"": ["Say: Few.\nAnswer: 10 tons"]}),
    "whodunit": ({"suspects": 3, "attributes": 2, "turns": 4}, {"": [ACTED]}),
    "codegen": ({"rounds": 2, "agents": 2, "consensus": False}, {"": ["The answer is 2."]}),
    "single": ({}, {"": ["The answer is 22."]}),
    "self_consistency": ({"samples": 2}, {"": ["The answer is 22."]}),
}


def model_of(name: str) -> ScriptedChatModel:
    replies = {
        agent: said * (40 if name != "mad" or agent != "judge" else 1) for agent, said in SCRIPTS[name][1].items()
    }
    return ScriptedChatModel(replies)


def held(name: str, watch: Look | None, saver: Any = None) -> tuple[Any, ScriptedChatModel]:
    """The state at the end of a watched discussion, and the model that spoke."""
    found, model = scheme(name), model_of(name)
    graph = found.create(found.settings(**SCRIPTS[name][0]), models=model, watch=watch, **NEEDED.get(name, {})).compile(
        checkpointer=saver
    )
    keys = [*KEYS, "pending", "epochs", *(OF_CMD if name == "cmd" else [])]
    return graph.invoke(QUESTION, THREAD if saver else None, output_keys=keys), model


def never(run: Any, state: Any, messages: Sequence[Message]) -> None:
    """Looks, and lets everything pass."""


@each_row("name", SCRIPTS)
def test_a_watch_that_lets_everything_pass_changes_no_discussion(name: str) -> None:
    (state, model), (plain, unwatched) = held(name, never), held(name, None)

    assert (board(state), state["decision"]) == (board(plain), plain["decision"])
    asked = [{(each.agent, each.act, each.round): each.turns for each in every.calls} for every in (model, unwatched)]
    assert asked[0] == asked[1]
    assert state["pending"] == {}


@each_row("name", ["debate", "mad", "reconcile", "cmd", "madra"])
def test_what_is_done_again_is_the_next_attempt_and_the_discussion_goes_on_as_if_it_had_been_the_first(
    name: str,
) -> None:
    first = scheme(name).settings(**SCRIPTS[name][0]).speakers()[0]

    (state, model), (plain, unwatched) = held(name, Once("again", first, 1)), held(name, None)

    assert texts(state) == texts(plain) and state["decision"] == plain["decision"]
    again = [message for message in board(state) if (message.agent, message.round) == (first, 1)]
    cold = scheme(name).settings.default_temperature == 0
    notes = [("withdrawn: it looks wrong",), ("said again at temperature 0.7",) if cold else ()]
    assert [(message.attempt, message.notes) for message in again] == [*enumerate(notes)]
    assert len(model.calls) == len(unwatched.calls) + 1
    assert len({each.options["seed"] for each in calls(model, first)}) == len(calls(model, first))


@each_row(
    ("name", "agent", "round"),
    [(name, "agent_1", 1) for name in ("debate", "reconcile", "cmd", "madra")]
    + [("mad", agent, 1) for agent in ("affirmative", "negative", "moderator", "judge")]
    + [("cmd", "secretary", 1), ("madra", "judge", 0)],
)
def test_who_does_it_again_reads_what_it_read_before_and_nothing_that_was_withdrawn(
    name: str, agent: str, round: int
) -> None:
    _, model = held(name, Once("again", agent, round))

    withdrawn, again = [asked for asked in calls(model, agent) if asked.round == round][:2]
    assert (withdrawn.act, withdrawn.turns) == (again.act, again.turns)
    assert [asked.place["attempt"] for asked in (withdrawn, again)] == [0, 1]


@each_row("name", ["debate", "reconcile", "cmd"])
def test_a_reset_takes_a_discussion_back_to_the_beginning_of_its_round(name: str) -> None:
    (state, model), (plain, unwatched) = held(name, Once("reset", "agent_2", 1)), held(name, None)

    agents = SCRIPTS[name][0]["agents"]
    assert len(model.calls) == len(unwatched.calls) + agents
    assert state["epochs"] == [[1, 0]] and state["round"] == plain["round"]
    assert [told([message])[0] for message in current_messages(state)] == told(board(plain))
    withdrawn = [message for message in board(state) if message.epoch == 0 and message.round == 1]
    assert [message.agent for message in withdrawn] == [f"agent_{i + 1}" for i in range(agents)]
    assert [message.notes for message in withdrawn if message.agent == "agent_2"] == [("withdrawn: it looks wrong",)]
    assert state["decision"] == plain["decision"]


def test_after_a_reset_those_who_speak_in_turn_begin_the_round_anew() -> None:
    (state, model), (plain, _) = held("mad", Once("reset", "negative", 1)), held("mad", None)

    assert [(each.place["epoch"], each.round, each.place["turn"], each.agent) for each in model.calls][3:8] == [
        (0, 1, 0, "affirmative"),
        (0, 1, 1, "negative"),
        (1, 1, 0, "affirmative"),
        (1, 1, 1, "negative"),
        (1, 1, 2, "moderator"),
    ]
    assert state["decision"] == plain["decision"]
    first, again = (each for each in model.calls if (each.agent, each.round) == ("affirmative", 1))
    assert first.turns == again.turns and first.options["seed"] != again.options["seed"]


def test_two_who_ask_for_a_reset_in_one_step_reset_it_once() -> None:
    def watch(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        here = messages[-1].round == 1 and not state["epochs"] and messages[-1].agent != "agent_3"
        return Intervention("reset", "both") if here else None

    state, model = held("debate", watch)

    assert state["epochs"] == [[1, 0]] and len(model.calls) == 3 * 3


@pytest.mark.parametrize(
    ("name", "agent", "more"), [("debate", "agent_3", 3), ("madra", "agent_1", 2), ("self_consistency", "sample_1", 2)]
)
def test_a_reset_in_the_first_round_begins_the_discussion_anew(name: str, agent: str, more: int) -> None:
    (state, model), (plain, unwatched) = held(name, Once("reset", agent, 0)), held(name, None)

    assert state["epochs"] == [[0, 0]] and len(model.calls) == len(unwatched.calls) + more
    assert told(current_messages(state)) == told(board(plain))
    assert state["decision"] == plain["decision"]


@pytest.mark.parametrize(("resets", "speaks"), [("agent_1", "agent_2"), ("agent_2", "agent_1")])
def test_who_was_asked_again_while_another_reset_the_round_is_heard_no_more(resets: str, speaks: str) -> None:
    watches = [Once("reset", resets, 0), Once("again", speaks, 0)]

    def watch(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        return next((found for each in watches if (found := each(run, state, messages))), None)

    state, model = held("debate", watch)

    assert state["epochs"] == [[0, 0]] and state["pending"] == {} and len(model.calls) == 3 * 3 + 1
    assert {message.epoch for message in current_messages(state)} == {1}
    late = [message.attempt for message in board(state) if (message.agent, message.epoch) == (speaks, 0)]
    assert late == [0, 1]


class Counted(Discussion):
    """A world with a pool of fish, and a count that no reset takes back."""

    fish: Annotated[int, RESTORED]
    resets: int


def test_keys_that_are_restored_go_back_and_others_stay() -> None:
    async def fish(run: Run, state: Any, agent: Agent) -> Update:
        return {"board": await say(run, state, agent, ask()), "fish": state["fish"] - 1}

    def watch(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        tried = state["resets"]
        return Intervention("reset", "overfished", {"resets": tried + 1}) if tried < 2 else None

    frame = framed(
        ScriptedChatModel(["Hm."] * 9),
        watch=watch,
        state=Counted,
        begin=lambda run, state: {"fish": 10, "resets": 0},
    )
    frame.graph.add_edge("next_round", "zoe")
    frame.act("zoe", fish, to="decide")

    state = frame.graph.compile().invoke(QUESTION, output_keys=["fish", "resets", "epochs", "board"])

    assert (state["fish"], state["resets"], len(state["epochs"]), len(board(state))) == (9, 2, 2, 3)


@pytest.mark.parametrize("node", ["watch_agent_1", "reset"])
def test_a_watched_run_that_was_stopped_goes_on_as_if_unbroken(node: str) -> None:
    expected, _ = held("debate", Once("reset", "agent_2", 1))
    found, model = scheme("debate"), model_of("debate")
    graph = found.create(
        found.settings(**SCRIPTS["debate"][0]), models=model, watch=Once("reset", "agent_2", 1)
    ).compile(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=[node])
    assert graph.get_state(THREAD).next

    state = graph.invoke(None, THREAD, output_keys=KEYS)

    assert (board(state), state["decision"]) == (board(expected), expected["decision"])
    assert len(model.calls) == 9
