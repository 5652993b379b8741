"""Runs that are held in a process of their own, and killed there."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sottovoce.channels.message import Place
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Key
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import lines_of
from sottovoce.runs.runner import resume_run, run_all
from tests.warm import PROCESSES

Said = dict[Key, tuple[Any, list[tuple[Place, str]]]]
"""By discussion: its decision, and each message's place and text."""


def hold(folder: Path, scheme: str, settings: Settings, questions: list[Question], at_once: int) -> None:
    """Begin the run in a folder, or go on with it, to its end."""
    if (folder / "log.jsonl").exists():
        run = resume_run(load_run(folder))
    else:
        run = Run.start(new_manifest(scheme, settings, questions), questions, folder)
    run_all(run, run.manifest.own_settings(), run.store(), limits=Limits(at_once=at_once))


def hold_until_killed(folder: Path, seconds: float, *told: Any) -> bool:
    """`run_one` in a process that is killed so many seconds after it first logs; tells whether it came to its end."""
    before = _lines(folder)
    process = PROCESSES.Process(target=hold, args=(folder, *told))
    process.start()
    try:
        while process.is_alive() and _lines(folder) <= before:
            time.sleep(0.01)
        process.join(seconds)
        return process.exitcode == 0
    finally:
        process.kill()
        process.join()


def _lines(folder: Path) -> int:
    log = folder / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def killed_often(folder: Path, kills: int, within: float, seed: int, *told: Any) -> int:
    """Kill a run at random moments, until it is over or so many times, and let it end; tells how often."""
    draw, done = random.Random(seed), 0
    for _ in range(kills):
        committed, asked = places_committed(folder), Counter(places_asked(folder))
        over = hold_until_killed(folder, draw.uniform(0, within), *told)
        again = Counter(places_asked(folder)) - asked
        assert not [place for place in again if place in committed], "a question was asked twice"
        if over:
            return done
        done += 1
    committed, asked = places_committed(folder), Counter(places_asked(folder))
    hold(folder, *told)
    assert not [place for place in Counter(places_asked(folder)) - asked if place in committed]
    return done


def places_asked(folder: Path) -> list[tuple[Any, ...]]:
    """Discussion and place of every question that the log tells of."""
    lines = [line for _, line in lines_of(folder)] if (folder / "log.jsonl").exists() else []
    return [(*line["of"], *(line[name] for name in Place._fields)) for line in lines if line["line"] == "asked"]


def places_committed(folder: Path) -> set[tuple[Any, ...]]:
    """Discussion and place of every message in the log."""
    records = load_run(folder).records if (folder / "log.jsonl").exists() else {}
    return {(*key, *message.place) for key, record in records.items() for message in record.messages}


def said(folder: Path) -> Said:
    """What a run came to: equal where two runs had the same result."""
    records = load_run(folder).records
    return {
        key: (record.decision, [(message.place, message.text) for message in record.messages])
        for key, record in records.items()
    }
