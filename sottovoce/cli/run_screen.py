"""A run on the screen: a transcript for one discussion, progress and a summary for many."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from sottovoce.cli.live import LiveTranscript, PipedTranscript, RunProgress, person
from sottovoce.cli.options import Output, as_options
from sottovoce.core.errors import SottovoceError, command
from sottovoce.core.text import counted, one_line, say, shortened
from sottovoce.datasets.trained import knowledge
from sottovoce.graphs import scheme
from sottovoce.nodes.settings import Settings
from sottovoce.report import blocks, describe, transcript
from sottovoce.report.tables import console_of, moves
from sottovoce.runs.discussion import HumanReply
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Counts
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Observer, Run
from sottovoce.runs.run_directory import run_name
from sottovoce.runs.runner import check_failures, resumable_run, resume_command, run_all


def run_and_show(run: Run, settings: Settings, limits: Limits, output: Output) -> None:
    """Run the unfinished discussions of a run, and show it."""
    console, alone = console_of(), len(run.records) == 1
    models = ", ".join(dict.fromkeys(settings.model))
    if why := unscored(run):
        say(why, error=True)
    with resumable_run(run), shown_while(run, console, output, models) as (observe, person):
        run_all(run, settings, run.store(), limits=limits, observe=observe, alone=alone, person=person)
    show_run(run, output, just_run=True)


def show_run(run: Run, output: Output, *, just_run: bool = False) -> None:
    """Show a run that ended; if it was `just_run`, its discussions were shown meanwhile."""
    console = console_of()
    if output.as_json:
        sys.stdout.write(json_of(run))
    elif len(run.records) == 1:
        print_one(console, run.only, output, live=just_run)
        for note in () if output.quiet else run.notes:
            console.print(one_line(note), style="dim", soft_wrap=True, markup=False)
        if output.save is not None and run.folder and not output.quiet:  # `runs list` has all other runs
            saved = f"saved in {one_line(str(run.folder))}: {command('runs', 'show', str(run.folder))}"
            console.print(saved, style="dim", soft_wrap=True)
    else:
        print_many(console, run, output)
    if just_run and run.why:
        raise SottovoceError(f"{run.why}; to continue with a higher limit or none: {resume_command(run)}")
    if len(run.records) > 1:
        check_failures([run])


@contextmanager
def shown_row(name: str, run: Run) -> Iterator[Observer]:
    """Show the progress of one of many runs on stderr, so that stdout has only the tables."""
    console = console_of(stderr=True)
    console.print(f"{name}: {title(run.manifest, len(run.records))}", soft_wrap=True)
    if why := unscored(run):
        console.print(f"{name}: {why}", soft_wrap=True)
    with RunProgress(console, run) as progress:
        yield progress.observe
    console.print(f"{name}: {', '.join(summary(run)[:-1])}", soft_wrap=True)


def unscored(run: Run) -> str:
    """Return why no accuracy can be computed of a run's own questions: none has a target; empty if one has."""
    asked_by_hand = run.manifest.origin is None
    if asked_by_hand or any({"target", "game"} & record.question.keys() for record in run.records.values()):
        return ""
    return (
        "no question has a target, so accuracy cannot be computed; answers are saved. If a column of the file has the "
        "right answers, name it: --column target=COLUMN"
    )


@contextmanager
def shown_while(
    run: Run, console: Console, output: Output, models: str
) -> Iterator[tuple[Observer | None, HumanReply | None]]:
    """Yield the observer for the wanted output, and the function that answers for people who take part."""

    def hint() -> str:
        return f"{resume_command(run)} continues at a terminal"

    if output.as_json or output.quiet:
        yield None, person(hint=hint)
    elif len(run.records) > 1:
        with RunProgress(console, run) as progress:
            yield progress.observe, person(progress.paused, hint=hint)
    elif moves(console):
        with LiveTranscript(console, f"loading {models}", prompts=output.show_prompts) as live:
            live.resume(run.only)
            yield live.observe, person(live.paused, hint=hint)
    else:
        with PipedTranscript(console, prompts=output.show_prompts) as piped:
            piped.resume(run.only)
            yield piped.observe, person(hint=hint)


