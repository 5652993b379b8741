"""Discussions on a Ray cluster: each task runs some of them, and this process saves their results.

A task returns plain data, lines of the log and bytes of payloads, and only this process writes to the run's folder.
Ray places tasks, keeps their processes (in which models stay loaded) for the next ones, lets a cluster grow, and
retries a task whose process died. Needs the extra `ray`, also on the machines of the cluster.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import JSON, Untyped
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Decided, Key, Line
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.run import Observer, Run

RETRIES = 2
"""Number of times that Ray runs a task again whose process died."""
SHARDS = 4
"""Least number of shards per worker: a fast worker takes more of them, and losing one costs little."""
LOOK = 1.0
"""Seconds between two checks of the limits."""


@dataclass(frozen=True)
class ShardOutput:
    """The output of a worker: its discussions, which ended or failed."""

    lines: list[JSON]
    """Lines of the log about these discussions, in order of time."""
    payloads: dict[str, bytes]
    """Files by sha256."""


class ShardRun(Run):
    """A run of only some discussions; its lines are collected instead of written."""

    def __init__(self, manifest: RunManifest, questions: Sequence[Question], keys: Collection[Key]) -> None:
        """Take the keys of some discussions, and their questions."""
        super().__init__(manifest, questions)
        self.records = {key: record for key, record in self.records.items() if key in keys}
        self.collected: list[JSON] = []

    def write(self, *lines: JSON) -> list[Line]:
        """Collect the lines about discussions; the run itself writes those about the run as a whole."""
        typed = super().write(*lines)
        self.collected += [line for line in lines if "of" in line]
        return typed


def run_shard(
    run_all: Callable[..., None], manifest: RunManifest, questions: Sequence[Question], keys: Collection[Key], n: int
) -> ShardOutput:
    """Run these discussions by `run_all`, `n` at a time; the output has a line for each one that failed.

    Raises:
        SottovoceError: no discussion can be run: a model, prompt or monitor is missing here, or differs.
    """
    settings = manifest.all_settings()  # the sender chose all of them, the sandbox too
    here = new_manifest(manifest.scheme, settings, questions, manifest.seeds, manifest.origin)
    manifest.check_same(here.model_copy(update={"questions": manifest.questions}), "on a worker")
    wanted = {key[0] for key in keys}
    run = ShardRun(manifest, [each for each in questions if question_id(each) in wanted], keys)
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        store = PayloadStore(Path(temporary))
        run_all(run, settings, store, limits=Limits(at_once=n))
        messages = [message for record in run.records.values() for message in record.messages]
        names = sorted({ref.sha256 for each in messages for ref in each.own_refs})
        files = {name: data for name in names if (data := store.read(name)) is not None}
        return ShardOutput(run.collected, files)


def add_output(run: Run, store: PayloadStore, output: ShardOutput) -> None:
    """Add a worker's output to a run: payloads first, so that no line names a missing one.

    A worker starts a discussion from the beginning. If it fails, its recorded steps stay unless the worker took more.
    """
    for sha256, data in output.payloads.items():
        store.write(sha256, data)
    by_key: dict[Key, list[JSON]] = {}
    for line in output.lines:
        by_key.setdefault((line["of"][0], line["of"][1]), []).append(line)
    for key, lines in by_key.items():
        kept = run.records[key].steps
        if kept and lines[-1]["line"] == "failed" and sum(line["line"] == "step" for line in lines) <= len(kept):
            lines = lines[-1:]
        elif kept:
            run.restart(key)
        for typed in run.write(*lines):
            run.apply(typed)


def run_on_cluster(
    run_all: Callable[..., None], run: Run, settings: Settings, store: PayloadStore, limits: Limits, observe: Observer
) -> str:
    """Run the unfinished discussions on workers (by `runner.run_all`); return the limit that was reached, or ''.

    Raises:
        UsageError: Ray is not installed.
        SottovoceError: the run cannot be run on a worker, or cannot be saved.
    """
    start = time.monotonic()
    with _connected() as ray:
        gpus = _gpus(ray, settings, limits)
        room = ray.cluster_resources()
        first = max(1, int(room.get("GPU", 0) / gpus) if gpus else int(room.get("CPU", 0)))
        most = int((limits.workers or "").partition(":")[2] or len(run.unfinished))
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_task)
        shared = run_all, str(Path.cwd()), ray.put(run.manifest), ray.put(run.questions())
        waiting = deque(_shards(run.unfinished, min(most, first), limits.at_once))
        running: dict[Untyped, list[Key]] = {}

        def save_finished(seconds: float) -> None:
            refs = [*running]
            for ref in ray.wait(refs, num_returns=1 if seconds else len(refs), timeout=seconds)[0] if refs else ():
                waiting.extendleft(_save(ray, ref, running.pop(ref), run, store, observe))

        try:
            while (waiting or running) and not (over := limits.reached(run.cost, time.monotonic() - start)):
                while waiting and len(running) < most:
                    keys = waiting.popleft()
                    running[task.remote(*shared, keys, limits.at_once)] = keys
                save_finished(LOOK)
        finally:  # at a limit or Ctrl-C too, what is done is saved
            try:
                save_finished(0)
            finally:
                for ref in running:
                    ray.cancel(ref, force=True)
    return over if run.unfinished else ""


def _task(
    run_all: Callable[..., None], folder: str, manifest: RunManifest, questions: list[Question], keys: list[Key], n: int
) -> ShardOutput:
    """Run a shard; relative paths of the settings start from `folder`. An error names the machine."""
    if Path(folder).is_dir():
        os.chdir(folder)
    try:
        return run_shard(run_all, manifest, questions, keys, n)
    except SottovoceError as error:
        raise UsageError(f"machine {socket.gethostname()!r} of the Ray cluster cannot run this: {error}") from error


def _save(ray: Any, ref: Any, keys: list[Key], run: Run, store: PayloadStore, observe: Observer) -> list[list[Key]]:
    """Save the output of a task; if its processes were lost, return a shard for each of its discussions."""
    try:
        add_output(run, store, ray.get(ref))
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, SottovoceError) else error from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.ObjectLostError):
        if len(keys) > 1:
            return [[key] for key in keys]
        why = f"{1 + RETRIES} workers that ran it were lost; is there enough memory?"
        run.fail(keys[0], why, 0.0, outside=True)
    for key in keys:
        if (decision := run.records[key].decision) is not None:
            observe(run.records[key], Decided(decision=decision))
    return []


def _gpus(ray: Any, settings: Settings, limits: Limits) -> float:
    """Return the GPUs of a worker: as asked for, else one if the cluster has any and the models may use it."""
    requested, cpu = limits.gpus_per_worker, all(device == "cpu" for device in settings.device)
    if requested is None:
        return 0 if cpu or "GPU" not in ray.cluster_resources() else 1
    if requested > 1 and len(set(settings.device)) == 1 and settings.device[0] != "map":
        raise UsageError(
            f"`gpus_per_worker=` is {requested:g}, and `device='{settings.device[0]}'` uses one GPU; "
            "add `device='map'`, or one device for each agent"
        )
    return requested


def _shards(keys: Sequence[Key], workers: int, at_once: int) -> list[list[Key]]:
    size = max(1, min(at_once, -(-len(keys) // (workers * SHARDS))))
    return [[*keys[start : start + size]] for start in range(0, len(keys), size)]


@contextmanager
def _connected() -> Iterator[Any]:
    """Yield Ray, connected to the cluster of RAY_ADDRESS, to one on this machine, or to one started for this run."""
    try:
        import ray
    except ImportError as error:
        raise UsageError("`workers='ray'` needs Ray, which is not installed; install sottovoce[ray]") from error
    if ray.is_initialized():  # by the application
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS")
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise UsageError(f"no Ray cluster answers at {address!r}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
