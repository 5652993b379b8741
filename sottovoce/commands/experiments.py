"""Runs that belong together: `experiment`, `reproduce`, `tune`, `layers`."""

from __future__ import annotations

from sottovoce.commands.group import add_schemes, area, group
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.runs.trust import Trust
from sottovoce.evaluation.views.experiment import ExperimentOptions, show_experiment
from sottovoce.evaluation.views.reproduction import ReproduceOptions, show_reproduction
from sottovoce.evaluation.views.search import LayersOptions, TuneOptions, show_layers, show_tune
from sottovoce.nodes.settings import Settings
from sottovoce.options import command

commands = area()
commands.command("experiment", help="Hold runs that belong together, as a file has them, and compare them; resumable.")(
    command(show_experiment, ExperimentOptions, Limits, Trust)
)
commands.command(
    "reproduce", help="Hold a table or figure of the papers, and set published and obtained side by side."
)(command(show_reproduction, ReproduceOptions, Limits, Trust))
commands.command(
    "layers", help="Find the layer that SDE reads and edits best in a model: all, or by successive halving; resumable."
)(command(show_layers, LayersOptions, Settings, QuestionOptions, Limits))

tune = group(commands, "tune", "Search the temperatures of those who discuss, on a validation part; resumable.")
add_schemes(tune, show_tune, QuestionOptions, TuneOptions, Limits)
