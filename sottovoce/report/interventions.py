"""The interventions of a run in words, and the uncertainty of agents over a game as a figure of a few lines.

A world classifies the messages that were withheld (`Scheme.truth`). A discussion is successful with a score of 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from sottovoce.channels.message import Message
from sottovoce.core.errors import PayloadError, UsageError
from sottovoce.core.text import counted, figure, one_line
from sottovoce.graphs import scheme
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.state import Intervened
from sottovoce.nodes.uncertainty import features_of_acts
from sottovoce.report import describe
from sottovoce.runs.record import DiscussionRecord


def summary(records: Sequence[DiscussionRecord]) -> list[str]:
    """Describe the interventions of a run in a few lines; [] if nothing was monitored."""
    interventions = [(record, entry) for record in records for entry in record.interventions]
    if not interventions:
        watched = any(record.settings.get("watch") for record in records)
        return ["monitors did not intervene"] if watched else []
    in_all = f"{sum(bool(record.interventions) for record in records):,} of {counted(len(records), 'discussion')}"
    actions = _counts(entry["what"] for _, entry in interventions)
    classes = _counts(name for record, intervened in interventions if (name := true_class(record, intervened)))
    lines = [f"{counted(len(interventions), 'intervention')} in {in_all}: {actions}"]
    return [*lines, *([f"true classes of the withheld messages: {classes}"] if classes else []), *_by_outcome(records)]


def true_class(record: DiscussionRecord, intervened: Intervened) -> str:
    """Return the true class of a withheld message; empty if the scheme does not classify it."""
    known, place = scheme(record.scheme).truth, (intervened["epoch"], intervened["round"], intervened["turn"])
    said = (intervened["agent"], intervened["act"], intervened["attempt"])
    message = next((message for message in record.messages if message.place == place + said), None)
    return known(message) if known is not None and message is not None else ""


def _by_outcome(records: Sequence[DiscussionRecord]) -> list[str]:
    scores = [(record, record.decision["score"]) for record in records if record.decision is not None]
    good = [record for record, score in scores if score == 1]
    bad = [record for record, score in scores if score is not None and score < 1]
    turns = [_turns("successful", good), _turns("other", bad)] if good or bad else []
    missed = sum(not record.interventions for record in bad)
    return [*turns, f"{missed:,} of {len(bad):,} unsuccessful discussions had no intervention"] if bad else turns


def _turns(how: str, records: Sequence[DiscussionRecord]) -> str:
    turns = [entry["round"] + 1 for record in records for entry in record.interventions]
    when = f", on average in turn {figure(fmean(turns))} ({min(turns)} to {max(turns)})" if turns else ""
    return f"in {counted(len(records), f'{how} discussion')}: {counted(len(turns), 'intervention')}{when}"


def _counts(names: Iterable[str]) -> str:
    return ", ".join(f"{n:,} {one_line(name)}" for name, n in Counter(names).most_common())


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
    return "\n".join([*_drawn(run), *(_in_words(run, entry) for entry in run.interventions)])


def _drawn(run: DiscussionRecord) -> Iterator[str]:
    highest = _highest(run)
    known = [value for value in highest.values() if value is not None]
    if not known:
        return
    positions = scheme(run.scheme).settings.measured_at
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
    entropies: dict[Turn, list[float]] = {}
    positions = scheme(run.scheme).settings.measured_at
    for message in run.messages:
        entropies.setdefault((message.epoch, *message.time), []).extend(_entropy(message, positions))
    return {turn: max(entropies[turn], default=None) for turn in sorted(entropies)}


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


def _in_words(run: DiscussionRecord, intervened: Intervened) -> str:
    after = f" after {counted(intervened['epoch'], 'reset')}" if intervened["epoch"] else ""
    when = f", turn {intervened['round'] + 1}{after}"
    by_truth = f"; by the truth: {one_line(wrong)}" if (wrong := true_class(run, intervened)) else ""
    return f"{MARK} {describe.intervention(intervened, when)}{by_truth}"
