"""The schemes: each is a command that holds discussions of it; `step` goes through one step by step."""

from __future__ import annotations

from functools import partial

from sottovoce.commands.group import REPEAT, area, group
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.views.output import Output
from sottovoce.evaluation.views.showing import show
from sottovoce.evaluation.views.stepping import step_through
from sottovoce.graphs import schemes
from sottovoce.options import command

commands = area()

for each in schemes():
    commands.command(each.command, help=each.summary, epilog=REPEAT)(
        command(partial(show, each.name), each.settings, QuestionOptions, Limits, Output)
    )

step = group(commands, "step", "Step through a discussion: see what each step changes, edit, go back, fork.")
for each in schemes():
    step.command(each.command, help=each.summary, epilog=REPEAT)(
        command(partial(step_through, each.name), each.settings, QuestionOptions)
    )
