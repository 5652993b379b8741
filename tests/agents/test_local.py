"""A local agent replies past LangChain; what an application put on its own model still sees and serves each call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables.config import ensure_config
from tokenizers import AddedToken

from sottovoce.agents.ask import Ask
from sottovoce.agents.chat_model import is_observed
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels import create
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import Ids, Rows, assemble
from sottovoce.nodes.act import RUNNING
from sottovoce.report.describe import footer
from sottovoce.runs.log import Event, Speaking
from sottovoce.runs.record import DiscussionRecord
from tests.runs.single import Task, run_one
from tests.support import VOCABULARY, ids, reciting_model, replied, tiny_loaded, tiny_tokenizer

QUESTION = {"question": "What is 14 + 3?"}


def model(store: PayloadStore, **more: Any) -> HookedChatModel:
    return HookedChatModel(protocol="sde", preloaded=tiny_loaded(), store=store, max_tokens=6, **more)


def graph(chat: HookedChatModel) -> Any:
    return create_debate(Debate(rounds=2, answer_turn="off"), models=chat).compile()


def said(state: Any) -> list[Any]:
    """What was said and how; rounding may change the tensors, and what ran before how much is computed anew."""
    messages = [Message.from_dict(each) for each in state["board"]]
    return [
        (each.place, each.text, each.notes, each.source, each.order, sorted(each.stats), each.stats["tokens_out"])
        for each in messages
    ]


class Heard(BaseCallbackHandler):
    def __init__(self) -> None:
        self.started, self.ended, self.tokens = 0, 0, 0

    def on_chat_model_start(self, *args: Any, **about: Any) -> None:
        self.started += 1

    def on_llm_new_token(self, *args: Any, **about: Any) -> None:
        self.tokens += 1

    def on_llm_end(self, *args: Any, **about: Any) -> None:
        self.ended += 1


class Own(HookedChatModel):
    counted: list[int] = []  # noqa: RUF012  # a pydantic field, copied for each model

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        self.counted.append(1)
        return await super()._agenerate(*args, **kwargs)


def test_a_listener_sees_every_call_and_the_messages_stay_as_they_are(store: PayloadStore) -> None:
    alone, heard = said(graph(model(store)).invoke(QUESTION)), Heard()

    with get_usage_metadata_callback() as usage:
        listened = said(graph(model(store)).invoke(QUESTION, {"callbacks": [heard]}))

    assert listened == alone and (heard.started, heard.ended) == (4, 4)
    assert sum(each["output_tokens"] for each in usage.usage_metadata.values()) == 24


def test_what_an_application_puts_on_its_model_still_works(store: PayloadStore, folder: str) -> None:
    alone = said(graph(model(store)).invoke(QUESTION))
    own = Own(protocol="sde", preloaded=tiny_loaded(), store=store, max_tokens=6)
    listened = model(store, callbacks=[Heard()])
    cache, limiter = InMemoryCache(), InMemoryRateLimiter(requests_per_second=1e6, max_bucket_size=1e6)
    limiter.available_tokens = 9.0  # it refuses nothing, and counts

    named = HookedChatModel(protocol="sde", model=folder, store=store, max_tokens=6)
    cached = named.model_copy(update={"cache": cache})

    assert is_observed(cached, {}) and said(graph(cached).invoke(QUESTION)) == said(graph(named).invoke(QUESTION))
    for each in (own, listened, model(store, rate_limiter=limiter)):
        assert is_observed(each, {}) and said(graph(each).invoke(QUESTION)) == alone

    assert len(own.counted) == len(cache._cache) == 4 and limiter.available_tokens != 9.0
    assert listened.callbacks[0].ended == 4  # type: ignore[index, union-attr]  # the one above
    assert not is_observed(model(store), {}) and is_observed(model(store), {"callbacks": [Heard()]})


def test_a_run_lets_its_local_models_reply_past_langchain_and_still_shows_text_as_it_grows(store: PayloadStore) -> None:
    chat, seen, growing, running = model(store), list[bool](), list[str](), list[Any]()

    def watch(run: Any, state: Any, messages: Sequence[Message]) -> None:
        seen.append(is_observed(chat, ensure_config()))
        running.append(RUNNING.get())

    def observe(record: DiscussionRecord, event: Event) -> None:
        growing.extend([event.message.text] if isinstance(event, Speaking) else [])

    debate = Debate(rounds=2, answer_turn="off")
    record = run_one(Task("debate", debate, {**QUESTION}, models=chat, watch=watch), store, observe=observe)  # type: ignore[typeddict-item]  # a question

    assert seen == [False] * 4
    assert len(growing) > 4 and {each.text for each in record.messages} <= {*growing}
    _, discussion = running[0]
    discussion.ask(record.messages[0].place, [], [])  # by an act in a thread that goes on
    assert len(record.prompts) == 4 and all(prompt.turns for prompt in record.prompts)


CHANGES: list[dict[str, Any]] = [
    *({name: value} for name, value in {"protocol": "nl", "options": {"compat": "reference"}, "top_k": 3}.items()),
    *({name: 0.5} for name in ("temperature", "top_p")),
    *({"max_tokens": 5}, {"stop": ["a"]}, {"seed": 2}, {"model": "bundled"}, {"dtype": "bfloat16"}),
]


def test_a_cached_reply_is_that_of_the_same_model_and_store(store: PayloadStore, folder: str, tmp_path: Path) -> None:
    """Showed as: eleven of eleven changed fields got the other's reply."""
    fields: dict[str, Any] = {"model": folder, "protocol": "cipher", "store": store, "seed": 1, "max_tokens": 6}
    cache, elsewhere = InMemoryCache(), PayloadStore(tmp_path / "elsewhere")
    for change in ({}, {}, *CHANGES, {"store": elsewhere}):
        HookedChatModel(**{**fields, **change}, cache=cache).invoke("What is 14 + 3?")

    assert len(cache._cache) == len(CHANGES) + 2


