"""Workers on a Ray cluster: each runs some discussions of a run, and this process saves what they return.

Only this process writes to the run's folder. Ray places workers and moves what they return. Its own restarts and
retries are not used: each of them fails again while a worker starts (seconds, as it imports torch), so that one loss
counts as several (measured with Ray 2.60). Needs the extra `ray`, also on the machines of the cluster.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.nodes.question import question_id
from sottovoce.runs.events import Decided
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.run import Key, Observer, Run
from sottovoce.runs.worker import ShardOutput, add_output, check_machine, run_shard
from sottovoce.settings import Settings

LOGGER = logging.getLogger(__name__)
ATTEMPTS = 3
"""Number of lost workers after which a discussion counts as failed: it may be the cause."""
SHARDS = 4
"""Least number of shards per worker: a fast worker takes more of them, and losing one costs little."""
LOOK = 1.0
"""Seconds between two checks of the limits."""
PATIENCE = 30
"""Checks without a worker after which the log says that Ray has placed none."""


@dataclass(frozen=True)
class Shard:
    """A group of discussions that a worker runs together."""

    keys: list[Key]
    losses: int = 0
    """Number of workers that were lost while they ran it."""


@dataclass(frozen=True)
class Unfit:
    """A machine that cannot run the discussions, with the reason."""

    node: str
    """Host and Ray's id of the node."""
    why: str


class Worker:
    """The actor that runs discussions; its models stay loaded from one shard to the next."""

    def __init__(self, run_all: Callable[..., None], folder: str) -> None:
        """Take `runner.run_all` as `run_all`; relative paths of the settings start from `folder`."""
        self._run_all = run_all
        if Path(folder).is_dir():
            os.chdir(folder)

    def check(self, manifest: RunManifest, questions: list[Any], paths: list[str]) -> Unfit | None:
        """Load the models; return why this machine cannot run it, or None."""
        missing = [path for path in paths if not Path(path).expanduser().exists()]
        try:
            if missing:
                raise UsageError(f"there is no {missing[0]!r}")
            check_machine(manifest, questions)
        except SottovoceError as error:
            return Unfit(_node(), str(error))
        return None

    def run(self, manifest: RunManifest, questions: list[Any], keys: list[Key], at_once: int) -> ShardOutput:
        """Run some discussions; see `run_shard`."""
        chosen = {key[0] for key in keys}
        shard_questions = [each for each in questions if question_id(each) in chosen]
        return run_shard(self._run_all, manifest, shard_questions, keys, at_once)


