"""Whole debates: concurrent against sequential ones, sizes of payloads, and replies with and without lookup decoding.

Other costs of the debates (the graph, payloads on disk) count against them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch

from benchmarks.decoding import FIRST
from benchmarks.measuring import (
    CLOCKS,
    Clock,
    Options,
    Run,
    Table,
    as_published,
    interleaved,
    percent,
    times,
    with_engine,
)
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.event_loop import wait
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import Engine, LoadedModel, Reply, Request
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.huggingface.network import Network

DEBATES = 32
STEPS = 100  # recursion limit of a graph: the default of `abatch` is 25, and a round takes three steps
TOKENS = 48  # maximum length of a reply
SETTINGS = Debate(agents=2, rounds=3)
IN_TURN = 4  # sequential debates of a model with real weights: each takes half a minute
PROTOCOLS = ("nl", "cipher", "sde", "hidden")
PAPERS = "the papers' way"
PLAIN = "without lookup decoding"
ALONE = 8  # requests of a round that run one after another
AGAINST = {
    "in turn": "one debate after another",
    PAPERS: "one debate and one reply after another, nothing reused, by transformers' own modules",
}


@contextmanager
def debating(loaded: LoadedModel, protocol: str = "nl", longest: int = TOKENS) -> Iterator[Any]:
    """Yield a graph (Any: its input type is its full state) of one model with itself; payloads in a temp folder."""
    with tempfile.TemporaryDirectory() as folder:
        model = HookedChatModel(preloaded=loaded, protocol=protocol, max_tokens=longest, store=PayloadStore(folder))
        yield create_debate(SETTINGS, models=model).compile()


def questions(n: int) -> list[dict[str, str]]:
    """Return questions that differ early, as in a data set."""
    return [{"question": f"What is {10 + i} + 3 * 5 - 7?"} for i in range(n)]


def tables(options: Options) -> Iterator[Table]:
    """Yield a table of concurrent and sequential debates, and of payload sizes."""
    n, cores = options.most(DEBATES, 2), os.cpu_count() or 1
    table = Table()
    title = f"debates of {SETTINGS.agents} agents, {SETTINGS.rounds} rounds, up to {TOKENS} tokens a reply"
    table.add(title, "", "aim")
    published = as_published(options.loaded)
    as_papers = replace(published, network=Network(published.model, len(options.loaded.table)))
    few = n if options.loaded.network.small else min(n, IN_TURN)
    one_by_one: dict[str, Any] = {"together": False, "threads": 1, "max_batch": 1, "reuse": False, "lookup": False}
    counts = Statistics()
    for threads in dict.fromkeys((options.threads, cores if options.loaded.network.small else options.threads)):
        runs: dict[str, Run] = {
            "together": partial(_run_debates, options.loaded, n, counts, threads=threads),
            "in turn": partial(_run_debates, options.loaded, few, threads=1, together=False),
            PAPERS: partial(_run_debates, as_papers, few, **one_by_one),
            PLAIN: partial(_run_debates, options.loaded, n, threads=threads, lookup=False),
        }
        milliseconds = interleaved(runs, min(options.repeats, 3), options.clock, warm=int(options.loaded.network.small))
        name = f"{n} together, torch threads: {threads}"
        for rival, aim in (("in turn", "3x on two threads"), (PAPERS, "8x")):
            speed = milliseconds.speed("together", rival) * n / few
            table.add(f"{name}, against {AGAINST[rival]}, one thread", times(speed), aim)
        table.add(f"{name}, against the same {PLAIN}", times(milliseconds.speed("together", PLAIN)))
        for each, debates in (("together", n), ("in turn", few), (PAPERS, few)):
            seconds = milliseconds.median(each) / debates
            table.add(f"seconds a debate: {each}, torch threads: {threads}", f"{seconds:.2f}")
        read, written = _work(options.loaded, counts)
        seconds, speed = milliseconds.median("together"), product_speed(options.loaded, threads, options.clock)
        table.add(
            f"{name}, of {speed / 1e9:.0f} GFLOPS that a matrix product reaches: for tokens read; written",
            f"{percent(read / speed / seconds)}; {percent(written / speed / seconds)}",
            "70% in all",
        )
    for protocol in PROTOCOLS:
        size, tokens = payload(options.loaded, protocol)
        table.add(f"payload of a message: `{protocol}`", f"{size:,.0f} bytes, {tokens:.0f} tokens")
    yield table
    yield _lookups(options)


def _lookups(options: Options) -> Table:
    """Return the tokens a step, and the speed against that without lookup decoding, by round and batch size."""
    sizes, table = options.batches or options.some(1, 8, 32), Table()
    table.add("lookup decoding by round, prompts aside", *(f"batch {size}" for size in sizes), "aim")
    loaded = with_engine(options.loaded, Listening, threads=options.threads)
    debates = -(-max(*sizes, ALONE) // SETTINGS.agents)
    spoken = [each for each in _submitted(loaded, debates, options.most(TOKENS)) if each.form is None]
    n = SETTINGS.agents * debates
    rounds = [spoken[n * i : n * (i + 1)] for i in range(SETTINGS.rounds)]
    for number, requests in enumerate(rounds, 1):
        found = [_looked_up(options, requests[: max(size, ALONE)], size) for size in sizes]
        aim = "0.98x" if number == 1 else "2.2x, 1.6x"
        table.add(f"round {number}, against the same {PLAIN}", *(times(speed) for speed, _ in found), aim)
        table.add(f"round {number}, tokens a step", *(f"{tokens:.2f}" for _, tokens in found))
    return table


def _looked_up(options: Options, requests: list[Request], size: int) -> tuple[float, float]:
    """Return how many times as fast replies are with lookup decoding, beyond their first tokens; and tokens a step."""
    fresh = partial(with_engine, options.loaded, max_batch=size, threads=options.threads, reuse=False)
    engines = {name: fresh(lookup=name != PLAIN).engine for name in ("with", PLAIN)}
    begun = [replace(each, stop=replace(each.stop, max_new=1)) for each in requests]
    runs: dict[str, Run] = {name: partial(engine.run_all, requests) for name, engine in engines.items()}
    runs |= {f"{name}{FIRST}": partial(engine.run_all, begun) for name, engine in engines.items()}
    warm = int(options.loaded.network.small)
    speed = interleaved(runs, min(options.repeats, 3), options.clock, warm=warm).beyond(FIRST).speed("with", PLAIN)
    counts = engines["with"].statistics
    return speed, 1 + counts.accepted / max(counts.stepped, 1)


def payload(loaded: LoadedModel, protocol: str) -> tuple[float, float]:
    """Return the median bytes of one debate's payloads, and the median tokens of its messages."""
    with debating(loaded, protocol) as graph:
        state = graph.invoke(questions(1)[0], output_keys=["board"])
        refs = [message["payload"] for message in state["board"]]
        return median(ref["nbytes"] for ref in refs), median(ref["tokens"] for ref in refs)


