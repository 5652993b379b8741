"""The baselines of a finished run: a single agent, and self-consistency at the cost of the run."""

from __future__ import annotations

from typing import Any

from sottovoce.channels.registry import PROTOCOLS
from sottovoce.core.errors import UsageError, command
from sottovoce.datasets.question_files import check
from sottovoce.experiments.matching import is_over
from sottovoce.experiments.rows import Prepared
from sottovoce.experiments.schema import Matched
from sottovoce.graphs import scheme
from sottovoce.runs.budget import Currency
from sottovoce.runs.run import Run
from sottovoce.settings.base import EACH, Settings
from sottovoce.settings.human_input import People
from sottovoce.settings.monitoring import Watched
from sottovoce.settings.option_groups import OF_PROTOCOL

OF_DISCUSSING = {"protocol", "option", "fallback", "seed", *OF_PROTOCOL, *People.model_fields, *Watched.model_fields}
"""Settings that both schemes have but a single agent does not use."""


def baselines(name: str, run: Run, by: Currency) -> list[Prepared]:
    """Return both baselines as rows with the questions and seeds of the run.

    Raises:
        UsageError: the run is not over, or its questions cannot be put to a single agent.
    """
    if not is_over(run):
        raise UsageError(
            f"run {name!r} is not over, so its cost is unknown; {command('runs', 'resume', name)} resumes it"
        )
    matched = Matched(row=name, by=by)
    return [_row(name, run, "single"), _row(name, run, "self_consistency", matched)]


def _row(name: str, run: Run, wanted: str, matched: Matched | None = None) -> Prepared:
    settings, questions = alike(run, scheme(wanted).settings), run.questions()
    for question in questions:
        check(question, settings)
    called = f"{name}-{scheme(wanted).command}"
    return Prepared(called, wanted, settings, questions, run.manifest.seeds, run.manifest.origin, matched)


def alike(run: Run, kind: type[Settings]) -> Settings:
    """Return the settings of a run that another scheme has too, reduced to one agent.

    The temperature is left to the model if the protocol averages embeddings, or if samples at 0 would all be equal.

    Raises:
        UsageError: the run's agents have several models.
    """
    given, usual = run.manifest.settings, kind().model_dump(mode="json")
    shared = {name: _of_one(name, given[name]) for name in usual if name in given and name not in OF_DISCUSSING}
    drawn = kind is scheme("self_consistency").settings and shared["temperature"] == [0]
    if drawn or PROTOCOLS[given["protocol"]].averages:
        del shared["temperature"]
    chosen = {name: value for name, value in shared.items() if value is not None and value != usual[name]}
    return kind.model_validate(chosen)


def _of_one(name: str, value: Any) -> Any:  # Any: as JSON has it
    """Return the value for one agent; None if agents differ in it."""
    if name not in EACH or not value or all(each == value[0] for each in value):
        return value[:1] if name in EACH else value
    if name == "model":
        raise UsageError(f"the run's agents have several models ({', '.join(value)}); no single agent stands for them")
    return None
