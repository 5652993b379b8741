"""The share of prompts that need not be computed again, in debates of three agents, against what is possible."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import PrivateAttr

from benchmarks.debates import questions
from benchmarks.loaded_models import with_engine
from benchmarks.measuring import Asked, Table, percent
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import Engine, Reply, Request
from sottovoce.models.engine.keys import chain, id_keys, position_keys, row_keys
from sottovoce.nodes.settings import Debate

SETTINGS = Debate(agents=3, rounds=3)
QUESTIONS = 8
TOKENS = 64  # of a reply, at most
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "`nl`": ("nl", {}),
    "`cipher`": ("cipher", {}),
    "`sde`, all messages with their states": ("sde", {"inject": "all"}),
    "`sde`, the latest": ("sde", {"inject": "latest"}),
    "`hidden`, the latest": ("hidden", {"inject": "latest"}),
}
AIMS = dict.fromkeys(("`nl`", "`cipher`", "`sde`, all messages with their states"), "55 %")


class Counting(HookedChatModel):
    """Knows of each of its requests how many replies of its own are in it: that is the round, from 0."""

    _rounds: dict[Request, int] = PrivateAttr(default_factory=dict)

    def request(self, messages: Sequence[BaseMessage], stop: list[str] | None = None, **options: Any) -> Request:
        """As ever, counted."""  # Any: as a chat model's own
        request = super().request(messages, stop, **options)
        self._rounds[request] = sum(message.type == "ai" for message in messages)
        return request


def tables(asked: Asked) -> Iterator[Table]:
    """By protocol: of the prompts of the second round and later, what was reused, and what could have been."""
    n = asked.most(QUESTIONS, 2)
    table = Table()
    table.add(
        f"positions of prompts from the second of {SETTINGS.rounds} rounds on, {SETTINGS.agents} agents",
        "one debate at a time: reused",
        "possible",
        f"{n} debates together: reused",
        "possible",
        "aim",
    )
    for name, (protocol, options) in CASES.items():
        alone = sum((counted(asked, protocol, options, [question]) for question in questions(n)), Counter[str]())
        together = counted(asked, protocol, options, questions(n))
        cells = [percent(found[what] / found["all"]) for found in (alone, together) for what in ("reused", "possible")]
        table.add(name, *cells, AIMS.get(name, "the possible share"))
    yield table


def counted(asked: Asked, protocol: str, options: dict[str, str], asking: Sequence[dict[str, str]]) -> Counter[str]:
    """Positions of the later rounds' prompts: all, reused, and possible, on an engine that read nothing before."""
    loaded = with_engine(asked.loaded, Watched, threads=asked.threads)
    engine = loaded.engine
    assert isinstance(engine, Watched), "as was asked"
    with tempfile.TemporaryDirectory() as folder:
        model = Counting(
            preloaded=loaded, protocol=protocol, max_tokens=TOKENS, options=options, store=PayloadStore(folder)
        )
        graph: Any = create_debate(SETTINGS, models=model).compile()  # Any: its input type is its full state
        asyncio.run(graph.abatch(asking))
    engine.close()
    best, count = possible(engine), Counter[str]()
    for request, reply in engine.events:
        if reply is not None and model._rounds[request] >= 1:
            count.update({"all": request.length, "reused": reply.usage.reused, "possible": best[request]})
    return count


# What a prefix cache without limits could reuse: the longest beginning that anything read before shares.


class Watched(Engine):
    """An engine that notes what was asked of it and what came, in the order of the events."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: an engine's own
        super().__init__(*arguments, **options)
        self.events: list[tuple[Request, Reply | None]] = []

    def submit(self, request: Request, on_text: Any = None) -> Future[Reply]:  # Any: as an engine's own
        """As ever, noted; the answer with it."""
        self.events.append((request, None))
        future = super().submit(request, on_text)
        future.add_done_callback(lambda done: self.events.append((request, done.result())))
        return future


def possible(engine: Watched) -> dict[Request, int]:
    """By request, the positions of its prompt that were read before it was asked; the last is always read anew."""
    read, found = set[bytes](), dict[Request, int]()
    for request, reply in engine.events:
        keys = position_keys(request, engine.network.table.rows.dtype)
        if reply is None:
            beginnings = chain(keys[:-1], 1)
            found[request] = next((n for n, each in enumerate(beginnings) if each not in read), len(beginnings))
        read |= set(chain(keys if reply is None else [*keys, *_read(reply, request, engine)], 1))
    return found


def _read(reply: Reply, request: Request, engine: Watched) -> list[bytes]:
    """Keys of the reply's positions that were read: a reply that was cut at its length ended before its last token."""
    n = len(reply.ids) - (reply.finish == "length" and not request.record.layers)
    rows = reply.rows.get(engine.network.table.key)
    return id_keys(reply.ids[:n]) if rows is None else row_keys(rows[:n].to(engine.network.table.rows.dtype))
