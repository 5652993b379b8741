"""The commands of `runs`: list, show, resume, export, compare, score, analyze, verify and remove saved runs.

Nothing here imports torch before a command needs it: a run that is over is read without a model.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands
from sottovoce.cli.options import Output, OutputFiles, argument
from sottovoce.core.bounds import Count
from sottovoce.core.errors import RecordError, UsageError, command, nearest
from sottovoce.core.files import EXPERIMENT, FORCE, OutputFile, nbytes_of
from sottovoce.core.text import amount, counted, one_line, say
from sottovoce.core.trust import TRUST_PATHS, Trust
from sottovoce.core.validation import Checked
from sottovoce.runs import run_directory
from sottovoce.runs.limits import Currency, Limits
from sottovoce.runs.run_directory import LOG, altered, last_line

if TYPE_CHECKING:
    from sottovoce.runs.run import Run

commands = Commands("runs")
MANY_BYTES = 20_000_000_000
"""The size of all runs above which `runs list` says how to remove some."""
DAY = 24 * 3600
WHICH = "A run's name as `runs list` shows it, or the beginning of one; `latest`; or a folder."
RUN = argument(WHICH, "RUN")
RUNS = argument("Runs, as for `runs show`; an experiment's folder stands for all its runs.", "RUN")


PRICES = Field(
    default=None,
    description="CSV file of prices per million tokens, with the columns model, in, out and, if it differs, cached: "
    "also shows what the models cost.",
)


class Named(Checked):
    """The run to resume."""

    model_config = ConfigDict(title="Run")

    name: str = argument(f"{WHICH} If omitted, the latest that is not over.", "RUN", default="latest")


class ShowOptions(Checked):
    """The run, the discussions of it, and their form."""

    name: str = RUN
    question: str | None = Field(
        default=None, description="Show only the discussion of the question with this id, or 'row 3'."
    )
    seed: int | None = Field(default=None, description="Show only the discussion with this seed.")
    show_prompts: bool = Field(default=False, description="Also print each agent's prompts.")
    prices: Path | None = PRICES
    as_json: bool = Field(default=False, alias="json", description="Print one JSON object on stdout, and nothing else.")


class ExportOptions(Checked):
    """The run, and the file to write."""

    name: str = RUN
    file: Path = argument("The file to write.", "FILE")
    format: str | None = Field(
        default=None,
        description="jsonl (records), csv (results), markdown (transcripts), card, trec, qrels, inspect (EvalLog). "
        "If not set: by the file's name.",
    )
    force: bool = Field(default=False, description=FORCE)


class RunNames(Checked):
    """Several runs."""

    names: list[str] = RUNS


class CompareOptions(RunNames):
    """The runs to compare."""

    against: str | None = Field(default=None, description="Compare each other run with this one, instead of all pairs.")
    matched: Currency | None = Field(
        default=None,
        description="Compare one run with a single agent and with self-consistency at the same cost; starts both as "
        "new runs.",
    )
    prices: Path | None = PRICES
    trust_paths: bool = TRUST_PATHS


class MeasuresOptions(RunNames):
    """The runs to measure."""

    by: Literal["round", "agent", "model", "limit"] | None = Field(
        default=None,
        description="Show only the measures by round, agent, model, or limit (no agreement within N rounds). "
        "If not set: all.",
    )


class ReportOptions(RunNames):
    """The runs to report on, and the page to write."""

    html: Path = Field(default=Path("report.html"), description="The page to write.")
    force: bool = Field(default=False, description=FORCE)


class ScoreOptions(Checked):
    """The run to score again."""

    model_config = ConfigDict(title="Score")

    name: str = RUN
    trust_paths: bool = TRUST_PATHS


class VerifyOptions(Checked):
    """The run to check, and how much of it to run again."""

    name: str = RUN
    again: Count = Field(
        default=3, ge=0, alias="k", description="Number of discussions to run again with their models."
    )
    seed: int = Field(default=0, description="Seed that selects these discussions.")
    no_model: bool = Field(default=False, description="Do not rerun any discussion or load a model.")


class JudgeOptions(Checked):
    """The options that choose a run and its judge."""

    model_config = ConfigDict(title="Judge")

    name: str = argument("A finished run, as for `runs show`.", "RUN", default="latest")
    model: str = Field(default="smollm2", description="Model of the judge, as for --model of a scheme.")


class RemoveOptions(Checked):
    """The runs to remove."""

    names: list[str] = argument("Runs, as for `runs show`.", "[RUN ...]", default=[])
    keep: Count | None = Field(default=None, ge=0, description="Remove all but this many runs that ended last.")
    older_than: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Remove runs that nobody wrote to for this many days."
    )
    yes: bool = Field(default=False, description="Do not ask.")


@commands.add()
def list_() -> None:
    """List saved runs, the newest last; `runs show FOLDER` shows a run that --save put in a folder of its own."""
    folders = run_directory.saved_runs()
    sizes = list(map(nbytes_of, folders))
    for folder, size in zip(folders, sizes, strict=True):
        try:
            summary = _summary(folder)
        except (RecordError, OSError) as error:
            summary = str(error)
        say(one_line(f"{folder.name}  {summary}; {amount(size)}"))
    for file in sorted(run_directory.runs_folder().glob(f"*/{EXPERIMENT}")):
        name, rows = file.parent.name, sorted(log.parent.name for log in file.parent.glob(f"*/{LOG}"))
        sizes.append(nbytes_of(file.parent))
        of = f"{', '.join(rows)}: `runs show {name}/{rows[0]}`" if rows else "no row yet"
        say(one_line(f"{name}  experiment of {of}; {amount(sizes[-1])}"))
    say(
        f"in {run_directory.runs_folder()}: {counted(len(folders), 'run')}, with experiments {amount(sum(sizes))}, "
        "without those of --save FOLDER (`runs show FOLDER`)"
    )
    if sum(sizes) > MANY_BYTES:
        say(f"they take more than {amount(MANY_BYTES)}: `runs remove --keep N` or `--older-than DAYS` removes old ones")


def _summary(folder: Path) -> str:
    """Return a run in one line; for a run that ended, the first and the last line of its log are enough."""
    from sottovoce.cli.run_screen import outcome, title
    from sottovoce.runs.log import ClosingLine, check, encoded
    from sottovoce.runs.run import load_run, read_manifest

    try:
        last = check(encoded(last_line(folder)))
    except ValueError:  # the log has no whole line at its end
        last = None
    if isinstance(last, ClosingLine) and last.counts is not None:
        manifest, counts, status = read_manifest(folder), last.counts, str(last.line)
        notes = [*manifest.missing(), *altered(folder)]
    else:
        run = load_run(folder)  # it is still running, or was killed
        manifest, counts, status, notes = run.manifest, run.counts, str(run.status), run.notes
    return "; ".join([f"{status:8} {title(manifest, counts.discussions)}: {outcome(counts)}", *notes])


@commands.add(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a saved run: its transcript, or the results of its discussions. No model is loaded."""
    from sottovoce.cli.run_screen import show_run

    run = load(options.name)
    store = run.store()  # messages find their payloads while it is open
    rows = {short: question for question, name in run.names.items() for short in (name, name.partition(":")[0])}
    for at, kind, wanted in (
        (0, "question", rows.get(options.question or "", options.question)),  # "row 3"
        (1, "seed", options.seed),
    ):
        if wanted is not None:
            records = {key: record for key, record in run.records.items() if key[at] == wanted}
            if not records:
                known = {str(key[at]) for key in run.records}
                raise UsageError(nearest(kind, wanted, {run.names.get(each, each) for each in known}))
            run.records = records
    if options.seed is not None:  # the questions are counted by the seeds
        run.manifest = run.manifest.model_copy(update={"seeds": [options.seed]})
    run.price(options.prices)
    show_run(run, Output.model_validate({"show_prompts": options.show_prompts, "json": options.as_json}))
    del store


