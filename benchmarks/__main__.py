"""`make bench`: how fast we are, as ratios of rivals that ran in one process in turn. Markdown on stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import torch

from benchmarks import debates, decoding
from benchmarks.minds import bundled_or_random
from benchmarks.starting import starts
from benchmarks.timing import Clock, Times
from sottovoce.models import Mind

PROTOCOLS = ("nl", "cipher", "sde", "hidden")


def main() -> None:
    """Measure and print; ratios above 1 are in our favour."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="of each rival at each batch size (7)")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu counts the process's own time: for a busy machine"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)  # as many as the engine takes for a model of this size
    mind, what = bundled_or_random()
    print(f"`{' '.join(['python -m benchmarks', *sys.argv[1:]])}`: {what}, {mind.model.num_parameters():,} parameters;")
    print(f"torch {torch.__version__}, transformers {version('transformers')}, one torch thread on", end=" ")
    print(f"{os.cpu_count()} cores; middle of {asked.repeats} repeats in turn, {asked.clock} time.\n")
    _decoding(mind, asked.repeats, asked.clock)
    _debates(mind)
    _starts()


def _decoding(mind: Mind, repeats: int, clock: Clock) -> None:
    times = [decoding.compare(mind, batch, repeats, clock) for batch in decoding.BATCHES]
    outside = [decoding.outside(mind, partial(mind.engine.run_all, decoding.kept(mind, b))) for b in decoding.BATCHES]
    equal = [f"{decoding.agree(mind, batch)} of {batch}" for batch in decoding.BATCHES]

    def row(name: str, value: Callable[[Times], str]) -> None:
        _row(name, *(value(each) for each in times))

    _row(
        f"{decoding.NEW} new tokens after {decoding.SHORTEST}-{decoding.LONGEST}",
        *(f"batch {b}" for b in decoding.BATCHES),
    )
    _row("---", *("---:" for _ in times))
    row("nl against `transformers.generate`", lambda each: f"{each.speed('nl', 'generate'):.2f}x")
    _row("rows equal to its rows, token for token", *equal)
    row("cost of statistics per token", lambda each: f"{1 / each.speed('nl with statistics', 'nl') - 1:.1%}")
    row("cipher against nl, both with statistics", lambda each: f"{each.speed('cipher', 'nl with statistics'):.2f}x")
    row("sde of two layers against nl, likewise", lambda each: f"{each.speed('sde', 'nl with statistics'):.2f}x")
    row("milliseconds a step: generate", lambda each: f"{1000 * each.median('generate') / decoding.NEW:.2f}")
    row(
        "milliseconds a step: nl with statistics",
        lambda each: f"{1000 * each.median('nl with statistics') / decoding.NEW:.2f}",
    )
    _row("nl with statistics: time outside the model", *(f"{share:.0%}" for share in outside))


def _debates(mind: Mind) -> None:
    times, outside = debates.compare(mind, 3, partial(decoding.outside, mind))
    settings = debates.SETTINGS
    print()
    _row(f"debates of {settings.agents} agents, {settings.rounds} rounds, up to {debates.TOKENS} tokens a reply", "")
    _row("---", "---:")
    _row(f"{debates.DEBATES} together against one after another", f"{times.speed('together', 'in turn'):.2f}x")
    _row("together: seconds", f"{times.median('together'):.2f}")
    _row("together: time outside the model", f"{outside:.0%}")
    for protocol in PROTOCOLS:
        size, tokens = debates.payload(mind, protocol)
        _row(f"payload of a message: {protocol}", f"{size:,.0f} bytes, {tokens:.0f} tokens")


def _starts() -> None:
    times = starts(3)
    print()
    _row("a fresh process, wall time", "seconds")
    _row("---", "---:")
    for name in times.seconds:
        _row(name, f"{times.median(name):.2f}")


def _row(*cells: str) -> None:
    print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
