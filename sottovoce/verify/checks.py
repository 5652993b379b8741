"""All checks of a run, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sottovoce
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.graphs import scheme
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.manifest import prompts_digest, versions
from sottovoce.runs.run import Run
from sottovoce.runs.start import all_settings_of
from sottovoce.verify.discussions import check_discussions
from sottovoce.verify.event_log import check_folder
from sottovoce.verify.exported_files import check_card, check_table
from sottovoce.verify.findings import Finding, Verification
from sottovoce.verify.payloads import check_payloads
from sottovoce.verify.questions import check_questions
from sottovoce.verify.rerun import rerun_discussions


@dataclass(frozen=True)
class Checks:
    """The checks to make besides those of the run directory."""

    reruns: int = 3
    """Number of discussions to re-run; 0 loads no model."""
    seed: int = 0
    """Seed by which they are drawn."""
    questions: Path | None = None
    """The file that the questions are from."""
    table: Path | None = None
    card: Path | None = None
    trust: Trust = NO_TRUST
    """Permissions to run and open what the run names."""


def verify(run: Run, checks: Checks) -> Verification:
    """Check a run that was read from its directory, and return the findings.

    Raises:
        RecordError: the table or the card cannot be read.
        UsageError: the questions' file cannot be read, or a re-run needs something that `trust` does not allow.
    """
    folder = run.folder.parent if run.folder else None
    lacking = checks.trust.lacking(all_settings_of(run), "the run", folder)
    if lacking and checks.reruns:
        raise UsageError(f"{lacking}, or --no-model to check only what needs no model")
    verified = Verification(discussions=len(run.records))
    verified.messages = sum(len(record.messages) for record in run.records.values())
    verified.notes += run.notes
    if going := sum(record.status not in ("done", "failed") for record in run.records.values()):
        verified.note(f"{going} of {len(run.records)} discussions are not over: only what they have so far is checked")
    if failed := sum(record.status == "failed" for record in run.records.values()):
        verified.note(f"{failed} of {len(run.records)} discussions failed: these are not re-run")
    verified.findings += check_folder(run)
    if lacking:
        verified.note(f"questions, prompts, messages, votes and decisions are not checked: {lacking}")
    else:
        check_questions(run, checks.questions, verified)
    prompts = not lacking and _same_prompts(run, verified)
    _note_versions(run, verified)
    for key in run.records:
        verified.findings += check_payloads(run, key)
    if not lacking:
        check_discussions(run, verified, prompts=prompts, trust=checks.trust)
    if checks.table is not None:
        verified.findings += check_table(run, checks.table)
    if checks.card is not None:
        verified.findings += check_card(run, checks.card)
    if checks.reruns:
        rerun_discussions(run, checks.reruns, checks.seed, verified, checks.trust)
    return verified


def _note_versions(run: Run, verified: Verification) -> None:
    """Note versions that differ from the current ones; nothing can prove which ones the run used."""
    here = versions()
    others = [
        f"{name} {then} (here {here.get(name)})"
        for name, then in run.manifest.versions.items()
        if then != here.get(name)
    ]
    if others or run.manifest.versions.keys() != here.keys():
        verified.note(f"the run says that it used other versions: {', '.join(others) or 'some are not named'}")


def _same_prompts(run: Run, verified: Verification) -> bool:
    """Return whether this version has the run's prompts; if not, the prompts as asked cannot be compared."""
    try:
        settings = scheme(run.manifest.scheme).settings.model_validate(run.manifest.complete)
        now = prompts_digest(run.manifest.scheme, settings, run.manifest.packs)
    except SottovoceError as error:
        now = str(error)
    if now == run.manifest.prompts:
        return True
    if run.manifest.versions.get("sottovoce") == sottovoce.__version__:
        verified.findings.append(Finding("the digest of the prompts", run.manifest.prompts, now))
        return False
    verified.note(
        f"the run was made by sottovoce {run.manifest.versions.get('sottovoce')} with other prompts than those here "
        f"(digest {run.manifest.prompts[:12]}, here {now[:12]}): prompts are not compared"
    )
    return False
