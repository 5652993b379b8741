"""Whole debates: many together against one after another, how time grows, and what messages weigh."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from benchmarks.loaded_models import with_engine
from benchmarks.measuring import Asked, Run, Table, interleaved, times
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import LoadedModel
from sottovoce.nodes.settings import Debate

DEBATES = 32
IN_FLIGHT = (1, 8, 32, 128)
ROUNDS = (2, 4, 8)
STEPS = 100  # of a graph: `abatch` has langchain's limit of 25 otherwise, and a round takes three
TOKENS = 32  # of a reply, at most
SETTINGS = Debate(agents=2, rounds=2)
PROTOCOLS = ("nl", "cipher", "sde", "hidden")


@contextmanager
def debating(loaded: LoadedModel, protocol: str = "nl", settings: Debate = SETTINGS) -> Iterator[Any]:
    """A graph (Any: its input type is its full state) of one model with itself, payloads in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        model = HookedChatModel(preloaded=loaded, protocol=protocol, max_tokens=TOKENS, store=PayloadStore(folder))
        yield create_debate(settings, models=model).compile()


def questions(n: int) -> list[dict[str, str]]:
    """Questions that differ early, as a data set's do."""
    return [{"question": f"What is {10 + i} + 3 * 5 - 7?"} for i in range(n)]


def tables(asked: Asked) -> Iterator[Table]:
    """Debates together and in turn, and payloads."""
    n, cores = asked.most(DEBATES, 2), os.cpu_count() or 1
    table = Table()
    table.add(
        f"debates of {SETTINGS.agents} agents, {SETTINGS.rounds} rounds, up to {TOKENS} tokens a reply", "", "aim"
    )
    for threads in dict.fromkeys((1, cores)):
        runs: dict[str, Run] = {
            "together": partial(_hold, asked.loaded, n, threads),
            "in turn": partial(_hold, asked.loaded, n, 1, together=False),
        }
        found = interleaved(runs, min(asked.repeats, 3), asked.clock)
        name, speed = f"together, torch threads: {threads}", found.speed("together", "in turn")
        table.add(f"{n} {name}, against one after another, one thread", times(speed), "3x on two threads")
        table.add(f"{name}: seconds", f"{found.median('together'):.2f}")
    for protocol in PROTOCOLS:
        size, tokens = payload(asked.loaded, protocol)
        table.add(f"payload of a message: `{protocol}`", f"{size:,.0f} bytes, {tokens:.0f} tokens")
    yield table


def growth(asked: Asked) -> Iterator[Table]:
    """Milliseconds a debate by how many are in flight, and by its rounds: each run has an engine that read nothing."""
    table, flying = Table(), asked.some(*IN_FLIGHT)
    table.add("debates in flight", *flying, "aim")
    table.add("ms a debate", *(f"{_each(asked, n):.0f}" for n in flying), "falling, then flat")
    yield table
    table, rounds, n = Table(), asked.some(*ROUNDS), asked.most(8, 2)
    table.add(f"rounds, {n} debates in flight", *rounds, "aim")
    found = [_each(asked, n, SETTINGS.model_copy(update={"rounds": each})) for each in rounds]
    table.add("ms a debate", *(f"{each:.0f}" for each in found))
    table.add("ms a debate and round", *(f"{ms / n:.0f}" for ms, n in zip(found, rounds, strict=True)), "flat")
    yield table


def payload(loaded: LoadedModel, protocol: str) -> tuple[float, float]:
    """The middle bytes of a payload of one debate, and the middle tokens of its message."""
    with debating(loaded, protocol) as graph:
        state = graph.invoke(questions(1)[0], output_keys=["board"])
        refs = [message.payload for message in state["board"]]
        return median(ref.nbytes for ref in refs), median(ref.tokens for ref in refs)


def _each(asked: Asked, n: int, settings: Debate = SETTINGS) -> float:
    """Milliseconds a debate, of the middle run."""
    runs: dict[str, Run] = {"debates": partial(_hold, asked.loaded, n, asked.threads, settings)}
    return 1000 * interleaved(runs, min(asked.repeats, 3), asked.clock).median("debates") / n


def _hold(loaded: LoadedModel, n: int, threads: int, settings: Debate = SETTINGS, *, together: bool = True) -> None:
    """On an engine that read nothing before, which reuses as ever: a repeat must not find its prompts read."""
    fresh = with_engine(loaded, threads=threads)

    async def in_turn(graph: Any) -> None:  # Any: see debating
        for question in questions(n):
            await graph.ainvoke(question)

    with debating(fresh, settings=settings) as graph:
        asyncio.run(graph.abatch(questions(n), {"recursion_limit": STEPS}) if together else in_turn(graph))
    fresh.engine.close()
