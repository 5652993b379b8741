"""The reproduction of a published table: its list, its description and plan, its runs, and figures side by side.

Nothing here imports torch or langgraph before something runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.cli.option_models import ReproduceOptions
from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.outputs import check_folder
from sottovoce.core.text import counted, figure, one_line
from sottovoce.experiments.row_content import Content, choose
from sottovoce.experiments.schema import Experiment
from sottovoce.experiments.tables.parts import experiment_of, missing, small_of, weights_here, write_stand_ins
from sottovoce.experiments.tables.table import Published, names, read_published, save_figures
from sottovoce.report.tables import interval, show, table
from sottovoce.runs.allowed import Trust
from sottovoce.runs.job import SAME_COMMAND, check_failures, resumable
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import runs_folder

if TYPE_CHECKING:
    from sottovoce.experiments.tables.comparison import ComparedFigure

Key = tuple[str, str]
"""A model and a part of a table."""
STAND_INS = "stand-ins"
SMALL = "This was a small run on the bundled model: it shows that every row runs, and nothing else. "
HEADINGS = "row | metric | published | obtained | 95 % | discussions | in words"


def reproduce_table(options: ReproduceOptions, limits: Limits, trust: Trust) -> None:
    """List the tables, print the plan of one, or run it and print its figures beside the published ones."""
    if options.name is None:
        show(_list(options.data))
        return
    published = read_published(options.name)
    choose("row", options.row, published.every_row)
    models = choose("model", options.model, published.models)
    parts = choose("part", options.part, published.parts)
    chosen = [(model, part) for model, part in published.experiments() if model in models and part in parts]
    if options.plan:
        show("\n".join([*_about(published), *_plan(published, chosen, options.data)]))
    else:
        _run(published, chosen, options, limits, trust)


def _list(data: Path) -> str:
    lines = []
    for name in names():
        published = read_published(name)
        models = ", ".join(f"{each} ({weights_here(weights)})" for each, weights in published.models.items())
        lacks = {part for model, part in published.experiments() if missing(published, model, part, data)}
        parts = ", ".join(f"{part}{' (not here)' * (part in lacks)}" for part in published.parts)
        lines.append([f"`{name}`", f"{published.paper.name}, {published.paper.place}", models, parts])
    return table("name | paper | models | data", lines)


def _about(published: Published) -> Iterator[str]:
    yield f"{published.paper.words}: {' '.join(published.about.split())}"
    if published.claim:
        yield f"The paper's claim: {' '.join(published.claim.split())}"
    yield from (f"- differs: {' '.join(text.split())}" for text in published.differs)
    for name, by in published.printed.items():
        yield f"- also printed: {name}: {', '.join(f'{metric} {value:g}' for metric, value in by.items())}"
    yield from (f"- drawn without numbers: {text}" for text in published.plotted)
    yield f"- printed errors: {published.error}"
    yield f"- overlap with the authors' training or validation questions: {' '.join(published.overlap.split())}"
    yield from (f"- missing: {name}: {' '.join(why.split())}" for name, why in published.missing.items())


def _plan(published: Published, chosen: list[Key], data: Path) -> Iterator[str]:
    for model, part in chosen:
        n = published.parts[part].get("limit")
        of = f" of {counted(n * len(published.seeds), 'discussion')}" if n else ""
        lacks = "".join(f"; {lack}" for lack in missing(published, model, part, data))
        yield f"- {model}, {part}: {counted(len(published.rows_of(model, part)), 'row')}{of}{lacks}"


def _run(published: Published, chosen: list[Key], options: ReproduceOptions, limits: Limits, trust: Trust) -> None:
    from sottovoce.analysis.statistics import check_installed

    check_installed()
    folder = options.save or runs_folder() / f"{options.name}{'-small' * options.small}"
    check_folder(folder, "--save", "")
    print("\n".join(_about(published)), end="\n\n")
    if options.small:
        write_stand_ins(published, folder / STAND_INS)
        experiments = _small_size(published, chosen, folder / STAND_INS)
    else:
        experiments = _full_size(published, chosen, options)
    runs = 0
    for key, content in experiments:
        _run_part(published, key, content, folder / "-".join(key), options, limits, trust)
        runs += 1
    if not runs:
        raise UsageError(f"nothing of {options.name!r} can run here; get what is named above, or use --small")
    print(f"{SMALL * options.small}Saved in {one_line(str(folder))}")


def _small_size(published: Published, chosen: list[Key], stand_ins: Path) -> Iterator[tuple[Key, Content]]:
    """Yield the small experiments; print a line for each that equals an earlier one, with other models and data."""
    seen: list[Content] = []
    for model, part in chosen:
        content = small_of(published, model, part, stand_ins)
        if (same := {**content, "about": ""}) in seen:
            print(f"- {model}, {part}: in small the same as an earlier one")
        else:
            seen.append(same)
            yield (model, part), content


def _full_size(published: Published, chosen: list[Key], options: ReproduceOptions) -> Iterator[tuple[Key, Content]]:
    """Yield the experiments that can run; print a line for each that cannot. A replaced model need not be available."""
    for model, part in chosen:
        gone = published.gone.get(model) if options.instead else None
        lacks = [line for line in missing(published, model, part, options.data) if gone is None or gone not in line]
        if lacks:
            print(f"{model}, {part}: not run: {'; '.join(lacks)}\n")
        else:
            yield (model, part), experiment_of(published, model, part, options.data, weights=options.instead)


def _run_part(
    published: Published,
    key: Key,
    content: Content,
    folder: Path,
    options: ReproduceOptions,
    limits: Limits,
    trust: Trust,
) -> None:
    from sottovoce.cli.run_screen import shown_row
    from sottovoce.experiments.runner import RowRunner, run_experiment
    from sottovoce.experiments.tables.comparison import assumed, compare_figures

    experiment = Experiment.model_validate(content)
    save_figures(published, *key, folder)
    rows = [name for name in experiment.rows if name in options.row]
    if options.row and not rows:
        return
    with resumable(f"all messages are saved in {str(folder)!r}"):
        runs, why = run_experiment(experiment, RowRunner(folder, limits, shown_row), names=rows, trust=trust)
    if options.small:
        print(f"- {', '.join(key)}: {', '.join(runs)}")
    else:
        compared = table(HEADINGS, map(_cells, compare_figures(published, *key, runs)))
        show(f"{', '.join(key)}:\n\n{compared}\n\n{assumed(published.error)}\n")
    if why:
        raise StoppedError(f"stopped: {why}; {SAME_COMMAND} resumes")
    check_failures(runs.values())


def _cells(compared: ComparedFigure) -> list[str]:
    ours = compared.obtained
    obtained = [figure(ours.value), interval(ours.low, ours.high)] if ours else ["", ""]
    published = compared.published.words if compared.published else ""
    return [f"`{compared.row}`", compared.metric, published, *obtained, str(compared.n or ""), one_line(compared.words)]
