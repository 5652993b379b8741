"""Discussions by a rule: Debate, a ring and CMD as rules agree with their own graphs; what a rule can say, and not."""

from __future__ import annotations

import doctest
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import sottovoce.graphs.discussion
from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.cmd import create_cmd
from sottovoce.graphs.debate import SCHEME
from sottovoce.graphs.discussion import create_discussion
from sottovoce.graphs.runtime.frame import Frame
from sottovoce.nodes.cmd import answer_turns, discuss_turns
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Models
from sottovoce.nodes.debate import average
from sottovoce.nodes.decide import read_vote, viewpoints
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.nodes.rules import RULE, SILENT, DiscussionRule
from sottovoce.nodes.say import lacks_answer, say
from sottovoce.nodes.setup import close_round
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, said
from sottovoce.prompts.render import Prompts
from sottovoce.settings import CMD, Debate, MesSync, grouped
from tests.graphs.support import (
    QUESTION,
    Graph,
    State,
    board,
    calls,
    debating,
    heard,
    held,
    lonely,
    marked,
    outcome,
    script,
    texts,
)
from tests.tables import pairs, some

NAMES = ["agent_1", "agent_2", "agent_3"]
THREAD: Any = {"configurable": {"thread_id": "1"}}


# Rules


@dataclass
class AllHearAll(DiscussionRule):
    """Debate (Du et al. 2023): everybody hears all others, for so many rounds; who is alone checks itself."""

    rounds: int = 3

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return [agent for agent in agents if agent != message.agent] or [message.agent]

    def is_over(self, state: Discussion) -> bool:
        return state["round"] + 1 == self.rounds


class Ring(AllHearAll):
    """Each hears what its left neighbour said last, and that alone."""

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> list[str]:
        return [agents[(agents.index(message.agent) + 1) % len(agents)]]

    def merge(self, view: PromptBuilder, own: Sequence[Message], heard: Sequence[Sequence[Message]]) -> Sequence[Turn]:
        return view.fresh(own[-1], heard[-1]) if own else view.independent()


@dataclass
class Groups(AllHearAll):
    """CMD (arXiv 2402.18272): the own group is heard in full, of the others how many hold which view."""

    agents: int = 6

    def merge(self, view: PromptBuilder, own: Sequence[Message], heard: Sequence[Sequence[Message]]) -> Sequence[Turn]:
        if not own:
            return answer_turns(view)
        messages = {message.agent: message for message in [*heard[-1], own[-1]]}
        votes = [read_vote(message, view.question) for message in messages.values()]
        return discuss_turns(view, messages, votes, grouped([f"agent_{i + 1}" for i in range(self.agents)]))


class Relay(DiscussionRule):
    """One speaks after the other, once."""

    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        return agents[:1]

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return agents[message.round + 1 : message.round + 2]


class Patient(AllHearAll):
    """agent_2 keeps what it is sent in round 1."""

    def should_wait(self, agent: str, messages: Sequence[Message], state: Discussion) -> bool:
        return agent == "agent_2" and state["round"] == 0


def discussing(rule: DiscussionRule, models: Models = None, *, saver: Any = None, **settings: Any) -> Graph:
    """A compiled discussion, whose agents are not asked for answers that they do not state."""
    store, settings = settings.pop("store", None), {"answer_turn": "off", **settings}
    return create_discussion(rule, MesSync(**settings), models=models, store=store).compile(checkpointer=saver)


def asked(model: ScriptedChatModel) -> dict[tuple[str, int, str], tuple[tuple[Turn, ...], object]]:
    """The prompt and the options of every call: turns with the messages in them, seeds, temperatures."""
    return {(call.agent, call.round, call.act): (call.turns, dict(call.options)) for call in model.calls}


def flags(call: RecordedCall) -> list[tuple[str, int, bool, bool]]:
    """Agent, round, latest and own of every message in a prompt."""
    parts = [part for turn in call.turns for part in turn.parts if isinstance(part, MessageRef)]
    return [(part.message.agent, part.message.round, part.latest, part.own) for part in parts]


