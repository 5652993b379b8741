"""The schemes: each is a command that runs its discussions; `step` runs one discussion step by step."""

from __future__ import annotations

from sottovoce.cli.commands.group import add_schemes, area, group
from sottovoce.cli.screens.discuss import show
from sottovoce.cli.screens.step import step_through
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.report.output import Output
from sottovoce.runs.limits import Limits

commands = area()

add_schemes(commands, show, QuestionOptions, Limits, Output)

step = group(commands, "step", "Step through a discussion: see the changes of each step, edit, go back, fork.")
add_schemes(step, step_through, QuestionOptions)
