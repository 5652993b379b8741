"""Commands that start many runs: `experiment run`, `reproduce`, `tune`, `layers`."""

from __future__ import annotations

from sottovoce.cli.commands.group import add_schemes, area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens.experiment import ExperimentOptions, show_experiment
from sottovoce.cli.screens.reproduce import ReproduceOptions, show_reproduction
from sottovoce.cli.screens.search import LayersOptions, TuneOptions, show_layers, show_tune
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.runs.allowed import Trust
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings

commands = area()
experiment = group(commands, "experiment", "Run experiments, reproduce papers, and search settings.")
experiment.command("run", help="Run an experiment file, and compare its runs; resumable.")(
    command(show_experiment, ExperimentOptions, Limits, Trust)
)
experiment.command(
    "reproduce", help="Reproduce a table or figure of a paper, and show published and own numbers side by side."
)(command(show_reproduction, ReproduceOptions, Limits, Trust))
experiment.command(
    "layers", help="Find the best layer for SDE in a model, by trying all or by successive halving; resumable."
)(command(show_layers, LayersOptions, Settings, QuestionOptions, Limits))

tune = group(experiment, "tune", "Search for the best temperatures of the agents, on validation questions; resumable.")
add_schemes(tune, show_tune, QuestionOptions, TuneOptions, Limits)
