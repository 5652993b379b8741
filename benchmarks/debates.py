"""Whole debates: concurrent against sequential ones, and sizes of payloads."""

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

from benchmarks.measuring import Options, Run, Table, as_published, interleaved, times, with_engine
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import LoadedModel
from sottovoce.models.huggingface.network import Network

DEBATES = 32
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


def tables(options: Options) -> Iterator[Table]:
    """Yield a table of concurrent and sequential debates, and of payload sizes."""
    n, cores = options.most(DEBATES, 2), os.cpu_count() or 1
    table = Table()
    table.add(
        f"debates of {SETTINGS.agents} agents, {SETTINGS.rounds} rounds, up to {TOKENS} tokens a reply", "", "aim"
    )
    published = as_published(options.loaded)
    as_papers = replace(published, network=Network(published.model, len(options.loaded.table)))
    few = n if options.loaded.network.small else min(n, IN_TURN)
    for threads in dict.fromkeys((options.threads, cores if options.loaded.network.small else options.threads)):
        runs: dict[str, Run] = {
            "together": partial(_run_debates, options.loaded, n, threads=threads),
            "in turn": partial(_run_debates, options.loaded, few, threads=1, together=False),
            PAPERS: partial(_run_debates, as_papers, few, together=False, threads=1, max_batch=1, reuse=False),
        }
        milliseconds = interleaved(runs, min(options.repeats, 3), options.clock, warm=int(options.loaded.network.small))
        name = f"{n} together, torch threads: {threads}"
        for rival, aim in (("in turn", "3x on two threads"), (PAPERS, "8x")):
            speed = milliseconds.speed("together", rival) * n / few
            table.add(f"{name}, against {AGAINST[rival]}, one thread", times(speed), aim)
        for each, debates in (("together", n), ("in turn", few), (PAPERS, few)):
            table.add(
                f"seconds a debate: {each}, torch threads: {threads}", f"{milliseconds.median(each) / debates:.2f}"
            )
    for protocol in PROTOCOLS:
        size, tokens = payload(options.loaded, protocol)
        table.add(f"payload of a message: `{protocol}`", f"{size:,.0f} bytes, {tokens:.0f} tokens")
    yield table


def payload(loaded: LoadedModel, protocol: str) -> tuple[float, float]:
    """Return the median bytes of one debate's payloads, and the median tokens of its messages."""
    with debating(loaded, protocol) as graph:
        state = graph.invoke(questions(1)[0], output_keys=["board"])
        refs = [message["payload"] for message in state["board"]]
        return median(ref["nbytes"] for ref in refs), median(ref["tokens"] for ref in refs)


def _run_debates(
    loaded: LoadedModel, n: int, settings: Debate = SETTINGS, *, together: bool = True, **engine: Any
) -> None:
    """Run debates on a new engine (Any: its arguments), so that a repeat does not find its prompts cached."""
    fresh = with_engine(loaded, **engine)

    async def in_turn(graph: Any) -> None:  # Any: see debating
        for question in questions(n):
            await graph.ainvoke(question)

    with debating(fresh, settings=settings) as graph:
        asyncio.run(graph.abatch(questions(n), {"recursion_limit": STEPS}) if together else in_turn(graph))
    fresh.engine.close()
