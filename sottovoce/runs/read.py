"""Reading a run from its directory: the log has everything that happened, so no model is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RecordError, SottovoceError
from sottovoce.core.files import opened
from sottovoce.core.validation import first_wrong, shown
from sottovoce.runs.log import FORMAT, LOG, REPAIR, VERSION, in_use, parsed, read
from sottovoce.runs.log_lines import wrong_in, wrong_settings
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.run import Key, Run
from sottovoce.runs.run_directory import JUDGED, VERDICT_ID, judged_discussion


def read_manifest(folder: Path) -> RunManifest:
    """Return the manifest of a run, without the rest of its log. Errors: see `load_run`."""
    try:
        with opened(folder / LOG) as file:
            line = file.readline()
    except OSError as error:
        raise RecordError(f"{str(folder)!r} contains no run: {LOG} cannot be read ({error.strerror})") from error
    first = parsed(line)
    return _head([first] if first else [], folder)


def load_run(folder: Path | str) -> Run:
    """Read a run from its directory; no model is needed.

    Raises:
        RecordError: there is no run, it is damaged, or another version wrote it.
    """
    folder = Path(folder)
    lines, _, cut = read(folder, wrong_in)
    run = Run(_head(lines, folder), folder=folder)
    run.lines = len(lines)
    for number, line in enumerate(lines[1:], 2):
        if why := _apply(run, line):
            raise RecordError(f"run {str(folder / LOG)!r} is damaged: line {number}: {why}; {REPAIR}")
    if cut:
        run.notes.append(f"the last line of the log was cut off ({cut} bytes); what it recorded is run again")
    if run.status == "running" and not in_use(folder):
        run.status = "stopped"
        run.close()
    if (folder / JUDGED / LOG).exists():
        run.verdicts = verdicts(load_run(folder / JUDGED))
    return run


def verdicts(judge_run: Run) -> dict[Key, float]:
    """Return the verdicts that could be read from a judge's replies, 1 for right, by the judged discussion."""
    said = {name: each.decision["answer"] for (name, _), each in judge_run.records.items() if each.decision}
    for name in said:
        if not VERDICT_ID.match(name):
            raise RecordError(
                f"run {str(judge_run.folder)!r} is damaged: {name!r} names no answer; judge the run again"
            )
    return {judged_discussion(name): float(answer == "yes") for name, answer in said.items() if answer is not None}


def _head(lines: Sequence[Mapping[str, JSONValue]], folder: Path) -> RunManifest:
    about = {name: value for name, value in lines[0].items() if name != "line"} if lines else {}
    if about.get("format") != FORMAT:
        raise RecordError(
            f"{str(folder / LOG)!r} is not a run: its format is {about.get('format')!r}; expected {FORMAT!r}"
        )
    if about.get("version") != VERSION:
        raise RecordError(
            f"run {str(folder)!r} has version {about.get('version')!r} of the format; expected {VERSION}: "
            "run its questions again, or read it with the version of sottovoce in its field 'versions'"
        )
    try:
        manifest = RunManifest.model_validate(about)
        why = wrong_settings(manifest.scheme, manifest.settings)
    except ValidationError as error:
        why = first_wrong(error, "it")
    if why:
        raise RecordError(f"run {str(folder / LOG)!r} is damaged: line 1: {why}; {REPAIR}")
    return manifest


def _apply(run: Run, line: JSON) -> str:
    """Apply a line to a run; return how it contradicts the lines before it, "" if it does not."""
    if why := run.unfit(line):
        return why
    try:
        run.apply(line)
    except (SottovoceError, ValueError, KeyError, TypeError, IndexError) as error:
        return f"it does not fit the lines before it ({shown(str(error))})"
    return ""
