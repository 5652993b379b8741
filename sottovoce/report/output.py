"""The wanted output of a run: the terminal, one JSON object, a Markdown file, and always a folder.

Nothing here imports torch or langgraph before a run is asked for: the command line reads `Output`
to print its help.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import FORCE, RUN, OutputFile, check_folder
from sottovoce.core.validation import Checked

if TYPE_CHECKING:
    from rich.console import Console


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


def console_of() -> Console:
    """Return a console that prints texts of models as data, without markup, emoji names or highlighting."""
    from sottovoce.report.console import ReadableConsole

    return ReadableConsole(markup=False, emoji=False, highlight=False)


def loading(console: Console, output: Output) -> Any:  # Any: a context manager
    """Show a spinner on a terminal while torch and the models are loaded."""
    from sottovoce.report.console import moves

    live = moves(console) and not output.as_json and not output.quiet
    return (
        console.status("loading", spinner="line" if console.options.ascii_only else "dots") if live else nullcontext()
    )
