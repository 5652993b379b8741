"""Tables and plots as files for a paper: right numbers, nothing that LaTeX or Markdown would take for its own."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from io import StringIO
from pathlib import Path

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.experiments.schema import Experiment
from sottovoce.report.comparison import WITH_FAILURES
from sottovoce.report.paper import FORMS, Files, Findings, findings
from sottovoce.report.tables import Table, markdown
from sottovoce.runs.run import Run
from tests.report.test_carried import scripted

HOSTILE = r"`a_b|c` is 100 % {sure} & <b> costs $5 #1 ~x^2 \input{x} -3 ± 1"
CELLS = (
    "`bridge_debates.kv` | 120 | 480 | 71.3% | 63.1% to 78.2% | 70.0% | 61.0% to 77.0% | 3 | 2 | 12.5 | 12,345 | 9,876"
)
WIDE = Table(WITH_FAILURES.split(" | "), [[*CELLS.split(" | "), "1,234", "1.23e+13", "12.34"]], "runs")
PAIRS = Table(
    ["run", "against", "questions", "points", "95 %"], [["`kv`", "`nl`", "120", "-3.0", "-5.1 to 0.9"]], "pairs"
)


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Run]:
    right = {"words_1": [True] * 3 + [False], "=kv": [True, False, False, False]}
    return {name: scripted(tmp_path / str(len(name)), each, carry=512) for name, each in right.items()}


def test_csv_and_json_have_the_numbers_of_the_tables_not_rounded(runs: dict[str, Run]) -> None:
    found = findings(runs)

    rows = [*csv.DictReader(StringIO(FORMS[".csv"](found)))]
    read = json.loads(FORMS[".json"](found))

    assert [(row["table"], row["run"], row["against"]) for row in rows] == [
        *(("runs", name, "") for name in ("words_1", "'=kv")),  # no spreadsheet computes the name
        ("pairs", "'=kv", "words_1"),
    ]
    assert [float(row["accuracy"]) for row in rows[:2]] == [0.75, 0.25]
    assert float(rows[1]["accuracy_low"]) == read["runs"][1]["accuracy"]["low"] != 0.25
    assert read["pairs"][0]["difference"]["value"] == -0.5 and read["pairs"][0]["verdict"] in read["notes"]


def test_published_figures_are_a_table_of_their_own_in_all_forms(runs: dict[str, Run]) -> None:
    points = {"p1": {"questions": {"sample": "split/1", "limit": 4}}}
    published = {"paper": "A paper", "figures": {"p1": {"words": 0.5}}}
    given = {"points": points, "rows": {"words": {"scheme": "debate"}}, "against": "words", "published": published}
    experiment = Experiment.model_validate(given)

    found = findings({"words.p1": runs["words_1"]}, experiment.baselines, experiment, ["- `note`: x"])

    assert "| `words` | p1 | accuracy | 0.5 | 0.75 |" in markdown(*found.parts) and found.parts[-1] == "- `note`: x"
    assert r"\texttt{words} & p1 & accuracy & 0.5 & 0.75 &" in FORMS[".tex"](found)
    [line] = [row for row in csv.DictReader(StringIO(FORMS[".csv"](found))) if row["table"] == "published"]
    assert (line["published"], line["ours"], line["ours_n"]) == ("0.5", "0.75", "4")


def test_what_markdown_and_latex_would_take_for_their_own_is_escaped() -> None:
    found = Findings([Table(("run", "what"), (("`a_b`", HOSTILE), ("`c`", "< 0.001"))), f"- {HOSTILE}\n- two", "about"])

    tex, page = FORMS[".tex"](found), FORMS[".md"](found)

    cell = (
        r"\texttt{a\_b\textbar{}c} is 100 \% \{sure\} \& \textless{}b\textgreater{} costs \$5 \#1 \textasciitilde{}x"
        r"\textasciicircum{}2 \textbackslash{}input\{x\} $-$3 $\pm$ 1"
    )
    assert rf"\texttt{{a\_b}} & {cell} \\" in tex and rf"\item {cell}" in tex
    assert tex.count(r"\begin") == tex.count(r"\end") == 3 and r"\toprule" in tex and "\\end{itemize}\n\nabout" in tex
    assert r"| `a_b` | `a_b\|c` is 100 % \{sure\} \& \<b\> costs \$5 \#1 \~x^2 \\input\{x\} -3 ± 1 |" in page
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines()[:4]]
    assert bars == [3] * 4


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex: apt-get install texlive-latex-base")
@pytest.mark.parametrize("columns", ["", WITH_FAILURES])
def test_tables_of_any_columns_fit_a_column_of_a_paper(columns: str, tmp_path: Path) -> None:
    tex = FORMS[".tex"](Findings([WIDE, PAIRS, "- a verdict"], columns=columns.split(" | ") if columns else ()))
    rules = r"\IfFileExists{booktabs.sty}{\usepackage{booktabs}}{" + "".join(
        rf"\let\{name}rule\hline" for name in ("top", "mid", "bottom")
    )
    page = (
        rf"\documentclass[twocolumn]{{article}}\usepackage{{graphicx}}{rules}}}\begin{{document}}{tex}\end{{document}}"
    )
    (tmp_path / "paper.tex").write_text(page)

    made = subprocess.run(
        ["pdflatex", "-draftmode", "-halt-on-error", "paper.tex"], cwd=tmp_path, capture_output=True, text=True
    )

    assert made.returncode == 0, made.stdout
    assert "Overfull" not in made.stdout


def test_latex_has_the_columns_that_fit_with_units_in_heads_a_caption_and_a_label_of_its_file() -> None:
    tex = FORMS[".tex"](Findings([WIDE, PAIRS], file="my table"))

    head = r"run & \shortstack[r]{accuracy\\(\%)} & 95 \% & failed & \shortstack[r]{tokens\\written} & "
    assert rf"{head}\shortstack[r]{{FLOPs\\($10^{{13}}$)}} \\" in tex
    assert r"\texttt{bridge\_debates.kv} & 71.3 & 63.1 to 78.2 & 2 & 1,234 & 1.23 \\" in tex
    assert [*re.findall(r"\\label{(.*)}", tex)] == ["tab:my-table-runs", "tab:my-table-pairs"]
    assert tex.count(r"\caption") == tex.count(r"\resizebox{\columnwidth}") == 2


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        ("failed as wrong | 95 % | accuracy", ["run | failed as wrong | 95 % | accuracy"]),
        ("questions | calls", ["run | questions | calls"]),  # pairs have questions too, and are left out
        ("points | 95 % | accuracy", ["run | accuracy", "run | points | 95 %"]),
        ("against | questions", ["run | against | questions"]),
    ],
)
def test_columns_are_chosen_by_their_printed_headings_in_that_order(columns: str, heads: list[str]) -> None:
    page = FORMS[".md"](Findings([WIDE, PAIRS, "a verdict"], columns=columns.split(" | ")))

    assert [line[2:-2] for line in page.splitlines() if line.startswith("| run |")] == heads
    assert ("61.0% to 77.0%" in page) == ("failed as wrong" in columns) and page.endswith("a verdict\n")


def test_unknown_columns_are_refused_in_a_line_with_those_that_there_are(runs: dict[str, Run], tmp_path: Path) -> None:
    for name in ("acuracy", "calls | 95 %"):  # there is no interval of calls
        with pytest.raises(
            UsageError, match=r"^unknown column '.*' in --columns; choose from: run \| questions \|.*Holm$"
        ):
            Files([tmp_path / "a.csv", tmp_path / "a.tex"], None, [name]).write(findings(runs), runs)
    with pytest.raises(UsageError, match=r"--columns chooses columns of \.tex and \.md files, and --to names none"):
        Files([tmp_path / "a.csv"], None, ["run"])
    assert [*tmp_path.glob("a.*")] == []


def test_unknown_endings_and_files_that_exist_are_refused_before_anything_is_written(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    for name, said in (("a.xls", "ends in '.xls'; expected .csv or .md or .tex or .json"), ("a", "has no ending")):
        with pytest.raises(UsageError, match=said):
            Files([tmp_path / "a.csv", tmp_path / name], None)
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "right.svg").write_text("mine")
    with pytest.raises(UsageError, match=r"right.svg' exists already; choose another file, or write over it"):
        Files([tmp_path / "a.csv"], tmp_path / "plots")

    written = Files([tmp_path / "a.csv"], tmp_path / "plots", force=True).write(findings(runs), runs)

    names = ("right", "right_by_bytes", "votes_by_round")  # how many tokens these runs took is not known
    assert [path.name for path in written] == [
        "a.csv",
        *(f"{name}.{each}" for name in names for each in ("png", "svg")),
    ]
    assert sorted(tmp_path.glob("**/*.part")) == []


def test_plots_are_the_same_bytes_again_and_runs_differ_without_their_color(runs: dict[str, Run]) -> None:
    from sottovoce.report.plots import drawn, looks

    one, two = (drawn(runs, findings(runs).summaries) for _ in range(2))

    assert one == two and len(one) == 6
    assert all(content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml") for name, content in one.items())
    assert b"words_1" in one["right.svg"] and b"bytes of messages that others heard" in one["right_by_bytes.svg"]
    in_grey = [(each["marker"], each["linestyle"]) for each in looks(map(str, range(28))).values()]
    assert len({*in_grey}) == 28