@dataclass
class WorkerPool:
    """The workers of a run. New ones are asked for as Ray places the earlier ones, so that a cluster may grow."""

    ray: Any  # Any: the module; here and below Ray's handles have no types
    make: Callable[[], Any]
    shared: tuple[Any, Any, list[str]]
    """Manifest and questions in Ray's object store, and the paths that a machine must have."""
    at_once: int
    most: int
    """Largest number of workers."""
    first: int
    """Number of workers for which the cluster has room when the run starts."""
    idle: list[Any] = field(default_factory=list)
    busy: dict[Any, tuple[Any, Shard]] = field(default_factory=dict)
    """Worker and shard by the reference to the result."""
    pending: dict[Any, Any] = field(default_factory=dict)
    """Workers that are not placed or checked yet, by the reference to the check."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Why a machine cannot run it, by node."""
    blocked: list[Any] = field(default_factory=list)
    """Workers on such machines: they do nothing, and keep Ray from placing others there."""
    looks: int = 0
    failures: int = 0
    """Number of successive workers that could not start."""

    def ask_for(self, shards: int) -> None:
        """Ask Ray for workers for the waiting shards, and stop workers that are no longer needed."""
        placed = len(self.idle) + len(self.busy)
        wanted = min(self.most, shards + len(self.busy)) - placed
        for _ in range(len(self.pending), min(wanted, max(self.first - placed - len(self.blocked), placed, 1))):
            worker = self.make()
            self.pending[worker.check.remote(*self.shared)] = worker
        if not shards:
            for worker in [*self.idle, *self.pending.values()]:
                self.ray.kill(worker)
            self.idle, self.pending = [], {}

    def start(self, shard: Shard) -> None:
        """Let an idle worker run a shard."""
        worker, (manifest, questions, _) = self.idle.pop(), self.shared
        self.busy[worker.run.remote(manifest, questions, shard.keys, self.at_once)] = (worker, shard)

    def finished(self, seconds: float = LOOK) -> Iterator[tuple[Shard, ShardOutput | None]]:
        """Yield the shards that are done within that time, with None if the worker was lost.

        Raises:
            UsageError: no machine of the cluster can run it.
            SottovoceError: a worker cannot run it, though its machine can.
        """
        refs = [*self.busy, *(self.pending if seconds else ())]
        done = self.ray.wait(refs, num_returns=1 if seconds else len(refs), timeout=seconds)[0] if refs else []
        self._warn_if_waiting()
        for ref in done:
            if ref in self.pending:
                self._arrived(ref)
            else:
                yield self._result(ref)

    def close(self) -> None:
        """Stop all workers at once."""
        workers = [*self.idle, *self.pending.values(), *self.blocked, *(worker for worker, _ in self.busy.values())]
        for worker in workers:
            self.ray.kill(worker)

    def _result(self, ref: Any) -> tuple[Shard, ShardOutput | None]:
        worker, shard = self.busy.pop(ref)
        try:
            output: ShardOutput = self.ray.get(ref)
        except _loss_errors(self.ray):
            self.ray.kill(worker)  # only what it returned may be lost
            return shard, None
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, SottovoceError) else error from None
        self.idle.append(worker)
        return shard, output

    def _arrived(self, ref: Any) -> None:
        worker = self.pending.pop(ref)
        try:
            unfit: Unfit | None = self.ray.get(ref)
        except _loss_errors(self.ray) as error:
            self.failures += 1
            if self.failures >= ATTEMPTS:
                raise UsageError(f"{ATTEMPTS} workers could not start on the Ray cluster: {error}") from error
            return
        self.failures = 0
        if unfit is None:
            self.idle.append(worker)
            return
        self.unfit[unfit.node] = unfit.why
        self.blocked.append(worker)
        LOGGER.warning("no work goes to %s: %s", unfit.node, unfit.why)
        if not (self.idle or self.busy or self.pending) and len(self.unfit) >= _machines(self.ray):
            reasons = "; ".join(f"{node}: {why}" for node, why in self.unfit.items())
            raise UsageError(f"no machine of the Ray cluster can run this: {reasons}")

    def _warn_if_waiting(self) -> None:
        self.looks = 0 if self.idle or self.busy else self.looks + 1
        if self.looks == PATIENCE:
            LOGGER.warning("Ray has placed no worker yet; `ray status` says what it waits for")


def run_on_cluster(
    run_all: Callable[..., None], run: Run, settings: Settings, store: PayloadStore, limits: Limits, observe: Observer
) -> str:
    """Run the unfinished discussions on workers (by `runner.run_all`); return the limit that was reached, or ''.

    Raises:
        UsageError: Ray is not installed, or no machine can run it.
        SottovoceError: the run cannot be run on the workers, or cannot be saved.
    """
    start = time.monotonic()
    with _connected() as ray:
        _restart(run)
        pool = _pool(ray, run_all, run, settings, limits)
        waiting = deque(_shards(run.unfinished, min(pool.most, pool.first), limits.at_once))
        try:
            while (waiting or pool.busy) and not (limit_reached := _reached(run, limits, start)):
                pool.ask_for(len(waiting))
                while waiting and pool.idle:
                    pool.start(waiting.popleft())
                for shard, output in pool.finished():
                    waiting.extendleft(_save_output(run, store, observe, shard, output))
        finally:  # at a limit or Ctrl-C too, what is done is saved
            try:
                for shard, output in pool.finished(0):
                    if output is not None:
                        _save_output(run, store, observe, shard, output)
            finally:
                pool.close()
    run.notes += [f"no work went to {node}: {why}" for node, why in pool.unfit.items()]
    return limit_reached if run.unfinished else ""


