"""What is wanted of a run: the terminal, one JSON object, a Markdown file, and always a folder that keeps it.

Nothing here imports torch or langgraph before a run is asked for: the command line reads `Output`
to print its help.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.outputs import FORCE, RUN, OutputFile, check_folder

if TYPE_CHECKING:
    from rich.console import Console


class Output(Checked):
    """What is wanted of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")
    save: Path | None = Field(default=None, description="keep the run in this folder, not with those of `runs list`")
    continue_: bool = Field(
        default=False, description="go on with the latest run of this kind that is not over, if any"
    )
    markdown: Path | None = Field(default=None, description="write the transcript to this file")
    force: bool = Field(default=False, description=FORCE)
    show_prompts: bool = Field(default=False, description="print what each agent was asked, too")
    quiet: bool = Field(default=False, description="print the decision alone")
    verbose: bool = Field(default=False, description="tell on stderr what is loaded, read and kept")


def check_places(output: Output) -> OutputFile | None:
    """Refuse a file that must not be written, and a folder that holds another run; return the file, if one is wanted.

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
    """Texts of models are data: nothing in them is markup, an emoji's name or worth a colour."""
    from sottovoce.evaluation.views.readable import ReadableConsole

    return ReadableConsole(markup=False, emoji=False, highlight=False)


def loading(console: Console, output: Output) -> Any:  # Any: a context manager
    """While torch and the models are loaded."""
    from sottovoce.evaluation.views.readable import moves

    live = moves(console) and not output.as_json and not output.quiet
    return (
        console.status("loading", spinner="line" if console.options.ascii_only else "dots") if live else nullcontext()
    )