def load(name: str, *, over: bool = True) -> Run:
    """Return a saved run; see `find_run`."""
    from sottovoce.runs.run import load_run  # late: langgraph

    return load_run(run_directory.find_run(name, over=over))


@commands.add(Named, Limits, Output, Trust)
def resume(named: Named, limits: Limits, output: Output, trust: Trust) -> None:
    """Resume a run that was stopped; discussions that failed are tried again."""
    from sottovoce.cli.run_screen import run_and_show
    from sottovoce.runs.runner import resume_run

    run = load(named.name, over=False)
    assert run.folder is not None, "read from there"
    if not run.unfinished:
        show_it = command("runs", "show", run_directory.run_name(run.folder))
        raise UsageError(f"run {str(run.folder)!r} is over; {show_it} shows it")
    begun, what = run.manifest.all_settings(), f"run {str(run.folder)!r}"
    trust.check(begun, what, run.folder.parent)
    settings = trust.applied(begun)
    if settings != begun:
        known = begun.model_dump()
        sandbox = f"the sandbox {known['sandbox']!r}, {'with' if known['unsafe'] else 'without'} --unsafe"
        raise UsageError(f"{what} was started in {sandbox}; resume it there, or start another run")
    run_and_show(resume_run(run, settings=settings), settings, limits, output)


