"""The report of saved runs: their tables, plots and discussions on one HTML page, which makes no requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sottovoce.analysis.compare import Comparison, Summary
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import UsageError, command
from sottovoce.core.text import counted, figure, one_line
from sottovoce.experiments.published import compare_figures
from sottovoce.graphs import scheme
from sottovoce.report import describe
from sottovoce.report.comparison import (
    Gathered,
    carried,
    carried_table,
    comparison_of,
    published_table,
    sentences,
    tables,
)
from sottovoce.report.page import embedded, page
from sottovoce.report.plots import plots
from sottovoce.report.tables import Table, share_cells
from sottovoce.report.viewer import Tensors, Words, about_run, of_runs
from sottovoce.runs.cost import BYTES
from sottovoce.runs.run import Run
from sottovoce.runs.run_directory import run_name

VERDICTS = 3
"""Maximum number of verdicts in the headline."""


def report(content: Gathered, *, force: bool = False) -> str:
    """Return the page; for `force` see `compare`.

    Raises:
        UsageError: no discussion has ended, or the extra `eval` is missing.
    """
    if not content.ended[0]:
        folder = next(iter(content.runs.values())).folder
        resume = command("runs", "resume", run_name(folder) if folder else "")  # without trust: it may be anybody's
        raise UsageError(f"nothing to report yet: no discussion of {', '.join(content.runs)} has ended; use {resume}")
    comparison, words = comparison_of(content.runs, content.against, force=force), Words()
    experiment, tensors = content.experiment, Tensors(words)
    rows = carried(experiment, content.runs, comparison.runs) if experiment else []
    beside = published_table(experiment, compare_figures(experiment, content.runs)) if experiment else []
    carrying = [carried_table(experiment, rows)] if experiment and rows else []
    verdicts = sentences(comparison) if len(comparison.pairs) > VERDICTS else list(map(one_line, comparison.notes))
    discussions = [(row, embedded(items)) for row, items in of_runs(content.runs.values(), tensors)]
    return page(
        live=False,
        title=f"Report of {', '.join(content.runs)}",
        unfinished=content.unfinished,
        about=content.about,
        headline=headline(comparison),
        what=what_was_run(content.runs),
        tables=[*carrying, *tables(comparison), *(each for each, _ in beside)],
        sentences=[*(each for _, each in beside), *verdicts],
        plots=plots(content.runs, comparison.runs),
        runs=list(content.runs),
        listed=[about_run(name, run.manifest, run.status, run.counts) for name, run in content.runs.items()],
        index=[row for row, _ in discussions],
        discussions=[items for _, items in discussions],  # each is JSON of its own, parsed when it is shown
        words=words.texts,
        cards={name: card(run) for name, run in content.runs.items()},
        notes=_notes(content, tensors, words),
    )


def headline(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the result in sentences: each run's accuracy with the run's name, then the clearest verdicts with ""."""
    clearest = sorted(comparison.pairs, key=lambda pair: pair.corrected)[:VERDICTS]
    verdicts = [one_line(pair.verdict).replace("`", "") for pair in clearest]
    if left := len(comparison.pairs) - len(clearest):
        verdicts.append(f"The verdicts on {counted(left, 'more pair')} of runs are below the tables.")
    results = []
    for run in comparison.runs:
        means = (f"{one_line(name)} {figure(mean.value)}" for name, mean in run.measures.items() if name != BYTES)
        results.append((run.run, "; ".join(filter(None, [_result(run), ", ".join(means)]))))
    return [*results, *(("", text) for text in (comparison.warning.replace("`", ""), *verdicts) if text)]


def _result(run: Summary) -> str:
    questions = counted(run.questions, "question")
    if run.failed_wrong is None:
        return f"{run.run}: {questions}, without a right answer to compare with"
    if run.accuracy is None:
        return f"{run.run}: {questions}, and every discussion failed"
    value, interval = share_cells(run.accuracy)
    if not run.failed:
        return f"{run.run}: {value} right of {questions} (95 %: {interval})"
    wrong, wider = share_cells(run.failed_wrong)
    all_of_them = f"{wrong} right of {questions} with failures as wrong (95 %: {wider})"
    return f"{run.run}: {all_of_them}, {value} of {counted(run.scored, 'discussion')} that did not fail"


