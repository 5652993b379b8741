"""Commands for monitors, which predict failure: `monitor collect`, `train`, `evaluate`, `show`."""

from __future__ import annotations

from sottovoce.cli.commands.group import area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens.monitor import (
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

commands = area()
monitor = group(commands, "monitor", "Collect signals of failure, train a monitor on them, evaluate and show it.")
monitor.command(
    "collect", help="Make training rows for a monitor from saved runs: one for each reply of a local agent."
)(command(show_collection, CollectOptions, Measure))
monitor.command("train", help="Train a monitor on turns of games that failed and of games that did not.")(
    command(show_training, TrainOptions)
)
monitor.command("evaluate", help="Evaluate a monitor on other games, and compare it with a random trigger.")(
    command(show_evaluation, EvaluateOptions)
)
monitor.command("show", help="Show a monitor's settings and its training data.")(command(show_monitor, ShowOptions))
