"""The schemes: each is a command that runs its discussions on one question or many; `step` runs one step by step.

Nothing here imports torch or langgraph before a run starts.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from sottovoce.cli.command import SchemeCommands, typed
from sottovoce.cli.options import Output
from sottovoce.core.errors import UsageError, command
from sottovoce.core.files import RUN, check_folder
from sottovoce.core.text import one_line
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained, knowledge
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits


def run_scheme(scheme: str, settings: Settings, options: QuestionOptions, limits: Limits, output: Output) -> None:
    """Run a scheme on a question or many, and show the run."""
    check_trained(scheme, settings, typed(), asks=options.chosen)
    questions, origin = questions_of(options, settings)
    if output.save is not None:
        if (output.save / RUN).exists():
            again = command("runs", "resume", str(output.save))
            raise UsageError(f"{str(output.save)!r} already contains a run; take another, or continue: {again}")
        check_folder(output.save, "--save", RUN)
    title = " · ".join([scheme.replace("_", "-"), settings.protocol, ", ".join(dict.fromkeys(settings.model))])
    with _loading(output, title):
        # Late: torch takes seconds, and errors in the request are reported first.
        from sottovoce.cli.run_screen import run_and_show
        from sottovoce.runs.manifest import new_manifest
        from sottovoce.runs.runner import start_run

        run = start_run(new_manifest(scheme, settings, questions, options.seeds, origin.words), questions, output.save)
    run_and_show(run, settings, limits, output)


def _loading(output: Output, title: str) -> Any:  # Any: a context manager
    from sottovoce.report.tables import console_of, moves

    console = console_of()
    if not moves(console) or output.as_json or output.quiet:
        return nullcontext()
    return console.status(one_line(f"{title}: loading"), spinner="line" if console.options.ascii_only else "dots")


def step_through(scheme: str, settings: Settings, options: QuestionOptions) -> None:
    """Run a discussion of a scheme step by step, by commands from stdin."""
    check_trained(scheme, settings, typed(), asks=options.chosen)
    questions, origin = questions_of(options, settings)
    if len(questions) * max(len(options.seeds), 1) > 1:
        raise UsageError("the stepper takes one discussion, and several were requested; give one question and one seed")
    settings = settings.model_copy(update={"seed": options.seeds[0]}) if options.seeds else settings
    # Late: torch takes seconds, and errors in the request are reported first.
    from sottovoce.cli.stepper import Session, Stops
    from sottovoce.graphs import scheme as scheme_named
    from sottovoce.report.tables import console_of
    from sottovoce.runs.runner import payload_store

    console = console_of()
    with payload_store(None) as store:
        stops = Stops(scheme_named(scheme).create(settings, store=store), questions[0])
        source = f" ({origin.words})" if origin.words else ""
        console.print(f"{one_line(questions[0]['question'])}{source}", style="bold", soft_wrap=True)
        for line in knowledge(settings.model, origin.words):
            console.print(line, style="dim", soft_wrap=True)
        Session(console, stops).run()


commands = SchemeCommands("", "", run_scheme, QuestionOptions, Limits, Output)
STEP = "Run a discussion step by step: see the changes of each step, edit, go back, fork."
step = SchemeCommands("step", STEP, step_through, QuestionOptions)
