"""Tests of the commands of `runs`: many questions are asked, saved, shown, resumed, exported and reported."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cli.main import main
from sottovoce.runs.log import encoded
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import LOG, Log, runs_folder, saved_runs
from tests.cli.conftest import Answer, Call, Models
from tests.cli.test_errors import FAILED, USAGE, refused

FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1)
KEYS = set(
    "format version status error outside scheme settings question seed origin versions models messages prompts"
    " interventions resets levels counts notes decision parsing cost seconds".split()
)
"""Keys of an exported record."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three questions."""
    rows = [{"id": f"q{i}", "question": f"{i} + 2?", "target": str(i + 2), "level": i} for i in (1, 2, 3)]
    file = tmp_path_factory.mktemp("asked") / "asked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture(scope="module")
def kept(asked: Path, models: Models) -> Path:
    """A run of three questions under two seeds."""
    many = ["debate", "--questions", asked, "--seeds", 4, "--seeds", 5, "--model", models.tiny, *FEW, "--quiet"]
    assert main([str(word) for word in (*many, "--save", asked.parent / "run")]) == 0
    return asked.parent / "run"


def test_a_file_of_questions_is_asked_under_every_seed_and_each_discussion_is_shown(call: Call, kept: Path) -> None:
    run = load_run(kept)
    assert [*run.records] == [(f"q{i}", seed) for i in (1, 2, 3) for seed in (4, 5)]
    assert run.status == "done" and {record.settings["seed"] for record in run.records.values()} == {4, 5}
    assert run.manifest.origin == "all 3 rows of asked.jsonl"

    shown = call("runs", "show", kept, "--question", "q2", "--seed", 5, "--show-prompts").out
    assert "seed 5" in shown and "Decision" in shown and "is asked" in shown
    assert "2 + 2?" in shown and "1 + 2?" not in shown
    of_seed = call("runs", "show", kept, "--seed", 5).out.splitlines()
    assert of_seed[0].endswith(" · seed 5 · 3 questions")  # it said: seed 4, 5 · 1 question
    unknown = "unknown question 'q9'; choose from: q1, q2, q3"
    assert refused(call, USAGE, "runs", "show", kept, "--question", "q9") == unknown
    assert refused(call, USAGE, "runs", "show", "--seed", 9, kept) == "unknown seed 9; choose from: 4, 5"


def test_many_discussions_as_json_are_one_object(call: Call, models: Models, asked: Path) -> None:
    many = call("debate", "--questions", asked, "--limit", 2, "--json", "--model", models.tiny, *FEW)
    out = json.loads(many.out)

    assert (out["format"], out["version"], out["status"], len(out["results"])) == ("sottovoce.run", 1, "done", 2)
    assert {result["calls"] for result in out["results"]} == {2} and out["models"]["agent_1"]["weights"]


def test_a_run_is_shown_as_it_was_and_listed_unless_it_has_a_folder_of_its_own(
    call: Call, models: Models, tmp_path: Path
) -> None:
    debate = ("debate", "2 + 2?", "--model", models.tiny, "--target", 4, *FEW)
    own = call(*debate, "--save", tmp_path / "own").out
    (last,) = call("runs", "list").out.splitlines()
    assert f"runs show {tmp_path / 'own'}`" in own.splitlines()[-1]
    assert "0 runs, with experiments 0 bytes, without those of --save FOLDER (`runs show FOLDER`)" in last
    assert own.startswith(call("runs", "show", tmp_path / "own").out)

    said, listed = call(*debate).out, call("runs", "list").out
    name = saved_runs()[0].name
    assert call("runs", "show", "latest").out == said
    assert name in listed and "done" in listed and "1 question" in listed
    line, none = refused(call, USAGE, "runs", "resume", saved_runs()[0]), refused(call, FAILED, "runs", "resume")
    assert line.endswith(f"is over; `sottovoce runs show {name}` shows it")
    assert none.endswith("is over, in use or unreadable; for a run of --save FOLDER: `sottovoce runs resume FOLDER`")


@pytest.fixture
def stopped(call: Call, models: Models, asked: Path) -> Answer:
    """What a run of three questions printed that was stopped after one."""
    same = ("debate", "--questions", asked, "--model", models.tiny, *FEW)
    return call(*same, "--call-limit", 3, "--at-once", 1)


