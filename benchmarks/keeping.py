"""`python -m benchmarks.keeping`: the cost of saving a run, questions per minute, and memory.

The same questions are discussed without saving, with checkpoints in memory (as every run has), and in a folder
with log, payloads and SQLite. Each run is a process of its own; the modes of a repeat run one after another, so that
a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.datasets.samples import samples
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.report.tables import table
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from sottovoce.settings import Settings

MODES = ("nothing", "memory", "folder")
IN_FLIGHT = (1, 8, 32, 128)
MANY = 512


def discuss(settings: Settings, questions: list[Question], at_once: int, folder: Path, run: Run | None) -> None:
    """Discuss all questions and save them in a run; None saves nothing."""
    if run is None:
        graph = scheme("debate").create(settings, store=PayloadStore(folder)).compile()
        room = asyncio.Semaphore(at_once)

        async def one_of(question: Question) -> None:
            async with room:  # not max_concurrency, which would also serialize the agents of a round
                await graph.ainvoke(question, output_keys=["decision"])

        async def together() -> None:
            await asyncio.gather(*map(one_of, questions))

        asyncio.run(together())
        return
    run_all(run, settings, PayloadStore(folder / "payloads"), limits=Limits(at_once=at_once))
    assert not run.unfinished, "every question has its decision"


def measured(mode: str, options: argparse.Namespace, n: int, at_once: int) -> dict[str, float]:
    """Measure one run in its own process: seconds by both clocks, peak memory, and bytes in the folder."""
    arguments = [mode, str(n), str(at_once), options.model, options.memory, str(options.max_tokens), options.protocol]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.keeping", "--one", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    measured_runs: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured_runs


def discuss_one(mode: str, n: str, at_once: str, model: str, memory: str, max_tokens: str, protocol: str) -> None:
    """Measure one run in this process and print the result as JSON."""
    options: dict[str, Any] = {"model": [model], "max_tokens": int(max_tokens), "rounds": 2, "protocol": protocol}
    kind = scheme("debate").settings
    settings = kind.model_validate({**options, **({"memory": [memory]} if memory else {}), "temperature": [0.0]})
    questions = samples("arithmetic", int(n), settings, 0)
    folder = Path(mkdtemp(prefix="keeping-"))
    discuss(settings, questions[:1], 1, folder, None)  # loads the model
    manifest, store = (
        new_manifest("debate", settings, questions),
        folder / "run" if mode == "folder" else None,
    )  # digests it, once
    run = None if mode == "nothing" else Run.start(manifest, questions, store)
    began, used = time.monotonic(), time.process_time()
    discuss(settings, questions, int(at_once), folder, run)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    left = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "left": left}))


def overhead(options: argparse.Namespace) -> str:
    """Return a table of the modes, repeated in turn: seconds per question, and wall and CPU time added by saving."""
    measured_runs: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for _ in range(options.repeats):
        for mode in MODES:
            measured_runs[mode].append(measured(mode, options, options.n, options.at_once))
    lines = []
    for mode, runs in measured_runs.items():
        pairs = list(zip(runs, measured_runs["nothing"], strict=True))
        cells = [f"{median(run['seconds'] for run in runs) / options.n:.3f}"]
        for clock in ("seconds", "cpu"):
            added = median(run[clock] / none[clock] - 1 for run, none in pairs)
            cells.append(f"{added:+.1%}" if mode != "nothing" else "")
        more = median(run["cpu"] - none["cpu"] for run, none in pairs) / options.n
        lines.append([mode, *cells, f"{1000 * more:.1f}" if mode != "nothing" else ""])
    return table("saved | seconds per question | added wall time | added CPU time | added CPU ms per question", lines)


def in_flight(options: argparse.Namespace) -> str:
    """Return a table of questions per minute and peak memory by the number of concurrent questions."""
    lines = []
    for at_once in (*IN_FLIGHT, *([MANY] if options.memory else [])):
        n = max(options.n, min(2 * at_once, MANY))
        measured_runs = measured("folder", options, n, at_once)
        rate = f"{60 * n / measured_runs['seconds']:.0f}"
        lines.append(
            [
                str(at_once),
                str(n),
                rate,
                f"{measured_runs['peak'] / 2**30:.2f} GiB",
                f"{measured_runs['left'] / n / 1000:.0f} kB",
            ]
        )
    return table("in flight | questions | per minute | peak memory of the process | saved per question", lines)


def besides(mode: str, n: str, at_once: str, model: str, memory: str, max_tokens: str, protocol: str) -> None:
    """Measure the cost outside the model: graph, log and checkpoints with scripted replies, and writing payloads."""
    settings = scheme("debate").settings.model_validate(
        {"model": [model], "max_tokens": int(max_tokens), "rounds": 2, "protocol": protocol, "temperature": [0.0]}
    )
    questions, folder = samples("arithmetic", int(n), settings, 0), Path(mkdtemp(prefix="keeping-"))
    discuss(settings, questions[:1], 1, folder, None)  # loads the model
    run = Run.start(new_manifest("debate", settings, questions), questions, folder / "run")
    whole = _used(lambda: discuss(settings, questions, int(at_once), folder / "run", run))
    messages = [message for record in run.records.values() for message in record.messages]
    said = {agent: [each.text for each in messages if each.agent == agent] for agent in settings.names()}
    plain, script = scheme("debate").settings.model_validate({"rounds": 2}), ScriptedChatModel(said)
    again = Run.start(new_manifest("debate", plain, questions, models=script), questions, folder / "again")
    graph = _used(lambda: run_all(again, plain, again.store(), models=script))
    store = PayloadStore(folder / "run" / "payloads")
    payloads = [message.payload.load(store) for message in messages if message.payload]
    store = PayloadStore(folder / "copies")
    stored = _used(lambda: [store.put(payload) for payload in payloads])
    shutil.rmtree(folder)
    print(json.dumps({"whole": whole, "graph": graph, "store": stored}))


def _used(act: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, over all threads."""
    began = time.process_time()
    act()
    return time.process_time() - began


def frame(options: argparse.Namespace) -> str:
    """Return a table of the median CPU shares outside the model, for a run in a folder."""
    measured_runs = [measured("besides", options, options.n, options.at_once) for _ in range(options.repeats)]
    cells = [
        f"{median(each['whole'] for each in measured_runs) / options.n:.3f}",
        *(f"{median(each[name] / each['whole'] for each in measured_runs):.2%}" for name in ("graph", "store")),
    ]
    return table("CPU seconds per question | graph, log and checkpoints | writing payloads", [cells])


def main() -> None:
    """Print the table of costs, with `--in-flight` that of rates, or with `--frame` that of costs outside the model."""
    if sys.argv[1:2] == ["--one"]:
        (besides if sys.argv[2] == "besides" else discuss_one)(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser("python -m benchmarks.keeping", description=__doc__)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--protocol", default="nl")
    parser.add_argument("-n", type=int, default=16, help="questions")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="", help="for keys and values; with it, up to 512 discussions run at once")
    parser.add_argument("--in-flight", action="store_true")
    parser.add_argument("--frame", action="store_true")
    options = parser.parse_args()
    print(in_flight(options) if options.in_flight else frame(options) if options.frame else overhead(options))


if __name__ == "__main__":
    main()
