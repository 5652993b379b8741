"""Where a run goes: the terminal, one JSON object, a Markdown file, and always a folder that keeps it.

Nothing here imports torch or langgraph before a run is asked for: the command line reads `Output`
to print its help.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from sottovoce.checked import Checked
from sottovoce.errors import SottovoceError, UsageError
from sottovoce.evaluation.runs.files import check_writable, write
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions, questions_of
from sottovoce.nodes.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.evaluation.runs.run import Run

LOG = "log.jsonl"


class Output(Checked):
    """What is wanted of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")
    save: Path | None = Field(default=None, description="keep the run in this folder, not on the shelf (`runs list`)")
    continue_: bool = Field(
        default=False, description="go on with the latest run of this kind that is not over, if any"
    )
    markdown: Path | None = Field(default=None, description="write the transcript to this file")
    show_prompts: bool = Field(default=False, description="print what each agent was asked, too")
    quiet: bool = Field(default=False, description="print the decision alone")


def show(scheme: str, settings: Settings, options: QuestionOptions, limits: Limits, output: Output) -> None:
    """Run a scheme on a question or many, and show it as wanted.

    Raises:
        UsageError: the request cannot be met; found before any agent speaks.
        SottovoceError: the run failed, or a discussion of it.
    """
    questions, origin = questions_of(options, settings)
    _check_places(output)
    console = _console()
    with _loading(console, output):
        # Late: torch takes seconds, and what is wrong with the request is told before.
        from sottovoce.evaluation.runs.head import head_of
        from sottovoce.evaluation.runs.starting import begun, continued

        start = continued if output.continue_ else begun
        run = start(head_of(scheme, settings, questions, options.seeds, origin.words), questions, output.save)
    go_on(run, settings, limits, output)


def go_on(run: Run, settings: Settings, limits: Limits, output: Output) -> None:
    """Hold what is not over of a run, and show it. Errors: see `show`."""
    from sottovoce.evaluation.runs.running import hold_all
    from sottovoce.evaluation.views.looking import shown_while

    console, alone = _console(), len(run.records) == 1
    try:
        with shown_while(run, console, output, ", ".join(dict.fromkeys(settings.model))) as observe:
            hold_all(run, settings, run.store(), limits=limits, observe=observe, alone=alone)
    except KeyboardInterrupt:
        if run.folder is not None and run.spoken:
            print(f"sottovoce: what was said is kept; `runs resume {run.folder.name}` goes on", file=sys.stderr)
        raise
    show_run(run, output, console, held=True)


def show_run(run: Run, output: Output, console: Any = None, *, held: bool = False) -> None:  # Any: a rich Console
    """Show a run that ended, as wanted; `held`: it was shown already while it was held.

    Raises:
        SottovoceError: discussions of it failed; said after all else.
    """
    from sottovoce.evaluation.views import looking
    from sottovoce.evaluation.views.markdown import markdown

    console = console or _console()
    if output.as_json:
        sys.stdout.write(looking.json_of(run))
    elif len(run.records) == 1:
        looking.print_one(console, run.only, output, live=held and console.is_terminal)
    else:
        looking.print_many(console, run, output)
    if output.markdown is not None:
        write(output.markdown, "\n".join(map(markdown, run.records.values())))
    failed = [record for record in run.records.values() if record.status == "failed"]
    if failed and len(run.records) > 1:
        raise SottovoceError(
            f"{len(failed)} of {len(run.records)} discussions failed, the first one: {failed[0].error}"
        )


def _check_places(output: Output) -> None:
    if output.save is not None:
        if (output.save / LOG).exists() and not output.continue_:
            raise UsageError(
                f"{str(output.save)!r} holds a run already; choose another folder for --save, or --continue that run"
            )
        check_writable(output.save / LOG, "--save", make=True)
    if output.markdown is not None:
        check_writable(output.markdown, "--markdown")


def _console() -> Console:
    from rich.console import Console

    # Texts of models are data: nothing in them is markup, an emoji's name or worth a colour.
    return Console(markup=False, emoji=False, highlight=False)


def _loading(console: Console, output: Output) -> Any:  # Any: a context manager
    live = console.is_terminal and not output.as_json and not output.quiet
    return console.status("loading") if live else nullcontext()
