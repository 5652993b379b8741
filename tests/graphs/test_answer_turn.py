"""The answer turn: after a reply that cannot be read the answer alone is asked for, once, before an abstention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask
from sottovoce.agents.convert import from_langchain
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Place, Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import Reply, Rows, Usage
from sottovoce.nodes.act import node
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.decide import voted
from sottovoce.nodes.say import ANSWER_PREFILL, ANSWER_TOKENS, say_answer
from sottovoce.nodes.state import Discussion, Update, current_messages
from sottovoce.nodes.watch import Intervention
from tests.graphs.support import KEYS, QUESTION, Recording, board, built, calls, debating, held, lonely_loaded
from tests.nodes.support import Named, Run, ask, framed, places, state_of
from tests.tables import some

HM = "Hm, who knows?"


def said(
    *replies: str, hooked: bool = True, turn: bool = True, small: bool = False, is_read: bool = True, **question: Any
) -> tuple[list[Message], Any]:
    """The messages of one act whose model gives these replies, and the model."""

    async def act(run: Run, state: Discussion, agent: Agent) -> Update:
        return {"board": await say_answer(run, state, agent, ask("1 + 1?"), is_read=is_read)}

    model = ScriptedChatModel([*replies], hooked=hooked, wording="sentence" if small else "short")
    state = state_of(settings=Named(answer_turn="needed" if turn else "off").model_dump(mode="json"), **question)
    update = node(framed(model).contexts, act, "zoe", "zoe").invoke(state)
    return [Message.from_dict(each) for each in update["board"]], model


# How it is asked for


def test_it_is_asked_for_on_the_same_prefix_with_the_beginning_given() -> None:
    messages, model = said(HM, " 2")

    first, second = model.calls
    assert second.turns[:-1] == (*first.turns, Turn("assistant", (MessageRef(messages[0], own=True),)))
    assert (second.turns[-1].role, ANSWER_PREFILL) == ("user", "Answer:")
    assert "a number" in second.turns[-1].text and '"unknown"' in second.turns[-1].text
    wanted = {
        "prefill": ANSWER_PREFILL,
        "stop": ["\n"],
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0.0,
        "speaks": "nl",
    }
    assert {name: second.options[name] for name in wanted} == wanted
    assert not {"prefill", "stop", "speaks"} & set(first.options)


def test_it_is_the_next_attempt_and_the_raw_reply_is_kept_with_its_note() -> None:
    messages, model = said(HM, " 2")
    assert [(each.text, each.full_text, each.asked, each.notes) for each in messages] == [
        (HM, HM, "", ("asked for the answer: it holds no number",)),
        (" 2", "Answer: 2", "answer", ()),
    ]
    assert [each.place for each in messages] == places(model)
    assert [each.attempt for each in messages] == [0, 1]
    assert len({asked.options["seed"] for asked in model.calls}) == 2


@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ({"kind": "option", "choices": ["red", "blue"]}, "A, B"),
        ({"kind": "label", "choices": ["SUPPORTS", "REFUTES"]}, "SUPPORTS, REFUTES"),
        ({"kind": "yes_no"}, "yes, no"),
    ],
)
def test_the_answers_there_are_stand_in_the_request(question: dict[str, Any], listed: str) -> None:
    _, model = said(HM, HM, **question)
    assert listed in model.calls[1].turns[-1].text


def test_for_free_text_a_local_model_chooses_a_phrase_of_its_own_reply_that_the_question_lacks() -> None:
    reply, about = (
        "Market day in Sable Point (Orn valley) is a Thursday.",
        "When is market day in the town where Ada lives?",
    )
    messages, model = said(reply, " Thursday", question=about, kind="text")
    form = model.calls[1].options["response_format"]
    assert model.calls[1].turns[-1].text == f"{about}\nGive the answer alone, in a few words."
    assert (form["choices"], form["unknown"], form["spaced"]) == (
        ("Sable Point", "Orn valley", "Thursday"),
        False,
        True,
    )
    assert voted(messages[0], state_of(question=about, kind="text", board=messages))["answer"] == "Thursday"


def test_for_a_number_a_local_model_keeps_the_one_of_its_sentence() -> None:
    about = "How many hens does Ida keep?"
    messages, model = said("Ida keeps 1,200 hens.", " 1200", question=about, kind="number")
    form = model.calls[1].options["response_format"]
    assert (form["choices"], form["unknown"]) == (("1200",), False)
    assert voted(messages[0], state_of(question=about, kind="number", board=messages))["answer"] == "1200"


@pytest.mark.parametrize(
    "reply",
    [
        *("Ida keeps hens, and Eve keeps 17.", "Eve keeps 17 hens.", "Agent 1 is right about the hens."),  # another's
        *(
            "Ida keeps 5 hens and gets 4.",
            "Ida keeps twice 15 hens.",
            "Ida keeps twelve hens in 3 coops.",
        ),  # to compute
        *("Ida keeps more than 30 hens.", "Ida keeps 1.320 \u20ac hens.", "Ida keeps 3/4 of the hens."),
        *("Ida keeps 17 hens in May. In June", "Ida keeps 17 hens and then", "Ida keeps hens in room A12."),
        *('{"reason": "Ida keeps many hens.", "confidence": "0.8"}', "She was born in 1994.", "Ida keeps 6 hens."),
        f"Ida keeps {'1' * 4400} hens.",
    ],
)
def test_a_number_that_may_not_be_the_answer_is_not_offered(reply: str) -> None:
    _, model = said(reply, " 41", question="How many hens does Ida keep in 6 coops?", kind="number")
    assert "response_format" not in model.calls[1].options


def test_the_phrases_are_short_and_each_of_them_fits() -> None:
    long, wide = "skilled " * 40, "\u72ac" * 20
    _, model = said(f"She was a {long}. It is {wide}.", " x", question="Who?", kind="text")
    asked = model.calls[1].options
    assert asked["response_format"]["choices"] == (wide,) and asked["max_tokens"] == 61


def test_a_small_model_begins_a_reply_of_free_text_behind_the_mark_where_it_is_read() -> None:
    messages, model = said(" Market day is a Thursday.", small=True, kind="text")
    assert {name: model.calls[0].options[name] for name in ("prefill", "stop")} == {
        "prefill": "Answer:",
        "stop": ["\n"],
    }
    assert [(each.full_text, each.notes) for each in messages] == [("Answer: Market day is a Thursday.", ())]
    for options in ({"small": True, "kind": "text", "is_read": False}, {"small": True}, {"kind": "text"}):
        assert "prefill" not in said(HM, HM, **options)[1].calls[0].options, options


@pytest.mark.parametrize("reply", ["The answer is 2.", "The answer is unknown."])
def test_a_reply_that_can_be_read_and_one_that_says_it_is_unknown_need_none(reply: str) -> None:
    messages, _ = said(reply)
    assert [(each.text, each.notes) for each in messages] == [(reply, ())]


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde", "hidden"], "cipher"))
def test_it_is_spoken_in_words_and_greedily_whatever_the_reply_was_spoken_by(
    protocol: str, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, max_tokens=2, temperature=1.0)
    reply, answer = board(held(built("single", model, guide="off"), kind="yes_no"))
    assert reply.payload and answer.payload and (answer.asked, answer.begun) == ("answer", ANSWER_PREFILL)
    assert [reply.payload.protocol, answer.payload.protocol] == [protocol, "nl"]
    first, second = model.requests
    assert (second.feed.kind, second.sampling.temperature) == ("token", 0.0)
    assert [sum(isinstance(piece, Rows) for piece in each.prompt) for each in (first, second)] == [
        0,
        int(protocol == "cipher"),  # its own reply, as it thought it
    ]


class Counting(HookedChatModel):
    """Keeps what each reply took."""

    usage: list[Usage] = []  # noqa: RUF012  # a pydantic field, copied for each model

    def message(self, ask: Ask, reply: Reply, *more: Any) -> Message:
        self.usage.append(reply.usage)
        return super().message(ask, reply, *more)


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde", "hidden"], "nl", "sde"))
def test_nothing_is_computed_twice(protocol: str, store: PayloadStore) -> None:
    model = Counting(protocol=protocol, store=store, max_tokens=3, temperature=0.0)  # "30 + " is no answer
    held(built("single", model), question=f"What is 30 + 4{len(protocol)}?")
    reply, answer = model.usage
    read = reply.prompt + reply.new - (protocol in ("nl", "cipher"))  # those draw the last token and do not read it
    assert answer.reused == read < answer.prompt


# What is read, and what is heard


def debated(*first: str, agents: int = 2, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    """A debate in which agent_1 says these things, and the others always 7."""
    others = {f"agent_{i}": ["The answer is 7."] * 3 for i in range(2, agents + 1)}
    model = ScriptedChatModel({"agent_1": [*first], **others})
    return held(debating(model, agents=agents, **settings), target="7"), model


def test_its_answer_counts_in_the_place_of_the_reply_s() -> None:
    state, _ = debated(HM, " 7", rounds=1)
    assert state["decision"]["votes"] == [
        {"agent": "agent_1", "answer": "7", "counts": True, "read": "asked", "asked": "answer"},
        {"agent": "agent_2", "answer": "7", "counts": True, "read": "marked"},
    ]
    assert state["decision"]["why"] == "2 of 2 say 7"


@pytest.mark.parametrize(
    ("answer", "notes"), [(" hm", ("cannot be read: it holds no number",)), (" unknown", ()), (" unknown.", ())]
)
def test_one_that_cannot_be_read_or_says_it_is_unknown_abstains(answer: str, notes: tuple[str, ...]) -> None:
    state, _ = debated(HM, answer, rounds=1)
    assert state["decision"]["votes"][0] == {"agent": "agent_1", "answer": None, "counts": False, "asked": "answer"}
    assert board(state)[1].notes == notes


def test_hearers_hear_the_reply_and_never_the_answer_turn() -> None:
    _, model = debated(HM, " 5", "The answer is 7.", rounds=2, answer_turn="every")
    for asked in [*calls(model, "agent_1")[2:], *calls(model, "agent_2")[1:]]:
        assert HM in asked.text and "Answer: 5" not in asked.text
        assert [part.message.asked for turn in asked.turns for part in turn.parts if isinstance(part, MessageRef)] == [
            ""
        ] * 2


REPLY = Message("zoe", 0, "talk", HM, notes=("asked for the answer: it holds no number",))
ANSWER = Message("zoe", 0, "talk", " 5", attempt=1, begun=ANSWER_PREFILL, asked="answer")


@pytest.mark.parametrize(
    ("messages", "answer", "asked"),
    [
        ([REPLY, ANSWER], "5", "answer"),
        ([replace(REPLY, text="The answer is 9."), ANSWER], "9", None),  # edited since
        ([REPLY, ANSWER, replace(REPLY, text="The answer is 9.", attempt=2)], "9", None),
        ([REPLY, ANSWER, replace(REPLY, text="Well.", attempt=2)], None, None),  # nothing was asked after that one
        ([REPLY, replace(ANSWER, withdrawn=True)], None, None),
        ([REPLY, replace(ANSWER, act="decide")], None, None),
        ([REPLY, replace(REPLY, attempt=1, asked="repair"), replace(ANSWER, attempt=2)], "5", "answer"),
        ([REPLY, replace(REPLY, attempt=1, asked="repair", text="The answer is 9.")], "9", "repair"),
        ([REPLY, replace(REPLY, attempt=1, asked="repair")], None, "repair"),
    ],
)
def test_a_vote_reads_the_reply_first_and_says_what_it_took(
    messages: Sequence[Message], answer: str | None, asked: str | None
) -> None:
    state = state_of(board=[*messages])
    (message,) = current_messages(state)
    vote = voted(message, state)
    assert (vote["answer"], vote.get("asked"), vote["counts"]) == (answer, asked, answer is not None)


def asked(state: Any) -> list[tuple[str, int]]:
    """The agents and rounds of the answer turns."""
    return [(message.agent, message.round) for message in board(state) if message.asked == "answer"]


@pytest.mark.parametrize(
    ("settings", "turns"),
    [
        ({}, [("agent_1", 1), ("agent_2", 1)]),
        ({"answer_turn": "every"}, [("agent_1", 0), ("agent_2", 0), ("agent_1", 1), ("agent_2", 1)]),
        ({"answer_turn": "off"}, []),
        ({"rule": "lowest_temperature", "temperature": [0.7, 0.2]}, [("agent_2", 1)]),
        ({"last_round": "deciding", "temperature": [0.2, 0.7]}, [("agent_1", 1)]),
    ],
)
def test_a_debate_asks_for_an_answer_only_where_its_rule_reads_it(
    settings: dict[str, Any], turns: list[tuple[str, int]]
) -> None:
    state = held(debating(ScriptedChatModel([HM] * 9), rounds=2, **settings))
    assert asked(state) == turns


@pytest.mark.parametrize("setting", ["needed", "every"])
def test_an_agent_that_shares_facts_has_not_read_the_question_and_is_not_asked_in_that_round(setting: str) -> None:
    facts = {"agent_1": ["Ada lives in Fenwick."], "agent_2": ["Market day in Fenwick is Friday."]}
    state = held(debating(ScriptedChatModel([HM] * 9), rounds=2, answer_turn=setting), documents=facts)
    assert asked(state) == [("agent_1", 1), ("agent_2", 1)]


def test_a_reply_that_was_cut_and_states_nothing_is_asked_for_its_answer() -> None:
    short = AIMessage("7", response_metadata={"finish_reason": "length"})
    message = from_langchain(short, replace(ask(), place=Place(0, 0, 0, "zoe", "talk", 0)))
    assert (message.cut, message.notes) == (True, ("cut at the token limit",))
    assert voted(message, state_of(board=[message])) == {"agent": "zoe", "answer": None, "counts": False}
    assert Message.from_dict(message.to_dict()) == message


# Runs


def test_it_is_watched_with_its_reply_and_withdrawn_with_it() -> None:
    seen: list[list[str]] = []

    def watch(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        seen.append([message.asked for message in messages])
        return Intervention("again", "it hums") if len(messages) == 2 and messages[0].attempt == 0 else None

    model = ScriptedChatModel({"agent_1": [HM, " 5", "Hm!", " 7"]})
    graph = create_debate(Debate(agents=1, rounds=1), models=model, watch=watch).compile()
    state = graph.invoke(QUESTION, output_keys=KEYS)

    assert seen == [["", "answer"], ["", "answer"]]
    assert [(each.attempt, each.asked, each.withdrawn) for each in board(state)] == [
        (0, "", True),
        (1, "answer", True),
        (2, "", False),
        (3, "answer", False),
    ]
    assert [vote["answer"] for vote in state["decision"]["votes"]] == ["7"]
