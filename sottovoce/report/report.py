"""The report of saved runs: their tables, plots and discussions on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from sottovoce.analysis.compare import Comparison, Summary
from sottovoce.core.text import counted, figure, one_line
from sottovoce.nodes.state import JSON
from sottovoce.report import interventions
from sottovoce.report.attention import attention_plot
from sottovoce.report.cards import card, what_was_run
from sottovoce.report.comparison import comparison_of, published_table, sentences, tables
from sottovoce.report.discussions import of_runs
from sottovoce.report.page import embedded, image, page
from sottovoce.report.plots import Plot, plots
from sottovoce.report.sources import Gathered, Picture
from sottovoce.report.tables import share_cells
from sottovoce.report.tensors import Tensors, Words
from sottovoce.runs.cost import BYTES

VERDICTS = 3
"""Maximum number of verdicts in the headline."""


def report(content: Gathered, attention: int | None = None) -> str:
    """Return the page; `attention` adds the attention of a layer, which loads the models.

    Raises:
        UsageError: the extra `eval` is not installed, or the attention cannot be drawn.
    """
    comparison, words = comparison_of(content.runs, content.against), Words()
    tensors = Tensors(words)
    looked = [] if attention is None else [attention_plot(content.runs, attention)]
    index, discussions = _embedded(of_runs(content.runs.values(), tensors))
    return page(
        title=f"Report of {', '.join(content.runs)}",
        unfinished=content.unfinished,
        about=content.about,
        headline=headline(comparison),
        what=what_was_run(content.runs),
        tables=[*tables(comparison), *published_table(content.published, comparison)],
        sentences=sentences(comparison) if len(comparison.pairs) > VERDICTS else list(map(one_line, comparison.notes)),
        plots=[*plots(content.runs, comparison.runs), *looked, *map(_pictured, content.pictures)],
        runs=list(content.runs),
        seeds=sorted({row["seed"] for row in index}),
        outcomes=list(dict.fromkeys(row["outcome"] for row in index)),
        index=index,
        discussions=discussions,
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
    results = ((run.run, "; ".join([_result(run), *_measures(run)])) for run in comparison.runs)
    return [*results, *(("", verdict) for verdict in verdicts)]


def _measures(run: Summary) -> list[str]:
    means = {name: figure(measured.mean.value) for name, measured in run.measures.items() if name != BYTES}
    return [", ".join(f"{one_line(name)} {mean}" for name, mean in means.items())] if means else []


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


def _embedded(discussions_of_runs: Iterable[tuple[JSON, list[JSON]]]) -> tuple[list[JSON], list[Markup]]:
    """Return the rows of the list, and each discussion as JSON of its own, which the page parses when it shows it."""
    index, discussions = list[JSON](), list[Markup]()
    for row, items in discussions_of_runs:
        index.append(row)
        discussions.append(embedded(items))
    return index, discussions


def _pictured(picture: Picture) -> Plot:
    return Plot(image(picture.svg, picture.name), picture.name, wide=True)


def _notes(content: Gathered, tensors: Tensors, words: Words) -> Sequence[str]:
    monitored = [
        f"{name}: {line}"
        for name, run in content.runs.items()
        for line in interventions.summary([*run.records.values()])
    ]
    stopped = [f"{name} was stopped: {run.why}" for name, run in content.runs.items() if run.why]
    of_runs = [f"{name}: {note}" for name, run in content.runs.items() for note in run.notes]
    missing = (
        [f"{counted(len(tensors.missing), 'payload')} missing or damaged; the words are shown"]
        if tensors.missing
        else []
    )
    return [*monitored, *stopped, *of_runs, *missing, *words.notes]
