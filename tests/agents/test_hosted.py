"""Hosted models by name: what is made of a name, what is refused, and the line on a provider's failure."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import httpx
import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from openai import ContentFilterFinishReasonError, LengthFinishReasonError
from openai.types.chat import ChatCompletion
from pydantic import ConfigDict, Field, SecretStr

from sottovoce.agents import chat_model
from sottovoce.agents.ask import Ask
from sottovoce.agents.convert import said
from sottovoce.agents.hosted import cut_reply, failure, hosted, note_model, passes, structured
from sottovoce.agents.parameters import Refused
from sottovoce.channels.message import Turn
from sottovoce.core.errors import EngineError, UsageError
from sottovoce.core.response_format import Form
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.context import made_from
from tests.agents.openai_server import Server
from tests.support import replied
from tests.tables import each_row

MINI = "hosted:openai:gpt-4o-mini"
KEY = "sk-no-key-of-anybody"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


class Keyless(FakeListChatModel):
    """Is made without a key, as Anthropic's, and takes nothing that it does not know."""

    model_config = ConfigDict(extra="forbid")

    model: str
    responses: list[str] = Field(default=[])
    api_key: SecretStr = SecretStr("")

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"api_key": "ANTHROPIC_API_KEY"}


class Plain(Keyless):
    api_key: SecretStr = SecretStr(KEY)


def provide(monkeypatch: pytest.MonkeyPatch, package: str, **classes: type[BaseChatModel]) -> None:
    """Stand in for a provider's package; the factory remembers it, so each test has a provider of its own."""
    module = ModuleType(package)
    vars(module).update(classes)
    monkeypatch.setitem(sys.modules, package, module)


@each_row(
    ("profile", "form", "known"),
    [
        ({"structured_output": True}, Form.of_object("a"), True),
        ({"structured_output": True}, Form(choices=("a", "b")), False),
        ({"structured_output": False}, Form.of_object("a"), False),
    ],
)
def test_a_schema_goes_to_providers_that_langchain_knows_to_take_one(
    profile: ModelProfile | None, form: Form | None, known: bool
) -> None:
    asked = structured(FakeListChatModel(responses=[], profile=profile), form)
    assert list(asked) == (["response_format"] if known else [])


def test_a_provider_s_schema_offers_unknown_too() -> None:
    form = Form({"type": "object", "properties": {"side": {"enum": ["left", "right"]}}})

    sent = structured(FakeListChatModel(responses=[], profile={"structured_output": True}), form)["response_format"]

    assert sent["json_schema"]["schema"]["properties"]["side"]["enum"] == ["left", "right", "unknown"]
    assert sent["json_schema"]["strict"] is True


def test_the_reply_in_the_error_of_a_cut_one_is_kept_with_its_tokens() -> None:
    # OpenAI's client raises it for a reply in a format, and a model that thinks is often cut before its first word.
    details = {"reasoning_tokens": 9}
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12, "completion_tokens_details": details}
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": '{"answer'}}
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": "gpt-5"}
    completion = ChatCompletion.model_validate({**about, "choices": [choice], "usage": usage})

    reply = cut_reply(hosted(MINI), LengthFinishReasonError(completion=completion))

    assert reply is not None and (reply.text, reply.response_metadata["finish_reason"]) == ('{"answer', "length")
    assert reply.usage_metadata is not None and reply.usage_metadata["output_token_details"] == {"reasoning": 9}  # type: ignore[attr-defined]
    stopped = cut_reply(hosted(MINI), ContentFilterFinishReasonError(completion=None))
    assert stopped is not None and stopped.response_metadata["finish_reason"] == "content_filter"
    assert cut_reply(hosted(MINI), ValueError("another")) is None


def refusal(name: str) -> str:
    with pytest.raises(UsageError) as refused:
        hosted(name)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def raised(error: Exception, name: str = MINI) -> Exception:
    """An error as it leaves the model of agent_1."""
    for handler in hosted(name, "agent_1").callbacks or []:  # type: ignore[union-attr]  # a list, as it was made
        handler.on_llm_error(error, run_id=None)  # type: ignore[arg-type]  # it is not looked at
    return error


