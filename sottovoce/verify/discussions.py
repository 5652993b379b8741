"""Checks of discussions against their replay: messages, prompts, votes, decision and score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from sottovoce.agents.hosted import is_hosted
from sottovoce.channels.message import Message
from sottovoce.core.errors import SottovoceError
from sottovoce.nodes.state import JSON
from sottovoce.runs.allowed import Trust
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Key, Run
from sottovoce.runs.start import settings_of
from sottovoce.verify.findings import Finding, Verification, at, differences, of
from sottovoce.verify.replay import HOSTED, Temperatures, replay

HUMAN = "human"
REDRAWN = "said again at temperature"
"""The note of a message that an intervention had said again (nodes/say.py)."""
OF_MODELS = {"stats", "payload", "measured", "notes", "donors"}
"""Fields of a message that its model made; a replay repeats them unchanged."""
OF_SCHEME = ("levels", "interventions", "resets", "counts")
FIRST_OF_EQUALS = "is the first with the lowest"
"""Words of a decision by the lowest temperature (nodes/debate.py)."""


def check_discussions(run: Run, verified: Verification, *, prompts: bool, trust: Trust) -> None:
    """Replay all discussions, and add what differs; `prompts`: this version's prompts are the run's.

    `trust` names the sandbox in which programs run.
    """
    keys = []
    for key, record in run.records.items():
        if why := _reason_not_replayed(record):
            verified.note(f"{of(key)[0]}: not replayed by its scheme: {why}")
        elif record.messages:
            keys.append(key)
    in_code = _agents_given_in_code(run)
    if in_code and prompts:
        verified.note(f"models were given in code for {', '.join(sorted(in_code))}: their prompts are not compared")
    try:
        replayed, temperatures = replay(run, keys, run.store(), trust)
    except SottovoceError as error:
        verified.findings.append(Finding("the replay by its scheme", str(error), "decisions"))
        return
    verified.findings += _odd_temperatures(run)
    for key in keys:
        record, again = run.records[key], replayed.records[key]
        verified.findings += _settings(run, key)
        verified.findings += _messages(record, again, key)
        verified.findings += _temperatures(record, temperatures, key)
        verified.findings += _prompts(record, again, key, in_code) if prompts else ()
        verified.findings += _compare_endings(record, again, key)


def _in_order(name: str, record: JSON) -> list[Any]:  # Any: plain JSON
    """Return a list of a record, interventions sorted by place: a watch checks parallel agents in any order."""
    if name != "interventions":
        return list(record[name])
    return sorted(record[name], key=itemgetter("epoch", "round", "turn", "agent", "attempt"))


def _reason_not_replayed(record: DiscussionRecord) -> str:
    if record.settings.get("human") or any(message.source == HUMAN for message in record.messages):
        return "a human spoke in it"
    if any(each["what"] == "reject" for each in record.interventions):
        return "a human rejected a message in it"
    if not record.settings.get("watch") and (record.interventions or any(each.withdrawn for each in record.messages)):
        return "a watch given in code intervened"
    if record.settings.get("watch") and any(message.measured for message in record.messages):
        return "a hosted model was watched"
    return ""


def _settings(run: Run, key: Key) -> Iterator[Finding]:
    """Check the first event's settings against the manifest; models given in code bring a protocol of their own."""
    record = run.records[key]
    expected = {**run.manifest.settings, "seed": key[1], "protocol": record.settings["protocol"]}
    for name, found, wanted in differences(record.settings, expected):
        yield Finding(f"the setting {name} when the discussion started", found, wanted, of(key))