@commands.add(ExportOptions)
def export(options: ExportOptions) -> None:
    """Write a run to a file: records as JSON Lines, results as CSV, transcripts as Markdown, or its card as JSON."""
    from sottovoce.cli.run_export import ENDINGS, exported, format_of

    form = format_of(options.file, options.format)
    file = OutputFile(options.file, "the file", force=options.force, endings=ENDINGS[form])
    run = load(options.name)
    store = run.store()
    file.write(exported(run, form))
    del store
    say(f"{counted(len(run.records), 'discussion')} written as {form} to {one_line(str(options.file))}")


@commands.add(CompareOptions, OutputFiles)
def compare(options: CompareOptions, outputs: OutputFiles) -> None:
    """Compare runs on the questions they share: accuracy with intervals, costs, tests, and a verdict in words."""
    from sottovoce.cli.run_tables import compare_matched, compare_runs
    from sottovoce.report.paper import Files

    files = Files(outputs.to, outputs.plots, outputs.columns, force=outputs.force)
    if options.matched is None:
        compare_runs(options.names, options.against, files, options.prices)
    else:
        trust = Trust(trust_paths=options.trust_paths)
        compare_matched(options.names, options.matched, trust, files, options.prices)


@commands.add(MeasuresOptions)
def measures(options: MeasuresOptions) -> None:
    """Show how discussion changed answers: accuracy, agreement, flips, kinds of error, and quality of retrieval."""
    from sottovoce.cli.run_tables import show_measures

    show_measures(options.names, options.by)


@commands.add(ScoreOptions)
def score(options: ScoreOptions) -> None:
    """Read a run's replies again with this version's readers and scorers, and show its scores beside those recorded."""
    from sottovoce.cli.run_tables import show_scores

    show_scores(options.name, Trust(trust_paths=options.trust_paths))


@commands.add(ReportOptions)
def report(options: ReportOptions) -> None:
    """Write one HTML page about runs: tables, plots, and every message with its payload. It opens in any browser."""
    file = OutputFile(options.html, "--html", force=options.force, endings=(".html", ".htm"))
    from sottovoce.report.comparison import gathered
    from sottovoce.report.report import report as page  # late: matplotlib takes seconds

    sources = gathered(options.names)
    file.write(page(sources, force=options.force))
    if sources.unfinished:
        say(one_line(sources.unfinished))
    about = f"{counted(len(sources.runs), 'run')}, {counted(sources.ended[0], 'discussion')}"
    say(f"report of {about}: {one_line(str(options.html))} ({amount(options.html.stat().st_size)})")


@commands.add(VerifyOptions, Trust)
def verify(options: VerifyOptions, trust: Trust) -> int:
    """Check a saved run: the order and digests of its log, its payloads, and some discussions, which run again."""
    from sottovoce.verify.checks import verify as check_run

    verified = check_run(load(options.name), 0 if options.no_model else options.again, options.seed, trust)
    for note in verified.notes:
        say(one_line(f"note: {note}"))
    for finding in verified.findings:
        say(one_line(f"FINDING {finding}"))
    checked = f"{counted(verified.discussions, 'discussion')}, {counted(verified.messages, 'message')}"
    say(f"verified: {checked}, {verified.reruns} re-run; {counted(len(verified.findings), 'finding')}")
    return 1 if verified.findings else 0


@commands.add(JudgeOptions, Limits)
def judge(options: JudgeOptions, limits: Limits) -> None:
    """Let a model judge whether a run's answers are right, and show how far raters agree; resumable."""
    from sottovoce.cli.run_tables import judge_run

    judge_run(options.name, options.model, limits)


@commands.add(RemoveOptions)
def remove(options: RemoveOptions) -> None:
    """Remove runs by name, or old ones, after asking at a terminal; runs in folders that you chose stay."""
    chosen = _old(options.keep, options.older_than)
    if bool(options.names) == (chosen is not None):
        raise UsageError("runs remove takes runs, or --keep N and --older-than DAYS; give runs or one of these")
    folders = chosen or [run_directory.find_run(name) for name in options.names]
    asks = sys.stdin.isatty() and not options.yes
    if folders and (chosen or asks):
        say(one_line(f"{', '.join(folder.name for folder in folders)}: {amount(sum(map(nbytes_of, folders)))}"))
        if asks and input(f"Remove {counted(len(folders), 'run')}? [y/N] ").strip().lower() not in ("y", "yes"):
            folders = []
    run_directory.remove(folders)
    say(f"{len(folders)} removed, {len(run_directory.saved_runs())} left in {run_directory.runs_folder()}")


def _old(keep: int | None, days: float | None) -> list[Path] | None:
    """Return the runs that are not among the newest, not young and not in use; None if neither option is given."""
    if keep is None and days is None:
        return None
    before = time.time() - (days or 0) * DAY
    newest = sorted(run_directory.saved_runs(), key=run_directory.last_written, reverse=True)
    old = [folder for folder in newest[keep or 0 :] if run_directory.last_written(folder) <= before]
    return [folder for folder in old if not run_directory.in_use(folder)]
