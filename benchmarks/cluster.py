"""`python -m benchmarks.cluster`: questions per minute without Ray, and with one and two workers of a local cluster.

The debates are always the same; the first shard of each worker also starts a process and loads the model there.
Memory is the peak of the process that saves the run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.datasets.samples import samples
from sottovoce.graphs import scheme
from sottovoce.report.tables import table
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all

NONE = "none"
WORKERS = (NONE, "ray:1", "ray:2")


def run_one(workers: str, model: str, n: str) -> None:
    """Measure one run in this process and print the result as JSON."""
    settings = scheme("debate").settings.model_validate({"model": [model], "rounds": 2, "max_tokens": 64})
    questions = samples("arithmetic", int(n), settings, 0)
    limits = Limits(at_once=8, workers=None if workers == NONE else workers)
    with TemporaryDirectory() as folder:
        run = Run.start(new_manifest("debate", settings, questions), questions, Path(folder) / "run")
        began = time.monotonic()
        run_all(run, settings, run.store(), limits=limits)
        seconds = time.monotonic() - began
    assert not run.unfinished, "every question has its decision"
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser("python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("-n", type=int, nargs="+", default=[64, 256], help="questions")
    options = parser.parse_args()
    lines = []
    for workers in WORKERS:
        for n in options.n:
            command = [sys.executable, "-m", "benchmarks.cluster", "--one", workers, options.model, str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, peak = json.loads(done.stdout.splitlines()[-1])
            lines.append([workers, str(n), f"{seconds:.0f}", f"{60 * n / seconds:.0f}", f"{peak / 2**30:.2f} GiB"])
    print(table("workers | questions | seconds | a minute | peak memory of the process that keeps the run", lines))


if __name__ == "__main__":
    main()
