"""The share of prompts that need not be computed again, in debates of three agents, against what is possible."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import PrivateAttr

from benchmarks.asked import Asked
from benchmarks.debates import questions
from benchmarks.ideal import Watched, possible
from benchmarks.loaded_models import with_engine
from benchmarks.tables import Table, percent
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import Request
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
