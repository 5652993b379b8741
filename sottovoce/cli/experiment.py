"""The commands of `experiment`: run an experiment file or a paper's table, list them, search layers and temperatures.

Nothing here imports torch or langgraph before something runs: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.cli.option_models import ExperimentOptions, LayersOptions, ListOptions, TuneOptions
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import EXPERIMENT, check_folder
from sottovoce.core.text import harmless, one_line, shortened
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.report.tables import show, table
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.job import check_failures, resumable
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import runs_folder
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.experiments.schema import Experiment
    from sottovoce.runs.run import Run

commands = Commands("experiment")
LONGEST = 100
"""Letters of a description in the list."""
NAMED = 20
"""Maximum number of runs that are named as not started."""


@commands.add(ExperimentOptions, Limits, Trust)
def run(options: ExperimentOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Run an experiment file, or a paper's table or figure, and compare its runs; resumable."""
    # Late: langgraph takes a second, and torch more if a row has to run.
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments.files import check_trusted, read_experiment, shipped
    from sottovoce.experiments.runner import RowRunner, run_experiment

    check_installed()
    ours = None if options.file.exists() else shipped().get(str(options.file))
    file = ours or options.file
    again = file.is_dir()
    few = f"-limit-{options.limit}" if options.limit else ""
    folder = options.save or (file if again else runs_folder() / f"{file.stem}{few}")
    if folder != file:
        check_folder(folder, "--save", EXPERIMENT)
    experiment = read_experiment(file, options.limit, options.data, options.model)
    if ours is None:
        check_trusted(experiment, file if again else file.parent, trust)
    with resumable(f"all messages are saved in {str(folder)!r}"):
        runner = RowRunner(folder, limits, shown_row)
        runs, why = run_experiment(experiment, runner, names=options.rows, trust=trust)
    show(report(experiment, runs))
    print(f"{f'stopped: {why}; ' if why else ''}saved in {one_line(str(folder))}")
    check_failures(runs.values())


def report(experiment: Experiment, runs: dict[str, Run]) -> str:
    """Return the comparison of the rows in Markdown, followed by the rows that are not over."""
    from sottovoce.experiments.files import ended
    from sottovoce.report.carried import carried, carried_note, carried_table
    from sottovoce.report.comparison import comparison_of, markdown, published_table, waiting

    blocks, results = [harmless(experiment.about.strip())], ended(runs)
    if results:
        against = experiment.baselines
        comparison = comparison_of(runs, None if isinstance(against, str) and against not in results else against)
        if rows := carried(experiment, runs, comparison.runs):
            blocks += [table(*carried_table(experiment, rows)), carried_note(experiment)]
        blocks.append(markdown(comparison).rstrip())
        blocks += [f"{table(*each)}\n\n{assumed}" for each, assumed in published_table(experiment, runs)]
    new = [f"- `{name}`: not started." for name in experiment.rows if name not in runs]
    left = [*waiting(runs), *(new if len(new) <= NAMED else [f"- {len(new)} runs are not started."])]
    return "\n\n".join(filter(None, [*blocks, "\n".join([*left, *notes(experiment)])])) + "\n"


@commands.add(ListOptions)
def list_(options: ListOptions) -> None:
    """List the experiments of this project, and the tables and figures of papers; or describe one."""
    from sottovoce.experiments.files import KIND, read_experiment, shipped
    from sottovoce.settings.plain import read_yaml

    known = shipped()
    if options.name is None:
        lines = []
        for name, path in known.items():
            content = read_yaml(path, KIND, "rows: {alone: {scheme: single}}")
            paper = (content.get("published") or {}).get("paper", "")
            counts = [str(len(content[key])) if key in content else "" for key in ("rows", "points")]
            lines.append([f"`{name}`", paper, *counts, shortened(one_line(content["about"]), LONGEST)])
        show(table("name | paper | rows | points | about", lines))
        return
    if options.name not in known:
        raise UsageError(nearest("experiment", options.name, known))
    experiment = read_experiment(known[options.name])
    rows = dict.fromkeys(row.name for row in experiment.rows.values())
    named = [*(f"- row: `{name}`" for name in rows), *(f"- point: `{name}`" for name in experiment.points)]
    show("\n".join([experiment.about.strip(), "", *named, *notes(experiment)]))


def notes(experiment: Experiment) -> Iterator[str]:
    """Yield the place of published figures and the notes of a file, a line each."""
    if experiment.published:
        yield f"- published: {experiment.published.paper}"
    for name, note in experiment.notes.items():
        listed = [f"{key}: {text}" for key, text in note.items()] if isinstance(note, dict) else note
        for text in listed if isinstance(listed, list) else [listed]:
            yield one_line(f"- {name}: {' '.join(str(text).split())}")


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