def test_a_run_resumes_after_a_limit(call: Call, stopped: Answer) -> None:
    (folder,) = saved_runs()
    before = load_run(folder)
    typed = stopped.err.partition("`sottovoce ")[2].partition("`")[0]
    went_on = call(*shlex.split(typed))

    assert stopped.code == FAILED and "stopped: the call limit is reached: " in stopped.out
    assert "the call limit is reached: " in stopped.err
    assert typed == f"runs resume {folder.name} --trust-paths"
    assert before.status == "stopped" and before.unfinished
    after = load_run(folder)
    assert (went_on.code, after.status, after.cost.calls) == (0, "done", 6)
    assert saved_runs() == [folder]


def test_a_stopped_run_of_programs_prints_the_command_that_resumes_it(
    call: Call, models: Models, tmp_path: Path
) -> None:
    same = ("codegen", "--sandbox", "limits", "--unsafe", "--model", models.tiny, "--max-tokens", 24, *FEW[2:])
    stopped = call(*same, "--save", tmp_path / "my run", "--call-limit", 1)

    typed = stopped.err.partition("`sottovoce ")[2].partition("`")[0]
    resumed = call(*shlex.split(typed))

    assert typed == f"runs resume '{tmp_path}/my run' --sandbox limits --unsafe --trust-paths"
    assert resumed.code == 0 and load_run(tmp_path / "my run").status == "done"


def test_a_bad_neighbour_is_one_row_and_ends_no_command(call: Call, models: Models) -> None:
    call("debate", "2 + 2?", "--model", models.tiny, *FEW)
    good, bad = saved_runs()[0], [saved_runs()[0].with_name(f"9{n}") for n in range(3)]
    for folder in bad:
        folder.mkdir()
    (bad[0] / LOG).mkdir()
    os.mkfifo(bad[1] / LOG)
    (bad[2] / LOG).write_text("nothing\n{}\n")

    rows = call("runs", "list").out.splitlines()

    assert [row.split()[0] for row in rows[:4]] == [good.name, *(folder.name for folder in bad)]
    why = ["Is a directory", "it is a pipe", "line 1 is not a line of a log"]
    assert all(text in row for text, row in zip(why, rows[1:4], strict=True))
    assert call("runs", "show", "latest").out == call("runs", "show", good.name).out != ""
    assert "each is over, in use or unreadable" in refused(call, FAILED, "runs", "resume")


@pytest.mark.parametrize(("times", "ended"), [(0, True), (2, True), (2, False)])
def test_a_log_that_lost_or_doubled_a_line_says_so_where_it_is_shown(
    call: Call, kept: Path, times: int, ended: bool
) -> None:
    log = shutil.copytree(kept, runs_folder() / "2026-01-01-120000-debate") / LOG
    lines = log.read_bytes().splitlines(keepends=True)[: None if ended else -1]
    at = next(n for n, line in enumerate(lines) if b'"task":"4/' in line)

    log.write_bytes(b"".join([*lines[:at], *[lines[at]] * times, *lines[at + 1 :]]))

    for command in (("runs", "list"), ("runs", "show", "latest")):
        assert "lines of the log were lost, doubled or changed" in call(*command).out


@pytest.mark.parametrize("form", ["jsonl", "csv", "markdown", "inspect"])
def test_a_run_is_exported(call: Call, kept: Path, tmp_path: Path, form: str) -> None:
    call("runs", "export", kept, tmp_path / "out", "--format", form)
    text, ids = (tmp_path / "out").read_text(), [f"q{i}" for i in (1, 2, 3) for _ in (4, 5)]
    if ending := {"jsonl": ".jsonl", "csv": ".csv", "markdown": ".md"}.get(form):
        call("runs", "export", kept, tmp_path / f"out{ending}")
        assert (tmp_path / f"out{ending}").read_text() == text
    if form == "inspect":
        assert [sample["id"] for sample in json.loads(text)["samples"]] == ids
    elif form == "jsonl":
        records = [json.loads(line) for line in text.splitlines()]
        assert [record["question"]["id"] for record in records] == ids and records[0].keys() == KEYS
    elif form == "csv":
        assert [row["question"] for row in csv.DictReader(text.splitlines())] == ids
    else:
        assert text.count("\n## Decision") == 6