def same_run(found: State, expected: State) -> bool:
    return board(found) == board(expected) and found["decision"] == expected["decision"]


def carried(state: State) -> list[tuple[str, tuple[int, ...], object]]:
    """What lies under the words; its digest may differ in the last bit."""
    refs = [message.payload for message in board(state) if message.payload]
    assert len(refs) == len(board(state))
    return [(ref.protocol, ref.load().ids, ref.layers) for ref in refs]


# Known schemes as rules


@pytest.mark.parametrize(("agents", "rounds"), pairs([1, 2, 3, 4], [3, 2, 1], 3))
def test_debate_as_a_rule_has_the_prompts_seeds_messages_and_decision_of_the_debate(agents: int, rounds: int) -> None:
    model, expected = marked(agents, rounds), marked(agents, rounds)
    more: Any = {"agents": agents, "temperature": [0.5], "system": ["Be brief."], "seed": 7}
    question: Any = {"target": "1", "documents": {"agent_1": ["Mia has 3."]}, "starting_views": {"agent_1": "2"}}

    state = held(discussing(AllHearAll(rounds), model, **more), **question)

    assert same_run(state, held(debating(expected, rounds=rounds, answer_turn="off", **more), **question))
    assert len(model.calls) == agents * rounds
    assert asked(model) == asked(expected)


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde", "hidden"], "cipher", "sde"))
def test_debate_as_a_rule_carries_what_the_debate_carries(protocol: str, store: PayloadStore) -> None:
    state = held(discussing(AllHearAll(3), lonely(protocol, store), agents=2))
    debate = debating(lonely(protocol, store), agents=2, rounds=3, rule="majority", answer_turn="off")
    expected = held(debate)  # a rule that complains of nothing asks for nothing again
    assert outcome(state) == outcome(expected)
    assert len(texts(state)) == 6
    assert carried(state) == carried(expected)


def ring_by_hand(rounds: int, model: ScriptedChatModel) -> Graph:
    """The ring as a graph of its own."""

    def listen(run: RunContext[Debate], state: Discussion, agent: str) -> Update:
        view, before = run.prompt_builder(state, agent), state["round"] - 1
        left = dict(zip(NAMES, [NAMES[-1], *NAMES], strict=False))[agent]
        own, neighbour = (said(state, name, before, run.answers) for name in (agent, left))
        turns = view.fresh(own, [neighbour]) if own and neighbour else view.independent()
        return {"board": say(run, state, Ask(agent, "revise" if own else "answer", turns))}

    def after(state: Discussion) -> Literal["decide", "next_round"]:
        return "decide" if state["round"] + 1 == rounds else "next_round"

    frame = Frame(SCHEME, Debate(agents=len(NAMES), rounds=rounds), model)
    frame.join("close_round", close_round, to=after)
    for agent in NAMES:
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, listen, to="close_round")
    return frame.graph.compile()


def test_a_ring_as_a_rule_agrees_with_a_ring_as_a_graph() -> None:
    model, expected = marked(3, 4), marked(3, 4)
    assert same_run(held(discussing(Ring(4), model)), held(ring_by_hand(4, expected)))
    assert asked(model) == asked(expected)
    assert [heard(call) for call in calls(model, "agent_1")[1:]] == [[("agent_3", r), ("agent_1", r)] for r in range(3)]


@pytest.mark.parametrize("agents", [4, 6, 7])
def test_cmd_as_a_rule_agrees_with_cmd_its_secretary_included(agents: int) -> None:
    said = {f"agent_{i + 1}": [f"{20 + (i + r) % 2 + i // 6 * 9}" for r in range(3)] for i in range(agents)}
    model, expected = (script({**said, "secretary": ["22"]}) for _ in range(2))
    if agents == 7:  # of three answers two are tied
        assert len({answers[-1] for answers in said.values()}) == 3
    state = held(
        discussing(Groups(3, agents), model, agents=agents, secretary=True, temperature=[0.25])
    )  # as CMD has it
    cmd = create_cmd(CMD(agents=agents), models=expected).compile()
    assert same_run(state, held(cmd))
    assert asked(model) == asked(expected)
    assert (state["decision"]["answer"], state["decision"]["by"]) == ("22", "secretary")


