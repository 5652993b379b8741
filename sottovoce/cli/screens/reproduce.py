"""The command `experiment reproduce`: runs of the papers' tables and figures, as published or in small.

Nothing here imports torch or langgraph before something runs: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ConfigDict, Field

from sottovoce.core.errors import SottovoceError, StoppedError, UsageError
from sottovoce.core.outputs import check_folder
from sottovoce.core.text import one_line
from sottovoce.core.validation import Checked
from sottovoce.experiments.schema import Content, Experiment
from sottovoce.experiments.tables.expand import chosen, experiment_of, small_of
from sottovoce.experiments.tables.requirements import lacking
from sottovoce.experiments.tables.table_files import read_published
from sottovoce.experiments.tables.table_schema import Published
from sottovoce.report.paper_tables import about, compared, listed, planned
from sottovoce.report.tables import show
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import shelf

STAND_INS = "stand-ins"
NOTHING = "This was a small run on the bundled model: it shows that every row runs, and nothing else."


class ReproduceOptions(Checked):
    """The table or figure, and how much of it to run."""

    model_config = ConfigDict(title="Reproduce")

    name: str | None = Field(
        default=None,
        description="A table or figure; if omitted, all are listed.",
        json_schema_extra={"positional": True},
    )
    data: Path = Field(default=Path("data"), description="The folder of data sets and of other needed files.")
    model: list[str] = Field(default=[], description="Run only this model of the table, by its name there.")
    part: list[str] = Field(default=[], description="Run only this part of the table.")
    row: list[str] = Field(default=[], description="Run only this row.")
    instead: str | None = Field(
        default=None, description="A model to use instead of the table's; the figures are then of another model."
    )
    small: bool = Field(default=False, description="Run all of it in small, on the bundled model.")
    plan: bool = Field(default=False, description="Print what would run and what is missing for it; run nothing.")
    save: Path | None = Field(
        default=None, description="Save it in this folder, not with the other runs under the table's name."
    )


def show_reproduction(options: ReproduceOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """List the tables, or run one of them and print published figures beside obtained ones.

    Raises:
        UsageError: there is no such table, model, part or row, or nothing of it can run here.
        RecordError: the folder holds rows of another kind, or cannot be written.
        SottovoceError: discussions failed; raised after all else.
    """
    if options.name is None:
        show(listed(options.data))
        return
    table = read_published(options.name)
    chosen("row", options.row, table.every_row)
    if options.plan:
        show("\n".join([*about(table), *planned(table, _wanted(table, options), options.data)]))
    else:
        _hold_all(options.name, table, options, limits, trust)


def _wanted(table: Published, options: ReproduceOptions) -> list[tuple[str, str]]:
    models, parts = chosen("model", options.model, table.models), chosen("part", options.part, table.parts)
    return [(model, part) for model, part in table.held() if model in models and part in parts]


def _hold_all(name: str, table: Published, options: ReproduceOptions, limits: Limits, trust: Trust) -> None:
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.experiments.tables.small import write_stand_ins  # late: numpy takes its time

    check_installed()
    folder = options.save or shelf() / f"{name}{'-small' * options.small}"
    check_folder(folder, "--save", "")
    print("\n".join(about(table)), end="\n\n")
    if options.small:
        write_stand_ins(table, folder / STAND_INS)
    held = 0
    for which, given in _experiments(table, options, folder):
        _hold_one(table, which, given, folder / "-".join(which), options, limits, trust)
        held += 1
    if not held:
        raise UsageError(f"nothing of {name!r} can run here; get what is named above, or use --small")
    print(f"{f'{NOTHING} ' * options.small}Kept in {one_line(str(folder))}")


def _experiments(
    table: Published, options: ReproduceOptions, folder: Path
) -> Iterator[tuple[tuple[str, str], Content]]:
    """Yield the experiments that can run, by model and part; print a line for each that cannot."""
    seen = list[Content]()
    for model, part in _wanted(table, options):
        if not options.small:
            if lacks := _lacks(table, model, part, options):
                print(f"{model}, {part}: not run: {'; '.join(lacks)}\n")
            else:
                yield (model, part), experiment_of(table, model, part, options.data, weights=options.instead)
            continue
        given = small_of(table, model, part, folder / STAND_INS)
        if (same := {**given, "about": ""}) in seen:  # models and data alone differ
            print(f"- {model}, {part}: in small the same as an earlier one")
        else:
            seen.append(same)
            yield (model, part), given


def _lacks(table: Published, model: str, part: str, options: ReproduceOptions) -> list[str]:
    """Return what `lacking` returns; a model that is replaced need not be available."""
    found = lacking(table, model, part, options.data)
    return [each for each in found if not (options.instead and model in table.gone and table.gone[model] in each)]


def _hold_one(
    table: Published,
    which: tuple[str, str],
    content: Content,
    folder: Path,
    options: ReproduceOptions,
    limits: Limits,
    trust: Trust,
) -> None:
    from sottovoce.cli.screens.experiment import shown_row
    from sottovoce.experiments.runner import RowRunner, run_experiment
    from sottovoce.experiments.tables.comparison import beside
    from sottovoce.experiments.tables.difference import assumed
    from sottovoce.experiments.tables.saved_figures import keep_figures

    experiment = Experiment.model_validate(content)
    keep_figures(table, *which, folder)
    rows = [name for name in experiment.rows if name in options.row]
    if options.row and not rows:
        return
    try:
        runs, why = run_experiment(experiment, RowRunner(folder, limits, shown_row), names=rows, trust=trust)
    except KeyboardInterrupt as stop:
        raise StoppedError(f"stopped; all messages are kept in {str(folder)!r}, and the same command resumes") from stop
    if options.small:
        print(f"- {', '.join(which)}: {', '.join(runs)}")
    else:
        report = f"{compared(beside(table, *which, runs))}\n\n{assumed(table.error)}"
        show(f"{', '.join(which)}:\n\n{report}\n")
    if why:
        raise StoppedError(f"stopped: {why}; the same command resumes")
    failed = [record.error for run in runs.values() for record in run.records.values() if record.status == "failed"]
    if failed:
        raise SottovoceError(f"{len(failed)} discussions failed, the first one: {failed[0]}")
