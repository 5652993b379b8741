"""Running and showing: a new run, a resumed one, or a finished one.

Nothing here imports torch or langgraph before a run is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sottovoce.cli.screens.verbose import tell_all
from sottovoce.core.errors import SottovoceError, StoppedError, command
from sottovoce.core.outputs import OutputFile
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained
from sottovoce.report.output import Output, check_places, console_of, loading
from sottovoce.runs import run_directory
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.runs.run import Run


def show(scheme: str, settings: Settings, options: QuestionOptions, limits: Limits, output: Output) -> None:
    """Run a scheme on a question or many, and show it as wanted.

    Raises:
        UsageError: the request cannot be met; found before any agent speaks.
        SottovoceError: the run failed, or a discussion of it.
    """
    if output.verbose:
        tell_all()
    check_trained(scheme, settings, options.question)
    questions, origin = questions_of(options, settings)
    file = check_places(output)
    console = console_of()
    with loading(console, output):
        # Late: torch takes seconds, and errors in the request are reported first.
        from sottovoce.runs.manifest import head_of
        from sottovoce.runs.start import begun, continued

        start = continued if output.continue_ else begun
        run = start(head_of(scheme, settings, questions, options.seeds, origin.words), questions, output.save)
    go_on(run, settings, limits, output, file)


def go_on(run: Run, settings: Settings, limits: Limits, output: Output, file: OutputFile | None = None) -> None:
    """Run the unfinished discussions of a run, and show it; `file` receives its transcript. Errors: see `show`."""
    from sottovoce.cli.screens.run_screen import shown_while
    from sottovoce.runs.runner import hold_all

    console, alone = console_of(), len(run.records) == 1
    try:
        with shown_while(run, console, output, ", ".join(dict.fromkeys(settings.model))) as (observe, person):
            hold_all(run, settings, run.store(), limits=limits, observe=observe, alone=alone, person=person)
    except KeyboardInterrupt as stop:
        if run.folder is None or not run.spoken:
            raise
        name = run_directory.name_of(run.folder)
        raise StoppedError(f"stopped; all messages are kept, and {command('runs', 'resume', name)} resumes") from stop
    show_run(run, output, console, held=True, file=file)


def show_run(
    run: Run,
    output: Output,
    console: Any = None,  # Any: a rich Console
    *,
    held: bool = False,
    file: OutputFile | None = None,
) -> None:
    """Show a run that ended; `held` says that it was already shown while it ran; `file` receives its transcript.

    Raises:
        SottovoceError: discussions of it failed; raised after all else.
    """
    from sottovoce.cli.screens import run_screen
    from sottovoce.report.markdown import markdown

    console = console or console_of()
    if output.as_json:
        sys.stdout.write(run_screen.json_of(run))
    elif len(run.records) == 1:
        run_screen.print_one(console, run.only, output, live=held)
    else:
        run_screen.print_many(console, run, output)
    if file is not None:
        file.write("\n".join(map(markdown, run.records.values())))
    if held and run.why:
        name = run_directory.name_of(run.folder) if run.folder else ""
        raise SottovoceError(f"{run.why}; {command('runs', 'resume', name)} resumes, with a higher limit or none")
    failed = [record for record in run.records.values() if record.status == "failed"]
    if failed and len(run.records) > 1:
        raise SottovoceError(
            f"{len(failed)} of {len(run.records)} discussions failed, the first one: {failed[0].error}"
        )