def test_the_example_runs() -> None:
    found = doctest.testmod(sottovoce.graphs.discussion)
    assert (found.failed, found.attempted > 5) == (0, True)


# What a rule can say


def test_who_was_not_sent_anything_is_not_asked_and_says_nothing() -> None:
    model = marked(3, 1)
    state = held(discussing(Relay(), model))
    assert [(call.agent, call.round, call.act) for call in model.calls] == [
        ("agent_1", 0, "answer"),
        ("agent_2", 1, "answer"),
        ("agent_3", 2, "answer"),
    ]
    assert [heard(call) for call in model.calls] == [[], [("agent_1", 0)], [("agent_2", 1)]]
    assert len(board(state)) == 3
    assert [vote["answer"] for vote in state["decision"]["votes"]] == ["0", "0", "0"]  # everybody's last message


def test_who_hears_before_it_first_speaks_reads_it_with_the_question() -> None:
    model = marked(3, 1)
    question: Any = {"documents": {"agent_2": ["Mia has 3."]}, "description": "Sums."}
    held(discussing(Relay(), model, system=["Be brief."]), **question)
    (call,) = calls(model, "agent_2")
    assert [turn.role for turn in call.turns] == ["system", "user"]
    assert flags(call) == [("agent_1", 0, True, False)]
    assert [each in call.text for each in ("Mia has 3.", "Sums.", "Another agent")] == [True] * 3


def test_what_is_held_comes_before_what_is_heard_next_and_its_receiver_is_silent_meanwhile() -> None:
    model = marked(3, 3)
    state = held(discussing(Patient(3), model))
    assert [(call.round, call.act) for call in calls(model, "agent_2")] == [(0, "answer"), (2, "revise")]
    assert flags(calls(model, "agent_2")[-1]) == [
        ("agent_2", 0, True, True),
        ("agent_1", 0, True, False),
        ("agent_3", 0, True, False),
        ("agent_1", 1, True, False),
        ("agent_3", 1, True, False),
    ]
    assert heard(calls(model, "agent_1")[-1], -1) == [("agent_3", 1)]
    assert len(board(state)) == 8


def test_what_was_held_stays_together_in_the_chat_of_later_rounds() -> None:
    model = marked(3, 4)
    held(discussing(Patient(4), model))
    last = calls(model, "agent_2")[-1]
    assert [turn.role for turn in last.turns] == ["user", "assistant", "user", "assistant", "user"]
    assert heard(last, 2) == [("agent_1", 0), ("agent_3", 0), ("agent_1", 1), ("agent_3", 1)]
    assert [latest for *_, latest, _ in flags(last)] == [False] * 5 + [True] * 3


def test_what_is_held_and_followed_by_nothing_is_never_heard() -> None:
    class Deaf(AllHearAll):
        def should_wait(self, agent: str, messages: Sequence[Message], state: Discussion) -> bool:
            return True

    model = marked(3, 1)
    state = held(discussing(Deaf(9), model))
    assert (len(model.calls), state["decision"]["answer"]) == (3, "0")


class Chaired(Relay):
    """Where the relay has ended, the first is asked once more."""

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return agents[:1] if message.agent == RULE else super().receivers(message, state, agents)

    def silence(self, state: Discussion) -> str:
        return "Is that your last word?" if state["round"] == 2 else ""


