"""The interventions of a run in words.

A world classifies the messages that were withheld (`Scheme.truth`). A discussion is successful with a score of 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from sottovoce.core.text import counted, figure, one_line
from sottovoce.graphs import scheme
from sottovoce.nodes.state import Intervened
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


def in_words(run: DiscussionRecord, intervened: Intervened) -> str:
    """Return what an intervention did, when and why, and what was wrong by the truth, if that is known."""
    after = f" after {counted(intervened['epoch'], 'reset')}" if intervened["epoch"] else ""
    when = f", turn {intervened['round'] + 1}{after}"
    by_truth = f"; by the truth: {one_line(wrong)}" if (wrong := true_class(run, intervened)) else ""
    return f"{describe.intervention(intervened, when)}{by_truth}"
