"""The commands of `experiment`: run an experiment file, reproduce a paper, and search layers and temperatures.

Nothing here imports torch or langgraph before something runs: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.cli.options import argument
from sottovoce.cli.search_options import LayersOptions, TuneOptions
from sottovoce.core.bounds import Count
from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.outputs import EXPERIMENT, check_folder
from sottovoce.core.text import harmless, one_line
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.report.tables import show
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.job import SAME_COMMAND, check_failures, resumable
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import runs_folder
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.experiments.schema import Content, Experiment
    from sottovoce.experiments.tables.table import Published
    from sottovoce.runs.run import Run

commands = Commands("experiment")
STAND_INS = "stand-ins"
SMALL = "This was a small run on the bundled model: it shows that every row runs, and nothing else. "


class ExperimentOptions(Checked):
    """The experiment, and how much of it to run."""

    model_config = ConfigDict(title="Experiment")

    file: Path = argument("A YAML file of rows and questions, or the folder of an experiment that has started.", "FILE")
    rows: list[str] = Field(default=[], description="Run only this row.")
    limit: Count | None = Field(default=None, ge=1, description="Ask only this many questions, from the first.")
    save: Path | None = Field(
        default=None, description="Save it in this folder, not with the other runs under the file's name."
    )


class ReproduceOptions(Checked):
    """The table or figure, and how much of it to run."""

    model_config = ConfigDict(title="Reproduce")

    name: str | None = argument("A table or figure; if omitted, all are listed.", "NAME", default=None)
    data: Path = Field(default=Path("data"), description="Folder of data sets and of other required files.")
    model: list[str] = Field(default=[], description="Run only this model of the table, by its name there.")
    part: list[str] = Field(default=[], description="Run only this part of the table.")
    row: list[str] = Field(default=[], description="Run only this row.")
    instead: str | None = Field(
        default=None, description="A model to use instead of the table's; the figures are then of another model."
    )
    small: bool = Field(default=False, description="Run everything at a small size, on the bundled model.")
    plan: bool = Field(default=False, description="Print what would run and what is missing for it; run nothing.")
    save: Path | None = Field(
        default=None, description="Save it in this folder, not with the other runs under the table's name."
    )


@commands.add(ExperimentOptions, Limits, Trust)
def run(options: ExperimentOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Run an experiment file, and compare its runs; resumable."""
    # Late: langgraph takes a second, and torch more if a row has to run.
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments.files import check_trusted, read_experiment
    from sottovoce.experiments.runner import RowRunner, run_experiment

    check_installed()
    file, again = options.file, options.file.is_dir()
    few = f"-limit-{options.limit}" if options.limit else ""
    folder = options.save or (file if again else runs_folder() / f"{file.stem}{few}")
    if folder != file:
        check_folder(folder, "--save", EXPERIMENT)
    experiment = read_experiment(file, options.limit)
    check_trusted(experiment, file if again else file.parent, trust)
    with resumable(f"all messages are kept in {str(folder)!r}"):
        runner = RowRunner(folder, limits, shown_row)
        runs, why = run_experiment(experiment, runner, names=options.rows, trust=trust)
    show(report(experiment, runs))
    print(f"{f'stopped: {why}; ' if why else ''}kept in {one_line(str(folder))}")
    check_failures(runs.values())


def report(experiment: Experiment, runs: dict[str, Run]) -> str:
    """Return the comparison of the rows in Markdown, followed by the rows that are not over."""
    from sottovoce.experiments.files import ended
    from sottovoce.report.comparison import compared, waiting

    results = ended(runs)
    against = experiment.against if experiment.against in results else None
    blocks = [harmless(experiment.about.strip()), compared(runs, against).rstrip() if results else ""]
    left = [*waiting(runs), *(f"- `{name}`: not started." for name in experiment.rows if name not in runs)]
    return "\n\n".join(filter(None, [*blocks, "\n".join(left)])) + "\n"


