"""Verification of a saved run: its directory is checked, and some discussions are re-run with its models and seeds.

If run and machine allow it, re-runs are exact (see the engine), and payloads agree to the bit. In a run that is not
exact two tokens that were almost equally probable may be swapped; that is a note, other differences are findings.
"""

from __future__ import annotations

import random
from collections import Counter

import sottovoce
from sottovoce.channels import AVERAGING
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.trust import NO_TRUST, Trust
from sottovoce.models.load import TOLERANCE
from sottovoce.nodes.probes import run_of
from sottovoce.runs.log import Key
from sottovoce.runs.manifest import new_manifest, prompts_digest, versions
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run
from sottovoce.runs.runner import payload_store, run_all
from sottovoce.verify.folder import Finding, Verification, check_log, check_payloads, differences, of

COUNTED = ("tokens_in", "tokens_out", "temperature")  # they depend neither on what else runs nor on the machine
OF_MODELS = {"weights", "vocabulary", "parameters", "table", "format"}
SPOKEN_BY_MODELS = {"model", "expert", "dummy", "rule"}


def verify(run: Run, reruns: int = 3, seed: int = 0, trust: Trust = NO_TRUST) -> Verification:
    """Check a run that was read from its directory, and re-run `reruns` discussions drawn by `seed`.

    With 0 re-runs, no model is loaded.

    Raises:
        UsageError: a re-run needs something that `trust` does not allow.
    """
    lacking = trust.lacking(run.manifest.all_settings(), "the run", run.folder and run.folder.parent)
    if lacking and reruns:
        raise UsageError(f"{lacking}, or --no-model to check only what needs no model")
    verified = Verification(len(run.records), sum(len(record.messages) for record in run.records.values()))
    verified.notes += run.notes
    for status, n in Counter(record.status for record in run.records.values() if record.decision is None).items():
        verified.notes.append(f"{n} of {len(run.records)} discussions are {status}: these are not re-run")
    if run.manifest.versions != versions():
        verified.notes.append(f"the run says that it used other versions: {run.manifest.versions}")
    verified.findings += check_log(run)
    for key in run.records:
        verified.findings += check_payloads(run, key)
    if not lacking and run.manifest.versions.get("sottovoce") == sottovoce.__version__:
        now = prompts_digest(run.manifest.scheme, run.manifest.all_settings(), run.manifest.packs)
        if now != run.manifest.prompts:
            verified.findings.append(Finding("the digest of the prompts", run.manifest.prompts, now))
    if reruns:
        try:
            _rerun(run, reruns, seed, verified, trust)
        except SottovoceError as error:
            verified.findings.append(Finding("the re-run", str(error), "models and settings that still work"))
    return verified


def nobody(request: JSON) -> str:
    """Refuse to reply for a human; discussions with a human's messages are left out."""
    raise SottovoceError(f"a human is asked to reply for {request['agent']}, but no human replied in the run")


def _rerun(run: Run, k: int, seed: int, verified: Verification, trust: Trust) -> None:
    """Re-run `k` discussions, drawn by `seed` from those that ended with a decision, and add the differences."""
    reasons = {key: _left_out(record) for key, record in run.records.items() if record.decision is not None}
    verified.notes += [f"{of(key)}: not re-run: {why}" for key, why in reasons.items() if why]
    able = [key for key, why in reasons.items() if not why]
    if not (keys := sorted(random.Random(seed).sample(able, min(k, len(able))))):
        return
    # What the same run would have now, in exact mode if its models allow it; its prompts show its date.
    settings = run.manifest.own_settings()
    plain = all(model.format == "float32" and model.device == "cpu" for model in run.manifest.models.values())
    settings = settings.model_copy(update={"exact": settings.exact or plain})
    manifest = new_manifest(run.manifest.scheme, settings, run.questions(), run.manifest.seeds, run.manifest.origin)
    manifest = manifest.model_copy(update={"started": run.manifest.started})
    models, models_now = (
        {agent: model.model_dump(include=OF_MODELS) for agent, model in each.models.items()}
        for each in (run.manifest, manifest)
    )
    if changed := [*differences(models, models_now), *differences(run.manifest.monitors, manifest.monitors)]:
        verified.findings += [Finding(f"the model of {name}" if name else "monitors", *two) for name, *two in changed]
        return
    again = Run(manifest, run.questions())
    again.records = {key: again.records[key] for key in keys}
    settings = trust.applied(again.manifest.own_settings())
    settings = settings.model_copy(update={"approve": []})  # everything was approved
    if settings.probe_from:  # a name relative to the saved run; the re-run's store is elsewhere, so use the full path
        settings = settings.model_copy(update={"probe_from": str(run_of(settings.probe_from, run.store()))})
    exact = bool(run.manifest.settings.get("exact")) and run.manifest.versions == manifest.versions
    store = run.store()  # messages find their payloads while it is open
    with payload_store(None) as fresh:
        run_all(again, settings, fresh, person=nobody)
        for key in keys:
            _compare(run.records[key], again.records[key], key, exact, verified)
    del store
    verified.reruns += len(keys)


