"""Checks of a row before it is resumed: it must match the run in its folder, and the other rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sottovoce.core.errors import RecordError
from sottovoce.experiments.rows import Prepared
from sottovoce.runs.manifest import RunManifest, new_manifest, prompts_digest

SAME = ("scheme", "settings", "seeds", "questions", "prompts")
"""Fields of a run's manifest that identify a row; with other values it would be another row."""


def check_same(row: Prepared, old: RunManifest, folder: Path) -> None:
    """Check that a row is still the one in its folder; `check_weights` checks its models.

    Raises:
        RecordError: names the difference and the remedy.
    """
    now = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    # The prompt packs of agents follow from their models: see `check_weights`.
    now = now.model_copy(update={"prompts": prompts_digest(row.scheme, row.settings, old.packs)})
    for name in SAME:
        before, after = (each.complete if name == "settings" else getattr(each, name) for each in (old, now))
        if before != after:
            told = f" ({differing(before, after)})" if name == "settings" else ""
            raise _another(row.name, f"was started with other {name}{told}", folder)


def check_weights(name: str, now: RunManifest, others: Iterable[RunManifest], folder: Path) -> None:
    """Check that models with the same name have the same weights as in earlier runs of this row and of other rows.

    Raises:
        RecordError: names the model.
    """
    known = {(each.model, each.stored): each.weights for head in others for each in head.models.values()}
    for each in now.models.values():
        weights = known.get((each.model, each.stored), each.weights)
        if weights != each.weights:
            told = f"the model {each.model!r} had the weights {weights} before, and has {each.weights} now"
            raise _another(name, f"has changed: {told}", folder)


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return the differences of two mappings in words."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}, now {after.get(name)!r}" for name in names)


def _another(name: str, why: str, folder: Path) -> RecordError:
    return RecordError(
        f"row {name!r} {why}; put that back, remove {str(folder / name)!r} to run the row again, "
        "or give another folder (--save)"
    )
