"""The results of a comparison, printed and as files for a paper: CSV, Markdown, LaTeX or JSON, by the ending.

Markdown and LaTeX have the tables with the chosen columns, and the verdicts below them; in LaTeX a table has units in
its heads, a caption and a label, and is no wider than the paper's column. CSV and JSON have the numbers behind them,
not rounded: JSON a list for each table, CSV all rows below one another, each with its table in the first column. Names
of runs are between backticks in all texts; the rest is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

from sottovoce.analysis.compare import Against, Comparison, Summary
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.files import OutputFile, check_folder
from sottovoce.core.text import harmless
from sottovoce.experiments.files import ended
from sottovoce.experiments.published import compare_figures
from sottovoce.experiments.schema import Experiment
from sottovoce.report.comparison import (
    carried,
    carried_table,
    comparison_of,
    published_table,
    sentences,
    tables,
    waiting,
)
from sottovoce.report.plots import DRAWN, ENDINGS, drawing, drawn
from sottovoce.report.tables import Table
from sottovoce.report.transcript import SPECIAL
from sottovoce.runs.record import csv_of
from sottovoce.runs.run import Run

ITEM = "- "
CODE = re.compile(r"`([^`]*)`")
NUMBER = re.compile(r"(?:[-+<]? ?\d.*)?")
"""A cell of a column that is aligned to the right."""
MINUS = re.compile(r"(?<![\w.])-(?=\d)")
LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "×": r"$\times$"}
)

FITTING = "accuracy | 95 % | failed | tokens written | FLOPs"
"""Columns of the runs' table that a paper's column holds beside the names."""
INTERVAL = "95 %"
PERCENT = re.compile(r"[\d.]+%(?: to [\d.]+%)?")
POWER = re.compile(r"\d\.\d+e[+-]\d+")
CAPTIONS = {
    "runs": "Accuracy of each run with its 95 % interval, and means per discussion.",
    "measures": "Measures of each run, with 95 % intervals.",
    "pairs": "Differences between runs in points of 100, with 95 % intervals and the p of a permutation test.",
    "points": "Share of right answers of each row at each point, and means per discussion.",
    "published": "Published figures, and ours with 95 % intervals.",
}
"""Captions by the names of tables."""
FIT = r"\ifdim\wd0>\columnwidth\resizebox{\columnwidth}{!}{\usebox0}\else\usebox0\fi"


@dataclass
class Findings:
    """The results of a comparison of runs."""

    parts: list[Table | str] = field(default_factory=list)
    """Tables and texts in their order; in a text each line is an item of a list, or belongs to a paragraph."""
    numbers: dict[str, list[JSON]] = field(default_factory=dict)
    """The rows behind the tables, by table."""
    summaries: Sequence[Summary] = ()
    columns: Sequence[str] = ()
    """The columns of tables in Markdown and LaTeX; see `chosen`."""
    file: str = "comparison"
    """The name of the file without its ending, which begins the labels of its tables: two files share none."""


def findings(
    runs: Mapping[str, Run],
    against: Against = None,
    experiment: Experiment | None = None,
    notes: Iterable[str] = (),
    *,
    force: bool = False,
) -> Findings:
    """Compare runs, or the rows of an experiment with its paper's printed figures; `notes` come last.

    Errors: see `compare`.
    """
    found = Findings()
    if experiment is None:
        found = compared(comparison_of(runs, against, force=force))
    elif results := ended(runs):
        started = not isinstance(against, str) or against in results
        comparison = comparison_of(runs, against if started else None, force=force)
        found = compared(comparison)
        rows, lines = carried(experiment, runs, comparison.runs), compare_figures(experiment, runs)
        found.parts.insert(1, carried_table(experiment, rows) if rows else "")
        found.parts += [part for each in published_table(experiment, lines) for part in each]
        found.numbers["points"] = [asdict(row) for row in rows]
        found.numbers["published"] = []
        for line in lines:
            printed = line.published and {"value": line.published.mean, **line.published.model_dump()}
            found.numbers["published"].append({**asdict(line), "published": printed})
    found.parts.append("\n".join([*waiting(runs), *notes]))
    return found


def compared(comparison: Comparison) -> Findings:
    """Return the tables and verdicts of a comparison, and the numbers behind them."""
    verdicts = "\n".join(f"{ITEM}{sentence}" for sentence in sentences(comparison))
    pairs = [{**asdict(pair), "verdict": pair.verdict} for pair in comparison.pairs]
    numbers = {"runs": [asdict(run) for run in comparison.runs], "pairs": pairs}
    return Findings([comparison.warning, *tables(comparison), verdicts], numbers, comparison.runs)


# Files


class Files:
    """The files that a command writes about runs; their paths are checked before anything runs."""

    def __init__(
        self, to: Sequence[Path], plots: Path | None, columns: Sequence[str] = (), *, force: bool = False
    ) -> None:
        """Check the paths.

        Raises:
            UsageError: a file's ending is unknown, a file or the folder of plots cannot be written, or no file has
                columns to choose.
        """
        self._plots, self.force = plots, force
        self._columns = [name.strip() for given in columns for name in given.split("|")]
        self._to = [OutputFile(path, "--to", force=force, endings=[*FORMS]) for path in to]
        if wrong := next((path for path in to if not path.suffix), None):
            raise UsageError(f"--to {str(wrong)!r} has no ending; expected {' or '.join(FORMS)}")
        if columns and not any(path.suffix.lower() in (".tex", ".md") for path in to):
            raise UsageError("--columns chooses columns of .tex and .md files, and --to names none; add --to table.tex")
        if plots is not None:
            check_folder(plots, "--plots", "")
            drawing()  # refuses if matplotlib is missing
            if plots.is_dir():
                self._files(plots)

    def write(self, content: Findings, runs: Mapping[str, Run]) -> list[Path]:
        """Write the files, each whole or not at all; return their paths. Errors: see `chosen`."""
        content = replace(content, columns=self._columns)
        texts = [FORMS[each.path.suffix.lower()](replace(content, file=each.path.stem)) for each in self._to]
        for file, text in zip(self._to, texts, strict=True):
            file.write(text)
        written = [file.path for file in self._to]
        if self._plots is not None:
            self._plots.mkdir(parents=True, exist_ok=True)
            files = self._files(self._plots)
            for name, plot in drawn(runs, content.summaries).items():
                files[name].write(plot)
                written.append(files[name].path)
        return written

    def _files(self, folder: Path) -> dict[str, OutputFile]:
        names = [f"{name}{ending}" for name in DRAWN for ending in ENDINGS]
        return {name: OutputFile(folder / name, "--plots", force=self.force) for name in names}


def chosen(parts: Sequence[Table | str], names: Sequence[str]) -> Sequence[Table | str]:
    """Return the parts with these columns of the tables, behind the first; all parts if no columns are named.

    A column of several tables is that of the one with most named columns; tables without any are left out.

    Raises:
        UsageError: no table has a column of a name.
    """
    if not names:
        return parts
    tables, left, holders = [part for part in parts if isinstance(part, Table)], {*_columns(names)}, list[Table]()
    if unknown := left - {column for each in tables for column in _columns(each.headings)}:
        known = " | ".join(dict.fromkeys(heading for each in tables for heading in each.headings))
        raise UsageError(f"unknown column {min(unknown)!r} in --columns; choose from: {known}")
    while left:
        holders.append(max(tables, key=lambda part: len(left.intersection(_columns(part.headings)))))
        left = left.difference(_columns(holders[-1].headings))
    kept = [part for part in parts if isinstance(part, str) or part in holders]
    return [part if isinstance(part, str) else _selected(part, names) for part in kept]


def _columns(headings: Sequence[str]) -> list[str]:
    """Return unique names of columns: an interval is that of the column before it."""
    return [f"{before}, {name}" if name == INTERVAL else name for before, name in pairwise(("", *headings))]


def _selected(part: Table, names: Sequence[str]) -> Table:
    known = _columns(part.headings)
    places = dict.fromkeys([0, *(known.index(name) for name in _columns(names) if name in known)])
    return part._replace(
        headings=[part.headings[at] for at in places], rows=[[row[at] for at in places] for row in part.rows]
    )


def _json(content: Findings) -> str:
    texts = [line.removeprefix(ITEM) for part in content.parts if isinstance(part, str) for line in part.splitlines()]
    return json.dumps({**content.numbers, "notes": [*filter(None, texts)]}, indent=2, ensure_ascii=False) + "\n"


def _csv(content: Findings) -> str:
    rows = [{"table": name, **dict(_flat(row))} for name, rows in content.numbers.items() for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return csv_of((name for name in names if any(row.get(name) is not None for row in rows)), rows)


def _flat(row: Mapping[str, JSONValue], before: str = "") -> Iterator[tuple[str, JSONValue]]:
    """Yield the values of a row; an inner mapping gives accuracy_low and others, and accuracy for its own value."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        else:
            listed = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            yield (before.removesuffix("_") if name == "value" else f"{before}{name}"), listed


