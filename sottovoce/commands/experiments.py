"""Runs that belong together: `experiment`, `reproduce`, `tune`, `layers`."""

from __future__ import annotations

from functools import partial

from sottovoce.commands.group import REPEAT, area, group
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.runs.trust import Trust
from sottovoce.evaluation.views.experiment import ExperimentOptions, show_experiment
from sottovoce.evaluation.views.reproduction import ReproduceOptions, show_reproduction
from sottovoce.evaluation.views.search import LayersOptions, TuneOptions, show_layers, show_tune
from sottovoce.graphs import schemes
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
for each in schemes():
    tune.command(each.command, help=each.summary, epilog=REPEAT)(
        command(partial(show_tune, each.name), each.settings, QuestionOptions, TuneOptions, Limits)
    )
