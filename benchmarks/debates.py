"""Whole debates: concurrent against sequential ones, growth of time, and sizes of payloads."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from benchmarks.loaded_models import as_published, with_engine
from benchmarks.measuring import Asked, Run, Table, interleaved, times
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.models import LoadedModel
from sottovoce.models.huggingface.network import Network
from sottovoce.settings import Debate

DEBATES = 32
IN_FLIGHT = (1, 8, 32, 128)
ROUNDS = (2, 4, 8)
STEPS = 100  # recursion limit of a graph: the default of `abatch` is 25, and a round takes three steps
TOKENS = 48  # maximum length of a reply
SETTINGS = Debate(agents=2, rounds=3)
IN_TURN = 4  # sequential debates of a model with real weights: each takes half a minute
PROTOCOLS = ("nl", "cipher", "sde", "hidden")


PAPERS = "the papers' way"
AGAINST = {
    "in turn": "one debate after another",
    PAPERS: "one debate and one reply after another, nothing reused, by transformers' own modules",
}


@contextmanager
def debating(
    loaded: LoadedModel, protocol: str = "nl", settings: Debate = SETTINGS, longest: int = TOKENS
) -> Iterator[Any]:
    """Yield a graph (Any: its input type is its full state) of one model with itself; payloads in a temp folder."""
    with tempfile.TemporaryDirectory() as folder:
        model = HookedChatModel(preloaded=loaded, protocol=protocol, max_tokens=longest, store=PayloadStore(folder))
        yield create_debate(settings, models=model).compile()


def questions(n: int) -> list[dict[str, str]]:
    """Return questions that differ early, as those of a data set do."""
    return [{"question": f"What is {10 + i} + 3 * 5 - 7?"} for i in range(n)]


def tables(asked: Asked) -> Iterator[Table]:
    """Yield a table of concurrent and sequential debates, and of payload sizes."""
    n, cores = asked.most(DEBATES, 2), os.cpu_count() or 1
    table = Table()
    table.add(
        f"debates of {SETTINGS.agents} agents, {SETTINGS.rounds} rounds, up to {TOKENS} tokens a reply", "", "aim"
    )
    few = n if asked.loaded.network.small else min(n, IN_TURN)
    for threads in dict.fromkeys((asked.threads, cores if asked.loaded.network.small else asked.threads)):
        runs: dict[str, Run] = {
            "together": partial(_hold, asked.loaded, n, threads=threads),
            "in turn": partial(_hold, asked.loaded, few, threads=1, together=False),
            PAPERS: partial(_hold, _as_papers(asked.loaded), few, together=False, threads=1, max_batch=1, reuse=False),
        }
        found = interleaved(runs, min(asked.repeats, 3), asked.clock, warm=int(asked.loaded.network.small))
        name = f"{n} together, torch threads: {threads}"
        for rival, aim in (("in turn", "3x on two threads"), (PAPERS, "8x")):
            speed = found.speed("together", rival) * n / few
            table.add(f"{name}, against {AGAINST[rival]}, one thread", times(speed), aim)
        for each, debates in (("together", n), ("in turn", few), (PAPERS, few)):
            table.add(f"seconds a debate: {each}, torch threads: {threads}", f"{found.median(each) / debates:.2f}")
    for protocol in PROTOCOLS:
        size, tokens = payload(asked.loaded, protocol)
        table.add(f"payload of a message: `{protocol}`", f"{size:,.0f} bytes, {tokens:.0f} tokens")
    yield table


def growth(asked: Asked) -> Iterator[Table]:
    """Yield milliseconds per debate by concurrency and by rounds; each run starts with an empty prefix cache."""
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
    """Return the median bytes of one debate's payloads, and the median tokens of its messages."""
    with debating(loaded, protocol) as graph:
        state = graph.invoke(questions(1)[0], output_keys=["board"])
        refs = [message.payload for message in state["board"]]
        return median(ref.nbytes for ref in refs), median(ref.tokens for ref in refs)


def _each(asked: Asked, n: int, settings: Debate = SETTINGS) -> float:
    """Return the milliseconds per debate of the median run."""
    runs: dict[str, Run] = {"debates": partial(_hold, asked.loaded, n, settings, threads=asked.threads)}
    return 1000 * interleaved(runs, min(asked.repeats, 3), asked.clock).median("debates") / n


def _as_papers(loaded: LoadedModel) -> LoadedModel:
    published = as_published(loaded)
    return replace(published, network=Network(published.model, len(loaded.table)))


def _hold(loaded: LoadedModel, n: int, settings: Debate = SETTINGS, *, together: bool = True, **engine: Any) -> None:
    """Run debates on a new engine (Any: its arguments), so that a repeat does not find its prompts cached."""
    fresh = with_engine(loaded, **engine)

    async def in_turn(graph: Any) -> None:  # Any: see debating
        for question in questions(n):
            await graph.ainvoke(question)

    with debating(fresh, settings=settings) as graph:
        asyncio.run(graph.abatch(questions(n), {"recursion_limit": STEPS}) if together else in_turn(graph))
    fresh.engine.close()
