"""What a row must have in common with what its folder holds, and with the other rows, before it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sottovoce.errors import RecordError
from sottovoce.evaluation.experiments.rows import Prepared
from sottovoce.evaluation.runs.head import Head, head_of, prompts_digest

SAME = ("scheme", "settings", "seeds", "questions", "prompts")
"""Of a row's head: with others it would be another row."""


def check_same(row: Prepared, old: Head, folder: Path) -> None:
    """Refuse to go on with a row that is another now; of its model see `check_weights`.

    Raises:
        RecordError: says what differs, and what to do.
    """
    now = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    # Which packs agents bring along follows from their models: see `check_weights`.
    now = now.model_copy(update={"prompts": prompts_digest(row.scheme, row.settings, old.packs)})
    for name in SAME:
        before, after = (each.complete if name == "settings" else getattr(each, name) for each in (old, now))
        if before != after:
            told = f" ({differing(before, after)})" if name == "settings" else ""
            raise _another(row.name, f"was begun with other {name}{told}", folder)


def check_weights(name: str, now: Head, others: Iterable[Head], folder: Path) -> None:
    """Refuse a row whose models have the names of earlier ones, its own or other rows', and are not the same.

    Raises:
        RecordError: names the model.
    """
    known = {(each.model, each.stored): each.weights for head in others for each in head.models.values()}
    for each in now.models.values():
        weights = known.get((each.model, each.stored), each.weights)
        if weights != each.weights:
            told = f"the model {each.model!r} of weights {weights} held rows before, and has {each.weights} now"
            raise _another(name, f"is another: {told}", folder)


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """What is not the same in two mappings, in words."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}, now {after.get(name)!r}" for name in names)


def _another(name: str, why: str, folder: Path) -> RecordError:
    return RecordError(
        f"row {name!r} {why}; put that back, remove {str(folder / name)!r} to hold the row anew, "
        "or give another folder (--save)"
    )
