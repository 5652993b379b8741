"""The schemes: each is a command that runs its discussions on one question or many; `step` runs one step by step.

Nothing here imports torch or langgraph before a run starts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from sottovoce.cli.command import SchemeCommands, doing, typed
from sottovoce.cli.options import Output, as_options
from sottovoce.core.errors import PackageMissing, UsageError, command
from sottovoce.core.files import RUN, check_folder, models_folder
from sottovoce.core.text import one_line, say
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import SMALL, check_trained, knowledge
from sottovoce.graphs import scheme as scheme_of
from sottovoce.nodes.option_groups import named
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits


def run_scheme(scheme: str, settings: Settings, options: QuestionOptions, limits: Limits, output: Output) -> None:
    """Run a scheme on a question or many, and show the run."""
    settings, options, shows = first_look(scheme, settings, options)
    questions, origin = questions_of(options, settings)
    if output.save is not None:
        if (output.save / RUN).exists():
            again = command("runs", "resume", str(output.save))
            raise UsageError(f"{str(output.save)!r} already contains a run; take another, or continue: {again}")
        check_folder(output.save, "--save", RUN)
    if shows and not (output.as_json or output.quiet):
        say(shows, error=True)
    pull_missing(settings)
    title = " · ".join([scheme.replace("_", "-"), settings.protocol, ", ".join(dict.fromkeys(settings.model))])
    from sottovoce.report.tables import console_of, moves

    console = console_of()
    shown = doing(f"{title}: loading ...", console, animated=moves(console) and not output.as_json)
    with nullcontext() if output.quiet else shown, uncollected():
        # Late: torch takes seconds, and errors in the request are reported first.
        from sottovoce.cli.run_screen import run_and_show
        from sottovoce.runs.manifest import new_manifest
        from sottovoce.runs.runner import start_run

        run = start_run(new_manifest(scheme, settings, questions, options.seeds, origin.words), questions, output.save)
    run_and_show(run, settings, limits, output)


def first_look(name: str, settings: Settings, options: QuestionOptions) -> tuple[Settings, QuestionOptions, str]:
    """Return the settings and the sample of a scheme's first discussion if neither a model nor a question was chosen.

    Otherwise they stay as they are. The third value is a line that says what the discussion shows, or empty.

    Raises:
        UsageError: the default model was not trained on the prompts, or an intervention is set and nothing is watched.
    """
    if "intervention" in settings.model_fields_set and not settings.watch:
        raise UsageError("--intervention needs a monitor, but no monitor is set; add --watch, or drop it")
    check_trained(settings, typed())
    record, chosen = scheme_of(name), settings.model_fields_set
    if "model" in chosen or options.chosen or {*settings.names()} <= {*settings.human}:
        return settings, options, ""
    first = {key: value for key, value in record.first.items() if key not in chosen | options.model_fields_set}
    words = as_options(" ".join(f"`{key}='{value}'`" for key, value in first.items()))
    shows = f"{record.command}: {(record.shows or record.summary).rstrip('.')}; on {settings.model[0]}"
    shows = f"{shows}, with {words}" if words else shows if options.sample is None else ""
    sample = first.pop("sample", options.sample)
    if first:
        given = named(first, type(settings).model_fields)
        settings = type(settings).model_validate({**given, **settings.model_dump(exclude_unset=True)})
    options = options if sample is None else options.model_copy(update={"sample": sample})
    return settings, options, shows


def pull_missing(settings: Settings) -> None:
    """Pull the small model of the catalogue if an agent needs it and it is not on this machine.

    Raises:
        PackageMissing: it cannot be fetched.
    """
    if SMALL not in settings.model or {*settings.names()} <= {*settings.human} or (models_folder() / SMALL).is_dir():
        return
    from sottovoce.cli.models import pull_shown
    from sottovoce.report.tables import console_of

    try:
        pull_shown(SMALL, console_of(stderr=True))
    except PackageMissing as error:
        later = f"{command('models', 'pull', SMALL)} gets it later; or name a model of yours with --model"
        raise PackageMissing(f"{error}; {later}") from error


@contextmanager
def uncollected() -> Iterator[None]:
    """Import without the garbage collector: it would search a million permanent objects again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # all are now in the oldest generation, which is hardly ever searched
        gc.enable()


def step_through(scheme: str, settings: Settings, options: QuestionOptions) -> None:
    """Run a discussion of a scheme step by step, by commands from stdin."""
    settings, options, shows = first_look(scheme, settings, options)
    questions, origin = questions_of(options, settings)
    if len(questions) * max(len(options.seeds), 1) > 1:
        raise UsageError("the stepper runs one discussion, but several were requested; give one question and one seed")
    settings = settings.model_copy(update={"seed": options.seeds[0]}) if options.seeds else settings
    if shows:
        say(shows, error=True)
    pull_missing(settings)
    # Late: torch takes seconds, and errors in the request are reported first.
    from sottovoce.cli.stepper import Session, Stops
    from sottovoce.report.tables import console_of
    from sottovoce.runs.runner import payload_store

    console = console_of()
    with payload_store(None) as store:
        stops = Stops(scheme_of(scheme).create(settings, store=store), questions[0])
        source = f" ({origin.words})" if origin.words else ""
        console.print(f"{one_line(questions[0]['question'])}{source}", style="bold", soft_wrap=True)
        for line in knowledge(settings.model, origin.words):
            console.print(line, style="dim", soft_wrap=True)
        Session(console, stops).run()


commands = SchemeCommands("", "", run_scheme, QuestionOptions, Limits, Output)
STEP = "Run a discussion step by step: see the changes of each step, edit, go back, fork."
step = SchemeCommands("step", STEP, step_through, QuestionOptions)
