"""Utilization of an engine: the share of busy slots, and the share of prompts in debates that the cache saves."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import PrivateAttr

from benchmarks.debates import questions
from benchmarks.measuring import Options, Table, percent, with_engine
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import Engine, Ids, Reply, Request, Statistics, Stop
from sottovoce.models.engine.prefix_cache import chain, id_keys, position_keys, row_keys
from sottovoce.settings import Debate

SETTINGS = Debate(agents=3, rounds=3)
QUESTIONS = 8
TOKENS = 64  # maximum length of a reply
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "`nl`": ("nl", {}),
    "`cipher`": ("cipher", {}),
    "`sde`, all messages with their states": ("sde", {"inject": "all"}),
    "`sde`, the latest": ("sde", {"inject": "latest"}),
    "`hidden`, the latest": ("hidden", {"inject": "latest"}),
}
AIMS = dict.fromkeys(("`nl`", "`cipher`", "`sde`, all messages with their states"), "55 %")
SLOTS = (8, 16)
REQUESTS = 256
SHORT, LONG = 10, 100  # new tokens: half of the requests each, shuffled
PROMPT = 24  # tokens


def slots(options: Options) -> Iterator[Table]:
    """Yield the share of busy slots by number of slots, with more requests than slots and reply lengths of 1:10."""
    table, requests = Table(), mixed(options.most(REQUESTS, 40))
    table.add(f"{len(requests)} requests of {SHORT} or {LONG} new tokens", *(f"{n} slots" for n in SLOTS), "aim")
    found = [busy(options, n, requests) for n in SLOTS]
    table.add("slots busy, until the queue is empty", *(percent(queued) for queued, _ in found), "90 %")
    table.add("slots busy, to the last reply", *(percent(whole) for _, whole in found))
    yield table


def mixed(n: int) -> list[Request]:
    """Return requests of two lengths in a fixed random order."""
    lengths = [SHORT, LONG] * (n // 2)
    random.Random(0).shuffle(lengths)
    prompts = [tuple(10 + (7 * i + 13 * j) % 500 for j in range(PROMPT)) for i in range(n)]
    return [Request((Ids(prompt),), Stop(new)) for prompt, new in zip(prompts, lengths, strict=True)]


def busy(options: Options, slots: int, requests: list[Request]) -> tuple[float, float]:
    """Return the share of slots that decoded, over all steps: while requests waited, and up to the last reply."""
    engine = with_engine(options.loaded, threads=options.threads, reuse=False, max_batch=slots).engine
    seen: list[Statistics] = []

    def left(_: Any) -> None:  # Any: a future
        if engine.statistics.requests >= len(requests) - slots and not seen:
            seen.append(replace(engine.statistics))

    futures = [engine.submit(request) for request in requests]
    for future in futures:
        future.add_done_callback(left)
    for future in futures:
        future.result()
    queued, whole = (each.stepped / (each.steps * slots) for each in (seen[0], engine.statistics))
    return queued, whole


class Counting(HookedChatModel):
    """A chat model that records the 0-based round of each request: the number of its own replies in the prompt."""

    _rounds: dict[Request, int] = PrivateAttr(default_factory=dict)

    def request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None = None, **protocol_options: Any
    ) -> Request:
        """Create a request and record its round."""  # Any: as a chat model's own
        request = super().request(messages, stop, **protocol_options)
        self._rounds[request] = sum(message.type == "ai" for message in messages)
        return request


def tables(options: Options) -> Iterator[Table]:
    """Yield, by protocol, the shares of later rounds' prompts that were reused, and that could have been."""
    n = options.most(QUESTIONS, 2)
    table = Table()
    table.add(
        f"positions of prompts from the second of {SETTINGS.rounds} rounds on, {SETTINGS.agents} agents",
        "one debate at a time: reused",
        "possible",
        f"{n} debates together: reused",
        "possible",
        "aim",
    )
    for name, (protocol, protocol_options) in CASES.items():
        alone = sum(
            (counted(options, protocol, protocol_options, [question]) for question in questions(n)), Counter[str]()
        )
        together = counted(options, protocol, protocol_options, questions(n))
        cells = [percent(found[what] / found["all"]) for found in (alone, together) for what in ("reused", "possible")]
        table.add(name, *cells, AIMS.get(name, "the possible share"))
    yield table


def counted(
    options: Options, protocol: str, protocol_options: dict[str, str], asking: Sequence[dict[str, str]]
) -> Counter[str]:
    """Count the positions of later rounds' prompts on a new engine: all, reused, and possible."""
    loaded = with_engine(options.loaded, Watched, threads=options.threads)
    engine = loaded.engine
    assert isinstance(engine, Watched), "as requested"
    with tempfile.TemporaryDirectory() as folder:
        model = Counting(
            preloaded=loaded, protocol=protocol, max_tokens=TOKENS, options=protocol_options, store=PayloadStore(folder)
        )
        graph: Any = create_debate(SETTINGS, models=model).compile()  # Any: its input type is its full state
        asyncio.run(graph.abatch(asking))
    engine.close()
    best, count = possible(engine), Counter[str]()
    for request, reply in engine.events:
        if reply is not None and model._rounds[request] >= 1:
            count.update({"all": request.length, "reused": reply.usage.reused, "possible": best[request]})
    return count


# An unlimited prefix cache could reuse the longest prefix shared with anything read before.


class Watched(Engine):
    """An engine that records requests and replies in chronological order."""

    def __init__(self, *arguments: Any, **protocol_options: Any) -> None:  # Any: an engine's own
        super().__init__(*arguments, **protocol_options)
        self.events: list[tuple[Request, Reply | None]] = []

    def submit(self, request: Request, on_text: Any = None) -> Future[Reply]:  # Any: as an engine's own
        """Queue a request, and record it and its reply."""
        self.events.append((request, None))
        future = super().submit(request, on_text)
        future.add_done_callback(lambda done: self.events.append((request, done.result())))
        return future


def possible(engine: Watched) -> dict[Request, int]:
    """Return how many prompt positions of each request had been read before; the last one is always read again."""
    read, found = set[bytes](), dict[Request, int]()
    for request, reply in engine.events:
        keys = position_keys(request, engine.network.table.rows.dtype)
        if reply is None:
            beginnings = chain(keys[:-1], 1)
            found[request] = next((n for n, each in enumerate(beginnings) if each not in read), len(beginnings))
        read |= set(chain(keys if reply is None else [*keys, *_read(reply, request, engine)], 1))
    return found


def _read(reply: Reply, request: Request, engine: Watched) -> list[bytes]:
    """Return keys of the reply's positions that were read: the last token of a reply cut at its length was not."""
    n = len(reply.ids) - (reply.finish == "length" and not request.record.layers)
    rows = reply.rows.get(engine.network.table.key)
    return id_keys(reply.ids[:n]) if rows is None else row_keys(rows[:n].to(engine.network.table.rows.dtype))
