"""The card of a run: one page of JSON with its manifest, digests and results, to publish with its figures."""

from __future__ import annotations

import hashlib
from statistics import fmean

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RecordError, command
from sottovoce.core.files import bytes_of
from sottovoce.runs.log import LOG
from sottovoce.runs.run import Run

CARD_FORMAT = "sottovoce.card"
CARD_VERSION = 1


def card(run: Run) -> JSON:
    """Return the card of a saved run.

    Raises:
        RecordError: the run is not over, so its figures could still change.
    """
    going = [record for record in run.records.values() if record.status not in ("done", "failed")]
    if going:
        raise RecordError(
            f"run {str(run.folder)!r} has {len(going)} discussions that are not over; "
            f"a card needs a run that is; continue it with {command('runs', 'resume', str(run.folder))}"
        )
    assert run.folder is not None, "read from a folder"
    counts, manifest = run.counts, run.manifest.model_dump(mode="json", exclude={"format", "version"})
    whole = run.results().scores("failed_wrong").values()
    return {
        "format": CARD_FORMAT,
        "version": CARD_VERSION,
        **manifest,
        "counts": counts.model_dump(),
        "accuracy": counts.score / counts.scored if counts.scored else None,
        "accuracy_failed_wrong": fmean(whole) if whole else None,
        "cost": run.cost.model_dump(),
        "nbytes": run.nbytes,
        "log": hashlib.sha256(bytes_of(run.folder / LOG)).hexdigest(),
    }