def _messages(record: DiscussionRecord, again: DiscussionRecord, key: Key) -> Iterator[Finding]:
    saved, replayed = ({each.place: _plain(each) for each in either.messages} for either in (record, again))
    for place, message in replayed.items():
        if place not in saved:
            yield Finding("a message", None, "one, as its scheme asks for it", at(key, place))
            continue
        if "evidence" not in saved[place]:  # runs of earlier versions do not have it; the message's words list it too
            message.pop("evidence", None)
        for name, found, expected in differences(saved[place], message):
            yield Finding(f"the message's {name}", found, expected, at(key, place))
    if record.decision is not None:
        for place in sorted(saved.keys() - replayed.keys()):
            yield Finding("a message", "one", "none, as its scheme asks for none", at(key, place))


def _plain(message: Message) -> JSON:
    return {name: value for name, value in message.to_dict().items() if name not in OF_MODELS}


def _temperatures(record: DiscussionRecord, requested: Temperatures, key: Key) -> Iterator[Finding]:
    for message in record.messages:
        wanted, actual = requested.get((key, message.place)), message.stats.get("temperature")
        if record.settings["temperature"] and None not in (wanted, actual) and wanted != actual:
            yield Finding("the message's temperature", actual, wanted, at(key, message))


def _odd_temperatures(run: Run) -> Iterator[Finding]:
    """Yield messages whose temperature differs from those of the same agent, act and protocol, unless redrawn."""
    said: dict[tuple[str, str, str, str], list[tuple[Key, Message]]] = {}
    for key, record in run.records.items():
        for message in record.messages:
            if message.source == "model" and message.payload and REDRAWN not in " ".join(message.notes):
                kind = (message.agent, message.act, message.asked, message.payload.protocol)
                said.setdefault(kind, []).append((key, message))
    for messages in said.values():
        found = Counter(message.stats.get("temperature") for _, message in messages)
        ((usual, _),) = found.most_common(1)
        for key, message in messages:
            if (own := message.stats.get("temperature")) != usual:
                yield Finding("the message's temperature", own, f"{usual}, like its other messages", at(key, message))


def _agents_given_in_code(run: Run) -> set[str]:
    """Return the hosted agents whose models were given in code: it is unknown in which form they heard messages."""
    settings = settings_of(run)
    spoke = {said.agent for record in run.records.values() for said in record.messages if said.source == HOSTED}
    named = {name for name in settings.names() if is_hosted(settings.of("model", name))}
    return spoke - named - run.manifest.models.keys()


def _prompts(record: DiscussionRecord, again: DiscussionRecord, key: Key, in_code: set[str]) -> Iterator[Finding]:
    saved, replayed = ({each.place: each.turns for each in one.prompts} for one in (record, again))
    for place in sorted(saved.keys() & replayed.keys()):
        if saved[place] != replayed[place] and place.agent not in in_code:
            yield Finding("the prompt", *_first_difference(saved[place], replayed[place]), at(key, place))


def _first_difference(saved: list[tuple[str, str]], expected: list[tuple[str, str]]) -> tuple[Any, Any]:
    """Return the first turns that differ, or the numbers of turns."""
    pairs = zip(saved, expected, strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), (f"{len(saved)} turns", f"{len(expected)} turns"))


def _compare_endings(record: DiscussionRecord, again: DiscussionRecord, key: Key) -> Iterator[Finding]:
    """Compare votes, levels, resets, interventions and the decision; nothing without a decision."""
    if record.decision is None:  # it may have been stopped after its last message
        return
    saved, replayed = (each.model_dump(mode="json") for each in (record, again))
    for name in OF_SCHEME:
        for path, found, expected in differences(_in_order(name, saved), _in_order(name, replayed), name):
            yield Finding(path, found, expected, of(key))
    if again.decision is None:
        yield Finding("the decision", record.decision["answer"], again.error, of(key))
        return
    for path, found, expected in differences(saved["decision"], replayed["decision"], "the decision's"):
        if FIRST_OF_EQUALS in str(expected) and found == expected.replace(FIRST_OF_EQUALS, "has the lowest"):
            continue  # earlier versions did not say that temperatures were equal
        yield Finding(path.replace("'s.", "'s "), found, expected, of(key))
