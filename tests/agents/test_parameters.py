"""What servers refuse of a call is left out of it, and of later ones; all else that they refuse is an error."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from sottovoce.agents import chat_model
from sottovoce.agents.ask import Ask
from sottovoce.agents.parameters import Refused, refused_in
from sottovoce.channels.message import Message, Turn
from sottovoce.graphs.debate import Debate, create_debate
from tests.support import replied
from tests.tables import each_row

SENT = ["temperature", "stop", "max_tokens", "response_format"]


class Answered(Exception):
    """An error of a provider's client."""

    def __init__(self, message: str, status: int | None = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status_code, self.param = status, param


@each_row(
    ("error", "refused"),
    [
        # OpenAI
        (Answered("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
                  "supported.", param="temperature"), {"temperature": ""}),
        (Answered("Unsupported parameter: 'stop' is not supported with this model.", param="stop"), {"stop": ""}),
        (Answered("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                  "instead.", param="max_tokens"), {"max_tokens": "max_completion_tokens"}),
        (Answered("Invalid schema for response_format 'reply': In context=(), 'pattern' is not permitted.",
                  param="response_format"), {"response_format": ""}),
        # Anthropic, DeepSeek, Groq, Moonshot, Mistral, LiteLLM, Google, a client by itself
        (Answered("{'type': 'invalid_request_error', 'message': '`temperature` is deprecated for this model.'}"),
         {"temperature": ""}),
        (Answered("`temperature` may only be set to 1 when thinking is enabled."), {"temperature": ""}),
        (Answered("This response_format type is unavailable now"), {"response_format": ""}),
        (Answered("'response_format.type' : value is not one of the allowed values ['text','json_object']"),
         {"response_format": ""}),
        (Answered("invalid temperature: only 1 is allowed for this model"), {"temperature": ""}),
        (Answered('{"type":"extra_forbidden","loc":["body","stop"],"msg":"Extra inputs are not permitted"}', 422),
         {"stop": ""}),
        (Answered("openai does not support parameters: ['temperature', 'stop'], for model=o1"),
         {"temperature": "", "stop": ""}),
        (Answered("400 INVALID_ARGUMENT. Unknown name \"response_format\": Cannot find field.", None),
         {"response_format": ""}),
        (TypeError("create() got an unexpected keyword argument 'stop'"), {"stop": ""}),
        # errors of the caller, and of others
        (Answered("temperature: range: 0..1"), {}),
        (Answered("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
                  param="max_tokens"), {}),
        (Answered("Unsupported parameter: 'messages[0].name'", param="messages[0].name"), {}),
        (Answered("Your key is not allowed to use temperature", 401), {}),
        (Answered("The server had to stop: unknown error", 400), {}),
        (TimeoutError("temperature is not supported"), {"temperature": ""}),
    ],
)  # fmt: skip
def test_an_error_says_which_parameter_its_server_refuses(error: Exception, refused: dict[str, str]) -> None:
    assert refused_in(error, SENT) == refused


def test_what_was_not_sent_is_not_refused() -> None:
    assert refused_in(Answered("'stop' is not supported", param="stop"), ["temperature"]) == {}


class Choosy(FakeListChatModel):
    """Refuses one parameter after another, as the models of OpenAI that reason do."""

    responses: list[str] = Field(default=[])
    model: str = "o9"
    temperature: float | None = None
    max_tokens: int | None = None
    refuses: dict[str, str] = Field(default={})
    calls: list[dict[str, Any]] = Field(default=[])
    says: str = "Answer: 4\nAnd so on."

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> ChatResult:
        own = {name: value for name in ("temperature", "max_tokens") if (value := getattr(self, name)) is not None}
        sent = own | kw | ({"stop": stop} if stop else {})
        self.calls.append(sent)
        for name, instead in self.refuses.items():
            if name in sent:
                use = f" Use '{instead}' instead." if instead else ""
                raise Answered(f"Unsupported parameter: '{name}' is not supported with this model.{use}", param=name)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.says))])


def called(model: Choosy, refused: Refused, temperature: float | None = 0.0, **more: Any) -> Message:
    ask = Ask("think", (Turn("user", ("2 + 2?",)),), stop=("\n",), temperature=temperature, seed=7, **more)
    return replied(model, ask, refused=refused)


