"""Discussions that are run apart from their run's folder, and the Ray cluster whose workers do so."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sottovoce.core.errors import RecordError, UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.runs import cluster
from sottovoce.runs.cluster import ShardOutput, add_output, run_shard
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import run_all

QUESTIONS: list[Question] = [
    {"question": f"What is {n} + 3?", "target": f"{n + 3}", "id": f"sum/{n}"} for n in range(8)
]


@pytest.fixture(scope="module")
def settings(model: str) -> Debate:
    return Debate(model=[model], protocol="cipher", rounds=2, max_tokens=6, exact=True, answer_turn="off")


def begin(folder: Path | None, settings: Debate, questions: list[Question] = QUESTIONS) -> Run:
    return Run.start(new_manifest("debate", settings, questions), questions, folder)


def told(run: Run) -> dict[Any, Any]:
    return {
        key: ([(message.place, message.text) for message in record.messages], record.decision)
        for key, record in run.records.items()
    }


@pytest.fixture(scope="module")
def alone(settings: Debate, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What is said where this process holds all."""
    run = begin(tmp_path_factory.mktemp("run") / "alone", settings)
    run_all(run, settings, run.store())
    return run


def test_a_run_takes_what_was_held_apart_as_if_it_had_held_it(settings: Debate, alone: Run, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", settings)
    keys = run.unfinished

    for part in (keys[5:], keys[:5]):
        add_output(run, run.store(), run_shard(run_all, run.manifest, run.questions(), part, 2))
    run.end()
    run.close()

    again = load_run(tmp_path / "run")
    assert again.status == "done" and told(again) == told(alone)
    refs = [message.payload for record in again.records.values() for message in record.messages]
    assert len(refs) == 32 and all(ref is not None and ref.load(run.store()).ids for ref in refs)


def test_what_a_worker_lost_leaves_the_kept_steps_of_a_discussion(settings: Debate, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", settings, QUESTIONS[:1])
    run_all(run, settings, run.store(), limits=Limits(call_limit=1))
    run = load_run(tmp_path / "run")
    (key,), steps = run.records, dict(run.only.steps)
    run.resume()

    for lines in ([], [{"line": "asked", **run.only.prompts[0].model_dump()}]):
        failed = {"line": "failed", "error": "no server answers", "seconds": 1.0}
        add_output(run, run.store(), ShardOutput([{**line, "of": [*key]} for line in (*lines, failed)], {}))
    run.close()

    after = load_run(tmp_path / "run").only
    assert steps and after.steps == steps and after.status == "failed"

    run = load_run(tmp_path / "run")
    run.resume()
    add_output(run, run.store(), run_shard(run_all, run.manifest, run.questions(), [key], 1))
    run.end()
    assert load_run(tmp_path / "run").only.status == "done"  # while the steps of two beginnings are not mixed
    run.close()


@pytest.mark.parametrize("name", ["weights", "vocabulary"])
def test_a_worker_with_another_model_refuses(settings: Debate, alone: Run, name: str) -> None:
    models = {agent: each.model_copy(update={name: "others"}) for agent, each in alone.manifest.models.items()}
    with pytest.raises(RecordError, match=rf"has changed since run 'on a worker' started .*{name} others"):
        run_shard(run_all, alone.manifest.model_copy(update={"models": models}), QUESTIONS, [("sum/0", 0)], 1)


@pytest.mark.parametrize(("workers", "size"), [(1, 2), (100, 1)])
def test_shards_are_small_enough_for_all_workers(settings: Debate, workers: int, size: int) -> None:
    keys = begin(None, settings).unfinished

    shards = cluster._shards(keys, workers, at_once=32)

    assert [key for shard in shards for key in shard] == keys and len(shards[0]) == size


GPUS = SimpleNamespace(cluster_resources=lambda: {"CPU": 8, "GPU": 4})
NONE = SimpleNamespace(cluster_resources=lambda: {"CPU": 8})


@pytest.mark.parametrize(
    ("ray", "device", "asked", "gpus"),
    [
        (GPUS, ["auto"], None, 1),
        (GPUS, ["cpu"], None, 0),
        (NONE, ["auto"], None, 0),
        (GPUS, ["auto"], 0.5, 0.5),
        (GPUS, ["map"], 2, 2),
    ],
)
def test_a_worker_gets_the_gpus_asked_for(ray: Any, device: list[str], asked: float | None, gpus: float) -> None:
    limits = Limits(workers="ray", gpus_per_worker=asked)
    assert cluster._gpus(ray, Debate(device=device), limits) == gpus


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": "dask"}, "workers is 'dask'; expected 'ray', or 'ray:4' for at most four of them"),
        ({"workers": "ray:0"}, "workers is 'ray:0'; expected 'ray'"),
        ({"workers": "ray", "gpus_per_worker": 1.5}, "expected a fraction of a GPU, or a whole number"),
        ({"gpus_per_worker": 0.5}, "belongs to `workers=`"),
        ({"workers": "ray", "gpus_per_worker": 2}, "is 2, and `device='auto'` uses one GPU; add `device='map'`"),
    ],
)
def test_workers_and_gpus_that_ray_cannot_give_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cluster._gpus(GPUS, Debate(), Limits(**given))


# On a cluster of several raylets on this machine


@pytest.fixture(scope="module")
def homes(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Two home folders: in the first lies the model as ~/tiny, in the second nothing."""
    rich, poor = tmp_path_factory.mktemp("rich"), tmp_path_factory.mktemp("poor")
    (rich / "tiny").symlink_to(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(rich))
        yield rich, poor


@pytest.fixture
def machines(homes: tuple[Path, Path]) -> Iterator[Any]:
    """A cluster whose first machine has no processor for workers; tests add others."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield cluster
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]  # Ray's own


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own, of many kinds
def test_the_questions_of_killed_workers_are_taken_over(
    settings: Debate, alone: Run, tmp_path: Path, machines: Any
) -> None:
    machines.add_node(num_cpus=2)
    run, killed = begin(tmp_path / "run", settings), list[int]()
    killer = threading.Thread(target=_kill_two, args=(killed,))
    killer.start()

    run_all(run, settings, run.store(), limits=Limits(workers="ray:2"))

    killer.join()
    assert len(killed) == 2
    again = load_run(tmp_path / "run")
    assert again.status == "done" and told(again) == told(alone)


def _kill_two(killed: list[int]) -> None:
    """Kill the first two workers that run something, as a full memory would."""
    while len(killed) < 2:
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess):
                if len(killed) < 2 and process.pid not in killed and process.cmdline()[:1] == ["ray::_task"]:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_waits_for_machines_that_come_later(settings: Debate, alone: Run, tmp_path: Path, machines: Any) -> None:
    run = begin(tmp_path / "run", settings)
    limits = Limits(workers="ray:4", gpus_per_worker=0.5)
    running = threading.Thread(target=lambda: run_all(run, settings, run.store(), limits=limits))
    running.start()
    time.sleep(5)
    machines.add_node(num_cpus=2, num_gpus=2)  # as an autoscaler does; Ray wants the main thread for it

    running.join()
    assert told(load_run(tmp_path / "run")) == told(alone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_that_no_machine_can_run_is_refused(settings: Debate, homes: tuple[Path, Path], machines: Any) -> None:
    machines.add_node(num_cpus=1, env_vars={"HOME": str(homes[1])})
    settings = settings.model_copy(update={"model": ["~/tiny"]})
    run = begin(None, settings, QUESTIONS[:1])

    with pytest.raises(UsageError, match=r"of the Ray cluster cannot run this: .*~/tiny"):
        run_all(run, settings, run.store(), limits=Limits(workers="ray"))
