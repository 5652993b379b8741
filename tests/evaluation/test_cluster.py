"""Discussions that are held apart from their run, and the Ray cluster whose workers do so."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ray import exceptions

from sottovoce.errors import RecordError, UsageError
from sottovoce.evaluation.runs import cluster
from sottovoce.evaluation.runs.cluster import LOSSES, Shard
from sottovoce.evaluation.runs.head import head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.reading import load_run
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.runs.running import hold_all
from sottovoce.evaluation.runs.shard import Held, hold_apart, take
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Debate

QUESTIONS: list[Question] = [
    {"question": f"What is {n} + 3?", "target": str(n + 3), "id": f"sum/{n}"} for n in range(8)
]


@pytest.fixture(scope="module")
def settings(model: str) -> Debate:
    return Debate(model=[model], protocol="cipher", rounds=2, max_tokens=6, exact=True, answer_turn=False)


def begin(folder: Path | None, settings: Debate, questions: list[Question] = QUESTIONS) -> Run:
    return Run.begin(head_of("debate", settings, questions), questions, folder)


def told(run: Run) -> dict[Any, Any]:
    return {
        key: ([(message.place, message.text) for message in record.messages], record.decision)
        for key, record in run.records.items()
    }


@pytest.fixture(scope="module")
def alone(settings: Debate, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What is said where this process holds all."""
    run = begin(tmp_path_factory.mktemp("run") / "alone", settings)
    hold_all(run, settings, run.store())
    return run


