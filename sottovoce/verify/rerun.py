"""Re-runs of discussions with the run's models, settings and seeds: the same tokens, or where they differ and why.

If run and machine allow it, both are exact (see the engine), and payloads agree to the bit. A run that is not exact
may differ where two tokens were almost equally probable; that is a note, other differences are findings.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sottovoce.channels import AVERAGING
from sottovoce.channels.compress import KEPT, is_carried
from sottovoce.channels.message import Message
from sottovoce.channels.payload import COMPRESSED, Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import SottovoceError
from sottovoce.models.doctor.selftest import TOLERANCE
from sottovoce.nodes.probes import run_of
from sottovoce.nodes.state import JSON
from sottovoce.runs.allowed import Trust
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Key, Run
from sottovoce.runs.runner import payload_store, run_all
from sottovoce.runs.start import settings_of
from sottovoce.verify.findings import Finding, Verification, Where, at, differences, of
from sottovoce.verify.replay import nobody

COUNTED = ("calls", "tokens_in", "tokens_out")
"""Costs that do not depend on what else runs, as reused tokens do, or on the machine, as time does."""
SPOKEN_BY_MODELS = ("model", "expert", "dummy", "rule")


def rerun_discussions(run: Run, k: int, seed: int, verified: Verification, trust: Trust) -> None:
    """Re-run `k` discussions, drawn by `seed` from those that ended with a decision, and add what differs."""
    able = [key for key, record in run.records.items() if not _left_out(record)]
    for key, record in run.records.items():
        if record.decision is not None and (why := _left_out(record)):
            verified.note(f"{of(key)[0]}: not re-run: {why}")
    keys = sorted(random.Random(seed).sample(able, min(k, len(able))))
    if not keys:
        return
    try:
        manifest = _head_now(run)
    except SottovoceError as error:
        verified.findings.append(Finding("the re-run", str(error), "its models and monitors"))
        return
    others = list(_changed_models(run.manifest, manifest))
    verified.findings += others
    if any(each.subject.startswith("the model") for each in others):
        return
    _run_again(run, manifest, keys, verified, trust)


def _left_out(record: DiscussionRecord) -> str:
    if record.decision is None:
        return "it did not end"
    if others := {each.source for each in record.messages} - {*SPOKEN_BY_MODELS}:
        return f"not everything was said by local models ({', '.join(sorted(others))})"
    if record.settings.get("human") or any(each["what"] == "reject" for each in record.interventions):
        return "a human took part in it"
    if record.interventions and not record.settings.get("watch"):
        return "its watch was given in code"
    return ""


def _head_now(run: Run) -> RunManifest:
    """Return the manifest that the same run would have now, in exact mode if its models allow it."""
    settings = settings_of(run)
    plain = all(model.stored == "float32" and model.device == "cpu" for model in run.manifest.models.values())
    settings = settings.model_copy(update={"exact": settings.exact or (plain and settings.reuse == "exact")})
    return new_manifest(run.manifest.scheme, settings, run.questions(), run.manifest.seeds, run.manifest.origin)


def _changed_models(then: RunManifest, now: RunManifest) -> Iterator[Finding]:
    """Yield the models and monitors that differ from the run's."""
    if then.monitors != now.monitors:
        yield Finding("the monitors", then.monitors, now.monitors)
    for agent in sorted(then.models.keys() | now.models.keys()):
        had, have = (each.models.get(agent) for each in (then, now))
        for name in ("weights", "vocabulary", "parameters", "table", "stored"):
            found, expected = getattr(had, name, None), getattr(have, name, None)
            if found != expected and (name, found) != ("table", 0):  # older records do not have it
                yield Finding(f"the model's {name}", found, expected, (agent,))


def _run_again(run: Run, manifest: RunManifest, keys: Sequence[Key], verified: Verification, trust: Trust) -> None:
    again = Run(manifest, run.questions())
    again.records = {key: again.records[key] for key in keys}
    settings = trust.applied(settings_of(again)).model_copy(update={"approve": []})  # everything was approved
    if settings.probe_from:  # a name relative to the saved run; the re-run's store is elsewhere, so use the full path
        settings = settings.model_copy(update={"probe_from": str(run_of(settings.probe_from, run.store()))})
    with payload_store(None) as fresh:
        try:
            run_all(again, settings, fresh, person=nobody)
        except SottovoceError as error:
            verified.findings.append(Finding("the re-run", str(error), "models and settings that still work"))
            return
        for key in keys:
            _Pair(run, again, (run.store(), fresh)).compare(key, verified)
    verified.reruns += len(keys)