REFUSES = {"temperature": "", "stop": "", "max_tokens": "max_completion_tokens"}


def test_a_call_is_made_again_without_what_its_server_refuses_and_later_ones_never_send_it() -> None:
    model, refused = Choosy(refuses=REFUSES), Refused()

    first, second = called(model, refused, max_tokens=9), called(model, refused, max_tokens=7)

    assert [len(sent) for sent in model.calls] == [3, 2, 1, 1, 1]
    assert model.calls[-2:] == [{"max_completion_tokens": 9}, {"max_completion_tokens": 7}]
    assert first.text == second.text == "Answer: 4"  # the stop string is ours to find
    assert first.notes == (
        "its server refuses `temperature`, which is left out from now on",
        "its server refuses `stop`, which is left out from now on",
        "its server refuses `max_tokens`, which is sent as `max_completion_tokens`",
    )
    assert not second.notes


def test_each_run_of_an_application_notes_what_its_server_refuses() -> None:
    """Showed as a note in the first run of a process only; files that a run reads once were never read again either."""
    refuses = "its server refuses `temperature`"
    debate = create_debate(Debate(rounds=1), models=Choosy(refuses={"temperature": ""}, temperature=0.5)).compile()
    boards = [debate.invoke({"question": "2 + 2?"}, output_keys=["board"])["board"] for _ in range(2)]

    assert [str(board).count(refuses) for board in boards] == [1, 1]


def test_another_agent_with_the_same_model_does_not_send_it_and_one_with_another_model_does() -> None:
    model, refused = Choosy(refuses=REFUSES), Refused()
    called(model, refused)
    same, other = Choosy(refuses=REFUSES), Choosy(model="o1")

    called(same, refused), called(other, refused)

    assert same.calls == [{}] and other.calls == [{"temperature": 0.0, "stop": ["\n"]}]


def test_the_values_of_a_model_that_a_user_made_are_left_out_too() -> None:
    model = Choosy(refuses=REFUSES, temperature=0.5, max_tokens=9)
    reply = called(model, Refused(), temperature=None)
    assert model.calls[-1] == {"max_completion_tokens": 9} and reply.text == "Answer: 4"


async def test_an_async_call_is_made_again_too() -> None:
    model = Choosy(refuses=REFUSES)
    ask = Ask("think", (Turn("user", ("2 + 2?",)),), temperature=0.0)

    reply = await chat_model.reply(model, ask, Refused())

    assert reply.text.startswith("Answer: 4") and model.calls == [{"temperature": 0.0}, {}]


def test_a_server_that_refuses_the_replacement_too_gets_neither() -> None:
    model = Choosy(refuses={"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"})
    called(model, Refused(), temperature=None, max_tokens=9)
    assert [sorted(sent) for sent in model.calls] == [
        ["max_tokens", "stop"],
        ["max_completion_tokens", "stop"],
        ["stop"],
    ]


def test_an_error_about_something_else_stays() -> None:
    with pytest.raises(Answered, match="'seed' is not supported"):
        called(Unwilling(), Refused())


class Unwilling(Choosy):
    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        raise Answered("Unsupported parameter: 'seed' is not supported with this model.", param="seed")


def test_a_refusal_of_what_is_no_longer_sent_is_an_error() -> None:
    # Seen: a server that refuses every call by the name of a parameter was asked without end.
    with pytest.raises(Answered, match="temperature"):
        called(Stubborn(temperature=0.5), Refused(), temperature=None)


class Stubborn(Choosy):
    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        raise Answered("Unsupported parameter: 'temperature'", param="temperature")


@each_row(
    ("reply", "note"),
    [
        (
            AIMessage("", additional_kwargs={"refusal": "I can't help."}),
            'it was refused by its model: "I can\'t help."',
        ),
        (AIMessage([{"type": "refusal", "refusal": "No."}]), 'it was refused by its model: "No."'),
        (AIMessage("", response_metadata={"stop_reason": "refusal"}), "it was refused by its model"),
        (AIMessage(" \n"), "it is empty"),
        (AIMessage("<think>\nHm.\n</think>\n"), "it is empty"),
    ],
)
def test_a_refusal_and_an_empty_reply_are_named(reply: AIMessage, note: str) -> None:
    class Says(Choosy):
        def _generate(self, *args: Any, **more: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=reply)])

    assert called(Says(), Refused()).notes == (note,)