def _run_debates(
    loaded: LoadedModel,
    n: int,
    counts: Statistics | None = None,
    *,
    together: bool = True,
    **engine: Any,
) -> None:
    """Run debates on a new engine (Any: its arguments), so that a repeat does not find its prompts cached.

    `counts` takes the values of its statistics.
    """
    fresh = with_engine(loaded, **engine)

    async def in_turn(graph: Any) -> None:  # Any: see debating
        for question in questions(n):
            await graph.ainvoke(question)

    with debating(fresh) as graph:
        wait(graph.abatch(questions(n), {"recursion_limit": STEPS}) if together else in_turn(graph))
    fresh.engine.close()
    if counts is not None:
        vars(counts).update(vars(fresh.engine.statistics))


def _work(loaded: LoadedModel, counts: Statistics) -> tuple[float, float]:
    """Return the operations for the tokens that were read and that were written, checked proposals among these.

    A token takes two for each parameter of a linear map; attention and all else is left out. Only tokens that are
    written pass the head.
    """
    decoder, table = loaded.model.get_decoder(), loaded.table.rows.numel()
    layers = sum(each.numel() for each in decoder.parameters()) - decoder.get_input_embeddings().weight.numel()
    written = counts.stepped + counts.proposed
    return 2.0 * layers * (counts.prompt - counts.reused), 2.0 * (layers + table) * written


def product_speed(loaded: LoadedModel, threads: int, clock: Clock) -> float:
    """Return the operations a second of the best of ten matrix products, with rows for 256 tokens."""
    width, now, before = loaded.table.width, CLOCKS[clock], torch.get_num_threads()
    left, right = (torch.randn(n, width, device=loaded.network.device, dtype=loaded.dtype) for n in (256, 4 * width))
    took = []
    torch.set_num_threads(threads)
    for _ in range(10):
        start = now()
        for _ in range(20):
            (left @ right.T)[0, 0].item()  # waits for an accelerator
        took.append((now() - start) / 20)
    torch.set_num_threads(before)
    return 2 * 256 * 4 * width**2 / min(took)


class Listening(Engine):
    """An engine that records its requests."""

    def __init__(self, *arguments: Any, **limits: Any) -> None:  # Any: as an engine's own
        super().__init__(*arguments, **limits)
        self.submitted: list[Request] = []

    def submit(self, request: Request, on_text: Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue and record the request."""
        self.submitted.append(request)
        return super().submit(request, on_text)


def _submitted(loaded: LoadedModel, debates: int, longest: int) -> list[Request]:
    """Return the requests of concurrent debates in words, round by round: prompts grow from round to round."""
    with debating(loaded, longest=longest) as graph:
        wait(graph.abatch(questions(debates), {"recursion_limit": STEPS}))
    loaded.engine.close()
    assert isinstance(loaded.engine, Listening), "as made"
    return sorted(loaded.engine.submitted, key=lambda request: request.length)
