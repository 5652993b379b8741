"""Saved runs by name, and the tables of their comparison: of runs, measures, pairs, published figures, verdicts.

Names may be those of experiments, which stand for their rows. The table of an experiment with points shows for each
point the share of right answers and the size of the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from sottovoce.analysis.compare import Against, Comparison, Pair, Summary, compare, p_in_words, points
from sottovoce.analysis.statistics import Share
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import EXPERIMENT
from sottovoce.core.text import counted, figure, one_line
from sottovoce.experiments.files import ended, read_experiment, runs_in
from sottovoce.experiments.published import Compared, assumed
from sottovoce.experiments.row_content import run_name
from sottovoce.experiments.rows import budget_notes
from sottovoce.experiments.schema import Experiment
from sottovoce.report.tables import Table, interval, share_cells, table
from sottovoce.runs import run_directory
from sottovoce.runs.cost import computed_tokens, hearings
from sottovoce.runs.run import DIGEST, Run, load_run


@dataclass
class Gathered:
    """The runs of a report, by their names in it."""

    runs: dict[str, Run] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)
    """The descriptions of the experiments."""
    against: Against = None
    """The row that others are compared with, if the report is of one experiment that names it."""
    experiment: Experiment | None = None
    """The experiment, if the report is of one alone."""

    waiting: list[str] = field(default_factory=list)
    """Rows of experiments that have not started."""

    @property
    def ended(self) -> tuple[int, int]:
        """The number of discussions that ended, and of all discussions."""
        counts = [run.counts for run in self.runs.values()]
        return sum(each.done + each.failed for each in counts), sum(each.discussions for each in counts)

    @property
    def unfinished(self) -> str:
        """The first line of a report: unfinished and failed discussions; empty if all discussions have a decision."""
        ended, total = self.ended
        counts = {name: run.counts for name, run in self.runs.items()}
        left = {
            "open": [name for name, each in counts.items() if each.done + each.failed < each.discussions],
            "not started": self.waiting,
            "failed": [name for name, each in counts.items() if each.failed],
        }
        named = "; ".join(f"{how}: {', '.join(names)}" for how, names in left.items() if names)
        begin = "unfinished: " if left["open"] or self.waiting else ""
        return f"{begin}{ended:,} of {counted(total, 'discussion')} ended ({named})" if named else ""


def gathered(names: Sequence[str]) -> Gathered:
    """Read runs and rows of experiments by name or folder.

    Raises:
        RecordError: a run does not exist, or is damaged.
        UsageError: a name occurs twice.
    """
    content = Gathered()
    for name in names:
        for row, run in _gathered(name, content).items():
            if row in content.runs:
                raise UsageError(f"two of the runs have the name {row!r}; give each once, or rename a folder")
            content.runs[row] = run
    if len(names) > 1:
        content.against = content.experiment = None
    return content


def _gathered(name: str, content: Gathered) -> Mapping[str, Run]:
    """Return a run, or the runs of an experiment, after adding the experiment's notes."""
    for folder in (Path(name), run_directory.runs_folder() / name):
        if (folder / EXPERIMENT).exists():
            experiment = read_experiment(folder / EXPERIMENT)
            content.against, content.experiment = experiment.baselines, experiment
            content.about += [experiment.about] if experiment.about else []
            runs = runs_in(folder, experiment.rows)
            content.waiting += [row for row in experiment.rows if row not in runs]
            return runs
        if inner := [each.parent.name for each in sorted(folder.glob(f"*/{EXPERIMENT}"))]:
            names = ", ".join(map(repr, inner))
            raise RecordError(f"{name!r} contains experiments, {names}; report one of them: {str(folder / inner[0])!r}")
    folder = run_directory.find_run(name)
    return {folder.resolve().name: load_run(folder)}


RUNS = (
    "run | questions | discussions | accuracy | 95 % | abstained | failed | calls | tokens read | tokens reused | "
    "tokens written | FLOPs | seconds, in parallel"
)
WITH_FAILURES = RUNS.replace("95 % |", "95 % | failed as wrong | 95 % |")
"""Headings if discussions failed; otherwise both shares are equal."""


def comparison_of(runs: Mapping[str, Run], against: Against = None, *, force: bool = False) -> Comparison:
    """Compare the runs with at least one ended discussion, with notes on matched runs; see `compare`."""
    notes = list(budget_notes(runs))
    for name, run in runs.items():
        values = map(str, run.manifest.settings.values())
        if encoders := [value for value in values if value.startswith("dense:")]:  # retrievers with a model
            notes.append(f"`{name}`: its FLOPs do not include the encoder of {', '.join(encoders)}.")
    comparison = compare(ended(runs), against, notes, force=force)
    names = {question: name for run in runs.values() for question, name in run.names.items()}
    named = (DIGEST.sub(lambda digest: names.get(digest[0], digest[0]), note) for note in comparison.notes)
    return replace(comparison, notes=tuple(named))


def waiting(runs: Mapping[str, Run]) -> list[str]:
    """Return a line of Markdown for each run with failed or unfinished discussions."""
    lines = []
    for name, run in runs.items():
        failed = run.counts.failed
        counts = {"failed": failed, "are not over": len(run.unfinished) - failed}
        if ways := [f"{n} of {len(run.records)} {state}" for state, n in counts.items() if n]:
            lines.append(f"- {_name(name)}: {', '.join(ways)}.")
    return lines


