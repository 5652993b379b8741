"""The commands of `bridge`: fit a bridge between two models, list bridges, and show one.

Nothing here imports torch before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands
from sottovoce.cli.options import argument
from sottovoce.core.bounds import Count
from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.files import check_folder
from sottovoce.core.text import amount, counted, one_line, say
from sottovoce.core.validation import Checked
from sottovoce.report.tables import bar, console_of, moves, table
from sottovoce.report.tables import show as show_table

if TYPE_CHECKING:
    from sottovoce.channels.bridge_files import Label

commands = Commands("bridge")
FOLDER = Path("bridges")


class FitOptions(Checked):
    """Two models, the texts that both read, and how long the map between them is refined."""

    model_config = ConfigDict(title="Fit")

    sender: str = argument("The model whose messages are mapped: a name, a folder or a .gguf file.", "SENDER")
    receiver: str = argument("The model that reads them.", "RECEIVER")
    texts: Path | None = Field(
        default=None,
        description="A file of passages or questions (as for `data index` or --questions) with texts like those that "
        "agents will read; if not set: the bundled encyclopedia.",
    )
    minutes: float = Field(
        default=5.0,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="Time for the refinement on this machine; reading and the test take fifteen minutes more.",
    )
    steps: Count | None = Field(
        default=None, ge=1, description="Steps of the refinement instead: equal steps give equal bytes."
    )
    seed: int = Field(default=0, ge=0, description="Seed of texts and examples.")
    to: Path | None = Field(default=None, description="Folder to write (default: bridges/SENDER-RECEIVER).")
    resume: bool = Field(default=False, description="Go on with a fit that was stopped, to its number of steps.")
    force: bool = Field(default=False, description="Replace a bridge that is there.")
    dtype: str = Field(default="auto", description="Data type of both models: auto, float32, bfloat16 or float16.")
    device: str = Field(default="auto", description="Device of both models: auto, cpu, cuda, cuda:1, mps, or map.")


class ListOptions(Checked):
    """The folder of bridges."""

    folder: Path = argument("A folder of bridges.", "FOLDER", default=FOLDER)


class ShowOptions(Checked):
    """A bridge."""

    bridge: Path = argument("A folder that `bridge fit` wrote.", "BRIDGE")


@commands.add(FitOptions)
def fit(options: FitOptions) -> None:
    """Fit a bridge between two models, so that kv can connect them, and test what it carries.

    Both read the same texts; a ridge regression and then the receiver's own loss fit a linear map.
    """
    names = [Path(name).name.removesuffix(".gguf") for name in (options.sender, options.receiver)]
    folder = options.to or FOLDER / "-".join(names)
    check_folder(folder, "--to", "")
    with _progress() as report:
        report("loading the models", 0)
        from sottovoce.bridges.fit import STATE, Settings
        from sottovoce.bridges.fit import fit as fitted
        from sottovoce.channels.bridge_files import LABEL
        from sottovoce.models import load

        if options.resume and not (folder / STATE).is_file():
            raise UsageError(f"{str(folder)!r} has no fit that was stopped; leave out --resume, or name its folder")
        if not options.resume and any((folder / name).exists() for name in (STATE, LABEL)) and not options.force:
            raise UsageError(
                f"{str(folder)!r} has a bridge already; add --resume if it was stopped, --force to replace "
                "it, or --to another folder"
            )
        how: dict[str, Any] = {"dtype": options.dtype, "device": options.device}  # Any: `load` checks them
        sender, receiver = (load(name, **how) for name in (options.sender, options.receiver))
        settings = Settings(options.minutes, options.steps, options.seed, options.texts, resume=options.resume)
        before = _modified_at(folder / STATE)
        try:
            label = fitted(sender, receiver, folder, settings, report)
        except KeyboardInterrupt as stop:
            is_kept = _modified_at(folder / STATE) not in (None, None if options.resume else before)
            rest = "the map so far is kept, and --resume goes on" if is_kept else "there is no map yet"
            raise StoppedError(f"stopped; {rest}") from stop
    say(described(folder, label))
    say(f"use it as --protocol kv --bridge {one_line(str(folder))}; `--steps {label.steps}` gives the same bytes again")


def _modified_at(path: Path) -> int | None:
    """Return when a file was written, in nanoseconds; None if there is none."""
    return path.stat().st_mtime_ns if path.is_file() else None


@commands.add(ListOptions)
def list_(options: ListOptions) -> None:
    """List the bridges in a folder."""
    from sottovoce.channels.bridge_files import LABEL, read_label

    found = sorted(path.parent for name in (LABEL, f"*/{LABEL}") for path in options.folder.glob(name))
    if not found:
        say(f"{one_line(str(options.folder))} has no bridges; `bridge fit SENDER RECEIVER` makes one")
        return
    rows = list[tuple[str, str, str, str]]()
    for folder in found:
        try:
            label = read_label(folder)
            ends = one_line(label.sender.name), one_line(label.receiver.name)
            rows.append((str(folder), *ends, carried(label)))
        except UsageError as error:
            rows.append((str(folder), "", "", str(error)))
    show_table(table("bridge | from | to | right with it, with own keys and values", rows))


@commands.add(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a bridge: its models, its fit, and what it carried; its files are checked."""
    from sottovoce.channels.bridge import read_bridge

    say(described(options.bridge, read_bridge(options.bridge).label))


def carried(label: Label) -> str:
    """Return the two figures that matter most: "31 and 33 of 60"."""
    test = label.carried
    return f"{test.bridge} and {test.own} of {test.questions}" if test else "not tested (the fit was stopped)"


def described(folder: Path, label: Label) -> str:
    """Describe a bridge in lines."""
    from sottovoce.channels.bridge_files import TENSORS

    ends, test = (label.sender, label.receiver), label.carried
    lines = [f"{one_line(str(folder))}: {label.about}, {amount((folder / TENSORS).stat().st_size)}"]
    for end, side in zip(("from", "to  "), ends, strict=True):
        shape = f"{side.layers} layers, {side.heads} heads of {side.width}"
        lines.append(f"{end} {one_line(side.name)}: {shape}; weights {side.weights}, vocabulary {side.vocabulary}")
    lines.append(
        f"fit  {counted(label.tokens, 'token')} read, {label.steps} of {label.planned} steps, seed {label.seed}"
    )
    if test is None:
        return "\n".join([*lines, "not tested: the fit was stopped; `bridge fit ... --resume` goes on"])
    lines.append(f"right answers of {test.questions} about one of four facts that only the sender read:")
    for name, right in (
        ("over the bridge", test.bridge),
        ("own keys and values", test.own),
        ("another question's", test.shuffled),
        ("nothing", test.nothing),
    ):
        lines.append(f"  {name:22}{right}")
    return "\n".join(lines)


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """Yield a function that shows what is done now, with the time left; on a pipe, a line for each step."""
    console, last = console_of(stderr=True), ""
    with bar(console) as shown:
        task = shown.add_task("", total=1)

        def report(now: str, share: float) -> None:
            nonlocal last
            if now != last:
                shown.reset(task, description=now, total=1)
                if not moves(console):
                    say(f"{now} ...", error=True)
            last = now
            shown.update(task, completed=min(share, 1.0))

        yield report
