"""Whole debates: many together against one after another, and what their messages weigh."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.timing import Times, interleaved
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import Mind
from sottovoce.nodes.settings import Debate

DEBATES = 32
TOKENS = 32  # of a reply, at most
SETTINGS = Debate(agents=2, rounds=2)


@dataclass(frozen=True, eq=False)
class Debates:
    """The same debates, held in two ways."""

    graph: Any  # Any: a compiled graph, whose input type is its full state

    def together(self) -> None:
        """All at once: their requests share the engine's batches."""
        asyncio.run(self.graph.abatch(_questions()))

    def in_turn(self) -> None:
        """One after another."""

        async def hold() -> None:
            for question in _questions():
                await self.graph.ainvoke(question)

        asyncio.run(hold())


@contextmanager
def debates(mind: Mind, protocol: str = "nl") -> Iterator[Debates]:
    """Debates of one model with itself, their payloads in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        model = HookedChatModel(loaded=mind, protocol=protocol, max_tokens=TOKENS, store=PayloadStore(folder))
        yield Debates(create_debate(SETTINGS, models=model).compile())


def compare(mind: Mind, repeats: int, outside: Callable[[Callable[[], object]], float]) -> tuple[Times, float]:
    """Seconds for all debates in both ways, and `outside` of holding them together."""
    with debates(mind) as held:
        times = interleaved({"together": held.together, "in turn": held.in_turn}, repeats)
        return times, outside(held.together)


def payload(mind: Mind, protocol: str) -> tuple[float, float]:
    """The middle bytes of a payload of one debate, and the middle tokens of its message."""
    with debates(mind, protocol) as held:
        state = held.graph.invoke(_questions()[0], output_keys=["board"])
        refs = [message.payload for message in state["board"]]
        return median(ref.nbytes for ref in refs), median(ref.tokens for ref in refs)


def _questions() -> list[dict[str, str]]:
    return [{"question": f"What is {10 + i} + 3 * 5 - 7?"} for i in range(DEBATES)]