def test_in_silence_the_rule_speaks_in_words_and_its_receivers_answer() -> None:
    model = marked(3, 2)
    state = held(discussing(Chaired(), model))
    last = model.calls[-1]
    assert (last.agent, last.round, last.act, heard(last)) == ("agent_1", 3, "revise", [("agent_1", 0)])
    assert last.turns[-1].text.startswith("Is that your last word?\n\n")
    assert last.turns[-1].text.endswith(PromptBuilder(Prompts(), {"question": "?", "kind": "number"}, None).form())
    assert "Another agent" not in last.text
    (remark,) = (message for message in board(state) if message.agent == RULE)
    assert (remark.place, remark.source) == ((0, 2, 0, RULE, "break_silence", 0), "rule")
    assert [vote["agent"] for vote in state["decision"]["votes"]] == NAMES


def test_who_says_that_it_is_silent_is_heard_by_nobody_and_its_word_before_counts() -> None:
    model = script({"agent_1": ["22"] * 3, "agent_2": ["21"], "agent_3": ["22"] * 3})
    model.replies["agent_2"] += [SILENT, f" {SILENT}\n"]
    state = held(discussing(AllHearAll(3), model))
    assert heard(calls(model, "agent_1")[-1], -1) == [("agent_3", 1)]
    assert [vote["answer"] for vote in state["decision"]["votes"]] == ["22", "21", "22"]


def test_when_all_are_silent_it_is_over() -> None:
    model = ScriptedChatModel({name: ["The answer is 22.", SILENT] for name in NAMES})
    state = held(discussing(AllHearAll(9), model))
    assert (len(model.calls), state["round"], state["decision"]["answer"]) == (6, 1, "22")


class UntilAgreed(AllHearAll):
    """A debate that ends when all agree."""

    def is_over(self, state: Discussion) -> bool:
        return super().is_over(state) or len(viewpoints(state["votes"], state)) == 1


def test_a_rule_can_end_it_by_what_agents_answer() -> None:
    model = script({"agent_1": ["22", "22"], "agent_2": ["21", "22"], "agent_3": ["22", "22"]})
    state = held(discussing(UntilAgreed(9), model))
    assert (state["round"], state["decision"]["why"]) == (1, "3 of 3 say 22")


def test_a_rule_can_change_the_prompt_as_it_is_sent() -> None:
    class Reminding(AllHearAll):
        def modify(self, view: PromptBuilder, turns: Sequence[Turn]) -> list[Turn]:
            return [*turns, Turn("system", (f"Mind the signs, {view.agent}.",))]

    model = marked(2, 2)
    held(discussing(Reminding(2), model, agents=2))
    assert all(call.turns[-1].text == f"Mind the signs, {call.agent}." for call in model.calls)


class Strict(AllHearAll):
    """Answers must be readable."""

    def validate(self, view: PromptBuilder, message: Message) -> str:
        return lacks_answer(view.question)(message)


def test_an_answer_that_the_rule_finds_wrong_is_asked_for_once_more() -> None:
    model = script({"agent_1": ["22", "22"], "agent_2": ["22", "22"]})
    model.replies["agent_1"].insert(0, "Who knows?")
    state = held(discussing(Strict(2), model, agents=2))
    first = [message for message in board(state) if (message.agent, message.round) == ("agent_1", 0)]
    assert [(message.attempt, message.text) for message in first] == [(0, "Who knows?"), (1, "The answer is 22.")]
    assert "This cannot be read: it holds no number." in calls(model, "agent_1")[1].text
    assert calls(model, "agent_1")[0].options["seed"] != calls(model, "agent_1")[1].options["seed"]
    assert "Who knows?" not in calls(model, "agent_2")[-1].text


def test_silence_is_no_wrong_answer() -> None:
    model = ScriptedChatModel(
        {"agent_1": ["The answer is 22.", SILENT], "agent_2": ["The answer is 22.", "The answer is 22."]}
    )
    state = held(discussing(Strict(2), model, agents=2))
    assert (len(model.calls), len(board(state))) == (4, 4)