@commands.add(ReproduceOptions, Limits, Trust)
def reproduce(options: ReproduceOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Reproduce a table or figure of a paper, and show published and own numbers side by side."""
    from sottovoce.experiments.schema import choose
    from sottovoce.experiments.tables.table import read_published
    from sottovoce.report.paper_tables import about, listed, planned

    if options.name is None:
        show(listed(options.data))
        return
    published = read_published(options.name)
    choose("row", options.row, published.every_row)
    if options.plan:
        show("\n".join([*about(published), *planned(published, _chosen_parts(published, options), options.data)]))
    else:
        _run_table(options.name, published, options, limits, trust)


def _chosen_parts(published: Published, options: ReproduceOptions) -> list[tuple[str, str]]:
    from sottovoce.experiments.schema import choose

    models = choose("model", options.model, published.models)
    parts = choose("part", options.part, published.parts)
    return [(model, part) for model, part in published.experiments() if model in models and part in parts]


def _run_table(name: str, published: Published, options: ReproduceOptions, limits: Limits, trust: Trust) -> None:
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.experiments.tables.parts import write_stand_ins
    from sottovoce.report.paper_tables import about

    check_installed()
    folder = options.save or runs_folder() / f"{name}{'-small' * options.small}"
    check_folder(folder, "--save", "")
    print("\n".join(about(published)), end="\n\n")
    if options.small:
        write_stand_ins(published, folder / STAND_INS)
    runs = 0
    for key, content in _experiments(published, options, folder):
        _run_part(published, key, content, folder / "-".join(key), options, limits, trust)
        runs += 1
    if not runs:
        raise UsageError(f"nothing of {name!r} can run here; get what is named above, or use --small")
    print(f"{SMALL * options.small}Kept in {one_line(str(folder))}")


def _experiments(
    published: Published, options: ReproduceOptions, folder: Path
) -> Iterator[tuple[tuple[str, str], Content]]:
    """Yield the experiments that can run, by model and part; print a line for each that cannot."""
    from sottovoce.experiments.tables.parts import experiment_of, small_of

    seen: list[Content] = []
    for model, part in _chosen_parts(published, options):
        if not options.small:
            if missing := _missing(published, model, part, options):
                print(f"{model}, {part}: not run: {'; '.join(missing)}\n")
            else:
                yield (model, part), experiment_of(published, model, part, options.data, weights=options.instead)
            continue
        content = small_of(published, model, part, folder / STAND_INS)
        if (same := {**content, "about": ""}) in seen:  # models and data alone differ
            print(f"- {model}, {part}: in small the same as an earlier one")
        else:
            seen.append(same)
            yield (model, part), content


def _missing(published: Published, model: str, part: str, options: ReproduceOptions) -> list[str]:
    """Return what is missing for a model and part; a model that is replaced need not be available."""
    from sottovoce.experiments.tables.parts import missing

    gone = published.gone.get(model) if options.instead else None
    return [line for line in missing(published, model, part, options.data) if gone is None or gone not in line]


def _run_part(
    published: Published,
    key: tuple[str, str],
    content: Content,
    folder: Path,
    options: ReproduceOptions,
    limits: Limits,
    trust: Trust,
) -> None:
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments.runner import RowRunner, run_experiment
    from sottovoce.experiments.schema import Experiment
    from sottovoce.experiments.tables.comparison import assumed, compare_figures
    from sottovoce.experiments.tables.table import save_figures
    from sottovoce.report.paper_tables import compared

    experiment = Experiment.model_validate(content)
    save_figures(published, *key, folder)
    rows = [name for name in experiment.rows if name in options.row]
    if options.row and not rows:
        return
    with resumable(f"all messages are kept in {str(folder)!r}"):
        runs, why = run_experiment(experiment, RowRunner(folder, limits, shown_row), names=rows, trust=trust)
    if options.small:
        print(f"- {', '.join(key)}: {', '.join(runs)}")
    else:
        comparison = f"{compared(compare_figures(published, *key, runs))}\n\n{assumed(published.error)}"
        show(f"{', '.join(key)}:\n\n{comparison}\n")
    if why:
        raise StoppedError(f"stopped: {why}; {SAME_COMMAND} resumes")
    check_failures(runs.values())


@commands.add(LayersOptions, Settings, QuestionOptions, Limits)
def layers(options: LayersOptions, settings: Settings, questions: QuestionOptions, limits: Limits) -> None:
    """Find the best layer for SDE in a model, by trying all or by successive halving; resumable."""
    from sottovoce.cli.search import search_layers

    search_layers(options, settings, questions, limits)


def tune(scheme: str, settings: Settings, questions: QuestionOptions, options: TuneOptions, limits: Limits) -> None:
    """Search the temperatures of the agents that discuss, and print the results."""
    from sottovoce.cli.search import search_temperatures

    search_temperatures(scheme, settings, questions, options, limits)


TUNE = "Search for the best temperatures of the agents, on validation questions; resumable."
commands.add_command(SchemeCommands("tune", TUNE, tune, QuestionOptions, TuneOptions, Limits))
