"""Local models that think: what they are asked, where their thoughts go, and what is said behind them."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import pytest
import torch
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from sottovoce.agents.convert import said
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.thinking import Thoughts, request_for
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import wait
from sottovoce.models import Ids, LoadedModel, Record, assemble
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.guard import features_of_acts
from tests.chats import DEEPSEEK, LLAMA_3, QWEN_3
from tests.support import requested, tiny_model
from tests.thinkers import R1, TEXT, THOUGHTS, harmony, thinker

QUESTION: list[BaseMessage] = [HumanMessage("What is 12 * 8?")]


def agent(loaded: LoadedModel, store: PayloadStore, protocol: str = "nl", **more: Any) -> HookedChatModel:
    return HookedChatModel(
        preloaded=loaded, store=store, protocol=protocol, **{"temperature": 0, "max_tokens": 16, **more}
    )


def split_of(reply: AIMessage) -> tuple[str, str]:
    return tuple(said(reply))  # type: ignore[return-value]


def thoughts_before(model: HookedChatModel) -> Thoughts:
    """The thoughts before a reply."""
    ask = model.to_ask(QUESTION)
    thoughts = wait(model._think(ask, model.encode(ask)))
    assert thoughts is not None
    return thoughts


def prompt_of(model: HookedChatModel, **call: Any) -> str:
    """All that stands before the reply."""
    pieces = requested(model, QUESTION, **call).prompt
    assert all(isinstance(piece, Ids) for piece in pieces)
    return str(model.loaded.tokenizer.decode([id for piece in pieces for id in piece.ids]))  # type: ignore[union-attr]


@pytest.mark.parametrize("template", [QWEN_3, R1])
def test_thoughts_are_kept_apart_from_the_text_and_counted_by_themselves(template: str, store: PayloadStore) -> None:
    model = agent(thinker(template=template), store)

    reply = model.invoke(QUESTION)

    tokens = len(model.loaded.chat.ids(THOUGHTS))
    assert split_of(reply) == (THOUGHTS, TEXT)
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["output_token_details"] == {"reasoning": tokens}
    assert reply.usage_metadata["output_tokens"] == tokens + len(model.loaded.chat.ids(TEXT))
    payload = PayloadRef.from_dict(reply.additional_kwargs["payload"]).load(store)
    assert payload.label.text == TEXT and len(payload) == len(model.loaded.chat.ids(TEXT))
    assert [block["type"] for block in reply.content_blocks] == ["reasoning", "text"]


@pytest.mark.parametrize("template", [QWEN_3, R1])
def test_a_reply_read_the_prompt_before_its_thoughts_and_not_their_block(template: str, store: PayloadStore) -> None:
    model = agent(thinker(template=template), store)
    asked = prompt_of(model).removesuffix(f"{THOUGHTS}</think>\n\n")
    asked = asked if template == R1 else asked.removesuffix("<think>\n")
    usage = model.invoke(QUESTION).usage_metadata
    assert usage is not None and usage["input_tokens"] == len(model.loaded.chat.ids(asked))


@pytest.mark.parametrize("template", [QWEN_3, R1])
def test_no_more_of_a_prompt_is_reused_than_was_read(template: str, store: PayloadStore) -> None:
    """The opening marker counted too: 28 of 27 tokens were reused. Where the prompt has it, its last token is read."""
    model = agent(thinker(template=template), store)
    _, usage = (model.invoke(QUESTION).usage_metadata for _ in range(2))
    assert usage is not None
    assert usage["input_token_details"]["cache_read"] == usage["input_tokens"] - (template == R1)


def test_thoughts_and_reply_draw_other_numbers(store: PayloadStore) -> None:
    model = agent(thinker(), store, temperature=0.5)
    ask = model.to_ask(QUESTION, seed=7)
    thoughts = request_for(model.encode(ask).prompt, model.loaded, model.sampling(ask), 9, Record(), 9)
    assert thoughts is not None
    assert thoughts.sampling == replace(model.sampling(ask), seed=thoughts.sampling.seed)
    assert thoughts.sampling.seed != requested(model, QUESTION, seed=7).sampling.seed == 7


async def test_all_ways_to_call_give_the_same(store: PayloadStore) -> None:
    model = agent(thinker(), store)
    streams = [list(model.stream(QUESTION)), [each async for each in model.astream(QUESTION)]]
    found = [await model.ainvoke(QUESTION), *(reduce(add, chunks) for chunks in streams)]
    assert [split_of(each) for each in found] == [(THOUGHTS, TEXT)] * 3


@pytest.mark.parametrize(
    ("template", "call", "expected"),
    [
        (QWEN_3, {}, f"assistant\n<think>\n{THOUGHTS}</think>\n\n"),
        (QWEN_3, {"thinking": False}, "assistant\n<think>\n\n</think>\n\n"),
        (R1, {}, f"assistant\n<think>\n{THOUGHTS}</think>\n\n"),
        (R1, {"thinking": False}, "assistant\n<think>\n\n</think>\n\n"),
        (DEEPSEEK, {}, "[assistant]</think>"),  # off by default
        (LLAMA_3, {}, "assistant<|im_end|>\n\n"),  # knows no thoughts
    ],
)
def test_a_prompt_ends_with_the_block_as_the_template_writes_it(
    template: str, call: dict[str, Any], expected: str, store: PayloadStore
) -> None:
    assert prompt_of(agent(thinker(template=template), store), **call).endswith(expected)


@pytest.mark.parametrize("template", [QWEN_3, R1])
def test_a_model_that_is_not_to_think_says_its_text_at_once(template: str, store: PayloadStore) -> None:
    model = agent(thinker(template=template), store, thinking=False)
    assert split_of(model.invoke(QUESTION)) == ("", TEXT)
    assert prompt_of(model).endswith("assistant\n<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("brief", "template", "thinks"), [(True, QWEN_3, False), (True, R1, True), (False, QWEN_3, True)]
)
def test_short_replies_are_given_without_thoughts_where_the_template_has_a_switch(
    brief: bool, template: str, thinks: bool, store: PayloadStore
) -> None:
    model = agent(thinker(template=template), store, brief=brief)
    assert bool(model.most_thoughts) == thinks == bool(said(model.invoke(QUESTION)).thoughts)


@pytest.mark.parametrize("template", [QWEN_3, R1])
def test_thoughts_without_an_end_are_closed_at_their_limit_and_text_follows(template: str, store: PayloadStore) -> None:
    model = agent(thinker("12*8", closes=False, template=template), store, thinking=9, max_tokens=3)

    reply = model.invoke(QUESTION)

    thoughts, text = split_of(reply)
    written = model.loaded.chat.ids(TEXT)[:3]
    assert thoughts.startswith("12*812") and text == model.loaded.tokenizer.decode(list(written))
    assert reply.usage_metadata is not None and reply.usage_metadata["output_token_details"] == {"reasoning": 9}
    assert "thoughts ended at their limit of 9 tokens" in reply.additional_kwargs["notes"]
    assert prompt_of(model).endswith("12\n</think>\n\n") or "\n</think>\n\n" in prompt_of(model)


def test_thoughts_leave_room_for_the_reply_in_the_context(store: PayloadStore) -> None:
    loaded = thinker("12*8", closes=False)
    context = loaded.network.context
    assert context is not None
    model = agent(loaded, store, max_tokens=context - 60)
    assert 0 < thoughts_before(model).tokens < 60
    assert not thoughts_before(agent(loaded, store, max_tokens=context - 30)).tokens  # no room at all


def test_thoughts_leave_room_for_the_beginning_of_the_reply_too(store: PayloadStore) -> None:
    loaded = thinker("12*8", closes=False)
    context, begun = loaded.network.context, "The answer to all of this is "
    assert context is not None
    request = requested(agent(loaded, store, max_tokens=context - 90), QUESTION, prefill=begun)
    assert request.longest == context


@pytest.mark.parametrize("protocol", ["nl", "cipher", "sde", "kv"])
def test_a_payload_has_the_positions_of_the_text_alone(protocol: str, store: PayloadStore) -> None:
    loaded = thinker()
    more = {"options": {"carry": "reply"}} if protocol == "kv" else {}
    thought, plain = (agent(loaded, store, protocol, thinking=each, **more) for each in (True, False))
    for model in (thought, plain):
        reply = model.invoke(QUESTION)
        payload = PayloadRef.from_dict(reply.additional_kwargs["payload"]).load(store)
        n = len(loaded.chat.ids(TEXT))
        assert payload.label.text == TEXT and len(payload) == n
        assert payload.positions in (n, n + 1, None)


def test_keys_and_values_of_the_prompt_leave_the_thoughts_out(store: PayloadStore) -> None:
    model = agent(thinker(), store, "kv", options={"carry": "both"})
    reply = model.invoke(QUESTION)
    at = PayloadRef.from_dict(reply.additional_kwargs["payload"]).load(store).tensors["at"]
    asked = len(model.loaded.chat.ids(prompt_of(model, thinking=False))) - 4  # the empty block
    block = len(model.loaded.chat.ids(f"<think>\n{THOUGHTS}</think>\n\n"))
    said_ = len(model.loaded.chat.ids(TEXT))
    assert at.tolist() == [*range(asked), *range(asked + block, asked + block + said_)]


def test_a_text_has_no_markers_whatever_the_model_wants(store: PayloadStore) -> None:
    loaded = thinker()
    begin, end = (loaded.tokenizer.convert_tokens_to_ids(each) for each in ("<think>", "</think>"))
    for protocol in ("nl", "cipher"):
        model = agent(loaded, store, protocol, temperature=1.0 if protocol == "cipher" else 0)
        ask = model.to_ask(QUESTION)
        request = model.request(ask, model.encode(ask))
        assert set(request.banned) == {begin, end}
        reply = loaded.engine.run(request)  # it would think: the prompt ends where the block begins
        assert not {begin, end} & {*reply.ids}


def test_a_prefill_and_a_form_begin_behind_the_thoughts(store: PayloadStore) -> None:
    model = agent(thinker(), store)
    reply = model.invoke(QUESTION, prefill="\n\n", response_format={"choices": ("Answer: 5.", "Answer: 7.")})
    assert split_of(reply) == (THOUGHTS, TEXT)


def test_harmony_s_channels_are_thoughts_and_text(store: PayloadStore) -> None:
    model = agent(harmony(), store)
    assert split_of(model.invoke(QUESTION)) == (THOUGHTS, THOUGHTS)  # it writes the same in both
    assert prompt_of(model).endswith(
        f"assistant<|channel|>analysis<|message|>{THOUGHTS}<|end|><|start|>assistant<|channel|>final<|message|>"
    )
    assert prompt_of(agent(harmony(), store, thinking=False)).endswith("assistant<|channel|>final<|message|>")


def test_markers_of_no_known_family_can_be_named(store: PayloadStore) -> None:
    loaded = thinker(template=LLAMA_3, marks="muse")
    named = agent(loaded, store, thinking_markers=("<muse>\n", "</muse>\n\n"))
    assert split_of(named.invoke(QUESTION)) == (THOUGHTS, TEXT)
    with pytest.raises(UsageError, match="does not think"):
        _ = agent(loaded, store, thinking=True).loaded


@pytest.mark.parametrize("protocol", ["nl", "cipher", "sde", "kv"])
def test_shared_thoughts_are_heard_before_the_message(protocol: str, store: PayloadStore) -> None:
    options = {"carry": "reply"} if protocol == "kv" else {}
    model = agent(thinker(), store, protocol, options=options, share_thoughts=True)
    reply = model.invoke(QUESTION)
    ref = PayloadRef.from_dict(reply.additional_kwargs["thoughts_payload"])
    message = Message("agent_1", 0, "answer", TEXT, thoughts=THOUGHTS, thoughts_payload=ref)

    assert message.aloud.latent is not None
    payload = message.aloud.latent.load(store)

    assert payload.label.text == THOUGHTS
    n = len(model.loaded.chat.ids(THOUGHTS))
    assert payload.label.protocol == (protocol if protocol in ("sde", "kv") else "nl")
    if protocol == "kv":
        assert len(payload.tensors["at"]) == n
    assert len(payload) == n and not any(torch.isnan(each).any() for each in payload.tensors.values())


def test_shared_thoughts_hand_over_their_own_keys_whatever_a_reply_carries(store: PayloadStore) -> None:
    model = agent(thinker(), store, "kv", options={"carry": "both"}, share_thoughts=True)
    ref = PayloadRef.from_dict(model.invoke(QUESTION).additional_kwargs["thoughts_payload"])
    payload = ref.load(store)
    assert payload.label.origin == "the words"
    assert len(payload.tensors["at"]) == len(model.loaded.chat.ids(THOUGHTS))


@pytest.mark.parametrize("template", [QWEN_3, R1, DEEPSEEK])
def test_a_history_is_sent_as_the_template_renders_it(template: str, store: PayloadStore) -> None:
    """The template gets the thoughts too, and leaves them out; what is sent never had them."""
    model = agent(thinker(template=template), store)
    tokenizer = model.loaded.tokenizer
    history = [{"role": "user", "content": "12 * 8?"}, {"role": "assistant", "content": TEXT}]
    asked = [*history, {"role": "user", "content": "Sure?"}]
    with_thoughts = [asked[0], {"role": "assistant", "content": f"<think>\n{THOUGHTS}</think>{TEXT}"}, asked[2]]
    kept = template == DEEPSEEK  # this one keeps what it is given
    told: Any = tokenizer.apply_chat_template(
        asked if kept else with_thoughts, tokenize=False, add_generation_prompt=True
    )

    ask = model.to_ask([HumanMessage("12 * 8?"), AIMessage(TEXT), HumanMessage("Sure?")])
    sent = model.request(ask, model.encode(ask)).prompt

    assert [id for piece in sent for id in piece.ids] == list(  # type: ignore[union-attr]
        model.loaded.chat.ids(told)
    )


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
def test_a_reply_behind_its_thoughts_is_what_a_plain_pass_over_all_gives(protocol: str, store: PayloadStore) -> None:
    loaded = assemble("any", tiny_model(vocab_size=303), thinker().tokenizer)
    model = agent(loaded, store, protocol, max_tokens=6, thinking=5)
    assert thoughts_before(model).tokens <= 5

    request = requested(model, QUESTION)
    before = [id for piece in request.prompt for id in piece.ids]  # type: ignore[union-attr]
    out = loaded.model.generate(  # type: ignore[operator]  # transformers hides it from types
        torch.tensor([before]),
        do_sample=False,
        max_new_tokens=6,
        eos_token_id=list(loaded.stop_ids),
        suppress_tokens=list(request.banned),
        temperature=None,
        top_p=None,
        top_k=None,
        repetition_penalty=1.0,
    )

    found = loaded.engine.run(request).ids
    assert found == tuple(id for id in out[0, len(before) :].tolist() if id not in loaded.stop_ids)


def test_monitors_measure_the_text_or_the_thoughts(store: PayloadStore) -> None:
    # A model of random weights is unsure everywhere, and of its thoughts by other numbers than of its text.
    model = agent(assemble("any", tiny_model(vocab_size=303), thinker().tokenizer), store, max_tokens=6, thinking=5)
    reply = model.invoke(QUESTION)
    refs = {name: PayloadRef.from_dict(reply.additional_kwargs[name]) for name in ("payload", "thoughts_payload")}
    message = Message("agent_1", 0, "answer", str(reply.text), payload=refs["payload"])
    message = replace(message, thoughts_payload=refs["thoughts_payload"])

    found = {at: features_of_acts([message], Measure(positions=at), store) for at in ("all", "thoughts")}

    for at, name in (("all", "payload"), ("thoughts", "thoughts_payload")):
        features = found[at]
        assert features is not None
        assert features["entropy"] == pytest.approx(float(refs[name].load(store).tensors["entropy"].max()))
    assert found["all"] != found["thoughts"]
    silent = replace(message, thoughts_payload=None)  # showed as an error that asks for log-probabilities
    assert features_of_acts([silent], Measure(positions="thoughts"), store) is None