def json_of(run: Run) -> str:
    """Return the record of a single discussion; for several, the manifest, the status and the results."""
    if len(run.records) == 1:
        return run.only.to_json()
    results = [result.to_dict() for result in run.results()]
    whole = {**run.manifest.model_dump(mode="json"), "status": run.status, "results": results}
    return json.dumps(whole, indent=2) + "\n"


def print_one(console: Console, record: DiscussionRecord, output: Output, *, live: bool) -> None:
    """Print a discussion: its transcript, only its ending if it was shown live, or only its decision if `quiet`."""
    if output.quiet:
        console.print(*transcript.lines(blocks.conclusion(record).lines)[:-1], sep="\n")  # without its cost
    elif live:
        console.print(transcript.conclusion(console, record))
    else:
        transcript.print_run(console, record, prompts=output.show_prompts)


def print_many(console: Console, run: Run, output: Output) -> None:
    """Print a line for each discussion (none if `quiet`), and a summary."""
    if not output.quiet:
        console.print(title(run.manifest, len(run.records)), style="dim", soft_wrap=True)
        for line in knowledge((each.model for each in run.manifest.models.values()), run.manifest.origin):
            console.print(line, style="dim", soft_wrap=True)
        table = Table("question", "seed", "answer", "", box=None, pad_edge=False)
        for column in table.columns:
            column.overflow = "fold"
        for (question, seed), record in run.records.items():
            table.add_row(one_line(run.names.get(question, question)), str(seed), *_answer(record))
        console.print(table)
    for line in summary(run):
        console.print(line, soft_wrap=True)
    if run.folder and run.records and not output.quiet:
        name, (question, _) = run_name(run.folder), next(iter(run.records))
        row = run.names[question].partition(":")[0] if question in run.names else question
        one = command("runs", "show", name, "--question", row)
        console.print(f"show one of them: {one}", style="dim", soft_wrap=True, markup=False)


def title(head: RunManifest, discussions: int) -> str:
    """Return a description of a run in one line."""
    settings, questions = head.settings, discussions // len(head.seeds)
    seeds = f"seed {', '.join(map(str, head.seeds))}"
    models = ", ".join(dict.fromkeys(settings["model"]))
    about = [scheme(head.scheme).command, *blocks.channel(settings), models, seeds]
    watched = [f"watched: {settings['intervention']}"] if settings.get("watch") else []
    return one_line(" · ".join([*about, *watched, counted(questions, "question")]))


def outcome(counts: Counts) -> str:
    """Return how many discussions were right, abstained, failed or are not over."""
    ways = {
        "abstained": counts.abstained,
        "failed": counts.failed,
        "not over": counts.discussions - counts.done - counts.failed,
    }
    share = f"{counts.score / counts.scored:.1%} right of {counts.scored:,}" if counts.scored else ""
    if share and counts.failed and counts.scored == counts.done:  # all have targets
        of = counts.scored + counts.failed
        share += f" ({counts.score / of:.1%} of {of:,} with failures as wrong)"
    return ", ".join([share or f"{counts.done:,} discussed", *(f"{n:,} {way}" for way, n in ways.items() if n)])


def summary(run: Run) -> list[str]:
    """Return lines that say how a run ended, what it cost and where it is stored."""
    took = f"{counted(run.cost.calls, 'call')}, {run.cost.tokens}"
    where = [f"saved in {one_line(str(run.folder))}"] if run.folder else []
    stopped = [f"stopped: {run.why}"] if run.why else []
    measured = [means] if (means := run.results().mean_line) else []
    watched = describe.interventions([*run.records.values()])
    return [outcome(run.counts), *measured, *watched, took, *stopped, *map(one_line, run.notes), *where]


def _answer(record: DiscussionRecord) -> tuple[str, str]:
    if record.decision is None:
        return "", f"{record.status}{': ' + shortened(as_options(record.error)) if record.error else ''}"
    answer, score = record.decision["answer"], record.decision["score"]
    right = "right" if score == 1 else f"score {score:.2f}" if score else ""
    if score == 0:
        right = f"wrong: it is {one_line(record.question.get('target', ''))}"
    return ("no answer" if answer is None else shortened(answer, 40)), right