def _left_out(record: DiscussionRecord) -> str:
    if others := {each.source for each in record.messages} - SPOKEN_BY_MODELS:
        return f"not everything was said by local models ({', '.join(sorted(others))})"
    if record.settings.get("human") or any(each["what"] == "reject" for each in record.interventions):
        return "a human took part in it"
    return "its watch was given in code" if record.interventions and not record.settings.get("watch") else ""


def _compare(record: DiscussionRecord, again: DiscussionRecord, key: Key, exact: bool, verified: Verification) -> None:
    """Compare one discussion up to the first message that differs: all later ones follow from it."""
    if again.decision is None:
        verified.findings.append(Finding("the re-run", again.error, "a decision", of(key)))
        return
    prompts, prompts_again = ({each.place: each.turns for each in one.prompts} for one in (record, again))
    messages = {message.place: message for message in again.messages}
    for said in record.messages:
        same, where = messages.get(said.place), of(key, said.place)
        differing = list(differences(prompts.get(said.place), prompts_again.get(said.place), "prompt"))
        if same is not None and not differing:
            form = (record.models.get(said.agent) or next(iter(record.models.values()))).format
            finding, note = compare_payloads(said, same, form, exact, where)
            if finding or note:
                verified.findings += [finding] if finding else []
                verified.notes += [note] if note else []
                return
        if differing := differing or list(differences(_fields(said), same and _fields(same), "message")):
            verified.findings += [Finding(f"the {name}, re-run", a, b, where) for name, a, b in differing]
            return
    ended, ended_again = (
        {"decision": each.decision, "calls": each.cost.calls, "counts": [count.model_dump() for count in each.counts]}
        for each in (record, again)
    )
    for name, found, expected in differences(ended, ended_again):
        verified.findings.append(Finding(f"{name}, re-run", found, expected, of(key)))


def _fields(message: Message) -> JSON:
    counted = {name: message.stats.get(name) for name in COUNTED}
    return {"text": message.text, "donors": [ref.sha256 for ref in message.donors], **counted}


def compare_payloads(said: Message, same: Message, form: str, exact: bool, where: str) -> tuple[Finding | None, str]:
    """Return a finding, or a note if another order of floating-point sums explains why tokens differ."""
    if said.payload is None or same.payload is None or said.payload.sha256 == same.payload.sha256:
        return None, ""
    saved, fresh = said.payload.load(), same.payload.load()
    if saved.ids == fresh.ids:
        digests = said.payload.sha256, same.payload.sha256
        return (Finding("the digest of the payload, re-run", *digests, where) if exact else None), ""
    pairs = zip(saved.ids, fresh.ids, strict=False)
    i = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(saved), len(fresh)))
    sampled = said.stats.get("temperature", 0.0) > 0 and said.payload.protocol not in AVERAGING
    if not sampled and _is_level(saved, i, form):
        return None, f"{where}: re-run, it differs from token {i + 1} on, where two tokens were level"
    found, expected = (each.ids[i] if i < len(each) else "the end" for each in (saved, fresh))
    return Finding(f"token {i + 1}, re-run", found, expected, where), ""


def _is_level(payload: Payload, i: int, form: str) -> bool:
    """Return whether the two most probable tokens are closer than twice the tolerance of the weights' format."""
    top = payload.tensors.get("top_logprobs")
    if top is None or i >= len(top) or top.shape[-1] < 2:
        return False
    allowed = 2 * TOLERANCE.get(form, TOLERANCE["bfloat16"]) * max(1.0, float(top[i].abs().max()))
    return float(top[i, 0] - top[i, 1]) <= allowed