@pytest.mark.parametrize("name", [MINI, "hosted:gpt-4o-mini"])  # langchain infers the provider of the second
def test_a_name_is_what_langchain_s_factory_takes(name: str) -> None:
    model = hosted(name, max_tokens=7)
    assert isinstance(model, ChatOpenAI)
    assert (model.model_name, model.max_tokens, model.temperature) == ("gpt-4o-mini", 7, None)


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"watch": ["m.json"]}, (True, 10)),
        ({"agents": 3, "retain": "certain"}, (True, 10)),
        ({"prompts": "paper/dar"}, (True, 10)),
        ({}, (None, None)),
    ],
)
def test_a_model_whose_certainty_is_read_is_asked_for_log_probabilities(
    settings: dict[str, Any], asked: tuple[bool, int]
) -> None:
    model = made_from(Debate(model=[MINI], **settings), "agent_1")
    assert isinstance(model, ChatOpenAI)
    assert (model.logprobs, model.top_logprobs) == asked


def test_the_likelihood_of_a_reply_is_that_of_its_text_without_the_thoughts_before_it() -> None:
    def reply(*tokens: tuple[str, Any]) -> AIMessage:
        content = [{"token": token, "logprob": logprob} for token, logprob in tokens]
        return AIMessage("It is 22.", response_metadata={"logprobs": {"content": content}})

    said = (("It", -1.0), (" is", -0.5), (" 22.", -0.3))
    assert chat_model.mean_nll(reply(("<think>so</think>", -9.0), *said), "It is 22.") == {"mean_nll": 0.6}
    for none in (AIMessage("22"), reply(("22", None)), reply(("22", "NaN")), reply(("22", float("-inf"))), reply()):
        assert chat_model.mean_nll(none, "22") == {}
    none = AIMessage("22", response_metadata={"logprobs": ["22"]})
    assert chat_model.mean_nll(none, "22") == {}


def test_a_model_that_takes_no_longest_reply_is_made_without(monkeypatch: pytest.MonkeyPatch) -> None:
    provide(monkeypatch, "langchain_xai", ChatXAI=Plain)
    assert isinstance(hosted("hosted:xai:grok", max_tokens=7), Plain)


def test_a_name_without_a_model_is_refused() -> None:
    assert refusal("hosted:openai:").endswith(
        "'hosted:openai:' is incomplete; expected hosted:PROVIDER:MODEL, e.g. hosted:openai:gpt-4o-mini"
    )


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    line = refusal("hosted:opnai:gpt-4o-mini")
    assert "-mini' names a provider that LangChain does not know; expected hosted:PROVIDER:MODEL, " in line
    assert "; providers: anthropic, " in line and ", openai, " in line


def test_without_langchain_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)  # as where it is not installed
    assert refusal(MINI) == (
        f"model {MINI!r} needs packages that are missing; pip install langchain and the provider's package, "
        "e.g. langchain-openai"
    )


def test_without_the_provider_s_package_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_groq", None)
    assert "`pip install langchain-groq`" in refusal("hosted:groq:llama")


def test_a_key_that_would_be_missed_only_at_the_first_call_is_missed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    provide(monkeypatch, "langchain_anthropic", ChatAnthropic=Keyless)
    line = refusal("hosted:anthropic:claude")
    assert line == "model 'hosted:anthropic:claude' has no key; set ANTHROPIC_API_KEY in the environment"


def test_a_value_that_a_model_refuses_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict(Plain):
        number: int

    provide(monkeypatch, "langchain_upstage", ChatUpstage=Strict)

    assert refusal("hosted:upstage:solar") == "model 'hosted:upstage:solar' cannot be created: number: Field required"


def test_a_provider_s_error_keeps_its_type_and_is_told_with_whose_model_it_was() -> None:
    error = raised(TimeoutError("after\n 60 s"))
    assert type(error) is TimeoutError
    assert failure(error) == f"agent_1: {MINI} failed: TimeoutError: after 60 s"


