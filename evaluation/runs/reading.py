"""Read a run from its folder: its log tells all that happened, and no model is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sottovoce.checked import first_wrong
from sottovoce.errors import RecordError
from sottovoce.evaluation.runs.head import FORMAT, VERSION, Head
from sottovoce.evaluation.runs.judged import JUDGED, key_of
from sottovoce.evaluation.runs.log import LOG, in_use, parsed, read
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.regular import opened


def head_in(folder: Path) -> Head:
    """The head of a run, without the rest of its log. Errors: see `load_run`."""
    try:
        with opened(folder / LOG) as file:
            line = file.readline()
    except OSError as error:
        raise RecordError(f"{str(folder)!r} holds no run: {LOG} cannot be read ({error.strerror})") from error
    first = parsed(line)
    return _head([first] if first else [], folder)


def load_run(folder: Path | str) -> Run:
    """Read a run from its folder; it needs no model.

    Raises:
        RecordError: there is no run, it is damaged, or it was written by another version.
    """
    folder = Path(folder)
    lines, _, cut = read(folder)
    run = Run(_head(lines, folder), folder=folder)
    run.lines = len(lines)
    for number, line in enumerate(lines[1:], 2):
        try:
            run.replay(line)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise RecordError(f"run {str(folder / LOG)!r} is damaged: line {number}: {_told(error)}") from error
    if cut:
        run.notes.append(f"the last line of the log was cut off ({cut} bytes); what it told will be done again")
    if run.status == "running" and not in_use(folder):
        run.status = "stopped"
        run.close()
    if (folder / JUDGED / LOG).exists():
        run.verdicts = verdicts(load_run(folder / JUDGED))
    return run


def verdicts(judged: Run) -> dict[Key, float]:
    """What could be read of a judge's replies, 1 for right, by the discussion that each is on."""
    said = {name: each.decision["answer"] for (name, _), each in judged.records.items() if each.decision}
    return {key_of(name): float(answer == "yes") for name, answer in said.items() if answer is not None}


def _head(lines: Sequence[Mapping[str, Any]], folder: Path) -> Head:  # Any: JSON as it comes
    about = {name: value for name, value in lines[0].items() if name != "line"} if lines else {}
    if about.get("format") != FORMAT:
        raise RecordError(
            f"{str(folder / LOG)!r} is no run: its format is {about.get('format')!r}; expected {FORMAT!r}"
        )
    if about.get("version") != VERSION:
        raise RecordError(
            f"run {str(folder)!r} has version {about.get('version')!r} of the format; expected {VERSION}: "
            "ask its questions again, or read it with the sottovoce that its field 'versions' names"
        )
    try:
        return Head.model_validate(about)
    except ValidationError as error:
        raise RecordError(f"run {str(folder / LOG)!r} is damaged: line 1: {first_wrong(error, 'it')}") from error


def _told(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return first_wrong(error, "it")
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