def _notes(content: Gathered, tensors: Tensors, words: Words) -> Sequence[str]:
    runs, lost = content.runs.items(), counted(len(tensors.missing), "payload")
    monitored = [f"{name}: {line}" for name, run in runs for line in describe.interventions([*run.records.values()])]
    stopped = [f"{name} was stopped: {run.why}" for name, run in runs if run.why]
    of_runs = [f"{name}: {note}" for name, run in runs for note in run.notes]
    missing = [f"{lost} missing or damaged; the words are shown"] if tensors.missing else []
    return [*monitored, *stopped, *of_runs, *missing, *words.notes]


DIGEST = 12
"""Number of letters of a digest in the table; the card has all of them."""


def card(run: Run) -> JSON:
    """Return the card of a finished run; else the manifest and progress."""
    if run.folder is not None and all(record.status in ("done", "failed") for record in run.records.values()):
        return run.card()
    progress = {"status": run.status, "why": run.why, "counts": run.counts.model_dump(), "cost": run.cost.model_dump()}
    return {**run.manifest.model_dump(mode="json"), **progress}


def what_was_run(runs: Mapping[str, Run]) -> Table:
    """Return a table with a column for each run: rows of facts, the settings that differ, versions and digests."""
    facts, origins = ([read(run) for run in runs.values()] for read in (_facts, _origins))
    settings = [[setting, *values] for setting, values in differences(runs).items()]
    first, last = ([[name, *(each[name] for each in cells)] for name in cells[0]] for cells in (facts, origins))
    return Table(("", *runs), [[*map(one_line, cells)] for cells in (*first, *settings, *last)])


def differences(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return the settings that differ between runs by name, with the value of each run, or "" without one."""
    settings = [
        {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in of.items()}
        for of in (run.manifest.settings for run in runs.values())
    ]
    names = dict.fromkeys(name for of_run in settings for name in of_run)
    values_by_name = {name: [of_run.get(name, "") for of_run in settings] for name in names}
    shown = {"protocol", "model"}  # in the table anyway
    return {name: values for name, values in values_by_name.items() if len(set(values)) > 1 and name not in shown}


def _facts(run: Run) -> dict[str, str]:
    head, cost, records = run.manifest, run.cost, run.records.values()
    models = dict.fromkeys(f"{one.model} ({one.format}, {one.device})" for one in head.models.values())
    ended = sum(record.status in ("done", "failed") for record in records)
    return {
        "status": f"{run.status}: {ended:,} of {counted(len(records), 'discussion')} ended",
        "scheme": scheme(head.scheme).command,
        "protocol": head.settings["protocol"],
        "models": "; ".join(models) or ", ".join(dict.fromkeys(head.settings["model"])),
        "seeds": ", ".join(map(str, head.seeds)),
        "questions": f"{len(records) // len(head.seeds):,}",
        "from": head.origin or "a person",
        "calls": f"{cost.calls:,}",
        "tokens": cost.tokens
        if cost.uncounted
        else f"{cost.tokens_in:,} read, {cost.tokens_reused:,} of them reused; {cost.tokens_out:,} written"
        + (f", {cost.tokens_thoughts:,} of thoughts" if cost.tokens_thoughts else ""),
        "started": head.started,
    }


def _origins(run: Run) -> dict[str, str]:
    head = run.manifest
    weights = dict.fromkeys(f"{one.model} {one.weights[:DIGEST]}" for one in head.models.values())
    return {
        "versions": ", ".join(f"{name} {version}" for name, version in head.versions.items()),
        "sha256 of weights": "; ".join(weights),
        "of questions": head.questions[:DIGEST],
        "of prompts": head.prompts[:DIGEST],
    }
