"""Some discussions of a run, held apart from it: in another process, or on another machine.

What comes back is plain: lines of the log and the bytes of payloads, which the run takes as if it had held them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.evaluation.runs.head import Head, head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.evaluation.runs.starting import settings_of
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON


@dataclass(frozen=True)
class Held:
    """Discussions that ended, or failed."""

    lines: list[JSON]
    """Of the log, each of one of the discussions, in order of time."""
    payloads: dict[str, bytes]
    """Files by sha256."""


class Apart(Run):
    """A run of which only some discussions are held, and whose lines are collected."""

    def __init__(self, head: Head, questions: Sequence[Question], keys: Collection[Key]) -> None:
        """`questions` are those of `keys`."""
        super().__init__(head, questions)
        self.records = {key: record for key, record in self.records.items() if key in keys}
        self.written: list[JSON] = []

    def write(self, *lines: JSON) -> None:
        """Collect what is told of discussions; lines about the run as a whole are its own to write."""
        self.written += [line for line in lines if "of" in line]


def hold_apart(
    hold: Callable[..., None], head: Head, questions: Sequence[Question], keys: Collection[Key], at_once: int
) -> Held:
    """Hold these discussions to their end by `hold` (`running.hold_all`); one that fails says so in its line.

    Raises:
        SottovoceError: none of them can be held: a model is not there, or not the one of the head.
    """
    check_here(head, questions)
    run = Apart(head, questions, keys)
    settings = settings_of(run)
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        store = PayloadStore(Path(temporary))
        hold(run, settings, store, limits=Limits(at_once=at_once))
        return Held(run.written, _files(run, store))


def check_here(head: Head, questions: Sequence[Question]) -> None:
    """Load the models of a run; they stay loaded.

    Raises:
        SottovoceError: a model, prompt or monitor is not here, or not the one of the head.
    """
    settings = settings_of(Run(head))
    here = head_of(head.scheme, settings, questions, head.seeds, head.origin)
    head.check_same(here.model_copy(update={"questions": head.questions}), "on a worker")


def take(run: Run, store: PayloadStore, held: Held) -> None:
    """Let a run have what was held apart from it: payloads first, so that no line names one that is not there."""
    store.mset([*held.payloads.items()])
    run.write(*held.lines)
    for line in held.lines:
        run.replay(line)


def _files(run: Run, store: PayloadStore) -> dict[str, bytes]:
    names = {ref.sha256 for record in run.records.values() for ref in _refs(record.messages)}
    files = zip(sorted(names), store.mget(sorted(names)), strict=True)
    return {name: data for name, data in files if data is not None}


def _refs(messages: Sequence[object]) -> list[PayloadRef]:
    found = [getattr(message, name) for message in messages for name in ("payload", "measured")]
    return [ref for ref in found if ref is not None]
