"""What foretells failure: `monitor collect`, `train`, `evaluate`, `show`."""

from __future__ import annotations

from sottovoce.commands.group import area, group
from sottovoce.evaluation.views.monitoring import (
    CollectOptions,
    EvaluateOptions,
    ShowOptions,
    TrainOptions,
    show_collection,
    show_evaluation,
    show_monitor,
    show_training,
)
from sottovoce.monitors.settings import Measure
from sottovoce.options import command

commands = area()
monitor = group(commands, "monitor", "Collect what foretells failure, train a monitor on it, evaluate and show it.")
monitor.command("collect", help="Make rows for a monitor from runs that are kept: a row a reply of a local agent.")(
    command(show_collection, CollectOptions, Measure)
)
monitor.command("train", help="Train a monitor on turns of games that failed and games that did not.")(
    command(show_training, TrainOptions)
)
monitor.command("evaluate", help="Tell what a monitor is worth on other games, beside a trigger that throws dice.")(
    command(show_evaluation, EvaluateOptions)
)
monitor.command("show", help="Tell what a monitor is, and what it was fitted on.")(command(show_monitor, ShowOptions))