def test_a_run_takes_what_was_held_apart_as_if_it_had_held_it(settings: Debate, alone: Run, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", settings)
    keys = run.unfinished

    for part in (keys[5:], keys[:5]):
        take(run, run.store(), hold_apart(hold_all, run.head, run.questions(), part, at_once=2))
    run.end()
    run.close()

    again = load_run(tmp_path / "run")
    assert again.status == "done" and told(again) == told(alone)
    refs = [message.payload for record in again.records.values() for message in record.messages]
    assert len(refs) == 32 and all(ref is not None and ref.load(run.store()).ids for ref in refs)


def test_what_fails_apart_fails_in_its_line(settings: Debate, tmp_path: Path) -> None:
    long: list[Question] = [*QUESTIONS[:1], {"question": "word " * 5000, "id": "long"}]
    run = begin(tmp_path / "run", settings, long)

    take(run, run.store(), hold_apart(hold_all, run.head, long, run.unfinished, at_once=2))

    assert [record.status for record in run.records.values()] == ["done", "failed"]
    run.close()


def test_a_worker_with_another_model_refuses(settings: Debate, alone: Run) -> None:
    models = {name: each.model_copy(update={"weights": "others"}) for name, each in alone.head.models.items()}
    with pytest.raises(RecordError, match=r"run 'on a worker' was begun with the model .* of weights others"):
        hold_apart(hold_all, alone.head.model_copy(update={"models": models}), QUESTIONS, [("sum/0", 0)], at_once=1)


def test_a_discussion_that_costs_three_workers_has_failed(settings: Debate, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", settings, QUESTIONS[:2])
    waiting, lost = [Shard([*run.unfinished])], 0

    while waiting:
        waiting += cluster._taken(run, run.store(), lambda record, event: None, waiting.pop(0), None)
        lost += 1

    assert lost == 1 + 2 * (LOSSES - 1)  # together once, then each alone
    assert {record.error for record in run.records.values()} == {
        "3 workers were lost that held it; is there memory enough?"
    }
    run.close()


@pytest.mark.parametrize(("workers", "size"), [(1, 2), (2, 1), (100, 1)])
def test_shards_are_small_enough_for_all_workers(settings: Debate, workers: int, size: int) -> None:
    keys = begin(None, settings).unfinished

    shards = cluster._shards(keys, workers, at_once=32)

    assert [key for shard in shards for key in shard.keys] == keys and len(shards[0].keys) == size


@pytest.mark.parametrize("workers", ["dask", "ray:0", "ray:two", "4"])
def test_workers_that_are_none_are_refused(workers: str) -> None:
    with pytest.raises(UsageError, match=f"workers is '{workers}'; expected 'ray', or with their number 'ray:4'"):
        Limits(workers=workers)


class Script:
    """What Ray answers of one reference after the other: a value, or what is raised of it; the rest never comes."""

    exceptions = exceptions

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.killed = answers, list[Any]()

    def wait(self, refs: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        ready = [ref for ref in refs if ref in self.answers][:num_returns]
        return ready, [ref for ref in refs if ref not in ready]

    def get(self, ref: str) -> Any:
        if isinstance(answer := self.answers[ref], Exception):
            raise answer
        return answer

    def kill(self, worker: Any) -> None:
        self.killed.append(worker)


def hired(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> tuple[cluster.Crew, Script]:
    """A crew on such a cluster; each worker that starts is called next."""
    script, number = Script(answers), count()
    monkeypatch.setitem(sys.modules, "ray", script)

    def make() -> Any:
        ref = f"ready_{next(number)}"
        return SimpleNamespace(ready=SimpleNamespace(remote=lambda: ref))

    return cluster.Crew(make, None, 1), script  # type: ignore[arg-type]  # nothing is asked of the run


FULL: Exception = exceptions.OutOfMemoryError("full")  # type: ignore[no-untyped-call]  # Ray has no types


@pytest.mark.parametrize("error", [FULL, exceptions.ActorDiedError()])
def test_a_worker_that_memory_ended_is_lost_and_the_next_works_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    crew, script = hired(monkeypatch, one=error, two=Held([], {}))
    shard = Shard([("a", 0)])
    crew.busy |= {"one": ("first", shard), "two": ("second", shard)}

    assert [*crew.ended()] == [(shard, None)] and script.killed == ["first"]
    assert not crew.idle and [*crew.coming] == ["ready_0"]  # it has no place: a shard would wait for it
    assert [*crew.handed_in()] == [(shard, Held([], {}))] and crew.idle == ["second"]
    script.answers["ready_0"] = None
    assert [*crew.ended()] == [] and len(crew.idle) == 2


def test_workers_that_cannot_start_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    died = exceptions.ActorDiedError()
    crew, _ = hired(monkeypatch, ready_0=died, ready_1=died, ready_2=died)
    crew.hire()

    with pytest.raises(UsageError, match="3 workers could not start on the Ray cluster"):
        for _ in range(LOSSES):
            assert [*crew.ended()] == []


# On a cluster of this machine


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield ray
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, of many kinds
def test_the_questions_of_killed_workers_are_taken_over(settings: Debate, alone: Run, tmp_path: Path, ray: Any) -> None:
    run, killed = begin(tmp_path / "run", settings), list[int]()
    killer = threading.Thread(target=_kill_two, args=(killed,))
    killer.start()

    hold_all(run, settings, run.store(), limits=Limits(workers="ray:2"))

    killer.join()
    assert len(killed) == 2
    again = load_run(tmp_path / "run")
    assert again.status == "done" and told(again) == told(alone)


def _kill_two(killed: list[int]) -> None:
    """Kill the first two workers that are at something, as a full memory would."""
    while len(killed) < 2:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if len(killed) < 2 and process.pid not in killed and process.cmdline()[:1] == ["ray::Holder.hold"]:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
        time.sleep(0.05)


@pytest.mark.slow
def test_more_workers_than_the_cluster_has_are_refused(settings: Debate, ray: Any) -> None:
    run = begin(None, settings, QUESTIONS[:1])

    with pytest.raises(UsageError, match="--workers is 'ray:64', but Ray has 2 CPUs; ask for at most"):
        hold_all(run, settings, run.store(), limits=Limits(workers="ray:64"))