def test_a_loaded_model_is_not_cached_and_says_so(store: PayloadStore) -> None:
    assert model(store).cache is False
    with pytest.raises(UsageError, match="`cache` needs a model's name as key, and a loaded one may be any"):
        model(store, cache=InMemoryCache())


async def test_sync_calls_in_a_running_loop_and_in_threads_say_what_async_ones_say(store: PayloadStore) -> None:
    debate = graph(model(store))
    alone = said(await debate.ainvoke(QUESTION))

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: said(debate.invoke(QUESTION)), range(3)))

    assert found == [alone] * 3 and said(debate.invoke(QUESTION)) == alone


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
@pytest.mark.parametrize("special", [True, False])
def test_a_role_mark_that_is_drawn_is_noted_and_read_as_generated(
    protocol: str, special: bool, store: PayloadStore
) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens([AddedToken("<|user|>", special=special)])
    said = *ids("\n"), *ids(" 22"), VOCABULARY, *ids(" p"), 2
    loaded = assemble("marking", reciting_model(said, vocab_size=VOCABULARY + 1), tokenizer)
    chat = HookedChatModel(protocol=protocol, preloaded=loaded, store=store, temperature=0.0, max_tokens=9)

    message = replied(chat, Ask("answer", (Turn("user", ("Hi",)),)))
    turns = [Turn("user", (MessageRef(message),))]
    _, heard, _ = create(protocol).encode_prompt(turns, loaded, lambda ref: ref.load(store)).pieces

    assert message.notes == ("has tokens that no text can spell, read as generated: <|user|>",)
    assert footer(message).endswith(message.notes[0])  # on the page and in the transcript
    if isinstance(heard, Ids):
        assert heard.ids == said[1:-1]
    else:
        assert isinstance(heard, Rows) and torch.equal(heard.rows, loaded.table.rows[list(said[1:-1])])
