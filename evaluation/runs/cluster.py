"""Hold a run on a Ray cluster: workers hold some of its discussions each, and this process keeps the run.

Only this process writes to the run's folder. A worker that is lost loses what it had not handed in, and others take
that over. Needs the extra `ray`, also on the machines of the cluster, with the models where the settings name them.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sottovoce.channels.store import PayloadStore
from sottovoce.errors import SottovoceError, UsageError
from sottovoce.evaluation.runs.events import Decided
from sottovoce.evaluation.runs.head import Head
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.run import Key, Observer, Run
from sottovoce.evaluation.runs.shard import Held, hold_apart, take
from sottovoce.nodes.question import question_id
from sottovoce.nodes.settings import Settings

LOSSES = 3
"""How many workers a discussion may cost before it counts as failed: it may be what ends them."""
SHARDS = 4
"""Shards a worker, at least: who is quick takes more of them, and a lost one costs little."""
LOOK = 1.0
"""Seconds between two looks at limits."""


@dataclass
class Shard:
    """Discussions that a worker holds together."""

    keys: list[Key]
    losses: int = 0

    def split(self) -> list[Shard]:
        """Each discussion alone, after the worker was lost that held them together."""
        return [Shard([key], self.losses + 1) for key in self.keys]


@dataclass
class Crew:
    """The workers of a cluster, and what they are at."""

    make: Any  # Any: what starts a worker; Ray's handles have no types
    run: Run
    at_once: int
    idle: list[Any] = field(default_factory=list)
    busy: dict[Any, tuple[Any, Shard]] = field(default_factory=dict)
    """By the reference to what will come of it."""
    coming: dict[Any, Any] = field(default_factory=dict)
    """Those that have no place yet, by the reference to their word: a machine that was lost may never come back."""
    unborn: int = 0
    """How many could not start, one after another."""

    def hire(self) -> None:
        """Start a worker, which gets something to do once it is there."""
        worker = self.make()
        self.coming[worker.ready.remote()] = worker

    def start(self, shard: Shard) -> None:
        """Let an idle worker hold a shard."""
        worker, chosen = self.idle.pop(), {key[0] for key in shard.keys}
        questions = [each for each in self.run.questions() if question_id(each) in chosen]
        ref = worker.hold.remote(self.run.head.model_dump(mode="json"), questions, shard.keys, self.at_once)
        self.busy[ref] = (worker, shard)

    def ended(self) -> Iterator[tuple[Shard, Held | None]]:
        """The shards that were handed in within a second; None stands for a worker that was lost.

        Raises:
            SottovoceError: a worker cannot hold the run at all.
        """
        import ray

        for ref in ray.wait([*self.busy, *self.coming], num_returns=1, timeout=LOOK)[0]:
            if ref in self.coming:
                self._arrived(ref)
            else:
                yield self._handed_in(ref)

    def handed_in(self) -> Iterator[tuple[Shard, Held | None]]:
        """What lies ready when no more is waited for. Errors: see `ended`."""
        import ray

        refs = [*self.busy]
        for ref in ray.wait(refs, num_returns=len(refs), timeout=0)[0] if refs else ():
            yield self._handed_in(ref)

    def _handed_in(self, ref: Any) -> tuple[Shard, Held | None]:  # Any: as above
        import ray

        worker, shard = self.busy.pop(ref)
        try:
            held: Held = ray.get(ref)
        except _lost(ray):
            ray.kill(worker)  # what it made may be lost, and not itself
            self.hire()
            return shard, None
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, SottovoceError) else error from None
        self.idle.append(worker)
        return shard, held

    def _arrived(self, ref: Any) -> None:  # Any: as above
        import ray

        worker = self.coming.pop(ref)
        try:
            ray.get(ref)
        except _lost(ray) as error:
            self.unborn += 1
            if self.unborn >= LOSSES:
                raise UsageError(f"{self.unborn} workers could not start on the Ray cluster: {error}") from error
            self.hire()
            return
        self.unborn = 0
        self.idle.append(worker)

    def dismiss(self) -> None:
        """Let all workers go, whatever they are at."""
        import ray

        for worker in [*self.idle, *self.coming.values(), *(worker for worker, _ in self.busy.values())]:
            ray.kill(worker)


def hold_on_cluster(
    hold: Callable[..., None], run: Run, settings: Settings, store: PayloadStore, limits: Limits, observe: Observer
) -> str:
    """Hold what is not over of a run, workers by `hold` (`running.hold_all`); returns which limit was reached, if any.

    Raises:
        UsageError: Ray is not installed, or has not so many workers.
        SottovoceError: the run cannot be held on the workers, or not be kept.
    """
    began = time.monotonic()
    with _connected() as ray:
        number = _workers(ray, settings, limits)
        _begin_anew(run)
        waiting = deque(_shards(run.unfinished, number, limits.at_once))
        made = partial(_maker(ray, settings), hold)
        crew = Crew(made, run, limits.at_once)
        try:
            for _ in range(min(number, len(waiting))):
                crew.hire()
            while (waiting or crew.busy) and not (over := _over(run, limits, began)):
                while waiting and crew.idle:
                    crew.start(waiting.popleft())
                for shard, held in crew.ended():
                    waiting.extendleft(_taken(run, store, observe, shard, held))
        finally:  # at a limit or Ctrl-C too, what lies ready is kept
            try:
                for shard, held in crew.handed_in():
                    if held is not None:
                        _taken(run, store, observe, shard, held)
            finally:
                crew.dismiss()
    return over if run.unfinished else ""


def _lost(ray: Any) -> tuple[type[Exception], ...]:  # Any: the module
    """What is raised of a worker that is no more, or of what it made; one that memory ended is told apart."""
    found = ray.exceptions
    return found.RayActorError, found.OutOfMemoryError, found.ObjectLostError


def _begin_anew(run: Run) -> None:
    """What was said before of discussions that are not over: workers have no checkpoints of it."""
    for key in run.unfinished:
        if run.records[key].tasks:
            run.anew(key)


def _taken(run: Run, store: PayloadStore, observe: Observer, shard: Shard, held: Held | None) -> list[Shard]:
    """Let the run have what was held; returns what others must hold again."""
    if held is not None:
        take(run, store, held)
        for key in shard.keys:
            if (decision := run.records[key].decision) is not None:
                observe(run.records[key], Decided(decision=decision))
        return []
    again = shard.split()
    for each in again:
        if each.losses >= LOSSES:
            run.failed(
                each.keys[0], f"{LOSSES} workers were lost that held it; is there memory enough?", 0.0, outside=True
            )
    return [each for each in again if each.losses < LOSSES]


def _shards(keys: Sequence[Key], workers: int, at_once: int) -> list[Shard]:
    size = max(1, min(at_once, -(-len(keys) // (workers * SHARDS))))
    return [Shard([*keys[start : start + size]]) for start in range(0, len(keys), size)]


def _over(run: Run, limits: Limits, began: float) -> str:
    if limits.time_limit is not None and time.monotonic() - began >= limits.time_limit:
        return limits.out_of_time()
    return limits.reached(run.cost.calls, run.cost.tokens_in + run.cost.tokens_out) if limits.counts else ""


def _workers(ray: Any, settings: Settings, limits: Limits) -> int:  # Any: the module
    """How many workers: as many as are asked for, else one for each processor (or GPU, where models run on these)."""
    kind = "GPU" if _wants_gpu(ray, settings) else "CPU"
    most = int(ray.cluster_resources().get(kind, 0))
    asked = int((limits.workers or "").partition(":")[2] or most)
    if not 1 <= asked <= most:
        raise UsageError(f"--workers is {limits.workers!r}, but Ray has {most} {kind}s; ask for at most these")
    return asked


def _wants_gpu(ray: Any, settings: Settings) -> bool:  # Any: the module
    return "GPU" in ray.cluster_resources() and any(device != "cpu" for device in settings.device)


def _maker(ray: Any, settings: Settings) -> Any:  # Any: Ray's handles have no types
    gpus = 1 if _wants_gpu(ray, settings) else 0
    return ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Holder).remote


class Holder:
    """A worker; its models stay loaded from one shard to the next."""

    def __init__(self, hold: Callable[..., None]) -> None:
        self._hold = hold

    def ready(self) -> None:
        """It is there, and its imports are."""

    def hold(self, head: dict[str, Any], questions: list[Any], keys: list[Key], at_once: int) -> Held:
        """See `hold_apart`; all is plain JSON."""
        return hold_apart(self._hold, Head.model_validate(head), questions, {(key[0], key[1]) for key in keys}, at_once)


@contextmanager
def _connected() -> Iterator[Any]:
    """Ray, connected to the cluster of RAY_ADDRESS, to one on this machine, or to one that is started for this run."""
    try:
        import ray
    except ImportError as error:
        raise UsageError("--workers ray needs Ray, which is not installed; install sottovoce[ray]") from error
    if ray.is_initialized():  # an application has its own
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
