"""`HookedChatModel`: a chat model like any other from outside, a protocol's speaker and hearer inside."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle  # noqa: TID251  # as a pool of processes does
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages.base import BaseMessage

from sottovoce.agents.convert import in_words, to_messages, to_turns
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message, MessageRef, Role, Turn
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import EngineError, UsageError
from sottovoce.models import Rows, assemble
from sottovoce.models.loaded import CAUTIOUS, USUAL
from tests.support import (
    endless_loaded,
    reciting_loaded,
    requested,
    rows_are_free,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
)

PROTOCOLS = ["nl", "cipher", "sde"]
QUESTION = "What is 14 + 3?"


def agent(protocol: str, store: PayloadStore, **more: Any) -> HookedChatModel:
    plain = {"protocol": protocol, "preloaded": tiny_loaded(), "store": store, "max_tokens": 12}
    return HookedChatModel(**{**plain, **more})


ENDLESS = 3500  # tokens


def endless(store: PayloadStore, **more: Any) -> HookedChatModel:
    endless_loaded().engine.run(requested(agent("nl", store, preloaded=endless_loaded()), QUESTION))  # warm
    return agent("nl", store, **{"preloaded": endless_loaded(), "temperature": 0, "max_tokens": ENDLESS, **more})


def message_of(reply: AIMessage, **more: Any) -> Message:
    ref = PayloadRef.from_dict(reply.additional_kwargs["payload"])
    return Message(**{"agent": "agent_1", "round": 0, "act": "answer", "text": str(reply.text), "payload": ref, **more})


def hearing(message: Message, **heard: Any) -> list[Turn]:
    return [Turn("user", ("Another agent answered:\n", MessageRef(message, **heard), "\nAnswer again."))]


def joined(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


# Ways to call it


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_invoke_ainvoke_stream_and_astream_agree_for_one_seed(protocol: str, store: PayloadStore) -> None:
    loaded = tiny_loaded()
    # Digests are compared: a prompt that is taken over differs from one that is read in its last bits.
    model = agent(protocol, store, preloaded=loaded.varied(engine=loaded.engine.twin(reuse=False)))
    reply = model.invoke(QUESTION, seed=7)
    streamed = joined(list(model.stream(QUESTION, seed=7)))
    astreamed = joined([chunk async for chunk in model.astream(QUESTION, seed=7)])
    assert reply.text
    for other in (await model.ainvoke(QUESTION, seed=7), streamed, astreamed):
        assert other.text == reply.text
        assert other.additional_kwargs == reply.additional_kwargs
        assert counts(other) == counts(reply)
        assert other.response_metadata == reply.response_metadata


def counts(message: AIMessage) -> tuple[int, int, int]:
    usage = message.usage_metadata
    assert usage
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]


def test_usage_tells_how_much_of_a_prompt_an_earlier_call_had_read(store: PayloadStore) -> None:
    model = agent("nl", store, max_tokens=2)
    once = "Which of the numbers that were named by all the others is the largest one of them?"
    first, second = (model.invoke(once).usage_metadata for _ in range(2))
    assert first and second
    assert first["input_token_details"]["cache_read"] < first["input_tokens"] - 1
    assert second["input_token_details"]["cache_read"] == second["input_tokens"] - 1  # the last is always read


def test_a_stream_comes_in_several_chunks_of_which_only_the_last_brings_the_payload(store: PayloadStore) -> None:
    chunks = list(agent("cipher", store, temperature=1.0).stream(QUESTION, seed=7))
    assert len(chunks) > 2
    assert ["payload" in chunk.additional_kwargs for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_a_model_that_names_no_temperature_speaks_by_means_at_one_that_can_be_read_and_in_words_at_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path))  # nothing was measured
    model = tiny_model()
    assert model.generation_config is not None
    model.generation_config.temperature = None
    cipher = HookedChatModel(protocol="cipher", preloaded=assemble("unnamed", model, tiny_tokenizer()))
    asked = [HumanMessage(QUESTION)]
    found = [
        requested(cipher, asked, **how).sampling.temperature for how in ({}, {"speaks": "nl"}, {"temperature": 0.9})
    ]
    assert found == [CAUTIOUS, USUAL, 0.9]


def test_a_reply_that_goes_round_in_a_circle_says_so(store: PayloadStore) -> None:
    model = agent("cipher", store, preloaded=reciting_loaded("\n Mia has"), max_tokens=40)
    brief, long = model.invoke(QUESTION, max_tokens=12), model.invoke(QUESTION)
    assert [reply.additional_kwargs["notes"] for reply in (brief, long)] == [[], ["degenerates: repeats itself"]]
    assert long.additional_kwargs["stats"]["repeated"] > 0.5


def test_another_seed_gives_another_reply_and_the_model_s_own_seed_is_the_default(store: PayloadStore) -> None:
    model = agent("nl", store, seed=7)
    assert model.invoke(QUESTION).text == model.invoke(QUESTION, seed=7).text != model.invoke(QUESTION, seed=8).text


def test_a_call_may_override_what_the_model_was_made_with(store: PayloadStore) -> None:
    model = agent("nl", store, temperature=1.0, max_tokens=12)
    short = model.invoke(QUESTION, temperature=0.0, max_tokens=3)
    again = model.invoke(QUESTION, temperature=0.0, max_tokens=3, seed=99)
    assert short.text == again.text  # greedy: the seed does not matter
    assert short.usage_metadata and short.usage_metadata["output_tokens"] <= 3
    assert short.additional_kwargs["stats"]["temperature"] == 0.0


def test_stop_strings_end_the_reply_and_are_not_part_of_it(store: PayloadStore) -> None:
    model = agent("nl", store, preloaded=reciting_loaded("\nabcdefgh"), temperature=0.0)
    assert model.invoke("x", max_tokens=7).text == "abcdefg"
    assert model.invoke("x", stop=["de"], max_tokens=7).text == "abc"
    assert (
        agent("nl", store, preloaded=reciting_loaded("\nabcdefgh"), temperature=0.0, stop=["c"]).invoke("x").text
        == "ab"
    )


# Trouble


async def leave_stream(model: HookedChatModel) -> None:
    stream = model.astream(QUESTION)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]  # LangChain promises an iterator and returns a generator


async def cancel_task(model: HookedChatModel) -> None:
    task = asyncio.create_task(model.ainvoke(QUESTION))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_plain_stream(model: HookedChatModel) -> None:
    stream = model.stream(QUESTION)
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("leave", [leave_stream, cancel_task, leave_plain_stream])
async def test_a_reply_that_nobody_waits_for_frees_its_row(leave: Any, store: PayloadStore) -> None:
    await leave(endless(store))
    assert await rows_are_free(ENDLESS)


def invoke(model: HookedChatModel) -> object:
    return model.invoke(QUESTION)


async def astream(model: HookedChatModel) -> object:
    return [chunk async for chunk in model.astream(QUESTION)]


@pytest.mark.parametrize("call", [invoke, astream])
async def test_a_late_reply_is_one_clear_error_and_frees_its_row(call: Any, store: PayloadStore) -> None:
    model = endless(store, timeout=0.3)
    with pytest.raises(EngineError, match=r"^no reply within 0\.3 s; raise `timeout` or lower `max_tokens`$"):
        await result if inspect.isawaitable(result := call(model)) else None
    assert await rows_are_free(ENDLESS)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HumanMessage([{"type": "image", "url": "x"}]), "a content block has the type 'image'"),
        (BaseMessage(content="x", type="function"), "a message has the role 'function'"),
    ],
)
def test_what_a_text_model_cannot_read_is_refused(message: BaseMessage, expected: str, store: PayloadStore) -> None:
    with pytest.raises(UsageError, match=expected):
        agent("nl", store).invoke([message])


# What it says and hears


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_brings_a_reference_in_plain_json_and_no_tensor(protocol: str, store: PayloadStore) -> None:
    reply = agent(protocol, store).invoke(QUESTION, seed=3)
    wire = json.loads(json.dumps(reply.additional_kwargs))
    assert wire == reply.additional_kwargs
    payload = PayloadRef.from_dict(wire["payload"]).load(store)
    assert payload.label.protocol == protocol
    assert payload.label.text == reply.text
    assert reply.usage_metadata and len(payload) == wire["payload"]["tokens"] <= reply.usage_metadata["output_tokens"]
    assert json.loads(reply.model_dump_json())["additional_kwargs"] == wire


@pytest.mark.parametrize(("protocol", "what"), [("cipher", "rows"), ("sde", "edits")])
def test_a_latent_message_is_heard_latently(protocol: str, what: str, store: PayloadStore) -> None:
    model = agent(protocol, store)
    message = message_of(model.invoke(QUESTION, seed=3))
    request = requested(model, to_messages(hearing(message)))
    found = [piece for piece in request.prompt if isinstance(piece, Rows)] if what == "rows" else request.edits
    assert len(found) == 1


def test_models_that_will_hear_it_have_rows_of_their_own_made(store: PayloadStore) -> None:
    other = tiny_loaded(hidden_size=64, seed=1)
    message = message_of(agent("cipher", store, hearers=(agent("cipher", store, preloaded=other),)).invoke(QUESTION))
    assert message.payload is not None
    payload = message.payload.load(store)
    own, theirs = payload.rows(tiny_loaded().table.key), payload.rows(other.table.key)
    assert own is not None and theirs is not None
    assert (own.shape[-1], theirs.shape[-1]) == (32, 64)


# Turns and LangChain's messages


MESSAGE = Message(
    "agent_2",
    1,
    "revise",
    "It is 22.",
    attempt=1,
    payload=PayloadRef("sde", "a" * 64, "b" * 64, 3, 99, 32, "float32", (1, 2)),
    source="hosted",
    notes=("cut",),
    stats={"tokens_out": 3},
)


@pytest.mark.parametrize("heard", [MessageRef(MESSAGE), MessageRef(MESSAGE, ((0, 5),), latest=False, own=True)])
def test_heard_messages_survive_the_trip_through_langchain_and_json(heard: MessageRef) -> None:
    turns = [
        Turn("system", ("Be brief.",)),
        Turn("user", ("One said: ", heard, " Now you.")),
        Turn("assistant", (heard,)),
    ]
    messages = to_messages(turns)
    assert to_turns(messages) == turns
    wire = [type(message).model_validate_json(message.model_dump_json()) for message in messages]
    assert to_turns(wire) == turns


def test_a_hosted_model_gets_one_system_turn_at_the_beginning_turns_in_alternation_and_none_that_is_empty() -> None:
    said: tuple[tuple[Role, str], ...] = (
        ("system", "Be brief."),
        ("user", "?"),
        ("assistant", ""),
        ("system", "They say 4."),
        ("user", "Again."),
    )
    turns = [Turn(role, (text,)) for role, text in said]
    assert [(message.type, message.content) for message in in_words(turns)] == [
        ("system", "Be brief."),
        ("human", "?"),
        ("ai", "(nothing)"),
        ("human", "They say 4.\n\nAgain."),
    ]


# Engine and template


@pytest.mark.parametrize("asked", [{"exact": True}, {"memory": 64_000_000}])
def test_a_loaded_loaded_brings_its_engine(asked: dict[str, Any], store: PayloadStore) -> None:
    with pytest.raises(UsageError, match="a loaded model has one; pass them to `load`"):
        agent("nl", store, **asked)


# Cost


def test_making_one_loads_no_model_and_no_folder_is_written_before_it_speaks(tmp_path: Path) -> None:
    HookedChatModel(model="no/such/model", store=PayloadStore(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("options", [{"place": "quoted"}, {"latent_steps": 3}])
def test_wrong_options_are_refused_before_a_model_is_looked_for(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        _ = HookedChatModel(model="nowhere/to-be-found", protocol="kv", options=options).loaded


# Copies


COPIES: dict[str, Callable[[HookedChatModel], HookedChatModel]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": HookedChatModel.model_copy,
    "model_copy deep": lambda model: model.model_copy(deep=True),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_used_model_is_copied_without_its_weights(way: str, folder: str, store: PayloadStore) -> None:
    model = HookedChatModel(model=folder, protocol="cipher", store=store, max_tokens=8, seed=1, temperature=0)
    model = model.model_copy(update={"hearers": (HookedChatModel(model=folder, store=store),)})
    reply = model.invoke(QUESTION)

    copied = COPIES[way](model)

    assert copied is not model and copied.loaded is model.loaded and copied.hearers[0].loaded is model.loaded
    assert copied.payloads.root == store.root and copied.invoke(QUESTION).text == reply.text
    assert len(pickle.dumps(model)) < 5_000


def test_a_copy_takes_over_nothing_that_its_new_fields_change(folder: str, store: PayloadStore) -> None:
    model = HookedChatModel(model=folder, store=store, max_tokens=4)
    model.invoke(QUESTION)

    other = model.model_copy(update={"protocol": "cipher", "exact": True})

    assert other.channel.name == "cipher" and model.channel.name == "nl"
    assert other.loaded.engine is not model.loaded.engine
    assert other.invoke(QUESTION).response_metadata["protocol"] == "cipher"


def test_a_loaded_model_is_shared_by_copies_and_cannot_be_pickled(store: PayloadStore) -> None:
    model = agent("nl", store)
    model.invoke(QUESTION)

    assert copy.deepcopy(model).loaded.engine is copy.copy(model).loaded.engine is model.loaded.engine
    with pytest.raises(UsageError, match="cannot be pickled; name the model in its field `model`"):
        pickle.dumps(model)


# Arguments of a call, and how a reply ended


async def test_an_unknown_argument_of_a_call_is_refused_with_the_nearest_one(store: PayloadStore) -> None:
    model, told = agent("nl", store), "argument of a call: 'temprature'; did you mean 'temperature'"
    with pytest.raises(UsageError, match=told):
        list(model.bind(temprature=0).stream(QUESTION))
    with pytest.raises(UsageError, match=told):
        await model.ainvoke(QUESTION, temprature=0)


def test_a_reply_ends_by_stop_or_length_as_other_providers_say(store: PayloadStore) -> None:
    loaded = endless_loaded()
    whole = agent("nl", store, preloaded=loaded, temperature=0).invoke(QUESTION)
    stopped = agent("nl", store, preloaded=loaded, temperature=0).invoke(QUESTION, stop=[whole.text[3:5]])

    assert whole.response_metadata["finish_reason"] == "length"
    assert stopped.response_metadata["finish_reason"] == "stop" and len(stopped.text) < len(whole.text)
