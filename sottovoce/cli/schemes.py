"""The schemes: each is a command that runs its discussions on one question or many.

Nothing here imports torch or langgraph before a run starts.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from sottovoce.cli.command import SchemeCommands
from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import FORCE, RUN, OutputFile, check_folder
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings


class Output(Checked):
    """The wanted output of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="Print one JSON object on stdout, and nothing else.")
    save: Path | None = Field(default=None, description="Save the run in this folder, not with those of `runs list`.")
    continue_: bool = Field(default=False, description="Resume the latest unfinished run of this kind, if any.")
    markdown: Path | None = Field(default=None, description="Write the transcript to this file.")
    force: bool = Field(default=False, description=FORCE)
    show_prompts: bool = Field(default=False, description="Also print the prompt of each message.")
    quiet: bool = Field(default=False, description="Print only the decision.")
    verbose: bool = Field(default=False, description="Log on stderr what is loaded, read and saved.")


def check_places(output: Output) -> OutputFile | None:
    """Check that the wanted file can be written and the folder has no other run; return the file, if one is wanted.

    Raises:
        UsageError: names the option.
    """
    if output.save is not None:
        if (output.save / RUN).exists() and not output.continue_:
            raise UsageError(
                f"{str(output.save)!r} holds a run already; choose another folder for --save, or --continue that run"
            )
        check_folder(output.save, "--save", RUN)
    if output.markdown is None:
        return None
    return OutputFile(output.markdown, "--markdown", force=output.force, endings=(".md", ".markdown", ".txt"))


def run_scheme(scheme: str, settings: Settings, options: QuestionOptions, limits: Limits, output: Output) -> None:
    """Run a scheme on a question or many, and show the run.

    Raises:
        UsageError: the request cannot be met; raised before any agent speaks.
        SottovoceError: the run failed, or a discussion of it.
    """
    check_trained(scheme, settings, options.question)
    questions, origin = questions_of(options, settings)
    file = check_places(output)
    with _loading(output):
        # Late: torch takes seconds, and errors in the request are reported first.
        from sottovoce.cli.run_screen import run_and_show
        from sottovoce.runs.manifest import new_manifest
        from sottovoce.runs.start import continue_run, start_run

        start = continue_run if output.continue_ else start_run
        run = start(new_manifest(scheme, settings, questions, options.seeds, origin.words), questions, output.save)
    run_and_show(run, settings, limits, output, file)


def _loading(output: Output) -> Any:  # Any: a context manager
    """Show a spinner on a terminal while torch and the models are loaded."""
    from sottovoce.report.console import console_of, moves

    console = console_of()
    live = moves(console) and not output.as_json and not output.quiet
    return (
        console.status("loading", spinner="line" if console.options.ascii_only else "dots") if live else nullcontext()
    )


commands = SchemeCommands("", "", run_scheme, QuestionOptions, Limits, Output)
