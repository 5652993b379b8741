"""Discussions by a rule: Debate, a ring and CMD as rules agree with their own graphs; what a rule can say, and not."""

from __future__ import annotations

import doctest
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import sottovoce.graphs.discussion
from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.errors import UsageError
from sottovoce.graphs.cmd import CMD, answer_turns, create_cmd, discuss_turns, grouped
from sottovoce.graphs.debate import average
from sottovoce.graphs.discussion import MesSync, create_discussion
from sottovoce.nodes.context import Models
from sottovoce.nodes.decide import read_vote, viewpoints
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.nodes.rules import RULE, SILENT, DiscussionRule
from sottovoce.nodes.state import Decision, Discussion, Vote
from sottovoce.prompts.render import Prompts
from tests.graphs.support import (
    Graph,
    State,
    board,
    calls,
    debating,
    heard,
    held,
    marked,
    script,
)

NAMES = ["agent_1", "agent_2", "agent_3"]


# Rules


@dataclass
class AllHearAll(DiscussionRule):
    """Debate (Du et al. 2023): everybody hears all others, for so many rounds; who is alone checks itself."""

    rounds: int = 3

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return [agent for agent in agents if agent != message.agent] or [message.agent]

    def is_over(self, state: Discussion) -> bool:
        return state["round"] + 1 == self.rounds


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


# Known schemes as rules


@pytest.mark.parametrize(("agents", "rounds"), [(1, 3), (2, 2), (4, 3)])
def test_debate_as_a_rule_has_the_prompts_seeds_messages_and_decision_of_the_debate(agents: int, rounds: int) -> None:
    model, expected = marked(agents, rounds), marked(agents, rounds)
    more: Any = {"agents": agents, "temperature": [0.5], "system": ["Be brief."], "seed": 7}
    question: Any = {"target": "1", "documents": {"agent_1": ["Mia has 3."]}, "starting_views": {"agent_1": "2"}}
    state = held(discussing(AllHearAll(rounds), model, **more), **question)
    assert same_run(state, held(debating(expected, rounds=rounds, answer_turn="off", **more), **question))
    assert len(model.calls) == agents * rounds
    assert asked(model) == asked(expected)


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
            "unknown first speaker of the rule Misled: 'agent_9'; did you mean 'agent_",
        ),
        (Silent(), "; expected an object of a class derived from DiscussionRule"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_when_the_graph_is_made(rule: Any, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        discussing(rule, marked(3, 1))
    assert expected in str(refused.value) and "\n" not in str(refused.value)


def test_a_receiver_that_is_none_is_told_with_its_round() -> None:
    with pytest.raises(UsageError, match=r"^unknown receiver of 'agent_1' after round 2 by the rule Astray: 'nobody'"):
        held(discussing(Astray(["nobody"], 1), marked(3, 2)))
    with pytest.raises(UsageError, match="after round 1 by the rule Astray: found 'agent_2'; expected a list of "):
        held(discussing(Astray("agent_2"), marked(3, 1)))


class Humming(Relay):
    """Speaks to nobody, for ever."""

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        return []

    def silence(self, state: Discussion) -> str:
        return "Hm."


def test_a_rule_that_is_never_over_is_stopped_with_a_word_of_ours() -> None:
    model = ScriptedChatModel(["The answer is 22."] * 20)
    with pytest.raises(UsageError, match="the rule Humming has not ended after 4 rounds; expected an end by then"):
        held(discussing(Humming(), model, depth=4))
    assert len(model.calls) == 1