def _markdown(content: Findings) -> str:
    def cell(text: str) -> str:
        return _by_span(text, lambda code: f"`{code}`".replace("|", r"\|"), lambda plain: SPECIAL.sub(r"\\\1", plain))

    blocks = []
    for part in (part for part in chosen(content.parts, content.columns) if part):
        if isinstance(part, str):
            blocks.append("\n".join(map(cell, part.splitlines())))
        else:
            head, *rows = ([*map(cell, cells)] for cells in (part.headings, *part.rows))
            blocks.append("\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)))
    return "\n\n".join(blocks) + "\n"


def _latex(content: Findings) -> str:
    blocks = [r"% in the preamble: \usepackage{booktabs,graphicx}"]
    for part in (part for part in chosen(content.parts, content.columns) if part):
        if isinstance(part, str):
            lines, listed = list[str](), False
            for line in part.splitlines():
                if line.startswith(ITEM) != listed:
                    listed = not listed
                    lines.append(rf"\{'begin' if listed else 'end'}{{itemize}}")
                lines.append(rf"\item {_tex(line.removeprefix(ITEM))}" if listed else _tex(line))
            blocks.append("\n".join([*lines, *([r"\end{itemize}"] if listed else [])]))
        else:
            fits = content.columns or part.name != "runs"
            blocks.append(_latex_table(part if fits else _selected(part, FITTING.split(" | ")), content.file))
    return "\n\n".join(blocks) + "\n"


def _latex_table(part: Table, file: str) -> str:
    """Return a table that is scaled down where it is wider than the paper's column."""
    columns = [_latex_column(*column) for column in zip(part.headings, *part.rows, strict=True)]
    layout = "".join(align for align, *_ in columns)
    head, *rows = (" & ".join(cells) + r" \\" for cells in zip(*(cells for _, *cells in columns), strict=True))
    label = re.sub("[^A-Za-z0-9-]+", "-", f"{file}-{part.name}")
    named = [rf"\caption{{{_tex(CAPTIONS[part.name])}}}", rf"\label{{tab:{label}}}"] if part.name else []
    begin = [
        r"\begin{table}",
        r"\centering\footnotesize",
        r"\setlength{\tabcolsep}{4pt}\setlength{\belowcaptionskip}{4pt}",
        *named,
    ]
    inner = [rf"\sbox0{{\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    return "\n".join([*begin, *inner, r"\end{tabular}}%", FIT, r"\end{table}"])


def _latex_column(heading: str, *cells: str) -> list[str]:
    """Return the alignment of a column, its head in lines, the last with the unit, and its cells without it."""
    known, units = [*filter(None, cells)], list[str]()
    if known and all(map(PERCENT.fullmatch, known)):
        units = [] if heading == INTERVAL else [r"(\%)"]
        cells = tuple(cell.replace("%", "") for cell in cells)
    elif known and all(map(POWER.fullmatch, known)):
        power = max(int(cell.partition("e")[2]) for cell in known)
        units = [f"($10^{{{power}}}$)"]
        cells = tuple(cell and f"{float(cell) / 10**power:.3g}" for cell in cells)
    align = "r" if all(map(NUMBER.fullmatch, cells)) else "l"
    lines = [*map(_tex, wrap(heading, max(map(len, (*cells, *heading.split()))))), *units]
    head = r"\\".join(lines)
    return [align, rf"\shortstack[{align}]{{{head}}}" if lines[1:] else head, *map(_tex, cells)]


def _tex(text: str) -> str:
    def code(text: str) -> str:
        return rf"\texttt{{{text.translate(LATEX)}}}"

    return _by_span(text, code, lambda words: MINUS.sub("$-$", words.translate(LATEX)))


def _by_span(text: str, code: Callable[[str], str], plain: Callable[[str], str]) -> str:
    """Return a text with its parts between backticks changed by `code`, and the rest by `plain`."""
    spans = CODE.split(harmless(text))
    return "".join((code if at % 2 else plain)(span) for at, span in enumerate(spans))


FORMS: dict[str, Callable[[Findings], str]] = {".csv": _csv, ".md": _markdown, ".tex": _latex, ".json": _json}
"""The writers of files, by their endings."""