def test_an_answer_that_is_missing_again_is_asked_for_alone_and_counts_where_the_rule_says_no_more() -> None:
    model = ScriptedChatModel({"agent_1": ["Hm.", "Hm!", " 22"], "agent_2": ["The answer is 22."]})
    state = held(discussing(Strict(1), model, agents=2, answer_turn="needed"))
    assert [message.asked for message in board(state) if message.agent == "agent_1"] == ["", "repair", "answer"]
    assert state["decision"]["votes"][0] == {
        "agent": "agent_1",
        "answer": "22",
        "counts": True,
        "read": "asked",
        "asked": "answer",
    }


def test_an_answer_that_is_wrong_again_is_heard_and_is_an_abstention() -> None:
    """It was asked for alone as well, and that was never read: the reply holds an answer, which the rule refuses."""

    class NeverTwentyOne(AllHearAll):
        def validate(self, view: PromptBuilder, message: Message) -> str:
            return "it says 21" if "21" in message.text else ""

    model = script({"agent_1": ["21", "21", "21", "21"], "agent_2": ["22", "22"]})
    state = held(discussing(NeverTwentyOne(2), model, agents=2))
    assert [vote["answer"] for vote in state["decision"]["votes"]] == [None, "22"]
    assert state["decision"]["answer"] == "22"
    assert heard(calls(model, "agent_2")[-1], -1) == [("agent_1", 0)]
    assert board(state)[1].notes == ("cannot be read: it says 21",)


def test_a_rule_can_decide_by_itself() -> None:
    class OnAverage(AllHearAll):
        def decide(self, votes: Sequence[Vote], question: Question) -> Decision:
            return average(list(votes), question)  # type: ignore[arg-type]  # of the state it reads the question

    state = held(discussing(OnAverage(1), script({"agent_1": ["22"], "agent_2": ["1"]}), agents=2), target="22")
    assert (state["decision"]["rule"], state["decision"]["score"]) == ("average", 0.5)


def test_the_secretary_is_asked_at_a_tie_alone_after_everybody_s_last_words() -> None:
    says = {"agent_1": ["22"], "agent_2": ["21"], "agent_3": ["22"], "secretary": ["21"]}
    model = script(says)
    state = held(discussing(Relay(), model, secretary=True))
    assert (state["decision"]["answer"], calls(model, "secretary")) == ("22", [])
    model = script({**says, "agent_3": ["20"]})
    model.replies["secretary"].insert(0, "Who knows?")
    state = held(discussing(Relay(), model, secretary=True, answer_turn="needed"))
    assert heard(calls(model, "secretary")[0]) == [("agent_1", 0), ("agent_2", 1), ("agent_3", 2)]
    assert (state["decision"]["answer"], state["decision"]["by"]) == ("21", "secretary")
    assert [message.attempt for message in board(state) if message.agent == "secretary"] == [0, 1]


# Runs


RULES = [AllHearAll(3), Patient(3), Chaired()]


@pytest.mark.parametrize("rule", some(RULES, RULES[1]))
async def test_sync_async_and_many_at_once_the_result_is_the_same(rule: DiscussionRule, store: PayloadStore) -> None:
    graph = discussing(rule, lonely("sde", store))
    expected = held(graph)
    keys = ["board", "decision"]
    assert outcome(await graph.ainvoke(QUESTION, output_keys=keys)) == outcome(expected)
    for state in await graph.abatch([QUESTION, QUESTION], output_keys=keys):
        assert outcome(state) == outcome(expected)


def test_a_run_that_stopped_anywhere_goes_on_with_another_rule_object_as_if_unbroken(tmp_path: Path) -> None:
    unbroken = held(discussing(Patient(3), marked(3, 3)))
    for stop in range(1, 11, 2):
        model = marked(3, 3)
        with SqliteSaver.from_conn_string(str(tmp_path / f"{stop}.db")) as saver:
            graph = discussing(Patient(3), model, saver=saver)
            for done, _ in enumerate(graph.stream(QUESTION, THREAD, stream_mode="values", durability="sync")):
                if done == stop:
                    break
        with SqliteSaver.from_conn_string(str(tmp_path / f"{stop}.db")) as saver:
            graph = discussing(Patient(3), model, saver=saver)
            assert graph.get_state(THREAD).next
            assert same_run(graph.invoke(None, THREAD, output_keys=["board", "decision"]), unbroken)
        assert len(model.calls) == 8


