"""A discussion's state, and its changes in a step, as lines for a reader."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sottovoce.channels.message import Message
from sottovoce.core.text import one_line, shortened
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON, heard
from sottovoce.report import votes
from sottovoce.report.describe import speaker

QUIET = {"settings", "marks", "board", "messages", "pending", "interventions", "epochs", "votes", "notes", "decision"}
"""Keys that have lines of their own, or are of no interest; so are the keys of the question."""


def new_messages(before: JSON, after: JSON) -> list[Message]:
    """Return the messages that are new after a step, or were withdrawn in it."""
    had = {message.place: message.withdrawn for message in before.get("board", [])}
    return [message for message in after.get("board", []) if had.get(message.place) is not message.withdrawn]


def changes(before: JSON, after: JSON) -> Iterator[str]:
    """Yield a line for every other difference."""
    for key in sorted(after.keys() - QUIET - Question.__annotations__.keys()):
        if key not in before or before[key] != after[key]:
            was = f"{_brief(before[key])} -> " if key in before else ""
            yield one_line(f"{key}: {was}{_brief(after[key])}")
    for name in sorted(_held(after) - _held(before)):
        yield one_line(f"waiting for a check: the update of {name}")
    for made in after.get("interventions", [])[len(before.get("interventions", [])) :]:
        yield one_line(f"{made['what']} at {made['agent']}: {made['why']}")
    for cut in after.get("epochs", [])[len(before.get("epochs", [])) :]:
        yield f"taken back to round {cut[0] + 1}, turn {cut[1] + 1}: later messages are no longer heard"
    yield from (one_line(f"note: {note}") for note in _new(before, after, "notes"))
    if after.get("votes") and before.get("votes") != after["votes"]:
        yield from votes.count(after["round"], after["votes"], after)  # type: ignore[arg-type]  # a state has a question's keys
    if after.get("decision") and before.get("decision") != after["decision"]:
        yield from _decided(after)


def at(values: JSON) -> Iterator[str]:
    """Yield lines on the state of the discussion: its keys, the messages, and the decision."""
    yield from changes({}, {key: value for key, value in values.items() if key != "interventions"})
    for message in heard(values):  # type: ignore[arg-type]  # as a checkpoint has it
        yield one_line(f"{speaker(message)} in round {message.round + 1} ({message.act}): {shortened(message.whole)}")


def _decided(values: JSON) -> Iterator[str]:
    made = values["decision"]
    yield one_line(f"decision by {made['rule']}: {votes.answer(made['answer'])} ({made['why']})")


def _held(values: JSON) -> set[str]:
    """Return the nodes whose updates are pending and were not taken back."""
    return {name for name, update in values.get("pending", {}).items() if "next" not in update}


def _new(before: JSON, after: JSON, key: str) -> list[str]:
    had = before.get(key, [])
    return [each for each in after.get(key, []) if each not in had]


def _brief(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value, default=str))
