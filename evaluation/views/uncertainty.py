"""How unsure agents were over a game, turn by turn, and where a watch intervened: a few lines of plain text."""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.triggers import truth
from sottovoce.evaluation.views.describe import shades
from sottovoce.evaluation.views.printable import counted, figure, one_line
from sottovoce.nodes.state import Intervened

BARS = "▁▂▃▄▅▆▇█"
UNKNOWN, MARK, RESET = "·", "^", "|"
"""A turn without statistics; an intervention; where the game began again."""
WIDEST = 60  # turns in a row
Turn = tuple[int, int, int]
"""Epoch, round and turn."""


def figure_of(run: Record) -> str:
    """The highest entropy of each turn as bars, interventions marked under them; empty where there is nothing to see.

    Worlds and watched discussions have it. Payloads are read, so it is drawn where it is shown and never kept.
    """
    world = run.decision is not None and run.decision.get("measures")
    if not world and not run.interventions:
        return ""
    return "\n".join([*_drawn(run), *(_told(run, entry) for entry in run.interventions)])


def _drawn(run: Record) -> Iterator[str]:
    """A heading, bars, and a row of marks under those bars that have any, so many turns at a time."""
    highest = _highest(run)
    known = [value for value in highest.values() if value is not None]
    if not known:
        return
    yield f"highest entropy of each turn, {figure(min(known))} to {figure(max(known))} nats"
    marked = {(entry["epoch"], entry["round"], entry["turn"]) for entry in run.interventions}
    bars, marks, epoch = "", "", 0
    for turn, value in highest.items():
        again, epoch = RESET * (turn[0] - epoch), turn[0]
        bars += again + _bar(value, min(known), max(known))
        marks += " " * len(again) + (MARK if turn in marked else " ")
    for start in range(0, len(bars), WIDEST):
        below = marks[start : start + WIDEST].rstrip()
        yield from [bars[start : start + WIDEST], *([below] if below else [])]


def _highest(run: Record) -> dict[Turn, float | None]:
    """In order of time; what was withdrawn counts as it was said."""
    found: dict[Turn, list[float]] = {}
    for message in run.messages:
        entropies = [entropy for _, entropy in shades(message) if entropy is not None]
        found.setdefault((message.epoch, *message.time), []).extend(entropies)
    return {turn: max(found[turn], default=None) for turn in sorted(found)}


def _bar(value: float | None, low: float, high: float) -> str:
    if value is None:
        return UNKNOWN
    return BARS[round((value - low) / (high - low) * (len(BARS) - 1))] if high > low else BARS[0]


def _told(run: Record, entry: Intervened) -> str:
    """One intervention in words."""
    after = f" after {counted(entry['epoch'], 'reset')}" if entry["epoch"] else ""
    when = f"turn {entry['round'] + 1}{after}"
    by_truth = f"; by the truth: {wrong}" if (wrong := truth(run, entry)) else ""
    return one_line(f"{MARK} {entry['what']} at {entry['agent']}, {when}: {entry['why']}{by_truth}")
