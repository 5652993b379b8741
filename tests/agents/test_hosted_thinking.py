"""Hosted models that think: their switch, the room of their thoughts, and their text."""

from __future__ import annotations

from typing import Any, cast

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from sottovoce.agents import chat_model
from sottovoce.agents.ask import EMPTY, Ask
from sottovoce.agents.hosted_thinking import check_switch, switch
from sottovoce.agents.parameters import Refused, refused_in
from sottovoce.channels.message import Message, Turn
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import wait
from tests.support import replied
from tests.thinkers import Counting


class Answered(Exception):
    """An error of a provider's client."""

    status_code = 400


ASK = Ask("answer", (Turn("user", ("2 + 2?",)),), max_tokens=32, stop=("\n",))
AGAIN = "its thoughts left no room for its text: asked again with room for 4,096 tokens of thoughts"


def test_a_limit_is_one_of_the_text_from_the_first_sign_of_thoughts_on() -> None:
    model, refused = Counting(replies={"": ["Answer: 4\nmore"] * 3}, thoughts=1000), Refused()

    first, second = (replied(model, ASK, refused=refused) for _ in range(2))

    assert (first.text, second.text) == ("Answer: 4", "Answer: 4") and not second.cut
    assert first.notes == (AGAIN,) and not second.notes
    assert model.sent == [(32, ["\n"]), (32 + 4096, None), (32 + 1024, None)]  # a server would stop in the thoughts
    assert first.stats["tokens_thoughts"] == 32 + 1000  # of both calls


def test_tokens_of_two_calls_are_unknown_if_the_server_reported_those_of_one() -> None:
    class Forgetful(Counting):
        def _generate(self, *args: Any, **options: Any) -> ChatResult:
            result = super()._generate(*args, **options)
            if len(self.sent) == 1:
                result.generations[0].message.usage_metadata = None  # type: ignore[attr-defined]
            return result

    reply = replied(Forgetful(replies={"": ["4"] * 2}, thoughts=1000), ASK)
    assert reply.notes[0] == AGAIN and not {"tokens_in", "tokens_out"} & {*reply.stats}


def test_a_model_that_does_not_think_gets_the_limit_and_the_stop_strings() -> None:
    model = Counting(replies={"": ["Answer: 4"]}, thoughts=0)
    assert replied(model, ASK).text == "Answer: 4" and model.sent == [(32, ["\n"])]


def test_thoughts_that_need_more_than_usual_get_it_from_then_on() -> None:
    model, refused = Counting(replies={"": ["4"] * 3}, thoughts=3000), Refused()
    for _ in range(3):
        assert replied(model, ASK, refused=refused).text == "4"
    assert [limit for limit, _ in model.sent] == [32, 32 + 4096, 32 + 1024, 32 + 4096, 32 + 4096]


@pytest.mark.parametrize(
    ("thinking", "limits"), [(True, [32 + 1024]), (300, [32 + 300, 32 + 1200]), (False, [32, 4128])]
)
def test_the_setting_gives_room_at_once(thinking: bool | int, limits: list[int]) -> None:
    model = Counting(replies={"": ["4"]}, thoughts=400)
    reply = wait(chat_model.reply(model, ASK, Refused(), thinking=thinking))
    assert reply.text == "4" and [limit for limit, _ in model.sent] == limits


def test_a_text_that_is_longer_than_its_limit_is_cut_and_not_asked_again() -> None:
    model, refused = Counting(replies={"": ["word " * 2000]}, thoughts=30), Refused()
    refused.thinker(model).most_thoughts = 1024
    assert replied(model, ASK, refused=refused).cut and len(model.sent) == 1


def test_a_server_without_so_much_room_leaves_the_first_reply() -> None:
    class Small(Counting):
        def _generate(self, *args: Any, **options: Any) -> ChatResult:
            if (self.max_tokens or 0) > 2048:
                raise Answered("max_tokens is too large: this model's context has 2048 tokens")
            return super()._generate(*args, **options)

    reply = replied(Small(replies={"": ["4"]}, thoughts=1000), ASK)
    assert reply.cut and not reply.text


@pytest.mark.parametrize("inline", ["<think>{0}</think>\n\n{1}", "{0}</think>{1}", "<muse>{0}</muse>{1}"])
def test_thoughts_in_the_text_of_a_hosted_model_are_thoughts(inline: str) -> None:
    refused, markers = Refused(), ("<muse>", "</muse>") if "muse" in inline else None
    model = Counting(replies={"": ["4"]}, thoughts=30, inline=inline)
    reply = wait(chat_model.reply(model, ASK, refused, markers=markers))
    assert (reply.thoughts, reply.text) == ("Hm.", "4")
    assert model.sent == [(32, None if markers else ["\n"])]
    assert refused.thinker(model).opened == inline.startswith("{0}")


def test_a_reply_of_thoughts_alone_between_named_markers_is_noted_as_empty() -> None:
    model = FakeListChatModel(responses=["<muse>so 4</muse>"])
    reply = wait(chat_model.reply(model, ASK, Refused(), markers=("<muse>", "</muse>")))
    assert not reply.text and EMPTY in reply.notes


def test_unknown_tags_before_the_text_are_named_in_a_note() -> None:
    (note,) = replied(Counting(replies={"": ["<muse>so 4</muse>4"]}, thoughts=0), ASK).notes
    assert note.endswith("if these are thoughts, set thinking_markers to '<muse>' and '</muse>'")


class Anthropic(FakeListChatModel):
    thinking: dict[str, Any] | None = None
    reasoning_effort: str | None = None


