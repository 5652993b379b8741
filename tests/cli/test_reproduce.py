"""Tests of `experiment reproduce`: the list, the plan, what cannot run, and runs in small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sottovoce.environments.sandbox import why_not
from sottovoce.experiments.tables.figures import FILE, in_our_units
from sottovoce.experiments.tables.table import names, read_published
from tests.cli.conftest import Call, Models


def test_all_tables_are_listed_with_what_is_not_here(call: Call, tmp_path: Path) -> None:
    lines = call("experiment", "reproduce", "--data", tmp_path).out.splitlines()

    assert [line.split("`")[1] for line in lines[2:]] == names()
    (line,) = (line for line in lines if line.startswith("| `rogue_table2`"))
    assert "gpt-4o (hosted)" in line and line.endswith("| govsim (not here) |")  # it wants a monitor


def test_a_plan_tells_what_would_be_held_and_what_for_that_is_missing(call: Call, tmp_path: Path) -> None:
    answer = call(
        "experiment", "reproduce", "sde_table2", "--plan", "--data", tmp_path, "--model", "qwen-7b", "--part", "gsm8k"
    )

    assert answer.code == 0
    first, *_, last = answer.out.splitlines()
    assert first.startswith("SDE (arXiv 2506.19209), Table 2: Debates of two agents")
    lacks = f"'{tmp_path / 'gsm8k/test.jsonl'}' is missing: the data set 'gsm8k'"
    assert last == f"- qwen-7b, gsm8k: 4 rows of 900 discussions; {lacks}"


def test_what_cannot_be_held_is_said_in_a_line_each(call: Call, tmp_path: Path) -> None:
    answer = call("experiment", "reproduce", "cmd_figure5", "--data", tmp_path, "--save", tmp_path / "kept")

    assert answer.code == 2
    assert "three, folio: not run: " in answer.out and "'three' is no longer available" in answer.out
    assert answer.err == ("sottovoce: nothing of 'cmd_figure5' can run here; get what is named above, or use --small\n")


def test_a_table_is_held_and_set_beside_what_was_published(call: Call, tmp_path: Path, models: Models) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": f"It is so.\n#### {n + 1}"} for n in range(3)]
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k/test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    chosen = ("--model", "qwen-7b", "--part", "gsm8k", "--row", "single", "--instead", models.tiny)

    answer = call("experiment", "reproduce", "sde_table2", "--data", tmp_path, *chosen, "--save", tmp_path / "kept")

    assert answer.code == 0, answer.err
    assert (
        "| `single` | accuracy | 0.8789 | 0 | 0 to " in answer.out
        and "| `sde` | accuracy | 0.9178 |  |  |" in answer.out
    )
    assert in_our_units(tmp_path / "kept/qwen-7b-gsm8k")["sde"] == {"accuracy": 0.9178}


@pytest.mark.parametrize("name", ["cipher_figure9", "rogue_triggers"])
def test_a_table_runs_in_small(call: Call, tmp_path: Path, name: str) -> None:
    answer = call("experiment", "reproduce", name, "--small", "--save", tmp_path)

    assert answer.code == 0, answer.err
    assert answer.out.endswith(f"it shows that every row runs, and nothing else. Saved in {tmp_path}\n")
    (folder,) = (each.parent for each in tmp_path.glob(f"*/{FILE}"))
    assert {each.name for each in folder.iterdir() if each.is_dir()} == {*read_published(name).every_row}
    assert (
        call("experiment", "reproduce", name, "--small", "--save", tmp_path).code == 0
    )  # it is over, and is not held again


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_row_of_each_table_runs_in_small(call: Call, tmp_path: Path, name: str) -> None:
    if "sandbox" in read_published(name).settings and (why := why_not("bwrap")):
        pytest.skip(f"programs of models cannot be contained here: {why}")

    answer = call("experiment", "reproduce", name, "--small", "--sandbox", "isolated", "--save", tmp_path)

    assert answer.code == 0, answer.err
