"""The commands of `experiment`: run an experiment file or a paper's table, list them, search layers and temperatures.

Nothing here imports torch or langgraph before something runs: the command line reads the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from sottovoce.analysis.statistics import check_installed, mean, share
from sottovoce.channels import PROTOCOLS
from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.cli.options import OutputFiles, argument
from sottovoce.cli.schemes import first_look, pull_missing
from sottovoce.core.any_types import Keywords, Untyped
from sottovoce.core.bounds import Agents, Count, Few, Rounds
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import EXPERIMENT, check_folder
from sottovoce.core.text import figure, harmless, one_line, say, shortened
from sottovoce.core.trust import NO_TRUST, Trust
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.graphs import scheme as scheme_named
from sottovoce.nodes.settings import Settings, pairs
from sottovoce.report.tables import interval, share_cells, show, table
from sottovoce.runs.limits import Limits, resumable
from sottovoce.runs.run_directory import runs_folder

if TYPE_CHECKING:
    from sottovoce.experiments.rows import Row
    from sottovoce.experiments.schema import Experiment
    from sottovoce.report.paper import Findings
    from sottovoce.runs.run import Run

commands = Commands("experiment")
LONGEST = 100
"""Letters of a description in the list, and of what a folder's name says of changes."""
UNSAFE = re.compile(r"[^\w.-]+")
"""Letters that are replaced in a folder's name."""
NAMED = 20
"""Maximum number of runs that are named as not started."""
LISTED = 10
"""Number of trials in the table; all are in trials.csv."""


class ExperimentOptions(Checked):
    """The experiment, and how much of it to run."""

    model_config = ConfigDict(title="Experiment")

    file: Path = argument(
        "A YAML file of rows and questions, a started experiment's folder, or a name that `experiment list` shows.",
        "FILE",
    )
    rows: list[str] = Field(
        default=[], description="Run only this row: ROW at all its points, ROW.POINT, or a pattern: '*.POINT'."
    )
    limit: Count | None = Field(default=None, ge=1, description="Number of questions to ask, from the first.")
    data: Path = Field(default=Path("data"), description="Folder of data sets, which a file calls {data}.")
    model: str | None = Field(default=None, description="As --set model=MODEL, for all agents.")
    set_: Annotated[dict[str, Keywords], BeforeValidator(pairs)] = Field(
        default={},
        alias="set",
        description="NAME=VALUE: a setting of all rows, in place of the file's: --set model=smollm2.",
    )
    save: Path | None = Field(
        default=None, description="Save the experiment in this folder, not beside the other runs."
    )


class ListOptions(Checked):
    """The experiment to describe."""

    name: str | None = argument("An experiment; if omitted, all are listed.", "NAME", default=None)


SAVE = "Save its runs and results in this folder; the same command resumes there."


