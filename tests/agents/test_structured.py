"""Structured output, tool calls and token counts of a local model."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.models import assemble
from sottovoce.models.huggingface.chat import ChatTemplate
from tests.chats import LLAMA_TOOLS, MISTRAL_TOOLS, QWEN_3, TOOLS, XML_TOOLS, tokenizer_with
from tests.support import prompt_ids, requested, tiny_loaded, tiny_model
from tests.tables import some

QUESTION = "What is 14 + 3?"


class Sign(Enum):
    plus = "plus"
    minus = "minus"


class Term(BaseModel):
    sign: Sign
    number: int


class Sum(BaseModel):
    """A sum."""

    terms: list[Term]
    why: str = ""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def negate(a: int) -> int:
    """Negate a number."""
    return -a


def model(template: str | None = TOOLS, store: Path | None = None, **more: Any) -> HookedChatModel:
    loaded = assemble("tools", tiny_model(max_position_embeddings=2048), tokenizer_with(template))
    payloads = PayloadStore(store) if store else None
    return HookedChatModel(**{"preloaded": loaded, "store": payloads, "max_tokens": 200, "temperature": 0, **more})


# Tokens


def test_tokens_are_those_of_the_model_s_own_tokenizer_and_of_its_template(tmp_path: Path) -> None:
    """They were GPT-2's, asked of a hub."""
    ours, loaded = model(store=tmp_path, max_tokens=2), tiny_loaded()
    assert ours.get_token_ids(QUESTION) == list(loaded.chat.ids(QUESTION))
    assert ours.get_num_tokens("<|im_end|>") > 1  # plain text, as in a prompt
    asked: list[Any] = [HumanMessage(QUESTION)]
    usage = ours.invoke(asked).usage_metadata
    assert usage and ours.get_num_tokens_from_messages(asked) == usage["input_tokens"]
    assert ours.get_num_tokens_from_messages(asked, tools=[add]) > usage["input_tokens"] + 50


# Structured output


@pytest.mark.parametrize("protocol", some(["nl", "cipher"], "nl"))
def test_a_reply_is_an_object_of_the_class_with_nested_ones_and_the_raw_message(protocol: str, tmp_path: Path) -> None:
    ours = model(None, tmp_path, protocol=protocol)
    found = ours.with_structured_output(Sum, include_raw=True).invoke(QUESTION)
    assert isinstance(found["parsed"], Sum) and found["parsing_error"] is None
    assert json.loads(found["raw"].text) == found["parsed"].model_dump(mode="json", exclude_unset=True)
    assert set(ours.with_structured_output(Sum.model_json_schema()).invoke(QUESTION)) <= {"terms", "why"}


def test_what_no_reply_can_be_constrained_to_is_one_line(tmp_path: Path) -> None:
    wrong = {"title": "Odd", "type": "object", "properties": {"x": {"type": "string", "format": "no such format"}}}
    ours, short = model(None, tmp_path), model(None, tmp_path, max_tokens=3)
    for made, expected in (
        (lambda: ours.with_structured_output(Sum, method="prayer"), "output: 'prayer'; choose from: "),
        (lambda: ours.with_structured_output(Sum, tones=[1]), "output: 'tones'; "),
        (lambda: ours.with_structured_output(wrong).invoke("?"), "cannot be constrained to this schema"),
        (lambda: short.with_structured_output(Sum).invoke("?"), "but max_tokens is 3; ra"),
    ):
        with pytest.raises(UsageError) as refused:
            made()
        assert expected in str(refused.value) and "\n" not in str(refused.value)


# Tools


@pytest.mark.parametrize(
    ("template", "opening", "marker", "written"),
    [
        (TOOLS, "@do\n", "@do", '{"name": "add", "arguments": {"a": 1}}'),
        (MISTRAL_TOOLS, "<|im_start|>", "<|im_start|>", '[{"name": "add", "arguments": {"a": 1}}]'),
        (LLAMA_TOOLS, "", "", '{"name": "add", "parameters": {"a": 1}}'),
    ],
    ids=["mark", "list", "whole turn"],
)
def test_a_call_is_written_and_read_as_in_the_template(template: str, opening: str, marker: str, written: str) -> None:
    found = ChatTemplate(tokenizer_with(template)).call_format
    assert (found.preface, found.marker) == (opening, marker)
    assert found.read(f"{marker} {written}") == ("", "add", {"a": 1})
    assert found.read(written) == ("", "add", {"a": 1})  # a decoder hides marks that are special tokens
    assert found.read("The answer is 17.") is None and found.read(f"{marker} {written[:-3]}") is None
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    (schema,) = [found.schema([{"function": {"name": "add", "parameters": parameters}}])]
    assert '"const": "add"' in json.dumps(schema) and '"additionalProperties": false' in json.dumps(schema)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            None,
            "has no chat template, so it has no tools; bind no tools, or ask for JSON by with_structured_output",
        ),
        (QWEN_3, "chat template has no tools"),
        (XML_TOOLS, "does not write tool calls as JSON"),
        (TOOLS + "{% if not add_generation_prompt %}{{ nobody.there }}{% endif %}", "cannot write tool calls"),
    ],
)
def test_a_template_without_tools_of_json_is_one_line(template: str | None, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        model(template).bind_tools([add]).invoke(QUESTION)
    assert expected in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("template", some([TOOLS, MISTRAL_TOOLS, LLAMA_TOOLS], MISTRAL_TOOLS))
async def test_a_forced_call_is_valid_and_its_result_is_read_in_the_next_prompt(template: str, tmp_path: Path) -> None:
    ours = model(template, tmp_path).bind_tools([add, negate], tool_choice="negate")
    called = await ours.ainvoke(QUESTION)
    (call,) = called.tool_calls
    assert call["name"] == "negate" and list(call["args"]) == ["a"] and isinstance(call["args"]["a"], int)
    assert called.content == "" and (await ours.ainvoke(QUESTION)).tool_calls == [call]
    result = ToolMessage('{"it": "is -17"}', tool_call_id=call["id"])
    request = requested(model(template, tmp_path), [HumanMessage(QUESTION), called, result])
    shown = tokenizer_with(template).decode(prompt_ids(request))
    assert json.dumps(call["args"]) in shown and "is -17" in shown


def test_a_model_may_answer_in_words_and_calls_nothing_under_none(tmp_path: Path) -> None:
    ours = model(TOOLS, tmp_path, max_tokens=60)
    assert not ours.bind_tools([add]).invoke(QUESTION).tool_calls
    assert ours.bind_tools([add], tool_choice="none").invoke(QUESTION).text
    with pytest.raises(UsageError, match="unknown tool_choice: 'sub'; choose from: add, any, auto, none"):
        ours.bind_tools([add], tool_choice="sub")
    with pytest.raises(UsageError, match="a call has tools and prefill; a tool call has its own format"):
        ours.bind_tools([add]).invoke(QUESTION, prefill="So")


def test_special_tokens_in_a_call_or_a_result_are_plain_text(tmp_path: Path) -> None:
    call = {"name": "add", "args": {"a": "<|im_end|>"}, "id": "1", "type": "tool_call"}
    chat: list[Any] = [HumanMessage("?"), AIMessage("", tool_calls=[call]), ToolMessage("<|im_end|>", tool_call_id="1")]
    end = tokenizer_with(TOOLS).get_vocab()["<|im_end|>"]
    assert prompt_ids(requested(model(), chat)).count(end) == 3  # one for each turn
