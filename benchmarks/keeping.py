"""`python -m benchmarks.keeping`: the cost of saving a run, questions per minute, and memory.

The same questions are discussed without saving, with records in memory, and in a folder with log and payloads. Each
run is a process of its own; the modes of a repeat run one after another, so that a busy machine slows all of them.
With workers of a Ray cluster, memory is that of the process that saves the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

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
NO_WORKERS = "none"
Figures = dict[str, float]


def main() -> None:
    """Print the table of costs, with `--in-flight` that of rates, or with `--frame` that of costs outside the model."""
    if sys.argv[1:2] == ["--one"]:
        options = argparse.Namespace(**json.loads(sys.argv[3]))
        with TemporaryDirectory(prefix="keeping-") as folder:
            print(json.dumps(TASKS[sys.argv[2]](options, Path(folder))))
        return
    parser = argparse.ArgumentParser("python -m benchmarks.keeping", description=__doc__)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--protocol", default="nl")
    parser.add_argument("-n", type=int, default=16, help="questions")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="", help="for keys and values; with it, up to 512 discussions run at once")
    parser.add_argument("--workers", nargs="+", default=[NO_WORKERS], help="of a cluster, with --in-flight: none ray:2")
    parser.add_argument("--in-flight", action="store_true")
    parser.add_argument("--frame", action="store_true")
    options = parser.parse_args()
    print(rates(options) if options.in_flight else frame(options) if options.frame else overhead(options))


def measured(task: str, options: argparse.Namespace, **changed: object) -> Figures:
    """Measure one run in its own process."""
    command = [sys.executable, "-m", "benchmarks.keeping", "--one", task, json.dumps({**vars(options), **changed})]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def overhead(options: argparse.Namespace) -> str:
    """Return a table of the modes, repeated in turn: seconds per question, and wall and CPU time added by saving."""
    runs: dict[str, list[Figures]] = {mode: [] for mode in MODES}
    for _ in range(options.repeats):
        for mode in MODES:
            runs[mode].append(measured("run", options, mode=mode, workers=NO_WORKERS))
    lines = []
    for mode in MODES:
        cells = [f"{median(run['seconds'] for run in runs[mode]) / options.n:.3f}", "", "", ""]
        if mode != "nothing":
            pairs = list(zip(runs[mode], runs["nothing"], strict=True))
            for at, clock in enumerate(("seconds", "cpu"), 1):
                cells[at] = f"{median(run[clock] / none[clock] - 1 for run, none in pairs):+.1%}"
            cells[3] = f"{1000 * median(run['cpu'] - none['cpu'] for run, none in pairs) / options.n:.1f}"
        lines.append([mode, *cells])
    return table("saved | seconds per question | added wall time | added CPU time | added CPU ms per question", lines)


def rates(options: argparse.Namespace) -> str:
    """Return a table of questions per minute and peak memory by workers and by the number of concurrent questions."""
    lines = []
    for workers in options.workers:
        for at_once in (*IN_FLIGHT, *([MANY] if options.memory else [])):
            n = max(options.n, min(2 * at_once, MANY))
            run = measured("run", options, mode="folder", n=n, at_once=at_once, workers=workers)
            counts = [workers, str(at_once), str(n), f"{60 * n / run['seconds']:.0f}"]
            lines.append([*counts, f"{run['peak'] / 2**30:.2f} GiB", f"{run['left'] / n / 1000:.0f} kB"])
    return table("workers | in flight | questions | per minute | peak memory | saved per question", lines)


def frame(options: argparse.Namespace) -> str:
    """Return a table of the median CPU shares outside the model, for a run in a folder."""
    runs = [measured("parts", options) for _ in range(options.repeats)]
    shares = [f"{median(run[name] / run['whole'] for run in runs):.2%}" for name in ("graph", "store")]
    whole = f"{median(run['whole'] for run in runs) / options.n:.3f}"
    return table("CPU seconds per question | graph and log | writing payloads", [[whole, *shares]])


# In the process of one run


def run_one(options: argparse.Namespace, folder: Path) -> Figures:
    """Return a run's seconds by both clocks, its process's peak memory, and the bytes in its folder."""
    settings, questions = prepared(options, folder)
    manifest = new_manifest("debate", settings, questions)  # digests the model, once
    run = None
    if options.mode != "nothing":
        run = Run.start(manifest, questions, folder / "run" if options.mode == "folder" else None)
    began, used = time.monotonic(), time.process_time()
    discuss(settings, questions, options.at_once, folder, run, options.workers)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    left = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "left": left}


def run_parts(options: argparse.Namespace, folder: Path) -> Figures:
    """Return the CPU seconds of a run, of its graph and log alone, and of writing its payloads."""
    settings, questions = prepared(options, folder)
    run = Run.start(new_manifest("debate", settings, questions), questions, folder / "run")
    whole = _used(lambda: discuss(settings, questions, options.at_once, folder / "run", run))
    messages = [message for record in run.records.values() for message in record.messages]
    replies = {agent: [each.text for each in messages if each.agent == agent] for agent in settings.names()}
    plain, script = scheme("debate").settings.model_validate({"rounds": 2}), ScriptedChatModel(replies)
    again = Run.start(new_manifest("debate", plain, questions, models=script), questions, folder / "again")
    graph = _used(lambda: run_all(again, plain, again.store(), models=script))
    store, copies = PayloadStore(folder / "run" / "payloads"), PayloadStore(folder / "copies")
    payloads = [message.payload.load(store) for message in messages if message.payload]
    return {"whole": whole, "graph": graph, "store": _used(lambda: [copies.put(payload) for payload in payloads])}


TASKS: dict[str, Callable[[argparse.Namespace, Path], Figures]] = {"run": run_one, "parts": run_parts}


def prepared(options: argparse.Namespace, folder: Path) -> tuple[Settings, list[Question]]:
    """Return settings and questions; ask one question first, which loads the model."""
    given = {"model": [options.model], "max_tokens": options.max_tokens, "protocol": options.protocol}
    memory = {"memory": [options.memory]} if options.memory else {}
    settings = scheme("debate").settings.model_validate({**given, **memory, "rounds": 2, "temperature": [0.0]})
    questions = samples("arithmetic", options.n, settings, 0)
    discuss(settings, questions[:1], 1, folder, None)
    return settings, questions


def discuss(
    settings: Settings,
    questions: list[Question],
    at_once: int,
    folder: Path,
    run: Run | None,
    workers: str = NO_WORKERS,
) -> None:
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
    limits = Limits(at_once=at_once, workers=None if workers == NO_WORKERS else workers)
    run_all(run, settings, PayloadStore(folder / "payloads"), limits=limits)
    assert not run.unfinished, "every question has its decision"


def _used(act: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, over all threads."""
    began = time.process_time()
    act()
    return time.process_time() - began


if __name__ == "__main__":
    main()