def test_a_message_that_was_taken_from_the_board_is_missed() -> None:
    graph = discussing(AllHearAll(2), marked(2, 3), agents=2, saver=InMemorySaver())
    held(graph, THREAD)
    snapshot = next(each for each in graph.get_state_history(THREAD) if each.next == ("agent_1", "agent_2"))
    rest = [message.to_dict() for message in board(snapshot.values)[1:]]
    fork = graph.update_state(snapshot.config, {"board": {"__overwrite__": rest}}, as_node="next_round")
    with pytest.raises(UsageError, match="'agent_1' has no message of round 0, act 'answer', on the board"):
        graph.invoke(None, fork)


@pytest.mark.parametrize("secretary", [True, False])
def test_the_drawing_names_the_agents_and_every_way(secretary: bool) -> None:
    drawn = discussing(AllHearAll(), secretary=secretary).get_graph()
    ways = {edge.target for edge in drawn.edges if edge.source == "pass_on"}
    assert ways == {"next_round", "decide", *(["secretary"] if secretary else [])}
    assert {edge.target for edge in drawn.edges if edge.source == "next_round"} == set(NAMES)


# What is no rule


class NoOne(DiscussionRule):
    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        return []


class Misled(DiscussionRule):
    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        return ["agent_9"]


@dataclass
class Astray(DiscussionRule):
    to: Any
    round: int = 0

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        found: Iterable[str] = self.to if message.round == self.round else agents
        return found


class Silent:
    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        return agents


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (NoOne(), "the rule NoOne names no first speaker; expected some of: agent_1, agent_2, agent_3"),
        (
            Misled(),
            "unknown first speaker of the rule Misled: 'agent_9'; choose from: agent_1, agent_2, agent_3",
        ),
        (AllHearAll, "AllHearAll'>; expected an object of a class derived from DiscussionRule"),
        (Silent(), "; expected an object of a class derived from DiscussionRule"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_when_the_graph_is_made(rule: Any, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        discussing(rule, marked(3, 1))
    assert expected in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("to", "round", "expected"),
    [
        (["agent_1", "nobody"], 0, "unknown receiver of 'agent_1' after round 1 by the rule Astray: 'nobody'; choose "),
        (
            ["nobody"],
            1,
            "unknown receiver of 'agent_1' after round 2 by the rule Astray: 'nobody'; choose from: agent_",
        ),
        ("agent_2", 0, "receiver of 'agent_1' after round 1 by the rule Astray: found 'agent_2'; expected a list of "),
    ],
)
def test_a_receiver_that_is_none_is_told_with_its_round(to: Any, round: int, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        held(discussing(Astray(to, round), marked(3, 2)))
    assert expected in str(refused.value) and "\n" not in str(refused.value)


class Humming(Relay):
    """Speaks to nobody, for ever."""

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return []

    def silence(self, state: Discussion) -> str:
        return "Hm."


class Endless(DiscussionRule):
    """Everybody speaks for ever."""


@pytest.mark.parametrize("rule", [Humming(), Endless()])
def test_a_rule_that_is_never_over_is_stopped_with_a_word_of_ours(rule: DiscussionRule) -> None:
    expected = f"the rule {type(rule).__name__} has not ended after 4 rounds; expected an end by then"
    model = ScriptedChatModel(["The answer is 22."] * 20)
    with pytest.raises(UsageError, match=expected):
        held(discussing(rule, model, depth=4))
    assert len(model.calls) == (1 if isinstance(rule, Humming) else 12)
