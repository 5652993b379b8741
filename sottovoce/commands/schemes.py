"""The schemes: each is a command that runs its discussions; `step` runs one discussion step by step."""

from __future__ import annotations

from sottovoce.commands.group import add_schemes, area, group
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.views.output import Output
from sottovoce.evaluation.views.showing import show
from sottovoce.evaluation.views.stepping import step_through

commands = area()

add_schemes(commands, show, QuestionOptions, Limits, Output)

step = group(commands, "step", "Step through a discussion: see the changes of each step, edit, go back, fork.")
add_schemes(step, step_through, QuestionOptions)
