"""Debates by the rules of later papers, with scripted agents: edges, kept messages, early ends, votes, roles."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from langchain_core.outputs import ChatResult
from syrupy.assertion import SnapshotAssertion

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.analysis.symmetry import unroll
from sottovoce.channels.message import MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.debate_rules import VOTES, named, read_numbers
from tests.graphs.support import QUESTION, board, calls, debating, heard, held, lonely, marked, script
from tests.tables import each_row

PROTOCOLS = ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft"]


class Sure(ScriptedChatModel):
    """A scripted model whose messages are as certain as it is told, by agent."""

    nats: dict[str, float]

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        made, nats = super()._generate(messages, stop, run_manager, **kwargs), self.nats[run_manager.metadata["agent"]]
        message = made.generations[0].message
        if self.hooked:
            message.additional_kwargs["stats"] = {"mean_nll": nats}
        else:  # as OpenAI's servers tell it
            message.response_metadata["logprobs"] = {"content": [{"token": message.text, "logprob": -nats}]}
        return made


class Voters(ScriptedChatModel):
    """A scripted model that knows its votes as answers, and finds their numbers in what it is shown."""

    votes: dict[str, list[str]]

    def _next(self, agent: str) -> str:
        asked = self._recorded[-1]
        if asked.act not in ("vote", "judge"):
            return super()._next(agent)
        shown = {answer: number for number, answer in re.findall(r"^(\d)\. (\S+)$", asked.turns[-1].text, re.M)}
        return ", ".join(shown.get(each, each) for each in self.votes[agent])


def saying(*answers: str, rounds: int = 1) -> dict[str, list[str]]:
    """What agents say who give these answers in every round."""
    return {f"agent_{i}": [f"The answer is {answer}."] * rounds for i, answer in enumerate(answers, 1)}


def last_heard(asked: RecordedCall) -> list[str]:
    return [agent for agent, _ in heard(asked, -1)]


# Who hears whom


@each_row("hears, agents", [("all", 4), ("ring", 5), ("ring", 3), ("ring", 2), ("star", 4)])
def test_agents_hear_along_the_edges_of_the_settings_and_nobody_else(hears: Any, agents: int) -> None:
    model = marked(agents, 2)
    held(debating(model, agents=agents, rounds=2, hears=hears))
    edges = Debate(agents=agents, hears=hears).edges()
    found = {(speaker, asked.agent) for asked in model.calls if asked.round for speaker in last_heard(asked)}
    assert found == set(edges) and len(edges) == {"all": agents * (agents - 1), "star": 6}.get(
        hears, agents * min(2, agents - 1)
    )


def test_moderator_and_judge_hear_all_and_symmetry_sees_the_ring() -> None:
    settings = Debate(agents=5, hears="ring", retain="diverse", rule="judge")
    assert {speaker for speaker, hearer in settings.edges() if hearer == "moderator"} == {*settings.speakers()}
    ring = unroll(create_debate, Debate(agents=5, rounds=2, hears="ring"))
    pairs = {(edge.speaker.agent, edge.hearer.agent) for edge in ring.edges if edge.speaker and edge.hearer}
    assert pairs - {(name, name) for name in settings.speakers()} == {*Debate(agents=5, hears="ring").edges()}


def test_the_center_of_a_star_decides_alone_and_may_speak_alone_in_the_last_round() -> None:
    model = script({"agent_1": ["1", "2"], "agent_2": ["3"], "agent_3": ["3"]})
    decision = held(debating(model, agents=3, rounds=2, hears="star", last_round="deciding"))["decision"]
    assert (decision["answer"], decision["rule"], decision["why"]) == ("2", "center", "agent_1 hears all agents")
    by_majority = debating(ScriptedChatModel(saying("1", "3", "3")), agents=3, rounds=1, hears="star", rule="majority")
    assert held(by_majority)["decision"]["answer"] == "3"


# Which messages are kept

ANSWERS = {"agent_1": ["22", "22"], "agent_2": ["22", "22"], "agent_3": ["21", "22"], "agent_4": ["20", "22"]}


@each_row(
    "retain, share, first, third",
    [
        ("all", None, ["agent_2", "agent_3", "agent_4"], ["agent_1", "agent_2", "agent_4"]),
        ("certain", None, ["agent_3", "agent_4"], ["agent_4"]),  # 0.5 of four: agent_4 and agent_3
        ("certain", 1, ["agent_4"], ["agent_4"]),
        ("certain", 0.01, ["agent_4"], ["agent_4"]),
        ("agreeing", None, ["agent_2"], ["agent_1", "agent_2"]),
        ("differing", None, ["agent_3", "agent_4"], ["agent_4"]),
    ],
)
def test_one_set_of_messages_a_round_is_kept_and_nobody_reads_its_own_as_anothers(
    retain: Any, share: float | None, first: list[str], third: list[str]
) -> None:
    nats = {"agent_1": 0.4, "agent_2": 0.3, "agent_3": 0.2, "agent_4": 0.1}
    model = Sure(
        replies={name: [f"The answer is {answer}." for answer in said] for name, said in ANSWERS.items()}, nats=nats
    )
    held(debating(model, agents=4, rounds=2, retain=retain, retain_share=share))
    assert [last_heard(calls(model, name, "revise")[0]) for name in ("agent_1", "agent_3")] == [first, third]
    assert len(model.calls) == 8


def test_if_nothing_is_left_all_are_heard_and_who_hears_one_other_loses_nothing() -> None:
    model = script({name: ["22", "22"] for name in ANSWERS})
    held(debating(model, agents=4, rounds=2, retain="differing"))
    assert last_heard(calls(model, "agent_1")[-1]) == ["agent_2", "agent_3", "agent_4"]
    model = script(ANSWERS)
    held(debating(model, agents=4, rounds=2, retain="differing", hears="star"))
    assert [last_heard(calls(model, name)[-1]) for name in ("agent_1", "agent_2")] == [
        ["agent_3", "agent_4"], ["agent_1"],
    ]  # fmt: skip


@each_row(
    "replies, kept",
    [
        (["agent_2, agent_4"], ["agent_2", "agent_4"]),
        (['["agent_4", "agent_9"]'], ["agent_4"]),
        (["Agent_1 and agent_3"], ["agent_3"]),
        (["All of them!", "agent_2"], ["agent_2"]),
        (["All of them!", "As I said."], ["agent_2", "agent_3", "agent_4"]),
        (["agent_9"], ["agent_2", "agent_3", "agent_4"]),
    ],
)
def test_a_moderator_chooses_the_messages_and_an_unreadable_choice_keeps_all(
    replies: list[str], kept: list[str]
) -> None:
    said = {name: [f"The answer is {answer}." for answer in answers] for name, answers in ANSWERS.items()}
    model = ScriptedChatModel({**said, "moderator": replies})
    state = held(debating(model, agents=4, rounds=2, retain="diverse"))
    (asked, *_) = calls(model, "moderator", "moderate")
    assert heard(asked) == [(name, 0) for name in ANSWERS] and "The most frequent answer: 22" in asked.text
    assert asked.options["response_format"]["pattern"].startswith("(agent_1|agent_2|agent_3|agent_4)(, (")
    assert last_heard(calls(model, "agent_1")[-1]) == kept
    assert len(calls(model, "moderator")) == len(replies) and state["decision"]["rule"] == "majority"


def test_a_moderator_has_a_model_of_its_own_by_name_or_in_order() -> None:
    models = {**{name: script({name: ["22", "22"]}) for name in ANSWERS}, "moderator": ScriptedChatModel(["agent_1"])}
    held(debating(models, agents=4, rounds=2, retain="diverse"))
    assert len(models["moderator"].calls) == 1
    settings = Debate(agents=3, retain="diverse", model=["a", "b", "c", "d"], temperature=[0.1, 0.2, 0.3])
    assert (settings.of("model", "moderator"), settings.of("temperature", "moderator")) == ("d", 0.1)


def test_hosted_models_that_return_log_probabilities_are_as_certain_as_these_say() -> None:
    model = Sure(
        replies=saying("21", "22", "23", rounds=2), nats={"agent_1": 3, "agent_2": 0.7, "agent_3": 2}, hooked=False
    )
    held(debating(model, agents=3, rounds=2, retain="certain", show_certainty=True))
    prompt = calls(model, "agent_1")[-1].turns[-1].text
    assert "The answer is 22.\n(mean negative log-likelihood of its tokens: 0.7000;" in prompt and "is 23" not in prompt


def test_certainty_that_a_model_does_not_tell_ends_the_run_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"'agent_\d' in round 1 has no log-likelihood .* use local models, or hosted"):
        held(debating(script(ANSWERS), agents=4, rounds=2, retain="certain"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"retain": "differing"}, "each of 2 agents hears at most one other, .* use `agents=3` or more"),
        ({"agents": 3, "retain_share": 0.3}, "retain_share is 0.3; use it with `retain='certain'`"),
        ({"agents": 3, "retain": "certain", "role": ["debater", "dummy", "debater"]}, "those of agent_2 have none"),
        (
            {"show_certainty": True, "human": "agent_1"},
            "those of agent_1 have none.*; use `show_certainty=False`$",
        ),
        ({"role": "dummy", "rule": "ranked"}, "the rule is 'ranked', but all messages are prescribed"),
        ({"role": "expert", "persona": "written"}, "persona is 'written', but all messages are prescribed"),
        ({"hears": "star", "role": ["expert", "debater"]}, "the first agent of a star decides, but its messages"),
        ({"agents": 3, "hears": "ring", "summarise": "each"}, "summaries replace .* without `order=`, `hears=`"),
        ({"last_round": "deciding", "rule": "ranked"}, "the rule 'ranked' reads all agents"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        Debate(**settings)


# DAR's prompt: the certainty behind each message, the last majority before the question


def slots(asked: RecordedCall) -> list[str]:
    """The last turn of a prompt as DAR fills it: whose messages, what is said of them, the question."""
    names = {"uncertainty": r"\(uncertainty ([\d.]+)\)", "majority": r"found: (\S+)", "question": r"(What is .*\?)"}
    found = list[str]()
    for part in asked.turns[-1].parts:
        if isinstance(part, MessageRef):
            found.append(f"own {part.text}" if part.own else f"other {part.text}")
            continue
        places = [(m.start(), f"{name} {m[1]}") for name, p in names.items() for m in re.finditer(p, part)]
        found += [text for _, text in sorted(places)]
    return found


def test_the_prompt_of_dar_has_its_slots_in_the_order_of_the_paper() -> None:
    said = {f"agent_{i}": [f"{i}/{r}: \\boxed{{{20 + (i > 1)}}}" for r in range(3)] for i in (1, 2, 3)}
    nats = {"agent_1": 0.12344, "agent_2": 0.5, "agent_3": 1.0}
    model = Sure(replies={**said, "moderator": ["agent_1, agent_3", "agent_2"]}, nats={**nats, "moderator": 0.0})
    settings: Any = {"prompts": "paper/dar", "shape": "fresh", "retain": "diverse"}
    held(debating(model, agents=3, rounds=3, **settings))
    second, third = calls(model, "agent_2", "revise")
    assert slots(second) == [
        "other 1/0: \\boxed{20}", "uncertainty 0.1234",
        "other 3/0: \\boxed{21}", "uncertainty 1.0000",
        "own 2/0: \\boxed{21}", "majority 21", f"question {QUESTION['question']}",
    ]  # fmt: skip
    assert [slot for slot in slots(third) if slot[:5] == "other"] == [
        "other 1/1: \\boxed{20}",
        "other 3/1: \\boxed{21}",
    ]


def test_the_two_additions_are_components_of_any_prompt_and_can_be_left_out() -> None:
    def revised(**settings: Any) -> list[str]:
        model = Sure(
            replies=saying("21", "22", "22", rounds=3), nats=dict.fromkeys(["agent_1", "agent_2", "agent_3"], 0.25)
        )
        held(debating(model, agents=3, rounds=3, **settings))
        return [turn.text for turn in calls(model, "agent_1")[-1].turns if turn.role == "user"][1:]

    for turn in revised(show_certainty=True, show_majority=True):
        assert turn.count("its tokens: 0.2500; ") == 2
        assert re.search(r"answer of the last round: 22\n\nQuestion: ", turn)
    plain = [*revised(), *revised(prompts="paper/dar", show_certainty=False, show_majority=False)]
    assert not [turn for turn in plain if "0.2500" in turn or "found: 22" in turn or "last round" in turn]


# When it ends


@each_row(
    "stop, first, rounds",
    [
        ("never", ["22"] * 4, 3),
        ("majority", ["22", "22", "22", "21"], 1),
        ("majority", ["22", "22", "21", "21"], 3),
        ("two_thirds", ["22", "22", "22", "21"], 1),
        ("two_thirds", ["22", "22", "Hm", "21"], 3),
        ("all", ["22", "22", "22", "21"], 3),
        ("all", ["22"] * 4, 1),
    ],
)
def test_a_debate_ends_after_the_round_in_which_enough_agree_and_says_so(
    stop: Any, first: list[str], rounds: int
) -> None:
    said = {f"agent_{i}": [f"The answer is {answer}.", f"The answer is {i}.", f"The answer is {10 + i}."]
            for i, answer in enumerate(first, 1)}  # fmt: skip
    model = ScriptedChatModel(said)
    decision = held(debating(model, agents=4, rounds=3, stop=stop, answer_turn="off"))["decision"]
    assert len(model.calls) == 4 * rounds
    assert decision["why"].endswith("; ended early, after round 1 of 3") == (rounds == 1)


def test_a_round_in_which_agents_share_facts_never_ends_a_debate_and_has_no_majority() -> None:
    documents = {"agent_1": ["The sum is 22."], "agent_2": ["It is even."], "agent_3": [], "agent_4": []}
    model = script({name: ["22"] * 3 for name in documents})
    settings: Any = {"agents": 4, "rounds": 3, "stop": "all", "retain": "agreeing"}
    state = held(debating(model, **settings), documents=documents)
    assert len(model.calls) == 8 and "after round 2 of 3" in state["decision"]["why"]
    assert last_heard(calls(model, "agent_1")[1]) == ["agent_3", "agent_4"]  # they answered


# How it is decided

FIVE = ("22", "22", "21", "21", "20")


@each_row(
    "rule, votes, answer, why",
    [
        ("plurality", ["20", "21", "20", "20", "22"], "20", "3 of 5 votes for 20"),
        ("approval", ["20 21", "21", "22 21", "22", "20"], "21", "3 of 7 approvals for 21"),
        ("ranked", ["20 21 22", "22", "20 22", "20", "21 22"], "22", "16 of 40 points for 22"),
        ("cumulative", ["20 " * 6 + "22 " * 4, "22 " * 10, "21 " * 10, "20 " * 10, "22 " * 3 + "20 " * 7], "20",
         "23 of 50 points for 20"),
        ("plurality", ["22", "22", "21", "21", "unsure"], "22",
         "2 of 4 votes for 22 (1 vote could not be read); a tie of 2 answers, agent_1 spoke first"),
        ("plurality", ["7", "9", "none", "both", "22 and 21"], None, "no vote could be read"),
        ("cumulative", ["22", "22 " * 9, "22 " * 11, "20 " * 10, "8 " * 10], "20",
         "10 of 10 points for 20 (4 votes could not be read)"),
    ],
)  # fmt: skip
def test_agents_vote_for_the_different_answers_by_the_rule(
    rule: Any, votes: list[str], answer: str | None, why: str
) -> None:
    model = Voters(replies=saying(*FIVE), votes={f"agent_{i}": vote.split() for i, vote in enumerate(votes, 1)})
    decision = held(debating(model, agents=5, rounds=1, rule=rule))["decision"]
    assert (decision["answer"], decision["rule"], decision["why"]) == (answer, rule, why)
    assert [vote["answer"] for vote in decision["votes"]] == [*FIVE]


def test_a_voter_sees_the_question_its_own_answer_and_anonymous_numbers_in_an_order_of_its_own() -> None:
    model = Voters(replies=saying(*FIVE), votes={f"agent_{i}": ["9"] for i in range(1, 6)})
    held(debating(model, agents=5, rounds=1, rule="cumulative"))
    asked = [call for call in model.calls if call.act == "vote"]
    assert len(asked) == 10  # each once more, as there is no answer 9
    # One agent's second vote may come before another's first.
    first = list({call.agent: call for call in reversed(asked)}.values())
    for call in first:
        assert heard(call) == [(call.agent, 0)] and "agent" not in call.turns[-1].text
        assert call.options["response_format"]["pattern"] == "(3|2|1)(, (3|2|1)){9,9}"
        assert Counter(re.findall(r"^\d\. (\d+)$", call.turns[-1].text, re.M)) == Counter(["20", "21", "22"])
    assert len(first) == 5 and len({call.turns[-1].text for call in first}) > 1


def test_the_record_says_which_answers_the_numbers_of_a_vote_mean() -> None:
    votes = {"agent_1": ["22"] * 6 + ["21"] * 4, "agent_2": ["21"] * 10}
    state = held(debating(Voters(replies=saying("22", "21"), votes=votes), agents=2, rounds=1, rule="cumulative"))
    assert [message.notes[-1] for message in board(state) if message.act == "vote"] == [
        "for 22 ×6, 21 ×4",
        "for 21 ×10",
    ]


@pytest.mark.parametrize("rule", [*VOTES, "judge"])
def test_one_answer_alone_is_decided_without_a_vote(rule: Any) -> None:
    model = script({"agent_1": ["22"], "agent_2": ["22.0"], "agent_3": ["perhaps"]}, wording="short")
    decision = held(debating(model, agents=3, rounds=1, rule=rule, answer_turn="off"))["decision"]
    assert len(model.calls) == 3
    assert (decision["answer"], decision["why"]) == ("22", "2 of 3 say 22, and nobody another answer")


def test_experts_neither_vote_nor_are_voted_for() -> None:
    model = Voters(replies=saying("21", "22"), votes={"agent_1": ["22"], "agent_2": ["22"]})
    settings: Any = {"agents": 3, "rounds": 1, "rule": "plurality", "role": ["debater", "debater", "expert"]}
    decision = held(debating(model, **settings), solution="The answer is 77.")["decision"]
    assert decision["why"] == "2 of 2 votes for 22" and len(model.calls) == 4


@each_row(
    "choice, answer, why",
    [("21", "21", "the judge decided"), ("5", None, "the judge was asked, and its answer could not be read")],
)
def test_a_judge_reads_all_final_messages_and_names_an_answer(choice: str, answer: str | None, why: str) -> None:
    model = Voters(replies=saying("22", "22", "21"), votes={"judge": [choice]})
    decision = held(debating(model, agents=3, rounds=1, rule="judge"))["decision"]
    assert (decision["answer"], decision["by"], decision["why"]) == (answer, "judge", why)
    assert {agent for agent, _ in heard(calls(model, "judge")[0])} == {"agent_1", "agent_2", "agent_3"}
    assert not any(vote["counts"] for vote in decision["votes"])


@each_row(
    "rule, number, text, numbers",
    [
        ("plurality", 3, "I choose\n2.", [2]),
        ("plurality", 3, "2 or 3", []),
        ("approval", 2, "1, 2, 2, 1", [1, 2]),
        ("ranked", 9, "1 2 3 4 5 6", []),
        ("ranked", 9, "9, 1", [9, 1]),
        ("approval", 12, "12", [12]),
        ("plurality", 2, "0", []),
        ("plurality", 2, "1" * 5000, []),
        ("judge", 2, "", []),
        ("ranked", 3, "1. 2\n2. 3\n3. 1", []),
        ("plurality", 3, "-2", []),
        ("approval", 3, "1-3", []),
        ("cumulative", 2, "1: 7, 2: 3", []),
        ("plurality", 3, "Answer 2 has 3 steps.\nMy vote: 2.", [2]),
    ],
)
def test_a_vote_is_a_list_of_numbers(rule: str, number: int, text: str, numbers: list[int]) -> None:
    found, why = read_numbers(rule, number, text)
    assert found == numbers and bool(why) == (not numbers)


def test_names_in_a_sentence_choose_nothing() -> None:
    assert named("agent_2 differs from agent_1")[0] == [] and named("")[1] == "it is no list of agents"


# Written roles


def roles(*agents: str) -> str:
    parts = [(f"{name}_role", f"expert of {name}") for name in agents]
    return json.dumps({**dict(parts), **{f"{name}_description": f"Looks at {name}." for name in agents}})


def test_roles_are_written_once_before_the_first_round_and_follow_the_system_prompt() -> None:
    model = ScriptedChatModel({**saying("22", "21", rounds=3), "writer": [roles("agent_1", "agent_2")]})
    state = held(debating(model, rounds=3, persona="written", system=["You are bold.", "You are shy."]))
    assert len(model.calls) == 1 + 6 and model.calls[0].agent == "writer"
    for asked in calls(model, "agent_2"):
        assert asked.turns[0].text == "You are shy.\nIn this discussion you are: expert of agent_2. Looks at agent_2."
    first = board(state)[0]
    assert (first.agent, first.act, first.round) == ("writer", "write_personas", 0)


def test_without_readable_roles_agents_have_none_and_the_message_says_so() -> None:
    model = ScriptedChatModel({**saying("22", "21"), "writer": ["Two experts!", roles("agent_1")]})
    state = held(debating(model, rounds=1, persona="written"))
    assert [asked.turns[0].role for asked in calls(model, "agent_2")] == ["user"]
    assert calls(model, "agent_1")[0].turns[0].role == "system"
    assert 'cannot be read: "agent_2_role" is missing' in board(state)[1].notes[0]


# The prompts of all acts


@pytest.mark.parametrize(
    ("rule", "prompts"), [*((rule, None) for rule in (*VOTES, "judge")), ("plurality", "paper/dar")]
)
def test_prompts(rule: Any, prompts: str | None, snapshot: SnapshotAssertion) -> None:
    agents = ["agent_1", "agent_2", "agent_3"]
    said = {**saying("20", "21", "22", rounds=2), "writer": [roles(*agents)], "moderator": ["agent_1"]}
    nats = dict.fromkeys([*said, "judge"], 0.5)
    model = Sure(replies={name: [*texts, *["1, 2, 1", "1"] * 2] for name, texts in said.items()} | {"judge": ["1"]},
                 nats=nats)  # fmt: skip
    settings: Any = {"retain": "diverse", "persona": "written", "show_certainty": True, "show_majority": True}
    held(debating(model, agents=3, rounds=2, rule=rule, prompts=prompts, **settings))
    first = {(call.act, call.round): call.text for call in model.calls if call.agent not in ("agent_1", "agent_3")}
    shown = first if rule == "plurality" else {key: text for key, text in first.items() if key[0] in ("vote", "judge")}
    assert "\n\n".join(f"== {act} {round}\n{text}" for (act, round), text in shown.items()) == snapshot


# All of it under every protocol

WHOLE: dict[str, Any] = {
    "agents": 3, "rounds": 2, "hears": "ring", "retain": "diverse", "persona": "written", "stop": "all",
    "show_certainty": True, "show_majority": True, "guide": "off",
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "rule"), [*zip(PROTOCOLS, [*VOTES, "judge", *VOTES], strict=False)])
def test_a_debate_by_all_rules_ends_under_every_protocol(protocol: str, rule: Any, store: PayloadStore) -> None:
    model = lonely(protocol, store)
    state = held(debating(model, store=store, rule=rule, **WHOLE))
    assert state["decision"]["rule"] == rule
    spoken = {message.act: message for message in board(state) if not message.asked and message.payload}
    spoke_by = {act: message.payload and message.payload.protocol for act, message in spoken.items()}
    assert spoke_by["revise"] == protocol and spoke_by["moderate"] == "nl"
    assert all("mean_nll" in message.stats for message in spoken.values())
