"""The card of each run, and a table of the runs with the settings in which they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sottovoce.core.text import counted, one_line
from sottovoce.graphs import scheme
from sottovoce.nodes.state import JSON
from sottovoce.report.comparison import Table
from sottovoce.runs import card as runs_card
from sottovoce.runs.run import Run

DIGEST = 12
"""Number of letters of a digest in the table; the card has all of them."""


def card(run: Run) -> JSON:
    """Return the sealed card of a finished run, as `runs verify --card` checks it; else the manifest and progress."""
    if run.folder is not None and all(record.status in ("done", "failed") for record in run.records.values()):
        return runs_card.card(run)
    progress = {"status": run.status, "why": run.why, "counts": run.counts.model_dump(), "cost": run.cost.model_dump()}
    return {**run.manifest.model_dump(mode="json"), **progress}


def what_was_run(runs: Mapping[str, Run]) -> Table:
    """Return a table with a column for each run: rows of facts, then the settings that differ."""
    facts = {name: _facts(run) for name, run in runs.items()}
    differing = differences(runs)
    names = list(dict.fromkeys([name for of_run in facts.values() for name in of_run]))
    rows = [(name, *(of_run.get(name, "") for of_run in facts.values())) for name in names]
    settings = [(setting, *values) for setting, values in differing.items()]
    return Table(("", *runs), tuple(tuple(map(one_line, cells)) for cells in (*rows, *settings)))


def differences(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return the settings that differ between runs by name, with the value of each run, or "" if it has none."""
    settings = [run.manifest.settings for run in runs.values()]
    names = dict.fromkeys(name for of_run in settings for name in of_run)
    values_by_name = {
        name: [_value(of_run.get(name)) if name in of_run else "" for of_run in settings] for name in names
    }
    shown = {"protocol", "model"}  # in the table anyway
    return {name: values for name, values in values_by_name.items() if len(set(values)) > 1 and name not in shown}


def _facts(run: Run) -> dict[str, str]:
    head, cost, records = run.manifest, run.cost, run.records.values()
    models = dict.fromkeys(
        f"{model.model} ({model.weights}, {model.stored}, {model.device})" for model in head.models.values()
    )
    ended = sum(record.status in ("done", "failed") for record in records)
    return {
        "status": f"{run.status}: {ended:,} of {counted(len(records), 'discussion')} ended",
        "scheme": scheme(head.scheme).command,
        "protocol": head.settings["protocol"],
        "models": "; ".join(models) or ", ".join(dict.fromkeys(head.settings["model"])),
        "seeds": ", ".join(map(str, head.seeds)),
        "questions": f"{len(records) // len(head.seeds):,}, sha256 {head.questions[:DIGEST]}",
        "from": head.origin or "a person",
        "prompts": f"sha256 {head.prompts[:DIGEST]}",
        "calls": f"{cost.calls:,}",
        "tokens": cost.tokens
        if cost.uncounted
        else f"{cost.tokens_in:,} read, {cost.tokens_reused:,} of them reused; {cost.tokens_out:,} written",
        "versions": ", ".join(f"{name} {version}" for name, version in head.versions.items()),
        "started": head.started,
    }


def _value(value: Any) -> str:  # Any: JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