@dataclass(frozen=True)
class _Pair:
    """A run and its re-run, with the stores of both."""

    run: Run
    again: Run
    stores: tuple[PayloadStore, PayloadStore]

    @property
    def to_the_bit(self) -> bool:
        """True if both are exact and used the same libraries."""
        return (
            bool(self.run.manifest.settings.get("exact")) and self.run.manifest.versions == self.again.manifest.versions
        )

    def compare(self, key: Key, verified: Verification) -> None:
        """Compare one discussion up to the first message that differs: all later ones follow from it."""
        record, again_record = self.run.records[key], self.again.records[key]
        if again_record.decision is None:
            verified.findings.append(Finding("the re-run", again_record.error, "a decision", of(key)))
            return
        messages = {message.place: message for message in again_record.messages}
        prompts, prompts_again = ({each.place: each.turns for each in one.prompts} for one in (record, again_record))
        for message in record.messages:
            place, where = message.place, at(key, message)
            if place not in messages:
                found: list[Finding | None] = [Finding("a message, re-run", "one", "none", where)]
            elif prompts.get(place) != prompts_again.get(place):
                found = [Finding("the prompt, re-run", prompts.get(place), prompts_again.get(place), where)]
            else:
                found = list(self._message(message, messages[place], where, verified))
            verified.findings += [each for each in found if each is not None]
            if found:
                return
        verified.findings += _compare_endings(record, again_record, key)

    def _message(
        self, message: Message, same: Message, where: Where, verified: Verification
    ) -> Iterator[Finding | None]:
        """Yield how a message differs from its re-run; None for a difference that a note or another check explains."""
        if message.payload is not None and same.payload is not None:
            try:
                saved, again = (_loaded(each, store) for each, store in zip((message, same), self.stores, strict=True))
            except SottovoceError:  # reported by `check_payloads`
                yield None
                return
            form = self._form(message.agent)
            if saved.ids != again.ids:
                finding, note = token_difference(saved, again, message, form, where)
                verified.notes += [note] if note else []
                yield finding
            elif self.to_the_bit and message.payload.sha256 != same.payload.sha256:
                digests = message.payload.sha256, same.payload.sha256
                yield Finding("the digest of the payload, re-run", *digests, where)
            elif not self.to_the_bit and (what := tensor_difference(saved, again, form)):
                yield Finding("the payload, re-run", what, "within the engine's tolerance", where)
        for name, one, another in differences(_said(message), _said(same)):
            yield Finding(f"the message's {name}, re-run", one, another, where)

    def _form(self, agent: str) -> str:
        models = self.run.manifest.models
        return (models.get(agent) or next(iter(models.values()))).stored


def _said(message: Message) -> JSON:
    told = {name: message.stats.get(name) for name in (*COUNTED[1:], "temperature")}
    donors = [ref.sha256 for ref in message.donors]
    return {"text": message.text, "payload": message.payload is not None, "donors": donors, **told}


def _loaded(message: Message, store: PayloadStore) -> Payload:
    assert message.payload is not None, "checked before"
    return message.payload.load(store)


def _compare_endings(record: DiscussionRecord, again: DiscussionRecord, key: Key) -> Iterator[Finding]:
    found, expected = (
        {
            "decision": each.decision,
            "counts": [count.model_dump() for count in each.counts],
            **{name: getattr(each.result(), name) for name in ("answer", "score", "target", *COUNTED)},
        }
        for each in (record, again)
    )
    for name, one, another in differences(found, expected):
        yield Finding(f"{name}, re-run", one, another, of(key))


# Tolerances: whether another order of floating-point sums explains a difference

HALF = "bfloat16"


def token_difference(
    saved: Payload, again: Payload, message: Message, form: str, where: Where
) -> tuple[Finding | None, str]:
    """Return a finding, or a note if the first tokens that differ are level: another order of sums explains that."""
    i = next(
        (i for i, (a, b) in enumerate(zip(saved.ids, again.ids, strict=False)) if a != b), min(len(saved), len(again))
    )
    margin = _margin(saved, i)
    drawn = message.stats.get("temperature", 0.0) > 0 and message.payload and message.payload.protocol not in AVERAGING
    if margin is not None and not drawn and margin <= _allowed(saved, i, form):
        return None, f"{', '.join(where)}: re-run, it differs from token {i + 1} on, where the margin was {margin:.1e}"
    margin_note = "" if margin is None else f" (margin {margin:.2g} nats)"
    saved_token, expected = (each.ids[i] if i < len(each) else "the end" for each in (saved, again))
    return Finding(f"token {i + 1}{margin_note}, re-run", saved_token, expected, where), ""


def tensor_difference(saved: Payload, again: Payload, form: str) -> str:
    """Return how a tensor of equal tokens differs by more than another order of sums explains; "" if none does."""
    if missing := saved.tensors.keys() ^ again.tensors.keys():
        return f"only one of them has the tensor {min(missing)}"
    for name, tensor in sorted(saved.tensors.items()):
        if name == "top_ids" or _rounded(name, saved):  # level tokens may swap
            continue
        again_tensor = again.tensors[name]
        if tensor.shape != again_tensor.shape:
            return f"{name} has shape {tuple(tensor.shape)}, not {tuple(again_tensor.shape)}"
        scale = max(1.0, float(again_tensor.abs().max()) if again_tensor.numel() else 0.0)
        off = float((tensor.double() - again_tensor.double()).abs().max()) if again_tensor.numel() else 0.0
        if off > TOLERANCE_FACTOR * _of(form) * scale:
            return f"{name} differs by {off:.2g} of {scale:.2g}"
    return ""


def _rounded(name: str, payload: Payload) -> bool:
    """Return whether a tensor is stored compressed: a step of int8 or the sign of a factor may then differ."""
    return payload.label.format == COMPRESSED and (name == KEPT or is_carried(name))


TOLERANCE_FACTOR = 50
"""Multiple of the logits' tolerance: errors grow through a reply, and higher moments of a distribution raise them."""


def _margin(payload: Payload, i: int) -> float | None:
    """Return the margin between the two most probable tokens at a position, in nats; None if it is not stored."""
    top = payload.tensors.get("top_logprobs")
    if top is None or i >= len(top) or top.shape[-1] < 2:
        return None
    return float(top[i, 0] - top[i, 1])


def _allowed(payload: Payload, i: int, form: str) -> float:
    """Return the largest margin of level tokens: each may be off by the tolerance of the format (`models.doctor`)."""
    return 2 * _of(form) * max(1.0, float(payload.tensors["top_logprobs"][i].abs().max()))


def _of(form: str) -> float:
    return TOLERANCE.get(form, TOLERANCE[HALF])