def tables(comparison: Comparison) -> list[Table]:
    """Return tables of runs, of worlds' measures and of pairs.

    Calls, tokens, FLOPs and seconds are means per discussion. Seconds are measured from a discussion's start to its
    end, while others (32 by default) run in parallel.
    """
    failed = any(run.failed for run in comparison.runs)
    listed = [table(WITH_FAILURES if failed else RUNS, (_run(run, failed=failed) for run in comparison.runs), "runs")]
    if names := list(dict.fromkeys(name for run in comparison.runs for name in run.measures)):
        rows = [[_name(run.run), *(_measured(run, name) for name in names)] for run in comparison.runs]
        listed.append(Table(["run", *map(one_line, names)], rows, "measures"))
    if comparison.pairs:
        listed.append(
            table("run | against | questions | points | 95 % | p | p, Holm", map(_pair, comparison.pairs), "pairs")
        )
    return listed


def sentences(comparison: Comparison) -> list[str]:
    """Return the verdicts, and notes on omissions."""
    return [one_line(sentence) for sentence in (*(pair.verdict for pair in comparison.pairs), *comparison.notes)]


def _run(run: Summary, *, failed: bool) -> list[str]:
    shares = [*share_cells(run.accuracy), *(share_cells(run.failed_wrong) if failed else [])]
    counts = [str(run.questions), str(run.discussions), *shares, str(run.abstained), str(run.failed)]
    tokens = [_number(number, ",.0f") for number in (run.tokens_in, run.tokens_reused, run.tokens_out)]
    costs = [_number(run.calls, ".4g"), *tokens]
    return [_name(run.run), *counts, *costs, _number(run.flops, ".2e"), _number(run.seconds, ".2f")]


def _pair(pair: Pair) -> list[str]:
    difference = pair.difference
    by = [f"{100 * difference.value:+.1f}", f"{points(difference.low)} to {points(difference.high)}"]
    tests = [p_in_words(p).removeprefix("p ").removeprefix("= ") for p in (difference.p, pair.corrected)]
    return [_name(pair.run), _name(pair.against), str(pair.questions), *by, *tests]


def _measured(run: Summary, name: str) -> str:
    """Return a mean with its interval, and the number of discussions it applies to, unless it is all ended ones."""
    if (mean := run.measures.get(name)) is None:
        return ""
    games = f"in {mean.n}" if mean.n < run.discussions - run.failed else ""
    beside = "; ".join(filter(None, [interval(mean.low, mean.high), games]))
    return f"{figure(mean.value)} ({beside})" if beside else figure(mean.value)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _name(run: str) -> str:
    return one_line(f"`{run}`")


def published_table(experiment: Experiment, lines: Sequence[Compared]) -> list[tuple[Table, str]]:
    """Return the published figures next to ours, with the assumptions about them; [] without published figures."""
    if not lines or experiment.published is None:
        return []
    headings = "row | point | metric | published | ours | 95 % | discussions | difference"
    return [(table(headings, map(_compared, lines), "published"), assumed(experiment.published.error))]


def _compared(line: Compared) -> tuple[str, ...]:
    ours = line.ours
    obtained = [figure(ours.value), interval(ours.low, ours.high), str(ours.n)] if ours else [""] * 3
    published = line.published.words if line.published else ""
    return (_name(line.row), line.point, one_line(line.metric), published, *obtained, one_line(line.words))


@dataclass(frozen=True)
class Carried:
    """A row at one point. Means are over the discussions that ended with a decision; None if unknown."""

    row: str
    point: str
    right: Share | None
    """The share of right answers, with failures as wrong."""
    message_bytes: float | None
    """Mean bytes of a message that another agent heard, in each discussion."""
    computed: float | None
    """Positions that a discussion computed."""
    seconds: float | None
    per_kilobyte: float | None
    """The share right above the floor x the point's number (1 if it has none), by the kB heard in a discussion."""


def carried(experiment: Experiment, runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Carried]:
    """Return the rows at each point, in the order of the points; [] for an experiment without points."""
    by_run = {summary.run: summary for summary in summaries}
    names = [name for point in experiment.points for name, row in experiment.rows.items() if row.point == point]
    at_points = []
    for name in (name for name in names if name in by_run):
        row, right = experiment.rows[name], by_run[name].failed_wrong
        done = [record for record in runs[name].records.values() if record.decision]
        sizes = [hearings(record.prompts) for record in done]
        total = sum(size.nbytes for size in sizes)
        floor, gain = by_run.get(run_name(experiment.floor or "", row.point)), None
        if total and floor and floor.run != name and floor.failed_wrong and right:
            number = experiment.axis[1].get(row.point, 1)
            gain = (right.value - floor.failed_wrong.value) * number * 1000 * len(done) / total
        means = [size.nbytes / size.times for size in sizes if size.times]
        message_bytes = fmean(means) if means else None
        is_counted = done and not any(record.cost.uncounted for record in done)
        computed = fmean(sum(map(computed_tokens, record.messages)) for record in done) if is_counted else None
        at_points.append(Carried(row.name, row.point, right, message_bytes, computed, by_run[name].seconds, gain))
    return at_points


def carried_table(experiment: Experiment, rows: Sequence[Carried]) -> Table:
    """Return the table; empty cells are unknown or do not apply."""
    noun, _ = experiment.axis
    gain = [f"{noun or 'right'} per kB"] * bool(experiment.floor)
    headings = ["row", "point", "right", "95 %", "bytes a message", "positions", "seconds, in parallel", *gain]
    lines = []
    for row in rows:
        numbers = (row.message_bytes, row.computed, row.seconds, row.per_kilobyte)[: 3 + len(gain)]
        shown = ("" if number is None else figure(number) for number in numbers)
        lines.append((f"`{one_line(row.row)}`", row.point, *share_cells(row.right), *shown))
    return Table(headings, lines, "points")
