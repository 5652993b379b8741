"""The uncertainty of agents over a game, turn by turn, with interventions, in a few lines of plain text."""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.analysis.interventions import truth
from sottovoce.channels.message import Message
from sottovoce.core.errors import PayloadError, UsageError
from sottovoce.core.text import counted, figure, one_line
from sottovoce.graphs import scheme
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.state import Intervened
from sottovoce.nodes.uncertainty import features_of_acts
from sottovoce.runs.record import DiscussionRecord

WHERE = {"all": "", "action": " at the numbers of actions", "tons": " at a number of tons", "scores": " at the scores"}
BARS = "▁▂▃▄▅▆▇█"
UNKNOWN, MARK, RESET = "·", "^", "|"
"""A turn without statistics; an intervention; a reset of the game."""
WIDEST = 60  # turns in a row
Turn = tuple[int, int, int]
"""Epoch, round and turn."""


def figure_of(run: DiscussionRecord) -> str:
    """Return the highest entropy of each turn, at the scheme's positions, as bars with interventions marked below.

    Empty if there is nothing to show. Worlds and watched discussions have such a figure. It reads payloads, so it is
    drawn when it is shown, and never stored.
    """
    world = run.decision is not None and run.decision.get("measures")
    if not world and not run.interventions:
        return ""
    return "\n".join([*_drawn(run), *(_told(run, entry) for entry in run.interventions)])


def _drawn(run: DiscussionRecord) -> Iterator[str]:
    """Yield a heading, bars, and a row of marks below bars that have any, `WIDEST` turns at a time."""
    highest = _highest(run)
    known = [value for value in highest.values() if value is not None]
    if not known:
        return
    positions = scheme(run.scheme).settings.positions
    where = WHERE.get(positions, f" at positions {positions!r}")
    yield f"highest entropy of each turn{where}, {figure(min(known))} to {figure(max(known))} nats"
    marked = {(entry["epoch"], entry["round"], entry["turn"]) for entry in run.interventions}
    bars, marks, epoch = "", "", 0
    for turn, value in highest.items():
        again, epoch = RESET * (turn[0] - epoch), turn[0]
        bars += again + _bar(value, min(known), max(known))
        marks += " " * len(again) + (MARK if turn in marked else " ")
    for start in range(0, len(bars), WIDEST):
        below = marks[start : start + WIDEST].rstrip()
        yield from [bars[start : start + WIDEST], *([below] if below else [])]


def _highest(run: DiscussionRecord) -> dict[Turn, float | None]:
    """Return the highest entropy of each turn in order of time; withdrawn messages count."""
    found: dict[Turn, list[float]] = {}
    positions = scheme(run.scheme).settings.positions
    for message in run.messages:
        found.setdefault((message.epoch, *message.time), []).extend(_entropy(message, positions))
    return {turn: max(found[turn], default=None) for turn in sorted(found)}


def _entropy(message: Message, positions: str) -> list[float]:
    """Return the highest entropy over a message's positions; [] if it has none, or its payload is missing."""
    if message.uncertainty is None:
        return []
    measure = Measure(positions=positions, distribution="whole" if message.latent else "top")
    try:
        features = features_of_acts([message], measure, None)
    except (PayloadError, UsageError):  # a moved run, or another measure: what was said can still be read
        return []
    return [] if features is None else [features["entropy"]]


def _bar(value: float | None, low: float, high: float) -> str:
    if value is None:
        return UNKNOWN
    return BARS[round((value - low) / (high - low) * (len(BARS) - 1))] if high > low else BARS[0]


def _told(run: DiscussionRecord, entry: Intervened) -> str:
    """Return one intervention in words."""
    after = f" after {counted(entry['epoch'], 'reset')}" if entry["epoch"] else ""
    when = f"turn {entry['round'] + 1}{after}"
    by_truth = f"; by the truth: {wrong}" if (wrong := truth(run, entry)) else ""
    return one_line(f"{MARK} {entry['what']} at {entry['agent']}, {when}: {entry['why']}{by_truth}")
