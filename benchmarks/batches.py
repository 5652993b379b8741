"""Tokens per second of concurrent debates, by number and protocol, against `transformers.generate`.

A row is a reply in progress: a debate of two agents has two. All replies have the same length, so that all rivals
make the same number of tokens. The rival gets the prompts of the natural-language debates, one batch per round, and
runs no discussion. Other costs of the debates (the graph, payloads on disk) count against them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks.debates import STEPS, TOKENS, debating, questions
from benchmarks.decoding import generate
from benchmarks.measuring import Options, Table, as_published, interleaved, times, with_engine
from sottovoce.graphs.debate import Debate
from sottovoce.models import Engine, LoadedModel, Reply, Request

ROWS = (2, 8, 32, 128, 256)
SETTINGS = Debate(agents=2, rounds=3, temperature=[0.7], answer_turn="off")
PROTOCOLS = ("nl", "cipher", "sde")
RIVAL = "`transformers.generate`"


class Unending(Engine):
    """An engine whose replies always have the maximum length; it records its requests."""

    def __init__(self, *arguments: Any, **limits: Any) -> None:  # Any: as an engine's own
        super().__init__(*arguments, **limits)
        self.submitted: list[Request] = []

    def submit(self, request: Request, on_text: Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue the request without its stop ids and stop texts."""
        self.submitted.append(replace(request, stop=replace(request.stop, ids=(), texts=())))
        return super().submit(self.submitted[-1], on_text)


def tables(options: Options) -> Iterator[Table]:
    """Yield rates, their ratios and memory, with a column for each number of rows."""
    sizes = options.batches or options.some(*ROWS)
    rates = [_measured(options, rows) for rows in sizes]
    table = Table()
    table.add(
        f"debates of 2 agents, 3 rounds, {TOKENS} tokens a reply, tokens a second", *(f"{rows} rows" for rows in sizes)
    )
    for name in rates[0]:
        if name != RIVAL:
            table.add(name, *(each[name][0] for each in rates))
    table.add(f"{RIVAL}, the same prompts", *(each[RIVAL][0] for each in rates))
    for name in ("cipher", "sde"):
        table.add(f"`{name}` against `nl`", *(_ratio(each, f"`{name}`", "`nl`") for each in rates))
    table.add(f"`nl` against {RIVAL}", *(_ratio(each, "`nl`", RIVAL) for each in rates))
    for name in rates[0] if options.loaded.network.device.type == "cuda" else ():
        table.add(f"MB a row at the peak, beside the weights: {name}", *(each[name][1] for each in rates))
    yield table


def _ratio(rates: dict[str, tuple[str, str]], name: str, against: str) -> str:
    left, right = rates[name][0], rates[against][0]
    return times(float(left) / float(right)) if right.isdigit() else ""


def _measured(options: Options, rows: int) -> dict[str, tuple[str, str]]:
    """Return the tokens per second and the MB per row (empty on a CPU) of each rival."""
    longest = options.most(TOKENS, 4)
    fresh = with_engine(options.loaded, kind=Unending, max_batch=rows, threads=options.threads)
    runs = {f"`{name}`": partial(_run_debates, fresh, name, rows // 2, longest) for name in PROTOCOLS}
    rounds, published = _rounds(options.loaded, rows, longest), as_published(options.loaded)
    runs[RIVAL] = partial(_generate, published, rounds)
    return {name: _rated(options, run, rows, longest * rows * len(rounds)) for name, run in runs.items()}


def _rated(options: Options, run: Callable[[], object], rows: int, tokens: int) -> tuple[str, str]:
    """Measure one rival alone, so that rivals do not share memory; one that does not fit is reported, not an error."""
    gc.collect()
    on_cuda = options.loaded.network.device.type == "cuda"
    if on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        seconds = interleaved({"it": run}, min(options.repeats, 3), options.clock).median("it")
    except torch.OutOfMemoryError:
        return "out of memory", ""
    peak = f"{(torch.cuda.max_memory_allocated() - before) / 1e6 / rows:.0f}" if on_cuda else ""
    return f"{tokens / seconds:.0f}", peak


def _run_debates(loaded: LoadedModel, protocol: str, debates: int, longest: int) -> None:
    """Run concurrent debates on an engine with an empty prefix cache."""
    loaded.engine.close()
    with debating(loaded, protocol, SETTINGS, longest) as graph:
        asyncio.run(graph.abatch(questions(debates), {"recursion_limit": STEPS}))
    loaded.engine.close()


def _rounds(loaded: LoadedModel, rows: int, longest: int) -> list[list[Request]]:
    """Return the requests of natural-language debates by round: prompts grow from round to round."""
    recorder = with_engine(loaded, kind=Unending, max_batch=rows)
    _run_debates(recorder, "nl", rows // 2, longest)
    assert isinstance(recorder.engine, Unending), "as made"
    requests = sorted(recorder.engine.submitted, key=lambda request: request.length)
    return [requests[i : i + rows] for i in range(0, len(requests), rows)]


def _generate(published: LoadedModel, rounds: list[list[Request]]) -> None:
    for each in rounds:
        generate(published, each)
