"""Where a run goes: the terminal, one JSON object, a Markdown file, a folder that keeps it.

Nothing here imports torch or langgraph before a run is asked for: the command line reads `Output`
to print its help.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.nodes.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.evaluation.question import Asked
    from sottovoce.evaluation.record import Run
    from sottovoce.evaluation.run import Watch


class Output(BaseModel):
    """What is wanted of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Output")

    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")
    save: Path | None = Field(default=None, description="keep the run in this folder: run.json and its payloads")
    markdown: Path | None = Field(default=None, description="write the transcript to this file")
    quiet: bool = Field(default=False, description="print the decision alone")


def show(scheme: str, settings: Settings, asked: Asked, output: Output) -> None:
    """Run a scheme on what was asked, and show it as wanted.

    Raises:
        UsageError: the request cannot be met; found before any agent speaks.
        SottovoceError: the run failed.
    """
    console = _console()
    live = console.is_terminal and not output.as_json and not output.quiet
    with console.status("loading") if live else nullcontext():
        from sottovoce.evaluation.question import question_of

        question, origin = question_of(asked, settings)
        _check(output)
        # Late: torch takes seconds, and what is wrong with the request is told before.
        from sottovoce.evaluation.run import Task, discuss, payloads
    task = Task(scheme, settings, question, origin)
    with payloads(output.save) as store:
        with _watching(console, settings) if live else nullcontext() as watch:
            run = discuss(task, store, folder=output.save, watch=watch)
        _print(console, run, output, live=live)
        if output.markdown is not None:
            _write(run, output.markdown)


@contextmanager
def _watching(console: Console, settings: Settings) -> Iterator[Watch]:
    from sottovoce.evaluation.live import LiveTranscript

    with LiveTranscript(console, f"loading {', '.join(dict.fromkeys(settings.model))}") as transcript:
        yield transcript.watch


def _check(output: Output) -> None:
    """What could not be written at the end is refused at the beginning."""
    from sottovoce.evaluation.record import check_free, check_writable

    if output.save is not None:
        check_free(output.save)
    if output.markdown is not None:
        check_writable(output.markdown, "--markdown")


def _print(console: Console, run: Run, output: Output, *, live: bool) -> None:
    from sottovoce.evaluation import transcript

    if output.as_json:
        sys.stdout.write(run.to_json())
    elif output.quiet:
        console.print(transcript.decision(run))
    elif live:
        console.print(transcript.ending(console, run))
    else:
        transcript.print_run(console, run)


def _write(run: Run, path: Path) -> None:
    from sottovoce.evaluation.markdown import markdown
    from sottovoce.evaluation.record import write

    write(path, markdown(run))


def _console() -> Console:
    from rich.console import Console

    # Texts of models are data: nothing in them is markup, an emoji's name or worth a colour.
    return Console(markup=False, emoji=False, highlight=False)
