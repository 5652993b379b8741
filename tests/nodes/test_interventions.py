"""What takes the place of publishing: a rollback, a note to everybody, silence, a person's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.react import ReAct
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.say import say
from sottovoce.nodes.state import Discussion, Update, current_messages
from sottovoce.nodes.watch import Intervention
from tests.graphs.support import KEYS, QUESTION, Once, board
from tests.nodes.support import Run, ask, framed, told
from tests.nodes.test_monitor_node import SCRIPTS, THREAD, model_of
from tests.tables import each_row

MORE = [*KEYS, "epochs", "interventions"]


def played(name: str, watch: Any, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    """The state at the end of a watched discussion, with its interventions."""
    found, model = scheme(name), model_of(name)
    graph = found.create(found.settings(**SCRIPTS[name][0] | settings), models=model, watch=watch).compile()
    return graph.invoke(QUESTION, output_keys=MORE), model


@pytest.mark.parametrize(("rounds", "cut"), [(1, [1, 0]), (2, [0, 0]), (9, [0, 0])])
def test_a_rollback_takes_back_so_many_rounds_and_the_one_under_way_and_never_more_than_there_are(
    rounds: int, cut: list[int]
) -> None:
    state, _ = played("debate", Once("rollback", "agent_1", 2, rounds=rounds), rounds=3)

    assert state["epochs"] == [cut]
    assert [message.round for message in current_messages(state)] == [round for round in range(3) for _ in range(3)]
    assert state["decision"]["answer"] == "22"


@pytest.mark.parametrize(("what", "again"), [("again", [(0, 1)]), ("reset", [(1, 0)] * 3), ("rollback", [(1, 0)] * 6)])
def test_what_is_said_again_at_temperature_0_is_drawn_with_another_seed_above_0(
    what: Any, again: list[tuple[int, int]]
) -> None:
    watch = Once(what, "agent_1", 1)

    state, model = played("debate", watch, temperature=[0], redraw_temperature=0.4)

    redrawn = [asked for asked in model.calls if asked.options["temperature"] > 0]
    assert [(each.place["epoch"], each.place["attempt"]) for each in redrawn] == again
    assert {each.options["temperature"] for each in redrawn} == {0.4}
    assert len({each.options["seed"] for each in model.calls}) == len(model.calls)
    assert state["interventions"][0]["temperature"] == 0.4
    kept = [each.stats["temperature"] for each in board(state) if "said again at temperature 0.4" in each.notes]
    assert kept == [0.4] * len(again)


def test_places_that_nobody_spoke_at_before_a_reset_keep_temperature_0() -> None:
    _, model = played("debate", Once("reset", "agent_1", 0), temperature=[0])

    assert [(asked.round, asked.options["temperature"]) for asked in model.calls] == [
        *[(0, 0)] * 3, *[(0, 0.7)] * 3, *[(1, 0)] * 3
    ]  # fmt: skip
    warm, _ = played("debate", Once("reset", "agent_1", 0), temperature=[0.5])
    assert "temperature" not in warm["interventions"][0]


@each_row("name", ["debate", "mad", "cmd", "whodunit"])
def test_a_note_is_read_by_everybody_from_then_on_and_who_was_held_back_speaks_again(name: str) -> None:
    speakers = scheme(name).settings(**SCRIPTS[name][0]).speakers()
    first = speakers[0]

    state, model = played(name, Once("augment", first, 0, note="Mind the carry."))

    later = [asked for asked in model.calls if "Mind the carry." in asked.text]
    assert model.calls[0] not in later and later[0].agent == first
    assert later == model.calls[-len(later) :]
    assert {asked.agent for asked in later} >= set(speakers)
    assert [(message.agent, message.act) for message in board(state) if message.source == "rule"][:1] == [
        (f"monitor of {first}", "note")
    ]
    assert state["decision"] == played(name, None)[0]["decision"]


def test_a_note_is_forgotten_with_a_reset() -> None:
    class Both:
        def __init__(self) -> None:
            self.watches = [Once("augment", "agent_1", 1, note="Mind the carry."), Once("reset", "agent_1", 1)]

        def __call__(self, run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
            return next((found for watch in self.watches if (found := watch(run, state, messages))), None)

    state, model = played("debate", Both())

    assert [each["what"] for each in state["interventions"]] == ["augment", "reset"]
    assert [asked.place["epoch"] for asked in model.calls if "Mind the carry." in asked.text] == [0]


@pytest.mark.parametrize("name", ["reconcile", "madra"])
def test_who_is_muted_says_nothing_and_the_others_go_on(name: str) -> None:
    agent = scheme(name).settings(**SCRIPTS[name][0]).speakers()[-1]

    state, _ = played(name, Once("mute", agent, 0))

    said = [message for message in board(state) if (message.agent, message.round) == (agent, 0)][-2:]
    assert [(message.withdrawn, message.text, message.source) for message in said] == [
        (True, said[0].text, "model" if said[0].payload else "hosted"),
        (False, "", "rule"),
    ]
    assert said[0].text and state["decision"]["answer"] is not None


def test_a_muted_step_of_a_relay_is_not_done_even_where_it_took_two_calls() -> None:
    replies = {"agent_1": [" I wonder.", " Search[The Salt Ledger]"] * 2, "agent_2": [" It says so.\nFinish[Greyholt]"]}
    found = scheme("react")
    graph = found.create(ReAct(agents=2), models=ScriptedChatModel(replies), watch=Once("mute", "agent_1", 0)).compile()

    state = graph.invoke(QUESTION, output_keys=KEYS)

    first = [(message.act, message.text) for message in board(state) if message.round == 0 and not message.withdrawn]
    assert first[:2] == [("step", ""), ("action", "")] and first[2][1].startswith("Invalid action")


def test_a_human_takes_the_seat_and_keeps_it() -> None:
    model, settings = model_of("debate"), Debate(rounds=2, agents=2, intervention="human")
    watched = scheme("debate").create(settings, models=model, watch=Once("human", "agent_1", 0))
    graph = watched.compile(checkpointer=InMemorySaver())

    asked = []
    state = graph.invoke(QUESTION, THREAD, output_keys=MORE)
    while stopped := graph.get_state(THREAD).interrupts:
        asked.append(stopped[0].value)
        state = graph.invoke(Command(resume="The answer is 23."), THREAD, output_keys=MORE)

    assert [(each["agent"], each["act"]) for each in asked] == [("agent_1", "answer"), ("agent_1", "revise")]
    assert QUESTION["question"] in asked[0]["turns"][-1][1] and "The answer is 22." in asked[1]["turns"][-1][1]
    own = [message for message in board(state) if message.agent == "agent_1"]
    assert [(message.source, message.withdrawn) for message in own] == [
        ("hosted", True),
        ("human", False),
        ("human", False),
    ]
    assert model.calls[-1].text.count("The answer is 23.") == 1


def test_a_seat_cannot_be_handed_over_without_a_saver() -> None:
    with pytest.raises(UsageError, match="has no checkpointer; compile it with one"):
        played("debate", Once("human", "agent_1", 0), intervention="human")


def test_acts_that_belong_together_are_looked_at_before_they_are_acted_on() -> None:
    seen: list[list[str]] = []

    class Twice:
        def __call__(self, run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
            seen.append([message.agent for message in messages])
            return Intervention("reset", "greedy") if len(seen) == 1 else None

    async def wish(run: Run, state: Discussion, agent: Agent) -> Update:
        return {"board": await say(run, state, agent, ask())}

    harvests = list[int]()

    def harvest(state: Discussion) -> Update:
        harvests.append(len(state.get("epochs", [])))
        return {"marks": []}

    frame = framed(ScriptedChatModel(["10 tons"] * 4), watch=Twice())
    frame.join("harvest", harvest, to="decide", together=current_messages)
    for agent in ("zoe", "Bob"):
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, wish, to="harvest", watched=False)

    state = frame.graph.compile().invoke(QUESTION, output_keys=[*KEYS, "interventions", "epochs"])

    assert seen == [["zoe", "Bob"], ["zoe", "Bob"]] and harvests == [1]
    assert (
        told(current_messages(cast(Discussion, state))) == [("zoe", "10 tons"), ("Bob", "10 tons")]
        and len(board(state)) == 4
    )
    assert [(each["agent"], each["what"]) for each in state["interventions"]] == [("zoe, Bob", "reset")]
