"""The commands of `experiment`: run an experiment file, reproduce a paper, and search layers and temperatures.

Nothing here imports torch or langgraph before something runs: the command line reads the options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.cli.options import argument
from sottovoce.core.bounds import Agents, Count, Few, Rounds
from sottovoce.core.outputs import EXPERIMENT, check_folder
from sottovoce.core.text import harmless, one_line
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.report.tables import show
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.job import check_failures, resumable
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import runs_folder
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.experiments.schema import Experiment
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


SAVE = "Save its runs and results in this folder; the same command resumes there."


class LayersOptions(Checked):
    """Options of the search for layers."""

    model_config = ConfigDict(title="Layers")

    scheme: Literal["ia", "debate"] = Field(default="ia", description="The scheme to run; SDE's authors used ia.")
    halving: bool = Field(
        default=False,
        description="Run a tenth of the discussions: few questions for all layers, more for the better half.",
    )
    agents: Agents | None = Field(default=None, description="Number of agents. If not set: the scheme's.")
    rounds: Rounds | None = Field(default=None, description="Number of rounds. If not set: the scheme's.")
    save: Path = Field(description=SAVE)


class TuneOptions(Checked):
    """Options of the search for temperatures."""

    model_config = ConfigDict(title="Tune")

    trials: Few = Field(default=30, ge=1, description="Number of temperatures to try, as proposed by optuna's TPE.")
    grid: Few | None = Field(
        default=None, ge=2, description="Try this many values for each agent instead, in all combinations."
    )
    from_: float = Field(default=0.05, description="Lowest temperature, a multiple of 0.01.")
    to: float = Field(default=1.5, description="Highest temperature, a multiple of 0.01.")
    objective: Literal["decision", "first"] = Field(
        default="decision",
        description="The answer that is scored: the decision, or the first debater's last answer (CIPHER).",
    )
    validation: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Share of the questions to search on, drawn by --seed; the best is tested once on the rest. "
        "If not set: all questions, without a test.",
    )
    map: bool = Field(
        default=False, description="Draw CIPHER's map for two agents: the first one's last answer in both orders."
    )
    save: Path = Field(description=SAVE)


@commands.add(ExperimentOptions, Limits, Trust)
def run(options: ExperimentOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Run an experiment file, and compare its runs; resumable."""
    # Late: langgraph takes a second, and torch more if a row has to run.
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments.files import check_trusted, read_experiment
    from sottovoce.experiments.folder import FILE
    from sottovoce.experiments.runner import RowRunner, run_experiment

    check_installed()
    file, again = options.file, options.file.is_dir()
    few = f"-limit-{options.limit}" if options.limit else ""
    folder = options.save or (file if again else runs_folder() / f"{file.stem}{few}")
    if folder != file:
        check_folder(folder, "--save", EXPERIMENT)
    experiment = read_experiment(file / FILE if again else file, options.limit)
    check_trusted(experiment, file if again else file.parent, trust)
    with resumable(f"all messages are kept in {str(folder)!r}"):
        runner = RowRunner(folder, limits, shown_row)
        runs, why = run_experiment(experiment, runner, names=options.rows, trust=trust)
    show(report(experiment, runs))
    print(f"{f'stopped: {why}; ' if why else ''}kept in {one_line(str(folder))}")
    check_failures(runs.values())


def report(experiment: Experiment, runs: dict[str, Run]) -> str:
    """Return the comparison of the rows in Markdown, followed by the rows that are not over."""
    from sottovoce.experiments.folder import ended
    from sottovoce.report.comparison import compared, waiting

    results = ended(runs)
    against = experiment.against if experiment.against in results else None
    blocks = [harmless(experiment.about.strip()), compared(runs, against).rstrip() if results else ""]
    left = [*waiting(runs), *(f"- `{name}`: not started." for name in experiment.rows if name not in runs)]
    return "\n\n".join(filter(None, [*blocks, "\n".join(left)])) + "\n"


@commands.add(ReproduceOptions, Limits, Trust)
def reproduce(options: ReproduceOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Reproduce a table or figure of a paper, and show published and own numbers side by side."""
    from sottovoce.cli.reproduce import reproduce_table

    reproduce_table(options, limits, trust)


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