class Google(FakeListChatModel):
    thinking_budget: int | None = None
    include_thoughts: bool | None = None
    reasoning_effort: str | None = None


class Ollama(FakeListChatModel):
    reasoning: bool | None = None
    num_predict: int | None = None


class OpenRouter(FakeListChatModel):
    reasoning: dict[str, Any] | None = None


class Groq(FakeListChatModel):
    reasoning_effort: str | None = None


def openai(name: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, api_key=SecretStr("none"), **more)


def of(kind: type[FakeListChatModel], **profile: Any) -> FakeListChatModel:
    return kind(responses=[], profile=cast("Any", profile) or None)


NEW = ["low", "medium", "high", "xhigh", "max"]
TEMPLATE = {"enable_thinking": True, "thinking": True, "reasoning_effort": "medium"}


@pytest.mark.parametrize(
    ("model", "off", "on", "some"),
    [
        (of(Anthropic), {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled", "budget_tokens": 1024}},
         {"thinking": {"type": "enabled", "budget_tokens": 3000}}),
        (of(Anthropic, reasoning_effort_levels=NEW), {"thinking": {"type": "disabled"}}, {"reasoning_effort": "medium"},
         {"reasoning_effort": "medium"}),
        (of(Google), {"thinking_budget": 0, "include_thoughts": False},
         {"thinking_budget": -1, "include_thoughts": True}, {"thinking_budget": 3000, "include_thoughts": True}),
        (of(Google, reasoning_effort_levels=["low", "high"]), None,
         *[{"reasoning_effort": "high", "include_thoughts": True}] * 2),
        (of(Ollama), {"reasoning": False}, {"reasoning": True}, {"reasoning": True}),
        (of(OpenRouter), {"reasoning": {"effort": "none"}}, {"reasoning": {"enabled": True}},
         {"reasoning": {"max_tokens": 3000}}),
        (of(Groq), {"reasoning_effort": "none"}, {"reasoning_effort": "medium"}, {"reasoning_effort": "medium"}),
        (openai("gpt-5"), None, {"reasoning_effort": "medium"}, {"reasoning_effort": "medium"}),
        (openai("gpt-5.1"), {"reasoning_effort": "none"}, {"reasoning_effort": "medium"},
         {"reasoning_effort": "medium"}),
        (openai("gpt-4o-mini"), {}, None, None),
        (openai("qwen3", base_url="http://127.0.0.1:1/v1", extra_body={"top_k": 5}),
         {"extra_body": {"top_k": 5, "chat_template_kwargs": {"enable_thinking": False, "thinking": False}}},
         {"extra_body": {"top_k": 5, "chat_template_kwargs": TEMPLATE}},
         {"extra_body": {"top_k": 5, "chat_template_kwargs": TEMPLATE}}),
        (of(FakeListChatModel), None, None, None),
    ],
)  # fmt: skip
def test_thoughts_are_switched_by_what_a_class_has_for_it(model: Any, off: Any, on: Any, some: Any) -> None:
    assert [switch(model, wish) for wish in (False, True, 3000)] == [off, on, some]


@pytest.mark.parametrize(
    ("model", "wish", "why"),
    [
        (of(FakeListChatModel), False, "thinking is off, .* FakeListChatModel has no switch for thoughts"),
        (openai("gpt-5"), False, "it always thinks; its levels of effort are minimal, low, medium, high"),
        (openai("gpt-4o-mini"), 300, "thinking is 300, .* it does not think"),
    ],
)
def test_a_setting_that_does_not_reach_a_model_is_refused_in_one_line(model: Any, wish: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_switch(model, wish, "hosted:some:model")
    assert check_switch(model, None, "hosted:some:model") is model


class Switched(Counting):
    """Thinks unless it is told not to, and may refuse to be told."""

    reasoning_effort: str | None = None
    refuses: bool = False
    efforts: list[str | None] = Field(default=[])

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        self.efforts.append(self.reasoning_effort)
        if self.refuses and self.reasoning_effort:
            raise Answered("Unsupported value: 'reasoning_effort' does not support 'none' with this model.")
        return super()._generate(*args, **options)


def test_an_answer_turn_switches_thoughts_off_where_a_model_has_shown_some() -> None:
    model, refused = Switched(replies={"": ["4"] * 4}, thoughts=9), Refused()
    answer = Ask("answer", ASK.turns, thinks=False)
    for ask in (answer, ASK, answer):
        replied(model, ask, refused=refused)
    assert model.efforts == [None, None, "none"]


def test_a_server_that_refuses_the_switch_gets_none() -> None:
    model, refused = Switched(replies={"": ["4"] * 3}, thoughts=9, refuses=True), Refused()
    replies: list[Message] = [wait(chat_model.reply(model, ASK, refused, thinking=300)) for _ in range(2)]
    assert [reply.text for reply in replies] == ["4", "4"] and model.efforts == ["low", None, None]
    assert replies[0].notes == ("its server refuses `thinking`, which is left out from now on",)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("Budget 0 is invalid. This model only works in thinking mode.", {"thinking": ""}),
        ("Reasoning is mandatory for this endpoint and cannot be disabled.", {"thinking": ""}),
        ('{"loc":["body","chat_template_kwargs"],"msg":"Extra inputs are not permitted"}', {"thinking": ""}),
        ("`temperature` may only be set to 1 when thinking is enabled.", {"temperature": ""}),
        ("'temperature' is not supported with reasoning models.", {"temperature": ""}),
    ],
)
def test_a_refused_switch_is_told_from_what_thoughts_do_not_allow(message: str, refused: dict[str, str]) -> None:
    assert refused_in(Answered(message), ["temperature", "thinking", "extra_body"]) == refused