def test_runs_are_removed_by_name_all_or_none(call: Call, models: Models, tmp_path: Path) -> None:
    for save in ([], [], ["--save", tmp_path / "chosen"]):
        call("debate", "2 + 2?", "--model", models.tiny, "--quiet", *FEW, *save)
    first, last = (folder.name for folder in saved_runs())

    refused_line = refused(call, USAGE, "runs", "remove", first, tmp_path / "chosen")

    assert "delete its folder yourself" in refused_line and len(saved_runs()) == 2
    assert "1 removed, 1 left in " in call("runs", "remove", "--keep", 1).out
    assert [folder.name for folder in saved_runs()] == [last]


def test_a_row_of_an_experiment_is_removed_by_its_name(call: Call, models: Models) -> None:
    """The error for a changed row says "remove it", and `runs remove` refused: its folder was elsewhere."""
    row = runs_folder() / "table" / "words"
    call("debate", "2 + 2?", "--model", models.tiny, "--quiet", *FEW, "--save", row)
    assert call("runs", "remove", "table/words").code == 0 and not row.exists()


def test_no_run_is_removed_that_nobody_asked_for(call: Call, models: Models) -> None:
    """A log that stated a large size, or 200 runs, removed older ones when the next began."""
    for number in range(3):
        call("debate", f"{number} + 2?", "--model", models.tiny, "--quiet", *FEW)
    old, claims, young = saved_runs()
    (claims / LOG).write_bytes((claims / LOG).read_bytes() + encoded({"line": "stopped", "nbytes": 99999999999}))
    os.utime(old / LOG, (0, 0))

    call("debate", "2 + 2?", "--model", models.tiny, "--quiet", *FEW)
    assert len(saved_runs()) == 4 and "100 GB" not in call("runs", "list").out  # but as the disk has them
    with closing(Log(young)):
        call("runs", "remove", "--older-than", 0.5, "--keep", 1)
        assert len(saved_runs()) == 3 and not old.exists()
        call("runs", "remove", "--keep", 0)
    assert saved_runs() == [young]


def test_an_unfinished_run_is_reported_as_far_as_it_got(call: Call, stopped: Answer, tmp_path: Path) -> None:
    (folder,) = saved_runs()
    answer = call("runs", "report", folder.name, "--html", tmp_path / "out.html")

    first, last = answer.out.replace(f"{tmp_path}/", "").splitlines()
    assert answer.code == 0 and first == f"unfinished: 1 of 3 discussions ended (open: {folder.name})"
    assert last.startswith("report of 1 run, 1 discussion: out.html (")
    assert first in (tmp_path / "out.html").read_text()
    assert call("runs", "compare", folder.name).out.endswith(f"- `{folder.name}`: 2 of 3 are not over.\n")

    lines = (folder / LOG).read_text().splitlines(keepends=True)
    (folder / LOG).write_text("".join(line for line in lines if '"decided"' not in line))
    nothing = refused(call, USAGE, "runs", "report", folder.name, "--html", tmp_path / "none.html")
    assert nothing.startswith(f"nothing to report yet: no discussion of {folder.name} has ended")
    assert not (tmp_path / "none.html").exists()


def test_a_run_is_compared_with_baselines_of_its_cost(call: Call, models: Models, tmp_path: Path) -> None:
    run = tmp_path / "pair"
    asked = ("--sample", "arithmetic/1", "--limit", 1, "--model", models.tiny, "--max-tokens", 4, "--rounds", 2)
    call("debate", *asked, "--save", run)

    first, again = (call("runs", "compare", run, "--matched", "tokens", "--trust-paths") for _ in range(2))

    assert (first.code, again.code, again.out, again.err) == (0, 0, first.out, "")
    assert [line.split(" | ")[0] for line in first.out.splitlines()[2:5]] == [
        f"| `{name}`" for name in ("pair", "pair-single", "pair-self-consistency")
    ]
    assert "- `pair-self-consistency`: " in first.out and "to cost as much as a discussion of `pair`" in first.out
    made = sorted(log.parent.name for log in tmp_path.glob("*/log.jsonl"))
    assert made == ["pair", "pair-self-consistency", "pair-single"]