class LayersOptions(Checked):
    """Options of the search for layers."""

    model_config = ConfigDict(title="Layers")

    scheme: Literal["ia", "debate"] = Field(default="ia", description="The scheme to run; SDE's authors used ia.")
    halving: bool = Field(
        default=False,
        description="Ask few questions with all layers, and more only with the best quarter (successive halving).",
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
    save: Path = Field(description=SAVE)


@commands.add(ExperimentOptions, OutputFiles, Limits, Trust)
def run(options: ExperimentOptions, outputs: OutputFiles, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Run an experiment file, or a paper's table or figure, and compare its runs; resumable."""
    # Late: langgraph takes a second, and torch more if a row has to run.
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.cli.run_tables import show_findings
    from sottovoce.experiments.files import check_data, check_trusted, read_experiment, shipped
    from sottovoce.experiments.runner import RowRunner, run_experiment
    from sottovoce.report.paper import Files
    from sottovoce.runs.runner import check_failures

    check_installed()
    files = Files(outputs.to, outputs.plots, outputs.columns, force=outputs.force)
    ours = None if options.file.exists() else shipped().get(str(options.file))
    file = ours or options.file
    again = file.is_dir()
    settings = {**({"model": options.model} if options.model else {}), **options.set_}
    changed = {**({"limit": options.limit} if options.limit else {}), **settings}
    suffix = "".join(f"-{name}-{value}" for name, value in changed.items())
    folder = options.save or (file if again else runs_folder() / f"{file.stem}{UNSAFE.sub('-', suffix)[:LONGEST]}")
    if folder != file:
        check_folder(folder, "--save", EXPERIMENT)
    experiment = read_experiment(file, options.limit, options.data, settings)
    check_data(experiment, options.rows)
    if ours is None:
        check_trusted(experiment, file if again else file.parent, trust, settings)
    with resumable(f"all messages are saved in {str(folder)!r}"):
        runner = RowRunner(folder, limits, shown_row)
        runs, why = run_experiment(experiment, runner, names=options.rows, trust=trust)
    show_findings(runs, findings_of(experiment, runs, force=outputs.force), files)
    say(f"{f'stopped: {why}; ' if why else ''}saved in {one_line(str(folder))}")
    check_failures(runs.values())


def findings_of(experiment: Experiment, runs: dict[str, Run], *, force: bool = False) -> Findings:
    """Return the comparison of the rows (see `compare`), followed by unfinished rows and the notes of the file."""
    from sottovoce.report.paper import findings

    new = [f"- `{name}`: not started." for name in experiment.rows if name not in runs]
    new = new if len(new) <= NAMED else [f"- {len(new)} runs are not started."]
    found = findings(runs, experiment.baselines, experiment, [*new, *notes(experiment)], force=force)
    return replace(found, parts=[harmless(experiment.about.strip()), *found.parts])


@commands.add(ListOptions)
def list_(options: ListOptions) -> None:
    """List the experiments of this project, and the tables and figures of papers; or describe one."""
    from sottovoce.core.files import read_yaml
    from sottovoce.experiments.files import KIND, read_experiment, shipped

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
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments import search as searches

    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    if values.get("layers"):
        raise UsageError("--layers was given, but this search chooses the layers; drop it")
    if "layers" not in PROTOCOLS[values.setdefault("protocol", "sde")].Options.model_fields:
        raise UsageError(f"protocol is {values['protocol']!r}, which reads no layers; expected sde or hidden")
    values |= options.model_dump(include={"agents", "rounds"}, exclude_none=True)
    row = _prepared(options.scheme, scheme_named(options.scheme).settings.model_validate(values), questions)
    with resumable(f"all messages are saved in {str(options.save)!r}"):
        search = searches.Search(options.save, row, limits, shown_row)
        study = searches.layers(search, halving=options.halving)
    ranked = sorted(study.trials, key=lambda trial: (-len(trial.user_attrs["scores"]), -trial.value))
    asked = sum(len(trial.user_attrs["scores"]) for trial in ranked)
    share_of_all = asked / len(ranked) / len(row.questions)
    cells = (_layer_cells(trial, search.clusters) for trial in ranked)
    ranking = table("layer | questions | score | 95 % | EM | F1", cells)
    use = f"use it with `--layers {study.best_params['layer']}`"
    show(ranking, "\n".join([f"{asked:,} discussions, {share_of_all:.0%} of all", *_ties(study), use]))
    say(f"saved in {one_line(str(options.save))}")


def _layer_cells(trial: Untyped, clusters: Sequence[str]) -> list[str]:
    scores, parts = trial.user_attrs["scores"], trial.user_attrs["parts"]
    score, asked = mean(scores, clusters[: len(scores)], shares=not parts), len({*clusters[: len(scores)]})
    halves = [figure(sum(half) / len(half)) for half in zip(*parts, strict=True)] or ["", ""]
    return [_chosen(trial), str(asked), figure(score.value), interval(score.low, score.high), *halves]


def tune(scheme: str, settings: Settings, questions: QuestionOptions, options: TuneOptions, limits: Limits) -> None:
    """Search the temperatures of the agents that discuss, and print the best."""
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments import search as searches

    row = _prepared(scheme, settings, questions)
    with resumable(f"all messages are saved in {str(options.save)!r}"):
        search = searches.Search(options.save, row, limits, shown_row)
        study = searches.tune(search, options.from_, options.to, options.grid, options.trials)
    ranked = sorted(study.trials, key=lambda trial: -trial.value)
    scores = ((trial, share(trial.user_attrs["scores"], search.clusters)) for trial in ranked[:LISTED])
    ranking = table("temperatures | score | 95 %", ([_chosen(trial), *share_cells(score)] for trial, score in scores))
    warning = "the best of many trials looks better than it is; test it on questions that no trial saw"
    use = " ".join(f"--temperature {value:g}" for value in study.best_params.values())
    show(ranking, "\n".join([warning, *_ties(study), f"use it with `{use}`"]))
    say(f"saved in {one_line(str(options.save))}")


def _chosen(trial: Untyped) -> str:
    """Return a trial's layer or temperatures."""
    return ", ".join(f"{value:g}" for value in trial.params.values())


def _ties(study: Untyped) -> list[str]:
    best = dict.fromkeys(map(_chosen, study.best_trials))  # none of those that halving stopped
    return [f"equally good on these questions: {'; '.join(best)}"] if len(best) > 1 else []


def _prepared(scheme: str, settings: Settings, source: QuestionOptions) -> Row:
    from sottovoce.experiments.rows import Row

    check_installed()
    settings, source, _ = first_look(scheme, settings, source)
    questions, origin = questions_of(source, settings)
    if source.seeds:
        raise UsageError("--seeds were given; a search asks each question once, under --seed")
    pull_missing(settings)
    return Row("", scheme, settings, questions, [settings.seed], origin.words)


TUNE = "Search for the best temperatures of the agents; resumable."
commands.add_command(SchemeCommands("tune", TUNE, tune, QuestionOptions, TuneOptions, Limits))
