"""`python -m benchmarks.retrieval`: BM25, Lucene and dense indexes of 100,000 passages.

Passages and queries come from `benchmarks/invented.py`. Each index is built and searched in its own processes;
repeats alternate between the retrievers. The dense index gets random vectors, because MiniLM would take hours on a
CPU. The encoder's speed is measured separately on about a hundred passages of 100 words from the bundled encyclopedia,
because invented words have several times as many tokens. Lucene uses one thread, besides those of Java itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.invented import write_corpus
from benchmarks.measuring import CLOCKS, Clock, Table, Times, times
from sottovoce.environments.encyclopedia import encyclopedia, questions
from sottovoce.models.sources import is_pulled

ROOT = Path(__file__).resolve().parents[1]
RETRIEVERS = ("bm25", "lucene", "dense")
ENCODER = "minilm"
ENCODED, CUT = 128, 100
"""Number of passages, and of their words, for measuring the encoder."""
EVERY = 0.02
"""Seconds between two measurements of a process's memory."""


@dataclass
class Found:
    """The reports of one retriever's processes, one per repeat."""

    builds: list[dict[str, Any]] = field(default_factory=list)  # Any: as `build` returns it
    asks: list[dict[str, Any]] = field(default_factory=list)  # Any: as `ask` returns it


def alone(task: str, name: str, first: Path, second: Path) -> dict[str, Any]:  # Any: as the task returns it
    """Run a task; return its report with the `peak` memory of its process tree, sampled 50 times per second."""
    report = second.with_name(f"{task}-{name}.json")
    arguments = [task, name, str(first), str(second), str(report)]
    process = psutil.Popen(
        [sys.executable, "-m", "benchmarks.searching", *arguments], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, _resident(process))
        time.sleep(EVERY)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return {**json.loads(report.read_text()), "peak": peak}


def _resident(process: psutil.Process) -> int:
    """Return the bytes in memory of a process and its children; 0 once it has ended."""
    try:
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def measured(work: Path, corpus: Path, queries: Path, repeats: int) -> dict[str, Found]:
    """Measure all retrievers in turn, every other time in reverse order."""
    reports = {name: Found() for name in RETRIEVERS}
    for repeat in range(repeats):
        for name in RETRIEVERS if repeat % 2 == 0 else reversed(RETRIEVERS):
            folder = work / f"{name}-{repeat}"
            reports[name].builds.append(alone("build", name, corpus, folder))
            reports[name].asks.append(alone("ask", name, folder, queries))
    return reports


def speed(reports: Mapping[str, Found], passages: int, clock: Clock) -> Table:
    """Return times, memory and disk space: medians of the repeats, and speeds relative to BM25."""
    builds = Times({name: [each["seconds"][clock] for each in report.builds] for name, report in reports.items()})
    asks = Times(
        {name: [late(each["seconds"], clock, 0.5) for each in report.asks] for name, report in reports.items()}
    )
    column = "build | of BM25's | a query | of BM25's | 95th percentile | memory: build | search"
    table = Table()
    table.add(f"{passages:,} passages, {clock} time", *column.split(" | "), "on disk")
    for name, report in reports.items():
        build, ask = (times(each.speed("bm25", name)) for each in (builds, asks))
        last = median(late(each["seconds"], clock, 0.95) for each in report.asks)
        memory = [megabytes(median(each["peak"] for each in column)) for column in (report.builds, report.asks)]
        row = [f"{builds.median(name):.1f} s", build, milliseconds(asks.median(name)), ask, milliseconds(last)]
        table.add(name, *row, *memory, megabytes(report.builds[0]["bytes"]))
    return table


def late(seconds: Sequence[Mapping[str, float]], clock: Clock, share: float) -> float:
    """Return the seconds within which this share of queries was answered."""
    return sorted(each[clock] for each in seconds)[int(share * len(seconds))]


def encoding(work: Path, passages: int, clock: Clock) -> Table:
    """Return the speed of the encoder that a dense index also needs."""
    words = " ".join(article.text for article in encyclopedia().articles).split()
    cut = [" ".join(words[at : at + CUT]) for at in range(0, ENCODED * CUT, CUT)]
    (corpus := work / "cut.jsonl").write_text("".join(json.dumps({"docid": text, "text": text}) + "\n" for text in cut))
    (options := work / "asked.json").write_text(json.dumps([each.text for each in questions("bridge")[:ENCODED]]))
    column, table = alone("encode", ENCODER, corpus, options), Table()
    passage, query = column["passage"][clock], late(column["seconds"], clock, 0.5)
    table.add(f"encoder, one thread, {clock} time", "a passage", f"{passages:,} would take", "a query", "memory")
    cells = [
        milliseconds(passage),
        f"{passage * passages / 3600:.1f} h",
        milliseconds(query),
        megabytes(column["peak"]),
    ]
    table.add(ENCODER, *cells)
    return table


def tables(passages: int, queries: int, repeats: int, clock: Clock) -> Iterator[Table]:
    """Yield all tables for a number of passages."""
    with TemporaryDirectory() as name:
        work = Path(name)
        corpus, options = work / "corpus.jsonl", work / "queries.json"
        options.write_text(json.dumps(write_corpus(corpus, passages, queries)))
        reports = measured(work, corpus, options, repeats)
        yield speed(reports, passages, clock)
        if is_pulled(ENCODER):
            yield encoding(work, passages, clock)


def megabytes(n: float) -> str:
    """Format bytes for a table."""
    return f"{n / 1e6:,.0f} MB"


def milliseconds(seconds: float) -> str:
    """Format short times for a table."""
    return f"{1000 * seconds:.1f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.retrieval", description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000, help="number of passages (100,000)")
    parser.add_argument("--queries", type=int, default=200, help="number of queries (200)")
    parser.add_argument("--repeats", type=int, default=2, help="repeats of each retriever (2)")
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu counts only the processes' own time, for a busy machine"
    )
    options = parser.parse_args(arguments)
    for table in tables(options.passages, options.queries, options.repeats, options.clock):
        print(f"{table}\n", flush=True)


if __name__ == "__main__":
    main()
