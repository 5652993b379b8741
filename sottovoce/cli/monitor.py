"""The commands `monitor collect|train|evaluate|show`: their options and their output.

Nothing here imports numpy before a command runs: the command line reads the options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands
from sottovoce.cli.options import argument
from sottovoce.core.errors import UsageError
from sottovoce.core.files import FORCE, OutputFile
from sottovoce.core.text import counted, one_line, say
from sottovoce.core.trust import TRUST_PATHS, Trust
from sottovoce.core.validation import Checked
from sottovoce.monitors.settings import Measure, Training
from sottovoce.report.tables import show as show_table
from sottovoce.report.tables import table
from sottovoce.runs.run_directory import find_run

if TYPE_CHECKING:
    from sottovoce.analysis.monitors import Resets
    from sottovoce.monitors.monitor import Monitor
    from sottovoce.monitors.training import Trained, Tried

commands = Commands("monitor")
SHOWN = 5
"""Number of candidates that are printed."""


class CollectOptions(Checked):
    """The runs to collect rows from, and the file to write."""

    model_config = ConfigDict(title="Rows")

    runs: list[str] = argument("Runs by their names in `runs list`, `latest`, or folders.", "RUN")
    to: Path = Field(description="The file to write, .jsonl.")
    force: bool = Field(default=False, description=FORCE)
    trust_paths: bool = TRUST_PATHS


class TrainOptions(Training):
    """The rows to train on, and the file to write."""

    model_config = ConfigDict(title="Training")

    rows: Path = argument("A .jsonl file of turns: game, turn, role, features, failed, question.", "ROWS")
    to: Path = Field(description="The file to write, .json.")
    force: bool = Field(default=False, description=FORCE)
    role: str | None = Field(default=None, description="Role whose turns are used, if rows have several roles.")


class ShowOptions(Checked):
    """A monitor."""

    model_config = ConfigDict(title="Monitor")

    monitor: Path = argument("A file that `monitor train` wrote.", "MONITOR")


class EvaluateOptions(ShowOptions):
    """A monitor, and the games to evaluate it on."""

    rows: Path = argument("A .jsonl file of turns of other games.", "ROWS")


@commands.add(CollectOptions, Measure)
def collect(options: CollectOptions, measure: Measure) -> None:
    """Make training rows for a monitor from saved runs: one for each reply of a local agent."""
    from sottovoce.analysis.monitors import collected, measure_of  # late: langgraph and torch take seconds
    from sottovoce.runs.run import load_run

    file = OutputFile(options.to, "--to", force=options.force, endings=(".jsonl", ".ndjson"))
    folders = dict.fromkeys(find_run(name).resolve() for name in options.runs)
    runs = [load_run(folder) for folder in folders]
    measure = measure_of(runs, measure)
    rows, passed = collected(runs, measure, Trust(trust_paths=options.trust_paths))
    file.write("".join(row.model_dump_json() + "\n" for row in rows))
    games, judged = {row.game: row.failed for row in rows}, sum(row.features is not None for row in rows)
    summary = f"{counted(len(rows), 'turn')} of {counted(len(games), 'game')}, {sum(games.values())} failed"
    summary += f"; {judged:,} of {len(rows):,} turns have features: {measure}"
    left_out = "".join(f"; skipped: {n:,} {what}" for what, n in passed.items() if n)
    say(f"{summary}{left_out}; written to {one_line(str(options.to))}")


@commands.add(TrainOptions)
def train(options: TrainOptions) -> None:
    """Train a monitor on turns of games that failed and of games that did not."""
    from sottovoce.monitors.dataset import read_rows  # late: numpy, and scikit-learn, take a second
    from sottovoce.monitors.training import check_installed
    from sottovoce.monitors.training import train as train_monitor

    check_installed()
    file = OutputFile(options.to, "--to", force=options.force, endings=(".json",))
    trained = train_monitor(read_rows(options.rows), options.role, options)
    file.write(trained.monitor.to_json())
    of = ", ".join(
        f"{counted(len(part), 'game')} {what} ({int(part.failed.sum())} failed)"
        for what, part in (("fitted to", trained.split.fitted), ("for validation", trained.split.choosing))
    )
    heading = f"role {one_line(trained.monitor.role)}: {of}, {counted(len(trained.tried), 'candidate')}"
    rows = table("features | degree | threshold | of failed | of successful | gain", map(_tried, trained.tried[:SHOWN]))
    show_table(heading, rows, _validated(trained), _monitor(trained.monitor))
    say(f"written to {one_line(str(options.to))}")


@commands.add(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Evaluate a monitor on other games, and compare it with a random trigger."""
    from sottovoce.analysis.compare import p_in_words
    from sottovoce.analysis.monitors import evaluate_monitor
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.monitors.dataset import read_rows
    from sottovoce.monitors.monitor import Monitor

    check_installed()
    monitor, file = Monitor.read(options.monitor), read_rows(options.rows)
    if monitor.fitted is not None and monitor.fitted.sha256 == file.digest:
        say("the monitor was trained on these rows, so it looks better here than it is", error=True)
    result = evaluate_monitor(monitor, file.games(monitor.role))
    rows = table("trigger | threshold | games reset | of failed | of successful | gain", map(_resets, result.triggers))
    difference, games = result.difference, counted(result.games, "game")
    interval = f"{_points(difference.low)} to {_points(difference.high)}"
    verdict = (
        f"one reset by the monitor is worth {_points(difference.value)} points more than by chance "
        f"(95 % {interval}; {p_in_words(difference.p)}; {games})"
    )
    show_table(f"{games}, {result.failed} failed", rows, verdict)


