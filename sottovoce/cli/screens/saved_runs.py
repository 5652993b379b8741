"""The commands of `runs`: list, show, resume, export and remove saved runs.

Nothing here imports torch before a command needs it: a run that is over is read without a model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ConfigDict, Field

from sottovoce.cli.screens.discuss import go_on, show_run
from sottovoce.cli.screens.verbose import tell_all
from sottovoce.core.errors import RecordError, UsageError, choose, command
from sottovoce.core.outputs import EXPERIMENT, OutputFile
from sottovoce.core.text import counted, one_line
from sottovoce.core.validation import Checked
from sottovoce.report.output import Output, check_places
from sottovoce.report.tables import show
from sottovoce.retrievers.trec import read_qrels
from sottovoce.runs import run_directory
from sottovoce.runs.allowed import Trust
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import LOG, last_line
from sottovoce.runs.results import table

if TYPE_CHECKING:
    from sottovoce.runs.run import Run

FORMS = {".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl", ".ndjson": "jsonl", "": "jsonl"}
FORMS |= {".trec": "trec", ".qrels": "qrels"}
"""Formats by the ending of the file, except for a file named card.json."""
ENDINGS = {
    "csv": (".csv",),
    "markdown": (".md", ".markdown", ".txt"),
    "jsonl": (".jsonl", ".ndjson"),
    "card": (".json",),
    "trec": (".trec", ".run", ".txt"),
    "qrels": (".qrels", ".txt"),
}
CARD = "card.json"


def list_runs() -> None:
    """Print a line for each saved run, the newest last."""
    folders = run_directory.kept()
    for folder in folders:
        try:
            told = _told(folder)
        except RecordError as error:
            told = str(error)
        typer.echo(f"{folder.name}  {one_line(told)}")
    for file in sorted(run_directory.shelf().glob(f"*/{EXPERIMENT}")):
        rows = sorted(log.parent.name for log in file.parent.glob(f"*/{LOG}"))
        typer.echo(f"{file.parent.name}  experiment of {', '.join(rows) or 'no row yet'}: `runs show NAME/ROW`")
    typer.echo(f"in {run_directory.shelf()}: {len(folders)} runs; beyond {run_directory.KEPT} the oldest are removed")


def _told(folder: Path) -> str:
    """Return a run in one line; for a run that ended, the first and the last line of its log are enough."""
    from sottovoce.cli.screens.run_screen import outcome, title
    from sottovoce.runs.log_lines import wrong_in
    from sottovoce.runs.read import head_in, load_run
    from sottovoce.runs.run import Counts

    last = last_line(folder)
    if isinstance(last.get("counts"), dict) and not wrong_in(json.dumps(last).encode()):
        head, status, counts = head_in(folder), last["line"], Counts.model_validate(last["counts"])
    else:  # it is still running, or was killed
        run = load_run(folder)
        head, status, counts = run.head, run.status, run.counts
    return f"{status:8} {title(head, counts.discussions)}: {outcome(counts)}"


def show_kept_run(name: str, question: str | None, seed: int | None, output: Output) -> None:
    """Show a run as when it ended; of many discussions those on `question` or under `seed`, or all in a table.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: it has no such question or seed.
    """
    from sottovoce.runs.read import load_run

    run = load_run(run_directory.folder_of(name))
    store = run.store()  # messages find their payloads while it is open
    for at, kind, wanted in ((0, "question", question), (1, "seed", seed)):
        if wanted is not None:
            found = {key: record for key, record in run.records.items() if key[at] == wanted}
            if not found:
                raise UsageError(choose(kind, wanted, sorted({str(key[at]) for key in run.records})))
            run.records = found
    try:
        show_run(run, output)
    finally:
        del store


class Named(Checked):
    """The name of a run."""

    model_config = ConfigDict(title="Run")

    name: str = Field(
        default="latest",
        description="Name as in `runs list`, or its beginning; `latest`; or a folder.",
        json_schema_extra={"positional": "run"},
    )


def resume_run(named: Named, limits: Limits, output: Output, trust: Trust) -> None:
    """Resume a run; failed discussions are tried again.

    Raises:
        UsageError: it is over, or it names what the command line does not allow.
        RecordError: models or prompts have changed, or another process uses the run.
    """
    from sottovoce.runs.read import load_run
    from sottovoce.runs.start import resumed, settings_begun

    if output.verbose:
        tell_all()
    run = load_run(run_directory.folder_of(named.name))
    assert run.folder is not None, "read from there"
    if not run.unfinished:
        show_it = command("runs", "show", run_directory.name_of(run.folder))
        raise UsageError(f"run {str(run.folder)!r} is over; {show_it} shows it")
    begun, what, file = settings_begun(run), f"run {str(run.folder)!r}", check_places(output)
    trust.check(begun, what, run.folder.parent)
    settings = trust.applied(begun)
    if settings != begun:
        raise UsageError(f"{what} was started in {_contained(begun)}; resume it there, or start another run")
    go_on(resumed(run, settings=settings), settings, limits, output, file)


def _contained(settings: Any) -> str:  # Any: settings of a scheme that runs programs
    return f"the sandbox {settings.sandbox!r}, {'with' if settings.unsafe else 'without'} --unsafe"


def export_run(name: str, form: str | None, out: Path, *, force: bool = False) -> None:
    """Write a run to a file: whole records as JSON Lines, results as CSV, transcripts as Markdown, or its card.

    Retrieved passages can be written as a TREC run file (of each question's first seed), gold passages as qrels.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: the file cannot be written.
    """
    from sottovoce.report.markdown import markdown
    from sottovoce.runs.card import card
    from sottovoce.runs.read import load_run

    form = form or ("card" if out.name.endswith(CARD) else FORMS.get(out.suffix.lower()))
    if form is None:
        raise UsageError(f"the file {str(out)!r} ends in {out.suffix!r}; expected .jsonl, .csv, .md, or card.json")
    if form not in ENDINGS:
        raise UsageError(choose("format", form, list(ENDINGS)))
    file = OutputFile(out, "the file", force=force, endings=ENDINGS[form])
    run = load_run(run_directory.folder_of(name))
    store = run.store()
    if form == "jsonl":
        text = "".join(record.model_dump_json() + "\n" for record in run.records.values())
    elif form == "markdown":
        text = "\n".join(map(markdown, run.records.values()))
    elif form == "card":
        text = json.dumps(card(run), indent=2) + "\n"
    elif form in ("trec", "qrels"):
        text = _trec(run, form)
    else:
        text = table(run.results())
    file.write(text)
    del store
    typer.echo(f"{counted(len(run.records), 'discussion')} written as {form} to {one_line(str(out))}")


def _trec(run: Run, form: str) -> str:
    from sottovoce.nodes.question import question_id
    from sottovoce.retrievers.trec import qrels_text, rankings_text
    from sottovoce.runs.retrieval_measures import gold_of, names_for_trec

    records = [record for record in run.records.values() if record.seed == run.head.seeds[0]]
    if form == "qrels":
        text = qrels_text({question_id(each.question): gold_of(each.question) for each in records})
    else:
        ranked = {question_id(each.question): names_for_trec(gold_of(each.question), each.messages) for each in records}
        text = rankings_text(ranked, run.head.scheme)
    if not text:
        what = "no gold passages of its questions" if form == "qrels" else "no retrieved passages"
        raise UsageError(f"the run has {what}; {form} would be empty")
    return text


def compare_runs(names: Sequence[str], against: str | None, qrels: Path | None = None) -> None:
    """Print the runs side by side: accuracy, costs, and each pair with its tests, or each run against one.

    Raises:
        RecordError: a run does not exist.
        UsageError: nothing to compare, or the libraries for statistics are missing.
    """
    from sottovoce.report.comparison import compared, waiting

    runs = read_runs(names, qrels)
    show("\n".join([compared(runs, against), *waiting(runs)]).rstrip("\n"))


def read_runs(names: Sequence[str], qrels: Path | None = None) -> dict[str, Run]:
    """Return runs by name; an experiment stands for the runs of its rows.

    `qrels` are judgments of passages that replace the questions' own gold passages.

    Raises:
        RecordError: a run does not exist.
        UsageError: two of them have the same name.
    """
    found: dict[str, Run] = {}
    for name in names:
        for run, read in _named_so(name).items():
            if run in found:
                raise UsageError(f"two of the runs have the name {run!r}; give each once, or rename a folder")
            found[run] = read
    if qrels is not None:
        judged = read_qrels(qrels)
        for read in found.values():
            read.judge_passages(judged)
    return found


def _named_so(name: str) -> dict[str, Run]:
    from sottovoce.experiments.folder import FILE, rows_in
    from sottovoce.runs.read import load_run

    for folder in (Path(name), run_directory.shelf() / name):
        if (folder / FILE).exists():
            return rows_in(folder)
    folder = run_directory.folder_of(name)
    return {folder.resolve().name: load_run(folder)}


def remove_runs(names: Sequence[str], keep: int | None) -> None:
    """Remove saved runs by name, or all but the newest `keep`.

    Raises:
        RecordError: there is no such run; nothing is removed.
        UsageError: neither or both were given, or a run is in use or in a folder of the user's choice.
    """
    if bool(names) == (keep is not None):
        raise UsageError("runs remove takes runs or --keep N, the number of newest runs to keep; give one of them")
    if keep is not None:
        removed = run_directory.prune(keep)
    else:
        removed = [run_directory.folder_of(name) for name in names]
        run_directory.remove(removed)
    typer.echo(f"{len(removed)} removed, {len(run_directory.kept())} kept in {run_directory.shelf()}")
