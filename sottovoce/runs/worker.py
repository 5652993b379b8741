"""Shards: some discussions of a run, run by a worker in another process or on another machine.

A worker returns plain data: lines of the log and bytes of payloads, which the run adds as if they were its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.run import Key, Run
from sottovoce.runs.start import all_settings_of


@dataclass(frozen=True)
class ShardOutput:
    """The output of a worker: its discussions, which ended or failed."""

    lines: list[JSON]
    """Lines of the log about these discussions, in order of time."""
    payloads: dict[str, bytes]
    """Files by sha256."""


class ShardRun(Run):
    """A run of only some discussions, whose lines are collected instead of written."""

    def __init__(self, manifest: RunManifest, questions: Sequence[Question], keys: Collection[Key]) -> None:
        """Take the keys of some discussions, and their questions."""
        super().__init__(manifest, questions)
        self.records = {key: record for key, record in self.records.items() if key in keys}
        self.collected: list[JSON] = []

    def write(self, *lines: JSON) -> None:
        """Collect the lines about discussions; the run itself writes those about the run as a whole."""
        self.collected += [line for line in lines if "of" in line]


def run_shard(
    run_all: Callable[..., None],
    manifest: RunManifest,
    questions: Sequence[Question],
    keys: Collection[Key],
    at_once: int,
) -> ShardOutput:
    """Run these discussions to their end by `run_all`; a failed one has a line that says so.

    Raises:
        SottovoceError: none of them can be run: a model is missing, or differs from the manifest's.
    """
    check_machine(manifest, questions)
    run = ShardRun(manifest, questions, keys)
    settings = all_settings_of(run)  # the sender chose all of them, the sandbox too
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        store = PayloadStore(Path(temporary))
        run_all(run, settings, store, limits=Limits(at_once=at_once))
        return ShardOutput(run.collected, _files(run, store))


def check_machine(manifest: RunManifest, questions: Sequence[Question]) -> None:
    """Load the models of a run, which stay loaded, and check that they are those of the manifest.

    Raises:
        SottovoceError: a model, prompt or monitor is missing here, or differs from the manifest's.
    """
    settings = all_settings_of(Run(manifest))
    here = new_manifest(manifest.scheme, settings, questions, manifest.seeds, manifest.origin)
    manifest.check_same(here.model_copy(update={"questions": manifest.questions}), "on a worker")


def add_output(run: Run, store: PayloadStore, output: ShardOutput) -> None:
    """Add a worker's output to a run: payloads first, so that no line names a missing one."""
    store.mset([*output.payloads.items()])
    run.write(*output.lines)
    for line in output.lines:
        run.apply(line)


def _files(run: Run, store: PayloadStore) -> dict[str, bytes]:
    names = {ref.sha256 for record in run.records.values() for ref in _refs(record.messages)}
    files = zip(sorted(names), store.mget(sorted(names)), strict=True)
    return {name: data for name, data in files if data is not None}


def _refs(messages: Sequence[object]) -> list[PayloadRef]:
    found = [getattr(message, name) for message in messages for name in ("payload", "measured")]
    return [ref for ref in found if ref is not None]