@commands.add(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a monitor's settings and its training data."""
    from sottovoce.monitors.monitor import Monitor

    say(_monitor(Monitor.read(options.monitor)))


def _validated(trained: Trained) -> str:
    """Return a warning about the gain of the best of many, with an estimate from games that did not choose it."""
    from sottovoce.analysis.statistics import paired_test
    from sottovoce.monitors.training import TAUS

    gains, choices = trained.validated.tolist(), len(trained.tried) * len(TAUS)
    try:
        gain = paired_test(gains, trained.split.choosing.question.tolist())
        estimate = f"{_points(gain.value)} points (95 % {_points(gain.low)} to {_points(gain.high)})"
    except UsageError as error:  # without the extra `eval`
        estimate = f"{_points(sum(gains) / len(gains))} points (no interval: {error})"
    return (
        f"These are the best of {choices:,} choices of candidate and threshold on {counted(len(gains), 'game')}, so "
        f"the gains look better than they are. Chosen on nine tenths of their questions, the gain on the rest is "
        f"{estimate}."
    )


def _tried(candidate: Tried) -> list[str]:
    monitor, triggered = candidate.monitor, candidate.triggered
    failed, successful = triggered.failed / triggered.of_failed, triggered.successful / triggered.of_successful
    of = [one_line(", ".join(monitor.features)), str(monitor.degree), f"{monitor.threshold:.2f}"]
    return [*of, f"{failed:.0%}", f"{successful:.0%}", _points(triggered.gain)]


def _resets(resets: Resets) -> list[str]:
    shares = [f"{resets.of_failed:.0%}", f"{resets.of_successful:.0%}"]
    return [resets.trigger, f"{resets.threshold:.3f}", f"{resets.games:.1f}", *shares, _points(resets.gain)]


def _monitor(monitor: Monitor) -> str:
    lines = [f"triggers above {monitor.threshold:.4g}, role {monitor.role}"]
    if monitor.is_random:
        lines.append(f"draws a uniform number at each turn: triggers in {1 - monitor.threshold:.0%} of turns")
    else:
        within = zip(monitor.features, monitor.bounds, strict=True)
        bounds = ", ".join(f"{name} {low:.4g} to {high:.4g}" for name, (low, high) in within)
        logs = ", logarithms of entropy and varentropy" if monitor.log_features else ""
        lines.append(f"degree {monitor.degree}, {len(monitor.coefficients)} terms of {bounds}{logs}")
        lines.append(f"measured: {monitor.measured or 'unknown'}")
    if (of := monitor.fitted) is not None:
        rank = of.rank if monitor.is_random else f"{of.rank} of {of.candidates} by gain"
        lines += [
            f"fitted on {of.data}, sha256 {of.sha256[:12]}: {of.games} games, {of.failed} failed, {of.turns} turns; "
            f"{of.validation} of them for validation, seed {of.seed}, ridge {of.alpha:g}",
            f"{rank}; threshold by {of.chosen_by}, where the gain is {_points(of.gain)} points",
            f"made by {', '.join(f'{name} {version}' for name, version in of.made_by.items())}",
        ]
    return "\n".join(map(one_line, lines))


def _points(part: float) -> str:
    return f"{100 * part:+.1f}"