@pytest.mark.parametrize("error", [TimeoutError("after 60 s"), UsageError("no")])
def test_other_errors_are_none_of_a_hosted_model(error: Exception) -> None:
    error.add_note("During task with name 'agent_1'")
    assert failure(error) is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"Incorrect API key provided: {KEY}.", "Incorrect API key provided: $OPENAI_API_KEY."),
        (f"{KEY[:15]}... is no key", "$OPENAI_API_KEY... is no key"),
        (f"..{KEY[-12:]} or {KEY[3:9]}", f"..$OPENAI_API_KEY or {KEY[3:9]}"),
        (f"GET /?key={KEY.replace('-', '%2D')}&n=1", "GET /?key=$OPENAI_API_KEY&n=1"),
        (f"50% of {''.join(f'%25{ord(each):02x}' for each in KEY[2:])}%", "50% of $OPENAI_API_KEY%"),
        ("no file /var/cache/hub", "no file /var/cache/hub"),
        ("no proxy http://me:hunter2@10.0.0.1:80/", "no proxy http://10.0.0.1:80/"),
        ("a false value", "a false value"),
    ],
)
def test_no_secret_of_the_environment_reaches_the_line(monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("HF_TOKEN_PATH", "/var/cache/hub/token")
    assert failure(raised(ValueError(said))) == f"agent_1: {MINI} failed: ValueError: {told}"


def test_a_model_with_a_time_limit_asks_once_within_it() -> None:
    model: Any = hosted(MINI, timeout=5)
    assert (model.request_timeout, model.max_retries) == (5, 0)


def status(code: int) -> Exception:
    """As the clients of providers raise it."""
    error = Exception("of a provider")
    error.status_code = code  # type: ignore[attr-defined]
    return error


def over(cause: Exception) -> Exception:
    error = Exception("a client's own words")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (status(503), True),
        (status(401), False),
        (over(httpx.ConnectError("refused")), True),
        (over(httpx.ReadTimeout("late")), False),
        (EngineError("of a local model"), False),
    ],
    ids=repr,
)
def test_what_may_not_fail_the_next_time_is_told_apart(error: Exception, expected: bool) -> None:
    assert passes(error) is expected


@pytest.fixture
def trickling(server: Server) -> BaseChatModel:
    """A model whose server sends a byte now and then, for as long as the test goes on."""
    server.again, server.pause = b" ", 0.02
    return hosted(MINI, "zoe", timeout=0.2)


ASK = Ask("think", (Turn("user", ("2 + 2?",)),))
LATE = "zoe: hosted:openai:gpt-4o-mini failed: TimeoutError: no whole reply within 0.2 s; raise `timeout` or lower"


def test_a_reply_that_trickles_in_is_given_up_in_time(trickling: BaseChatModel) -> None:
    # Seen: the client's timeout begins again with every byte, so that a call lasted for ever.
    with pytest.raises(TimeoutError) as caught:
        replied(trickling, ASK)
    assert str(failure(caught.value)).startswith(LATE) and not passes(caught.value)


async def test_a_reply_that_trickles_in_is_given_up_in_an_event_loop(trickling: BaseChatModel) -> None:
    with pytest.raises(TimeoutError) as caught:
        await chat_model.reply(trickling, ASK, Refused())
    assert str(failure(caught.value)).startswith(LATE)


def test_thoughts_in_content_blocks_and_between_markers_are_no_text() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}]
    summary = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "text", "text": "4"},
    ]
    replies = [AIMessage(blocks), AIMessage(summary), AIMessage("<think>hm</think>4")]  # type: ignore[arg-type]
    replies += [AIMessage("4", additional_kwargs={"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]})]
    assert [tuple(said(each)) for each in replies] == [("hm", "4")] * 4


def test_an_exception_that_is_passed_on_quotes_no_key() -> None:
    error = status(401)
    error.args = (f"no key {KEY[:14]}***",)
    error.body = {"error": {"message": [f"%73{KEY[1:]}"]}}  # type: ignore[attr-defined]  # as OpenAI's client has it

    note_model(hosted(MINI), error)

    assert str(error) == "no key $OPENAI_API_KEY***" and KEY[1:13] not in str(vars(error))