def _pool(ray: Any, run_all: Callable[..., None], run: Run, settings: Settings, limits: Limits) -> WorkerPool:
    gpus = _gpus(ray, settings, limits)
    resources = ray.cluster_resources()
    first = int(resources.get("GPU", 0) / gpus) if gpus else int(resources.get("CPU", 0))
    most = int((limits.workers or "").partition(":")[2] or len(run.unfinished))
    actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Worker)
    shared = ray.put(run.manifest), ray.put(run.questions()), paths_of(settings)
    return WorkerPool(ray, partial(actor.remote, run_all, str(Path.cwd())), shared, limits.at_once, most, max(1, first))


def paths_of(settings: Settings) -> list[str]:
    """Return the folders and files that the settings name: every machine that works on the run must have them."""
    values = settings.model_dump(mode="json").values()
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    parts = [part.strip() for text in texts if isinstance(text, str) for part in (text, *re.split("[,:]", text))]
    return sorted({part for part in parts if os.sep in part and Path(part).expanduser().exists()})


def _gpus(ray: Any, settings: Settings, limits: Limits) -> float:
    """Return the GPUs of a worker: as asked for, else one if the cluster has any and the models may use it.

    Raises:
        UsageError: a worker is to have several, but its models would use one.
    """
    requested, cpu = limits.gpus_per_worker, all(device == "cpu" for device in settings.device)
    if requested is None:
        return 0 if cpu or "GPU" not in ray.cluster_resources() else 1
    if requested > 1 and len(set(settings.device)) == 1 and settings.device[0] != "map":
        raise UsageError(
            f"--gpus-per-worker is {requested:g}, and --device {settings.device[0]} uses one GPU; add --device map, or "
            "one device for each agent"
        )
    return requested


def _loss_errors(ray: Any) -> tuple[type[Exception], ...]:
    """Return the errors that say that a worker, or what it returned, is lost."""
    errors = ray.exceptions
    return errors.RayActorError, errors.OutOfMemoryError, errors.ObjectLostError


def _machines(ray: Any) -> int:
    return sum(1 for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU"))


def _node() -> str:
    import ray

    return f"{socket.gethostname()} (node {ray.get_runtime_context().get_node_id()[:8]})"


def _restart(run: Run) -> None:
    """Restart unfinished discussions: workers do not have their checkpoints."""
    for key in run.unfinished:
        if run.records[key].steps:
            run.restart(key)


def _save_output(
    run: Run, store: PayloadStore, observe: Observer, shard: Shard, output: ShardOutput | None
) -> list[Shard]:
    """Save the output of a worker; if there is none, return a shard for each of its discussions, to be run again."""
    if output is not None:
        add_output(run, store, output)
        for key in shard.keys:
            if (decision := run.records[key].decision) is not None:
                observe(run.records[key], Decided(decision=decision))
        return []
    if shard.losses + 1 < ATTEMPTS:
        return [Shard([key], shard.losses + 1) for key in shard.keys]
    why = f"{ATTEMPTS} workers that ran it were lost; is there enough memory?"
    run.record_failure(shard.keys[0], why, 0.0, outside=True)
    return []


def _shards(keys: Sequence[Key], workers: int, at_once: int) -> list[Shard]:
    size = max(1, min(at_once, -(-len(keys) // (workers * SHARDS))))
    return [Shard([*keys[start : start + size]]) for start in range(0, len(keys), size)]


def _reached(run: Run, limits: Limits, start: float) -> str:
    if limits.time_limit is not None and time.monotonic() - start >= limits.time_limit:
        return limits.out_of_time()
    return limits.reached(run.cost.calls, run.cost.tokens_in + run.cost.tokens_out)


@contextmanager
def _connected() -> Iterator[Any]:
    """Yield Ray, connected to the cluster of RAY_ADDRESS, to one on this machine, or to one started for this run."""
    try:
        import ray
    except ImportError as error:
        raise UsageError("--workers ray needs Ray, which is not installed; install sottovoce[ray]") from error
    if ray.is_initialized():  # by the application
        yield ray
        return
    try:
        ray.init(
            address=os.environ.get("RAY_ADDRESS"),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except ConnectionError as error:
        raise UsageError(f"no Ray cluster answers at {os.environ.get('RAY_ADDRESS')!r}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
