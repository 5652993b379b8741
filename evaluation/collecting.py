"""Rows for monitors from runs that are kept: what each local agent's replies say of its uncertainty, and how it ended.

In a discussion the game is a question under a seed, the role an agent, the turn a round; it failed where the decision's
score is below 1. Answer turns and repairs are no turns of their own, and what was withdrawn counts as it was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Run
from sottovoce.monitors.measure import features_of
from sottovoce.monitors.rows import Row
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import of_payload


def collected(runs: Sequence[Run], measure: Measure) -> tuple[list[Row], Counter[str]]:
    """The rows of all runs, and how much was passed over, by why.

    Raises:
        UsageError: nothing is left, or payloads lack what is to be measured.
        PayloadError: a payload is missing or damaged.
    """
    rows: list[Row] = []
    passed: Counter[str] = Counter()
    for run in runs:
        for (question, seed), record in run.records.items():
            if record.decision is None or record.decision["score"] is None:
                passed["discussions without a score"] += 1
                continue
            game = f"{run.folder.name if run.folder else ''}/{question}/{seed}"
            rows += _rows(run, record, game, measure, passed)
    if not rows:
        why = ", ".join(f"{n} {what}" for what, n in passed.items()) or "no discussion"
        raise UsageError(f"no turn can be learnt from: found {why}; expected local models' replies, and targets")
    return rows, passed


def _rows(run: Run, record: Record, game: str, measure: Measure, passed: Counter[str]) -> Iterator[Row]:
    store = run.store()
    failed = record.decision is not None and (record.decision["score"] or 0) < 1
    for message in record.messages:
        if message.asked:
            continue
        if message.latent is None:
            passed["messages without a payload"] += 1
            continue
        features = features_of(of_payload(message.latent.load(store)), measure)
        yield Row(game=game, turn=message.round, role=message.agent, features=features, failed=failed, measured=measure)
