"""Where a run goes: the terminal, one JSON object, a Markdown file, a folder that keeps it.

Nothing here imports torch or langgraph before a run is asked for: the command line reads `Output`
to print its help.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from pydantic import ConfigDict, Field

from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.files import FILE, check_writable, write
from sottovoce.evaluation.runs.question import QuestionOptions, question_of
from sottovoce.nodes.settings import Settings


class Output(Checked):
    """What is wanted of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")
    save: Path | None = Field(default=None, description="keep the run in this folder: run.json and its payloads")
    markdown: Path | None = Field(default=None, description="write the transcript to this file")
    show_prompts: bool = Field(default=False, description="print what each agent was asked, too")
    quiet: bool = Field(default=False, description="print the decision alone")


def show(scheme: str, settings: Settings, options: QuestionOptions, output: Output) -> None:
    """Record a scheme on a question, and show it as wanted.

    Raises:
        UsageError: the request cannot be met; found before any agent speaks.
        SottovoceError: the run failed.
    """
    question, origin = question_of(options, settings)
    if output.save is not None:
        if (output.save / FILE).exists():
            raise UsageError(f"{str(output.save)!r} holds a run already; choose another folder for --save")
        check_writable(output.save / FILE, "--save", make=True)
    if output.markdown is not None:
        check_writable(output.markdown, "--markdown")
    from rich.console import Console

    # Texts of models are data: nothing in them is markup, an emoji's name or worth a colour.
    console = Console(markup=False, emoji=False, highlight=False)
    live = console.is_terminal and not output.as_json and not output.quiet
    with console.status("loading") if live else nullcontext():
        # Late: torch takes seconds, and what is wrong with the request is told before.
        from sottovoce.evaluation.runs.running import Task, hold, payloads
        from sottovoce.evaluation.views import parts, transcript
        from sottovoce.evaluation.views.live import LiveTranscript
        from sottovoce.evaluation.views.markdown import markdown
    waiting = f"loading {', '.join(dict.fromkeys(settings.model))}"
    view = LiveTranscript(console, waiting, prompts=output.show_prompts) if live else None
    with payloads(output.save) as store:
        with view or nullcontext():
            task = Task(scheme, settings, question, origin)
            run = hold(task, store, folder=output.save, observe=view.observe if view else None)
        if output.as_json:
            sys.stdout.write(run.to_json())
        elif output.quiet:
            console.print(*transcript.lines(parts.ending(run))[:-1], sep="\n")  # without what it cost
        elif live:
            console.print(transcript.ending(console, run))
        else:
            transcript.print_run(console, run, prompts=output.show_prompts)
        if output.markdown is not None:
            write(output.markdown, markdown(run))
