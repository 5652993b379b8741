"""Discussions held anew, with the run's models, settings and seeds: the same tokens, or where they part and why.

Where run and machine can, both are exact (see the engine), and payloads agree to the bit. A run that was not held so
may part from itself where two tokens were as good as level: that is told apart from tokens that were not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import SottovoceError
from sottovoce.evaluation.runs.head import Head, head_of
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.evaluation.runs.running import hold_all, payloads
from sottovoce.evaluation.runs.starting import settings_of
from sottovoce.evaluation.runs.trust import Trust
from sottovoce.evaluation.verify.findings import Finding, Verified, Where, at, differences, of
from sottovoce.evaluation.verify.margins import apart, parted
from sottovoce.nodes.donors import run_of
from sottovoce.nodes.state import JSON

COUNTED = ("calls", "tokens_in", "tokens_out")
"""Costs that are the same in any company; what is reused depends on what else ran, and time on the machine."""
SPOKEN_BY_MODELS = ("model", "expert", "dummy", "rule")


def hold_anew(run: Run, k: int, seed: int, verified: Verified, trust: Trust) -> None:
    """Hold `k` discussions anew, drawn by `seed` from those that ended with a decision, and tell what differs."""
    able = [key for key, record in run.records.items() if not _left_out(record)]
    for key, record in run.records.items():
        if record.decision is not None and (why := _left_out(record)):
            verified.note(f"{of(key)[0]}: not held anew: {why}")
    keys = sorted(random.Random(seed).sample(able, min(k, len(able))))
    if not keys:
        return
    try:
        head = _head_now(run)
    except SottovoceError as error:
        verified.findings.append(Finding("holding it anew", str(error), "its models and monitors"))
        return
    others = list(_others(run.head, head))
    verified.findings += others
    if any(each.what.startswith("the model") for each in others):
        return
    _hold(run, head, keys, verified, trust)


def _left_out(record: Record) -> str:
    if record.decision is None:
        return "it did not end"
    if others := {each.source for each in record.messages} - {*SPOKEN_BY_MODELS}:
        return f"not all was said by local models ({', '.join(sorted(others))})"
    if record.settings.get("human") or any(each["what"] == "reject" for each in record.interventions):
        return "a person took part in it"
    if record.interventions and not record.settings.get("watch"):
        return "it was watched by code"
    return ""


def _head_now(run: Run) -> Head:
    """The head that the same run would have now, held exactly where that can be."""
    settings = settings_of(run)
    plain = all(model.stored == "float32" and model.device == "cpu" for model in run.head.models.values())
    settings = settings.model_copy(update={"exact": settings.exact or plain})
    return head_of(run.head.scheme, settings, run.questions(), run.head.seeds, run.head.origin)


def _others(then: Head, now: Head) -> Iterator[Finding]:
    """Models and monitors that are not those of the run."""
    if then.monitors != now.monitors:
        yield Finding("the monitors", then.monitors, now.monitors)
    for agent in sorted(then.models.keys() | now.models.keys()):
        had, have = (each.models.get(agent) for each in (then, now))
        for name in ("weights", "vocabulary", "parameters", "table", "stored"):
            found, expected = getattr(had, name, None), getattr(have, name, None)
            if found != expected and (name, found) != ("table", 0):  # records from before it was counted
                yield Finding(f"the model's {name}", found, expected, (agent,))


def _hold(run: Run, head: Head, keys: Sequence[Key], verified: Verified, trust: Trust) -> None:
    again = Run(head, run.questions())
    again.records = {key: again.records[key] for key in keys}
    settings = trust.applied(settings_of(again)).model_copy(update={"approve": []})  # all of it was let pass
    if settings.probe_from:  # the run beside this one, which none is to the store that is held anew in
        settings = settings.model_copy(update={"probe_from": str(run_of(settings.probe_from, run.store()))})
    with payloads(None) as fresh:
        try:
            hold_all(again, settings, fresh)
        except SottovoceError as error:
            verified.findings.append(Finding("holding it anew", str(error), "what it was held with"))
            return
        for key in keys:
            _Pair(run, again, (run.store(), fresh)).compare(key, verified)
    verified.anew += len(keys)


@dataclass(frozen=True)
class _Pair:
    """A run and itself held anew, with the stores of both."""

    run: Run
    again: Run
    stores: tuple[PayloadStore, PayloadStore]

    @property
    def to_the_bit(self) -> bool:
        """Whether both were held exactly, by the same libraries."""
        return bool(self.run.head.settings.get("exact")) and self.run.head.versions == self.again.head.versions

    def compare(self, key: Key, verified: Verified) -> None:
        """One discussion; from where it parts on, the rest is another one, and is not told."""
        record, other = self.run.records[key], self.again.records[key]
        if other.decision is None:
            verified.findings.append(Finding("held anew", other.error, "a decision", of(key)))
            return
        made = {message.place: message for message in other.messages}
        told, asked = ({each.place: each.turns for each in one.prompts} for one in (record, other))
        for message in record.messages:
            place, where = message.place, at(key, message)
            if place not in made:
                found: list[Finding | None] = [Finding("a message, held anew", "one", "none", where)]
            elif told.get(place) != asked.get(place):
                found = [Finding("the prompt as asked, held anew", told.get(place), asked.get(place), where)]
            else:
                found = list(self._message(message, made[place], where, verified))
            verified.findings += [each for each in found if each is not None]
            if found:
                return
        verified.findings += _ending(record, other, key)

    def _message(self, message: Message, same: Message, where: Where, verified: Verified) -> Iterator[Finding | None]:
        """How a message differs from the same one held anew; None where a note explains that it parts from it."""
        if message.payload is not None and same.payload is not None:
            try:
                had, made = (_loaded(each, store) for each, store in zip((message, same), self.stores, strict=True))
            except SottovoceError:  # told by `check_payloads`
                yield None
                return
            form = self._form(message.agent)
            if had.ids != made.ids:
                finding, note = parted(had, made, message, form, where)
                verified.notes += [note] if note else []
                yield finding
            elif self.to_the_bit and message.payload.sha256 != same.payload.sha256:
                digests = message.payload.sha256, same.payload.sha256
                yield Finding("the digest of the payload, held anew", *digests, where)
            elif not self.to_the_bit and (what := apart(had, made, form)):
                yield Finding("the payload, held anew", what, "within the engine's tolerance", where)
        for name, one, another in differences(_said(message), _said(same)):
            yield Finding(f"the message's {name}, held anew", one, another, where)

    def _form(self, agent: str) -> str:
        models = self.run.head.models
        return (models.get(agent) or next(iter(models.values()))).stored


def _said(message: Message) -> JSON:
    told = {name: message.stats.get(name) for name in (*COUNTED[1:], "temperature")}
    donors = [ref.sha256 for ref in message.donors]
    return {"text": message.text, "payload": message.payload is not None, "donors": donors, **told}


def _loaded(message: Message, store: PayloadStore) -> Payload:
    assert message.payload is not None, "asked before"
    return message.payload.load(store)


def _ending(record: Record, other: Record, key: Key) -> Iterator[Finding]:
    found, expected = (
        {
            "decision": each.decision,
            "counts": [count.model_dump() for count in each.counts],
            **{name: getattr(each.result(), name) for name in ("answer", "score", "target", *COUNTED)},
        }
        for each in (record, other)
    )
    for name, one, another in differences(found, expected):
        yield Finding(f"{name}, held anew", one, another, of(key))
