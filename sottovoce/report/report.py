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


def report(found: Gathered, attention: int | None = None) -> str:
    """Return the page; `attention` adds the attention of a layer, which loads the models.

    Raises:
        UsageError: the extra `eval` is not installed, or the attention cannot be drawn.
    """
    made, words = comparison_of(found.runs, found.against), Words()
    tensors = Tensors(words)
    looked = [] if attention is None else [attention_plot(found.runs, attention)]
    index, discussions = _embedded(of_runs(found.runs.values(), tensors))
    return page(
        title=f"Report of {', '.join(found.runs)}",
        unfinished=found.unfinished,
        about=found.about,
        headline=headline(made),
        what=what_was_run(found.runs),
        tables=[*tables(made), *published_table(found.published, made)],
        sentences=sentences(made) if len(made.pairs) > VERDICTS else list(map(one_line, made.notes)),
        plots=[*plots(found.runs, made.runs), *looked, *map(_pictured, found.pictures)],
        runs=list(found.runs),
        seeds=sorted({row["seed"] for row in index}),
        outcomes=list(dict.fromkeys(row["outcome"] for row in index)),
        index=index,
        discussions=discussions,
        words=words.texts,
        cards={name: card(run) for name, run in found.runs.items()},
        notes=_notes(found, tensors, words),
    )


def headline(made: Comparison) -> list[tuple[str, str]]:
    """Return the result in sentences: each run's accuracy with the run's name, then the clearest verdicts with ""."""
    clearest = sorted(made.pairs, key=lambda pair: pair.corrected)[:VERDICTS]
    verdicts = [one_line(pair.verdict).replace("`", "") for pair in clearest]
    if left := len(made.pairs) - len(clearest):
        verdicts.append(f"The verdicts on {counted(left, 'more pair')} of runs are below the tables.")
    results = ((run.run, "; ".join([_result(run), *_measures(run)])) for run in made.runs)
    return [*results, *(("", verdict) for verdict in verdicts)]


def _measures(run: Summary) -> list[str]:
    means = {name: figure(found.mean.value) for name, found in run.measures.items() if name != BYTES}
    return [", ".join(f"{one_line(name)} {mean}" for name, mean in means.items())] if means else []


def _result(run: Summary) -> str:
    asked = counted(run.questions, "question")
    if run.failed_wrong is None:
        return f"{run.run}: {asked}, without a right answer to compare with"
    if run.accuracy is None:
        return f"{run.run}: {asked}, and every discussion failed"
    value, interval = share_cells(run.accuracy)
    if not run.failed:
        return f"{run.run}: {value} right of {asked} (95 %: {interval})"
    wrong, wider = share_cells(run.failed_wrong)
    all_of_them = f"{wrong} right of {asked} with failures as wrong (95 %: {wider})"
    return f"{run.run}: {all_of_them}, {value} of {counted(run.scored, 'discussion')} that did not fail"


def _embedded(found: Iterable[tuple[JSON, list[JSON]]]) -> tuple[list[JSON], list[Markup]]:
    """Return the rows of the list, and each discussion as JSON of its own, which the page parses when it shows it."""
    index, discussions = list[JSON](), list[Markup]()
    for row, items in found:
        index.append(row)
        discussions.append(embedded(items))
    return index, discussions


def _pictured(picture: Picture) -> Plot:
    return Plot(image(picture.svg, picture.name), picture.name, wide=True)


def _notes(found: Gathered, tensors: Tensors, words: Words) -> Sequence[str]:
    monitored = [
        f"{name}: {line}" for name, run in found.runs.items() for line in interventions.summary([*run.records.values()])
    ]
    stopped = [f"{name} was stopped: {run.why}" for name, run in found.runs.items() if run.why]
    of_runs = [f"{name}: {note}" for name, run in found.runs.items() for note in run.notes]
    lost = [f"{counted(len(tensors.lost), 'payload')} missing or damaged; the words are shown"] if tensors.lost else []
    return [*monitored, *stopped, *of_runs, *lost, *words.notes]
