"""A report of kept runs: what is gathered becomes tables, plots and discussions, and these a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from sottovoce.evaluation.compare import Comparison, Summary
from sottovoce.evaluation.report.attention import attention_plot
from sottovoce.evaluation.report.beside import beside
from sottovoce.evaluation.report.cards import card, what_was_run
from sottovoce.evaluation.report.discussions import of_runs
from sottovoce.evaluation.report.gathered import Gathered, Picture
from sottovoce.evaluation.report.packed import JSON
from sottovoce.evaluation.report.page import embedded, image, page
from sottovoce.evaluation.report.plots import Plot, plots
from sottovoce.evaluation.report.tensors import Tensors
from sottovoce.evaluation.report.words import Words
from sottovoce.evaluation.triggers import told
from sottovoce.evaluation.views.comparison import comparison_of, tables
from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.evaluation.views.tables import share_cells


def report(found: Gathered, attention: int | None = None) -> str:
    """The page; with the attention of a layer, which loads the models.

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
        tables=[*tables(made), *beside(found.published, made)],
        sentences=list(map(one_line, made.notes)),
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


def headline(made: Comparison) -> list[str]:
    """Return the accuracy of each run, also with failures as wrong, and the verdicts on their pairs, in words."""
    return [
        *(_accuracy(run) for run in made.runs if run.failed_wrong),
        *(one_line(pair.verdict).replace("`", "") for pair in made.pairs),
    ]


def _accuracy(run: Summary) -> str:
    value, interval = share_cells(run.accuracy)
    told = f"{value} right of {counted(run.scored, 'discussion')} ({interval})" if run.accuracy else "nothing ended"
    if run.failed:
        value, interval = share_cells(run.failed_wrong)
        told += f"; with {counted(run.failed, 'failure')} as wrong {value} ({interval})"
    return f"{run.run}: {told}"


def _embedded(found: Iterable[tuple[JSON, list[JSON]]]) -> tuple[list[JSON], list[Markup]]:
    """Rows of the list, and each discussion as JSON of its own: the page reads it when it is shown."""
    index, discussions = list[JSON](), list[Markup]()
    for row, items in found:
        index.append(row)
        discussions.append(embedded(items))
    return index, discussions


def _pictured(picture: Picture) -> Plot:
    return Plot(image(picture.svg, picture.name), picture.name)


def _notes(found: Gathered, tensors: Tensors, words: Words) -> Sequence[str]:
    watched = [f"{name}: {line}" for name, run in found.runs.items() for line in told([*run.records.values()])]
    stopped = [f"{name} was stopped: {run.why}" for name, run in found.runs.items() if run.why]
    of_runs = [f"{name}: {note}" for name, run in found.runs.items() for note in run.notes]
    lost = [f"{counted(len(tensors.lost), 'payload')} missing or damaged; the words are shown"] if tensors.lost else []
    return [*watched, *stopped, *of_runs, *lost, *words.notes]
